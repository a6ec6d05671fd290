/** Claims jobs for a session, and waits for one if none is due: woken by a submit in this process within a
 *  millisecond, by another process within about 25, by time at the instant the next job falls due. */
import type { Resources } from "../core/input/resources.ts";
import { sleep } from "../lib/clock.ts";
import type { ClaimAnswer, OverBudgetJob } from "../store/store.ts";
import { DEFAULTS } from "./limits.ts";
import { notifyObserver, observed } from "./observer.ts";
import type { EngineParts } from "./parts.ts";
import { tidyOutputs } from "./settle.ts";

export interface ClaimOptions {
  readonly limit: number;
  readonly claimId?: string | null;
  /** Nothing new is claimed under `claimId` from now on; returns what it got before. */
  readonly last?: boolean;
  /** It takes no more cpu and memory than this. */
  readonly room?: Resources;
  /** How long to wait for a job; 0 answers at once. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

const NOTHING: ClaimAnswer = Object.freeze({ alive: true, drain: false, jobs: [], nextAt: null, delivery: null });

/** Jobs that failed instead of being started: wakes those who wait for them. */
function notifyOverBudget(parts: EngineParts, jobs: readonly OverBudgetJob[]): void {
  for (const { jobId } of jobs) {
    parts.hub.ended(jobId);
    void tidyOutputs(parts, jobId);
  }
  parts.hub.written.fire();
  parts.childSignals.mayContinue(jobs.flatMap(({ parentId }) => (parentId === null ? [] : [parentId])));
}

export async function claim(parts: EngineParts, session: string, options: ClaimOptions): Promise<ClaimAnswer> {
  const { store, clock, hub } = parts;
  const { limit, claimId = null, last = false, waitMs = 0, signal, room } = options;
  const request = room === undefined ? { session, limit, claimId, last } : { session, limit, claimId, last, room };
  // Monotonic: a jump of the wall clock does not count as waiting.
  const until = clock.monotonic() + waitMs;
  for (let tries = 0; ; tries++) {
    if (signal?.aborted) return NOTHING; // the caller is leaving: a job claimed now would only be released again
    const seen = hub.ready.version;
    const now = clock.now();
    const [answer] = (await observed(parts, "claim", limit, () => store.claim([request], now))) as [ClaimAnswer];
    if (answer.jobs.length > 0) {
      hub.written.fire();
      notifyObserver(parts, (observer) => observer.claimed?.(session, answer.jobs));
    }
    if (answer.overBudget !== undefined) notifyOverBudget(parts, answer.overBudget);
    // A claim that was answered before gets nothing new, however long it waits.
    if (!answer.alive || answer.jobs.length > 0 || answer.delivery !== null) return answer;
    if (answer.overBudget !== undefined) continue; // others may be due after those that were not started
    const left = until - clock.monotonic();
    if (left <= 0) return answer;
    if (answer.drain) {
      // A waiting claim is answered at once. One that claims again all the same is slowed down.
      if (tries === 0) await sleep(clock, Math.min(left, DEFAULTS.poll), signal === undefined ? {} : { signal });
      return answer;
    }
    const due = answer.nextAt === null ? Number.POSITIVE_INFINITY : Math.max(1, answer.nextAt - clock.now());
    const ms = Math.min(left, due, DEFAULTS.poll);
    const recheck = ms < due;
    await hub.ready.wait(clock, seen, ms, signal === undefined ? { recheck } : { signal, recheck });
  }
}
