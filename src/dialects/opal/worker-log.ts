/** The lines of `logs/worker_pool/worker_*.log`, made from a job's events alone, so that the file can be written again at any time.
 *  OPAL's document prints one of them, the reclaim; the others report starts and ends in its form (unsaid). Attempts are numbered
 *  as in the reclaim: as the limit counts them. */
import type { JobEvent } from "../../core/event.ts";
import type { Job } from "../../core/job.ts";
import { counted } from "../counted.ts";
import { logTime, reclaimLogLine } from "./reclaim-record.ts";
import { opalIdOf } from "./words.ts";

export interface WorkerLogLine {
  /** Of the event, in UTC. */
  readonly timestamp: string;
  readonly level: "INFO" | "WARNING" | "ERROR";
  /** Who did it: the worker that ran the attempt, or who reclaimed it. */
  readonly worker: string | null;
  readonly event: string;
}

/** A line, and the event of which it is made. */
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

interface Entry {
  readonly level: WorkerLogLine["level"];
  readonly verb: string;
  readonly to: string;
}

const STARTED: Entry = { level: "INFO", verb: "Running", to: "" };

/** Null where no attempt ended, or its job waits for others. */
function endOf(event: JobEvent): Entry | null {
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
