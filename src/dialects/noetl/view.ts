/** A job as a row of NoETL's queue. There is one row per step, so that its history is in the events alone. Leases belong to
 *  workers here and not to jobs: `lease_until` is always null. */
import { isTerminal, type JobState } from "../../core/job.ts";
import { type Counted, counted } from "../counted.ts";
import type { ViewParts } from "../dialect.ts";
import { errorIn, secondsOf } from "./events.ts";
import { type NoetlNode, nodeOf, retryOf } from "./node.ts";

export type NoetlStatus = "queued" | "leased" | "done" | "dead";

export interface NoetlQueueRow extends NoetlNode {
  readonly execution_id: string;
  readonly status: NoetlStatus;
  /** Runs that count towards `max_attempts`, the one that runs included. */
  readonly attempts: number;
  readonly max_attempts: number;
  /** Null while it waits for other jobs. */
  readonly available_at: string | null;
  readonly retry_delay_seconds: number | null;
  readonly last_error: string | null;
  /** Who has it, or had it last; nobody while it is queued. */
  readonly worker_id: string | null;
  readonly lease_until: null;
  readonly retry_config: object | null;
  readonly result: unknown;
  readonly created_at: string;
  readonly updated_at: string;
}

/** The document has no word for a cancelled job: its row is dead, too. One that waits for its children has no worker. */
const STATUS: Readonly<Record<JobState, NoetlStatus>> = {
  queued: "queued",
  blocked: "queued",
  running: "leased",
  succeeded: "done",
  failed: "dead",
  cancelled: "dead",
};

export function noetlQueueRow(parts: ViewParts): NoetlQueueRow {
  const { job, events, workerName } = parts;
  // A redrive is a new beginning.
  const chapter = counted(events).filter((each) => each.chapter === job.chapter);
  const isHeld = job.state === "running" || isTerminal(job.state);
  return {
    execution_id: job.id,
    ...nodeOf(job),
    status: STATUS[job.state],
    attempts: attemptsIn(chapter),
    max_attempts: job.policy.maxAttempts,
    available_at: job.state === "blocked" ? null : iso(job.runAt),
    retry_delay_seconds: lastOf(chapter, ({ event }) => {
      return "decision" in event.data && event.data.decision.class !== "handback"
        ? secondsOf(event.data.decision)
        : null;
    }),
    last_error: lastOf(chapter, ({ event }) => errorIn(event)),
    worker_id: isHeld && job.worker !== null ? (workerName(job.worker) ?? job.worker) : null,
    lease_until: null,
    retry_config: retryOf(job),
    result: job.result ?? null,
    created_at: iso(job.submittedAt),
    updated_at: iso(events.at(-1)?.at ?? job.submittedAt),
  };
}

/** A run that was handed back, or waits, has not been one. */
function attemptsIn(chapter: readonly Counted[]): number {
  return chapter.reduce((attempts, { event, attempt, next }) => {
    if (event.name === "attempt.started") return attempt;
    if (!("decision" in event.data)) return attempts;
    const { class: cls, kind } = event.data.decision;
    return (cls === "handback" || cls === "waiting") && kind !== "cancel" ? next - 1 : attempts;
  }, 0);
}

function lastOf<T>(chapter: readonly Counted[], read: (each: Counted) => T | null): T | null {
  return chapter.map(read).findLast((value) => value !== null) ?? null;
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
