/** Lines of OPAL's worker log, with the records of reclaimed jobs. */
import type { JobEvent, JobEventBody } from "../../core/job/event.ts";
import type { Job } from "../../core/job/job.ts";
import { counted } from "../attempt-numbers.ts";
import { opalIdOf, reclaimLine } from "./format.ts";

// The record that OPAL's workers log for each reclaim, with the four keys of its document. Made only from the job's
// events, so that the server's log and the runtime folder have the same line, whenever it is written.

interface ReclaimLogLine {
  /** The time of the reclaim, as in `2026-02-05 17:08:53,260`; in UTC. */
  readonly timestamp: string;
  readonly level: "WARNING";
  /** What reclaimed it: `reclaimed_by` of the attempt document. */
  readonly worker: string | null;
  readonly event: string;
}

type LostEvent<E extends JobEventBody> = Extract<E, { readonly name: "attempt.lost" }>;

interface ReclaimRecord<E extends JobEventBody> {
  readonly line: ReclaimLogLine;
  /** The event that it is made from. */
  readonly lost: LostEvent<E>;
}

type LoggedJob = Pick<Job, "id" | "key" | "policy">;

/** `events` are all of the job, in order. Null if this attempt was not lost. */
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

/** `attempt` is not Perdure's attempt number: the limit does not count returned attempts, or those before a redrive. */
function reclaimLogLine(
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

/** In the format of Python's `logging`, with a comma before the milliseconds. */
export function logTime(at: number): string {
  return new Date(at).toISOString().replace("T", " ").replace(".", ",").slice(0, -1);
}

// The lines of `logs/worker_pool/worker_*.log`, made only from a job's events, so that the file can be written again at
// any time. OPAL's document shows one kind of line, the reclaim; the lines for starts and ends use the same format.
// Attempts are numbered as the limit counts them.

interface WorkerLogLine {
  /** The time of the event, in UTC. */
  readonly timestamp: string;
  readonly level: "INFO" | "WARNING" | "ERROR";
  /** The worker that ran the attempt, or what reclaimed it. */
  readonly worker: string | null;
  readonly event: string;
}

/** A line, and the event that it is made from. */
export interface WorkerLogRecord {
  readonly seq: number;
  readonly at: number;
  readonly line: WorkerLogLine;
}

const MAX_ERROR = 500;

/** `events` are all of the job, in order. */
export function workerLog(job: Pick<Job, "id" | "key" | "policy">, events: readonly JobEvent[]): WorkerLogRecord[] {
  const id = opalIdOf(job) ?? job.id;
  const workers = new Map<number, string>();
  for (const { name, data } of events) if (name === "attempt.started") workers.set(data.attempt, data.worker);
  return counted(events).flatMap(({ event, attempt }): WorkerLogRecord[] => {
    const { seq, at, name, data } = event;
    if (name === "attempt.lost") return [{ seq, at, line: reclaimLogLine(job, event, attempt) }];
    const numbered = `job ${id} (Attempt ${attempt}/${job.policy.maxAttempts})`;
    const entry = name === "attempt.started" ? STARTED : endOf(event);
    if (entry === null) return [];
    const worker = "attempt" in data ? (workers.get(data.attempt) ?? null) : null;
    const text = `[Worker] ${entry.verb} ${numbered}${entry.to}`;
    return [{ seq, at, line: { timestamp: logTime(at), level: entry.level, worker, event: text } }];
  });
}

interface OpalLogEntry {
  readonly level: WorkerLogLine["level"];
  readonly verb: string;
  readonly to: string;
}

const STARTED: OpalLogEntry = { level: "INFO", verb: "Running", to: "" };

/** Null if no attempt ended, or if its job waits for children. */
function endOf(event: JobEvent): OpalLogEntry | null {
  const ends = ["attempt.succeeded", "attempt.failed", "attempt.timed_out", "attempt.interrupted"];
  if (!ends.includes(event.name) || !("decision" in event.data)) return null;
  const { decision, failure } = event.data;
  const error = (failure?.message ?? "").slice(0, MAX_ERROR);
  const backoff = `QUEUED (backoff=${(decision.delay?.delayMs ?? 0) / 1_000}s)`;
  switch (decision.kind) {
    case "succeed":
      return { level: "INFO", verb: "Finished", to: " -> SUCCEEDED" };
    case "retry":
      if (event.name === "attempt.interrupted") return { level: "INFO", verb: "Returned", to: " -> QUEUED" };
      return { level: "WARNING", verb: "Finished", to: ` -> ${backoff}${error === "" ? "" : `: ${error}`}` };
    case "cancel":
      return { level: "ERROR", verb: "Finished", to: " -> FAILED (cancelled)" };
    case "fail":
      return { level: "ERROR", verb: "Finished", to: ` -> FAILED${error === "" ? "" : ` (${error})`}` };
    default:
      return null;
  }
}
