/** Wakes waiting callers inside this process. Everything here is a hint: a woken caller reads the store, and a waiting one
 *  also polls it from time to time. */
import type { Clock } from "../lib/clock.ts";

/** A repeating event. */
export class Signal {
  #version = 0;
  readonly #waiting = new Set<() => void>();

  /** Read this before the store, and pass it to `wait`: a signal that fires in between ends the wait at once. */
  get version(): number {
    return this.#version;
  }

  fire(): void {
    this.#version += 1;
    for (const wake of [...this.#waiting]) wake();
  }

  /** Resolves when fired after `seen`, after `ms`, or when aborted. */
  wait(
    clock: Clock,
    seen: number,
    ms: number,
    options?: { signal?: AbortSignal; background?: boolean; recheck?: boolean },
  ): Promise<void> {
    const { signal, background = false, recheck = false } = options ?? {};
    if (this.#version !== seen || ms <= 0 || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        this.#waiting.delete(done);
        cancel();
        signal?.removeEventListener("abort", done);
        resolve();
      };
      signal?.addEventListener("abort", done); // first: an invalid signal throws before anything waits
      const cancel = clock.after(ms, done, { background, recheck });
      this.#waiting.add(done);
    });
  }
}

export class Hub {
  /** A job may be due earlier than known. */
  readonly ready = new Signal();
  /** An event was written. */
  readonly written = new Signal();
  readonly #ends = new Map<string, Set<() => void>>();
  readonly #cancels = new Map<string, Set<(jobId: string, attempt: number) => void>>();

  /** Calls when this job may have ended. */
  onEnd(jobId: string, call: () => void): () => void {
    const calls = this.#ends.get(jobId) ?? new Set();
    this.#ends.set(jobId, calls.add(call));
    return () => {
      calls.delete(call);
      if (calls.size === 0 && this.#ends.get(jobId) === calls) this.#ends.delete(jobId);
    };
  }

  ended(jobId: string): void {
    for (const call of [...(this.#ends.get(jobId) ?? [])]) call();
  }

  /** Ids of awaited jobs, some at a time, in turn. */
  nextAwaited(limit: number): string[] {
    const ids: string[] = [];
    for (const id of this.#ends.keys()) {
      if (ids.push(id) === limit) break;
    }
    if (ids.length === limit) {
      for (const id of ids) {
        const calls = this.#ends.get(id) as Set<() => void>;
        this.#ends.delete(id);
        this.#ends.set(id, calls);
      }
    }
    return ids;
  }

  /** Calls when a cancel is requested for an attempt of this session. */
  onCancel(session: string, call: (jobId: string, attempt: number) => void): () => void {
    const calls = this.#cancels.get(session) ?? new Set();
    this.#cancels.set(session, calls.add(call));
    return () => {
      calls.delete(call);
      if (calls.size === 0 && this.#cancels.get(session) === calls) this.#cancels.delete(session);
    };
  }

  cancelAsked(session: string, jobId: string, attempt: number): void {
    for (const call of [...(this.#cancels.get(session) ?? [])]) call(jobId, attempt);
  }

  /** Sessions of this process. */
  sessions(): string[] {
    return [...this.#cancels.keys()];
  }
}
