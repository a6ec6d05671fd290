/** Rings when something happens to a job: when an event of it comes. */
import type { JobHandle } from "../../core/api.ts";

export class JobChanges implements Disposable {
  readonly #over = new AbortController();
  /** Aborted when the one who listens is. */
  readonly #signal: AbortSignal;
  #isRung = false;
  #wake = () => {};
  #fault: unknown = null;

  /** Of the events after this one; without it, of all. */
  constructor(job: Pick<JobHandle<unknown>, "events">, signal: AbortSignal, after = 0) {
    this.#signal = AbortSignal.any([signal, this.#over.signal]);
    this.#signal.addEventListener("abort", () => this.#wake());
    void this.#follow(job, after);
  }

  /** True when it rang since the last time, or within `ms`. Throws what ended the events: there will be no more of them. */
  async rings(ms: number): Promise<boolean> {
    if (!this.#isRung && !this.#signal.aborted && this.#fault === null) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    if (this.#fault !== null && !this.#signal.aborted) throw this.#fault;
    const isRung = this.#isRung;
    this.#isRung = false;
    return isRung;
  }

  [Symbol.dispose](): void {
    this.#over.abort();
  }

  async #follow(job: Pick<JobHandle<unknown>, "events">, after: number): Promise<void> {
    try {
      for await (const _ of job.events({ after, follow: true, signal: this.#signal })) this.#ring();
    } catch (error) {
      this.#fault = error ?? new Error("the events ended");
      this.#wake();
    }
  }

  #ring(): void {
    this.#isRung = true;
    this.#wake();
  }
}
