/** Tells of each run when it has ended, and at the end of those that were not told yet. */
import type { JobHandle } from "../../core/face.ts";
import { attemptLine } from "./attempt-line.ts";

/** Tells when it is asked to, each run once. */
export class ToldRuns {
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
export class RunTeller {
  readonly #job: JobHandle<unknown>;
  readonly #runs: ToldRuns;
  readonly #over = new AbortController();
  readonly #following: Promise<void>;

  constructor(job: JobHandle<unknown>, say: (text: string) => void, told: number) {
    this.#job = job;
    this.#runs = new ToldRuns(job, say, told);
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
