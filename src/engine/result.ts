/** Waits until a job's chapter has ended. */
import { isOutage } from "../core/errors.ts";
import { isTerminal } from "../core/job.ts";
import type { JobRow } from "../store/store.ts";
import { jobNotFound } from "./command.ts";
import type { EngineParts } from "./engine.ts";
import { DEFAULTS } from "./limits.ts";

/** The job once it has ended in this chapter or gone on to a later one; null when time is up or aborted. */
export async function waitForEnd(
  parts: EngineParts,
  jobId: string,
  chapter: number,
  options: { readonly timeoutMs: number | null; readonly signal?: AbortSignal },
): Promise<JobRow | null> {
  const { store, clock, hub } = parts;
  const { timeoutMs, signal } = options;
  // Monotonic: a jump of the wall clock is no waiting.
  const until = timeoutMs === null ? Number.POSITIVE_INFINITY : clock.monotonic() + timeoutMs;
  /** An outage of the store is waited out. */
  async function read(id: string): Promise<JobRow | null | "away"> {
    try {
      return (await store.jobs([id]))[0] ?? null;
    } catch (error) {
      if (isOutage(error)) return "away";
      throw error;
    }
  }
  for (;;) {
    let wake: () => void = () => {};
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const forget = hub.onEnd(jobId, wake);
    let cancel: () => void = () => {};
    try {
      const job = await read(jobId);
      if (job === null) throw jobNotFound(jobId);
      if (job !== "away" && (job.chapter > chapter || isTerminal(job.state))) return job;
      const left = until - clock.monotonic();
      if (left <= 0 || signal?.aborted) return null;
      // Whoever ends it here, or the engine's look-out, calls; this is for the process to live on, and to be sure.
      cancel = clock.after(Math.min(left, job === "away" ? DEFAULTS.poll : DEFAULTS.lookAgain), wake);
      signal?.addEventListener("abort", wake, { once: true });
      await woken;
    } finally {
      forget();
      cancel();
      signal?.removeEventListener("abort", wake);
    }
  }
}
