/** Progress of `perdure run`: one line for each attempt as it ends. */
import type { JobHandle } from "../../core/api.ts";
import { showMs } from "../../core/duration.ts";
import type { Explanation } from "../../core/explain/explain.ts";

// Tells of each run when it has ended, and at the end of those that were not told yet.

/** Tells when it is asked to, each run once. */
export class ReportedAttempts {
  readonly #job: JobHandle<unknown>;
  readonly #say: (text: string) => void;
  #told: number;

  /** `told`: runs that ended before we came. */
  constructor(job: JobHandle<unknown>, say: (text: string) => void, told: number) {
    this.#job = job;
    this.#say = say;
    this.#told = told;
  }

  async tell(): Promise<void> {
    const { attempts } = await this.#job.explain();
    for (const story of attempts.slice(this.#told)) {
      const line = attemptLine(story);
      if (line === null) return;
      this.#say(line);
      this.#told += 1;
    }
  }
}

/** Tells by itself, as the events come. */
export class ProgressReporter {
  readonly #job: JobHandle<unknown>;
  readonly #runs: ReportedAttempts;
  readonly #over = new AbortController();
  readonly #following: Promise<void>;

  constructor(job: JobHandle<unknown>, say: (text: string) => void, told: number) {
    this.#job = job;
    this.#runs = new ReportedAttempts(job, say, told);
    this.#following = this.#follow().catch(() => {}); // aborted, or the engine was closed
  }

  async end(): Promise<void> {
    this.#over.abort();
    await this.#following;
    await this.#runs.tell();
  }

  async #follow(): Promise<void> {
    for await (const event of this.#job.events({ follow: true, signal: this.#over.signal })) {
      if (event.name.startsWith("attempt.") && event.name !== "attempt.started") await this.#runs.tell();
    }
  }
}

// A line for a person about each run of the command, as it ends.

export type ProgressAttempt = Explanation["attempts"][number];

/** `run 2, 2 of 5 charged: exit code 7, retrying in 2.0 s because …`; null while it runs. */
export function attemptLine(story: ProgressAttempt): string | null {
  if (story.endedAt === null) return null;
  const { charge } = story;
  const charged = charge === null ? "" : `, ${charge.used} of ${charge.limit} charged${budget(charge.to)}`;
  // It has not ended badly, and goes on later: nothing more is to be said.
  if (story.verdict === "block") return `run ${story.attempt}: waiting for its children`;
  return `run ${story.attempt}${charged}: ${whatHappened(story)}, ${whatFollows(story)}`;
}

/** Which budget, where it is not the usual one. */
function budget(to: string): string {
  return to === "maxAttempts" ? "" : ` to ${to}`;
}

function whatHappened({ outcome, failure, startedAt, endedAt }: ProgressAttempt): string {
  switch (outcome) {
    case "completed":
      return `succeeded after ${showMs((endedAt as number) - startedAt)}`;
    case "lost":
      return "lost: the process that ran it is gone";
    case "interrupted":
      return "interrupted";
    case "released":
      return "handed back";
    default:
      return failure?.message ?? outcome;
  }
}

function whatFollows({ verdict, delay, because, outcome }: ProgressAttempt): string {
  if (verdict === "retry" && (outcome === "interrupted" || outcome === "released")) return "nothing is charged";
  switch (verdict) {
    case "succeed":
      return "done";
    case "cancel":
      return "cancelled";
    case "retry":
      return `retrying ${delay === null || delay.delayMs === 0 ? "now" : `in ${showDelay(delay.delayMs)}`} because ${because}`;
    default:
      return `giving up because ${because}`;
  }
}

/** With a decimal from a second on, so that a column of them can be compared. */
function showDelay(ms: number): string {
  return ms >= 1_000 && ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : showMs(ms);
}
