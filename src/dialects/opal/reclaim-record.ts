/** The record that OPAL's workers log for each reclaim, with the four keys of its document. It is made of the job's events alone,
 *  so that the server's log and the runtime folder have the same line, whenever it is written. */
import type { JobEventBody } from "../../core/event.ts";
import type { Job } from "../../core/job.ts";
import { counted } from "../counted.ts";
import { opalIdOf, reclaimLine } from "./words.ts";

export interface ReclaimLogLine {
  /** Of the reclaim, as in `2026-02-05 17:08:53,260`; in UTC. */
  readonly timestamp: string;
  readonly level: "WARNING";
  /** Who reclaimed it: `reclaimed_by` of the attempt document. */
  readonly worker: string | null;
  readonly event: string;
}

export type LostEvent<E extends JobEventBody> = Extract<E, { readonly name: "attempt.lost" }>;

export interface ReclaimRecord<E extends JobEventBody> {
  readonly line: ReclaimLogLine;
  /** The event of which it is made. */
  readonly lost: LostEvent<E>;
}

type LoggedJob = Pick<Job, "id" | "key" | "policy">;

/** `events` are all of the job, in order. Null where this attempt was not lost. */
export function reclaimRecord<E extends JobEventBody & { readonly at: number }>(
  job: LoggedJob,
  events: readonly E[],
  attempt: number,
): ReclaimRecord<E> | null {
  const found = counted(events).find(({ event }) => event.name === "attempt.lost" && event.data.attempt === attempt);
  if (found === undefined) return null;
  const lost = found.event as LostEvent<E>;
  return { line: reclaimLogLine(job, lost, found.attempt), lost };
}

/** `attempt` is not our own number: the limit counts neither runs that were handed back nor those before a redrive. */
export function reclaimLogLine(
  job: LoggedJob,
  { at, data }: LostEvent<JobEventBody> & { readonly at: number },
  attempt: number,
): ReclaimLogLine {
  const { kind, delay } = data.decision;
  const text = reclaimLine({
    id: opalIdOf(job) ?? job.id,
    ...{ attempt, maxRetries: job.policy.maxAttempts },
    backoffSecs: kind === "retry" ? (delay?.delayMs ?? 0) / 1_000 : null,
    ...(kind === "cancel" ? { error: "cancelled" } : {}),
  });
  return { timestamp: logTime(at), level: "WARNING", worker: data.by, event: text };
}

/** As Python's `logging` prints a time, with a comma before the milliseconds. */
export function logTime(at: number): string {
  return new Date(at).toISOString().replace("T", " ").replace(".", ",").slice(0, -1);
}
