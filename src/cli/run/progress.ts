/** Progress of `perdure run`: one line for each attempt when it has ended. */
import type { JobHandle } from "../../core/api/jobs.ts";
import { matchText } from "../../core/decision/match.ts";
import { showMs } from "../../core/duration.ts";
import { lossCount } from "../../core/explain/decision-text.ts";
import type { Explanation } from "../../core/explain/explain.ts";

export class ProgressPrinter {
  readonly #job: JobHandle<unknown>;
  readonly #note: (text: string) => void;
  #printed: number;

  /** `printed`: the last attempt that was already printed. */
  constructor(job: JobHandle<unknown>, note: (text: string) => void, printed: number) {
    this.#job = job;
    this.#note = note;
    this.#printed = printed;
  }

  /** Prints a line for each attempt that ended since the last call. */
  async report(): Promise<void> {
    for (const attempt of (await this.#job.explain()).attempts) {
      const line = attempt.attempt > this.#printed ? attemptLine(attempt) : null;
      if (line === null) continue;
      this.#note(line);
      this.#printed = attempt.attempt;
    }
  }
}

export type ProgressAttempt = Explanation["attempts"][number];

/** `attempt 1/5 failed: exit code 75 (connection reset by peer); retrying in 588 ms`; null while it runs. */
export function attemptLine(attempt: ProgressAttempt): string | null {
  if (attempt.endedAt === null) return null;
  return `attempt ${numberOf(attempt)} ${whatHappened(attempt)}${countedAs(attempt)}${whatFollows(attempt)}`;
}

/** With the limit, if every attempt so far is counted, or since the redrive. */
function numberOf({ attempt, charge, chapter }: ProgressAttempt): string {
  if (charge?.to === "maxAttempts" && chapter > 1) {
    return `${attempt} (${charge.used} of ${charge.limit} since the redrive)`;
  }
  return charge?.to === "maxAttempts" && charge.used === attempt ? `${attempt}/${charge.limit}` : String(attempt);
}

function whatHappened({ outcome, verdict, failure, startedAt, endedAt }: ProgressAttempt): string {
  const took = showMs((endedAt as number) - startedAt);
  if (verdict === "cancel") return `cancelled${failure === null ? "" : `: ${causeOf(failure.message)}`}`;
  switch (outcome) {
    case "completed":
      return `succeeded after ${took}`;
    case "polled":
      return `completed after ${took}, not done yet by retryWhen`;
    case "waiting":
      return "is waiting for its children";
    case "lost":
      return "lost";
    case "interrupted":
      return "interrupted by the shutdown of its worker";
    case "released":
      return "released before it started";
    case "timed_out":
      return `timed out after ${took}`;
    default:
      return `failed: ${causeOf(failure?.message ?? outcome)}`;
  }
}

/** `exit code 75: connection reset by peer` with the program's own message in brackets. */
function causeOf(message: string): string {
  return message.replace(/^((?:exit code|signal) \w+): (.+)$/s, "$1 ($2)");
}

/** Empty if the number of the attempt shows it. */
function countedAs({ attempt, charge, verdict, chapter }: ProgressAttempt): string {
  if (charge === null) return verdict === "retry" || verdict === "block" ? " (not counted as an attempt)" : "";
  const { to, used, limit } = charge;
  if (to === "workerLost") return verdict === "retry" ? `; not counted towards maxAttempts (${lossCount(charge)})` : "";
  if (to !== "maxAttempts") return ` (not counted as an attempt; ${to} ${used}/${limit})`;
  return used === attempt || chapter > 1 ? "" : ` (counted as ${used}/${limit})`;
}

function whatFollows(attempt: ProgressAttempt): string {
  const { verdict, delay } = attempt;
  if (verdict === "fail") return `; ${whyNot(attempt)}`;
  if (verdict !== "retry") return "";
  return `; retrying ${delay === null || delay.delayMs === 0 ? "now" : `in ${showDelay(delay.delayMs)}`}`;
}

/** Why the job fails with this attempt. Texts that the failure contains are left out. */
function whyNot({ step, match, charge, because }: ProgressAttempt): string {
  if (step === "exhausted" && (charge === null || charge.to === "maxAttempts")) return "no attempts left";
  if (step === "not_retryable" && match !== null && match.by in MATCHED)
    return `not retried: ${matchText(match)} matched`;
  if (step === "not_retryable" && match?.by === "onUnknown") return "not retried: no rule matched (onUnknown: fail)";
  // The failure itself shows that the command could not be started.
  if (because === null || because.endsWith("; not retried")) return "not retried";
  return `not retried: ${because.replace(/, so it is not retried$/, "")}`;
}

/** Parts of a policy that match a text or a value of the failure. */
const MATCHED = { rule: true, preset: true, list: true };

/** With one decimal from a second on, so that delays in a column can be compared. */
function showDelay(ms: number): string {
  return ms >= 1_000 && ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : showMs(ms);
}
