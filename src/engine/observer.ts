/** Observes an engine, for counts, measurements and logs. Each call follows the answer of the store, within the same turn of
 *  the event loop, so an observer must be quick. What it throws is logged and changes nothing. It sees only its own engine;
 *  the event feed has what every engine of a store did. */
import type { JobState } from "../core/job/job.ts";
import type { ClaimedJob } from "../core/worker-protocol.ts";
import type { Clock } from "../lib/clock.ts";
import type { FieldLog } from "../lib/log.ts";

export interface EngineObserver {
  /** New jobs were stored, without those that existed for their keys. */
  submitted?(jobs: readonly ObservedJob[]): void;
  claimed?(session: string, jobs: readonly ClaimedJob[]): void;
  /** Reports of workers and of the reaper were accepted. */
  settled?(attempts: readonly SettledAttempt[]): void;
  /** The reaper ended these attempts, or jobs that waited too long. They are in `settled` too. */
  reaped?(attempts: readonly SettledAttempt[]): void;
  /** The store has committed a call, or had nothing to write for it. */
  committed?(commit: Commit): void;
}

export interface ObservedJob {
  readonly id: string;
  readonly namespace: string;
  readonly queue: string;
  readonly kind: string;
}

export interface SettledAttempt {
  readonly jobId: string;
  readonly attempt: number;
  /** `lost`, `completed` and so on. */
  readonly outcome: string;
  /** The state of the job after it. */
  readonly state: JobState;
}

export interface Commit {
  readonly verb: "submit" | "claim" | "settle" | "command" | "renew";
  /** Jobs, reports or commands of the call; for a claim, the slots that were free. */
  readonly items: number;
  /** From the call to its answer. */
  readonly ms: number;
}

export interface ObservedEngine {
  readonly observer?: EngineObserver | undefined;
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: FieldLog;
}

export function notifyObserver({ observer, log }: ObservedEngine, call: (observer: EngineObserver) => void): void {
  if (observer === undefined) return;
  try {
    call(observer);
  } catch (error) {
    log("error", `engine observer failed: ${String(error)}`);
  }
}

/** Makes a call to the store, and reports how long it took. */
export function observed<T>(
  parts: ObservedEngine,
  verb: Commit["verb"],
  items: number,
  call: () => Promise<T>,
): Promise<T> {
  if (parts.observer?.committed === undefined) return call();
  const from = parts.clock.monotonic();
  return call().then((answer) => {
    notifyObserver(parts, (observer) => observer.committed?.({ verb, items, ms: parts.clock.monotonic() - from }));
    return answer;
  });
}
