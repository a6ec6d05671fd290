/** Waits until a job, or one of many, has ended. Each is awaited up to the end of one chapter: a redrive begins the next. */
import { isOutage } from "../core/errors.ts";
import { isTerminal } from "../core/job/job.ts";
import { isId } from "../lib/id.ts";
import type { JobRow } from "../store/store.ts";
import { jobNotFound } from "./command.ts";
import { DEFAULTS } from "./limits.ts";
import type { EngineParts } from "./parts.ts";

/** The job once it has ended in this chapter or is in a later one; null on timeout or abort. */
export async function waitForEnd(
  parts: EngineParts,
  jobId: string,
  chapter: number,
  options: { readonly timeoutMs: number | null; readonly signal?: AbortSignal },
): Promise<JobRow | null> {
  const { store, clock, hub } = parts;
  const { timeoutMs, signal } = options;
  // Monotonic: a jump of the wall clock does not count as waiting.
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
      // Its end in this process, or the change poller, wakes this. The timer keeps the process alive, and is the fallback.
      const ms = Math.min(left, job === "away" ? DEFAULTS.poll : DEFAULTS.recheckEvery);
      cancel = clock.after(ms, wake, { recheck: ms < left });
      signal?.addEventListener("abort", wake, { once: true });
      await woken;
    } finally {
      forget();
      cancel();
      signal?.removeEventListener("abort", wake);
    }
  }
}

/** Rows per read: each may hold two megabytes, of which little is needed. */
const ROWS = 50;

export interface WaitForAnyOptions {
  readonly namespace: string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** Those of many jobs that have ended in their chapter or are in a later one, and those that do not exist or are in another
 *  namespace. Waits until there is at least one, up to `timeoutMs`. Reads all of them once, after that only those reported as
 *  ended. A job that is pruned while it waits is found by the next call. */
export async function waitForAny(
  { store, clock, hub }: EngineParts,
  jobs: readonly { readonly id: string; readonly chapter: number }[],
  { namespace, timeoutMs, signal }: WaitForAnyOptions,
): Promise<{ readonly ended: string[]; readonly missing: string[] }> {
  const until = clock.monotonic() + timeoutMs;
  const chapters = new Map<string, number>();
  for (const { id, chapter } of jobs) chapters.set(id, Math.min(chapter, chapters.get(id) ?? chapter));
  const ended: string[] = [];
  const missing = [...chapters.keys()].filter((id) => !isId(id, "job"));
  for (const id of missing) chapters.delete(id);
  const reported = new Set<string>();
  let wake: () => void = () => {};
  const forget = [...chapters.keys()].map((id) =>
    hub.onEnd(id, () => {
      reported.add(id);
      wake();
    }),
  );

  async function read(ids: readonly string[]): Promise<void> {
    for (let from = 0; from < ids.length; from += ROWS) {
      const some = ids.slice(from, from + ROWS);
      (await store.jobs(some)).forEach((job, i) => {
        const id = some[i] as string;
        if (job?.namespace !== namespace) missing.push(id);
        else if (job.chapter > (chapters.get(id) as number) || isTerminal(job.state)) ended.push(id);
      });
    }
  }

  try {
    await read([...chapters.keys()]);
    for (;;) {
      const left = until - clock.monotonic();
      if (ended.length + missing.length > 0 || left <= 0 || signal?.aborted) return { ended, missing };
      await new Promise<void>((resolve) => {
        const cancel = clock.after(left, () => wake());
        wake = () => {
          cancel();
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        signal?.addEventListener("abort", wake);
        if (reported.size > 0) wake();
      });
      const ids = [...reported]; // has all that ended in one report
      reported.clear();
      await read(ids);
    }
  } finally {
    for (const call of forget) call();
  }
}
