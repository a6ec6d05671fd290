/** A job as OPAL shows it, with its outputs by their names. */
import { isPlain } from "../../core/check.ts";
import type { Job } from "../../core/job/job.ts";
import type { AttemptRow, BlobFile, JobInfo } from "../../core/job/views.ts";
import {
  isoTime,
  isoTimeOrNull,
  leaseExpired,
  MAX_RETRIES_EXCEEDED,
  type OpalStatus,
  opalIdOf,
  opalStatus,
} from "./words.ts";

// Paths that would leave the folder of a job, and the names of outputs that a link cannot carry.

/** How many times over a path may be encoded and is still recognised. */
const MAX_DECODED = 4;

/** As it stands, or decoded again: a path may be encoded several times. */
export function leavesFolder(path: string): boolean {
  let text = path;
  for (let times = 0; times <= MAX_DECODED; times++) {
    if (isOutside(text)) return true;
    const decoded = text.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    if (decoded === text) return false;
    text = decoded;
  }
  return false;
}

/** A folder above, an absolute path (an empty part before the last one, or a drive), or a NUL, which ends a path elsewhere. */
function isOutside(text: string): boolean {
  const parts = text.split(/[/\\]/);
  return parts.includes("..") || parts.slice(0, -1).includes("") || text.includes("\0") || DRIVE.test(text);
}

const DRIVE = /(?:^|[/\\])[a-z]:\\/i;

/** Whether an output can be read by its link: not one with control characters or `\`, which the store of the files does not
 *  read, and not one such as `%2e%2e`, which is refused as a path that leaves the folder. */
function hasLink(name: string): boolean {
  return !/[\p{Cc}\\]/u.test(name) && !leavesFolder(name);
}

// A job as OPAL shows it: an object of exactly ten keys, which "zero ABI drift" forbids to become eleven. What is
// known of its attempts beyond that is in `attempts.ts`, for those who ask.

/** A job with its input and its result as values. */
export type ShownJob = Job & Partial<Pick<JobInfo, "payload" | "result">>;

/** What is read of an attempt that has ended. */
export type OpalEndedAttempt = Pick<
  AttemptRow,
  "attempt" | "chapter" | "startedAt" | "endedAt" | "outcome" | "failure"
>;

interface OpalOutput extends BlobFile {
  readonly href: string;
}

/** The document names the key and says nothing of what is in it. So: which command ran, as which attempt, where, and
 *  how it ended. */
interface RunProvenance {
  readonly engine: string | null;
  readonly attempt: number;
  /** Null while it runs, and when it was lost. */
  readonly exit_code: number | null;
  readonly worker_id: string | null;
}

export interface OpalJob {
  readonly completed_at: string | null;
  readonly created_at: string;
  readonly error: string | null;
  readonly id: string;
  readonly outputs: readonly OpalOutput[];
  readonly run_provenance: RunProvenance | null;
  readonly started_at: string | null;
  readonly status: OpalStatus;
  readonly updated_at: string;
  readonly worker_id: string | null;
}

export type WorkerName = (session: string) => string | null;

/** `attempts` are all that have ended, oldest first; `events` all of the job. Those of one that runs or has ended may be left
 *  out, as nothing in them is newer than its row. A job of another door is shown under Perdure's id for it. */
export function opalJob(
  job: ShownJob,
  attempts: readonly OpalEndedAttempt[],
  workerName: WorkerName,
  events: readonly { readonly at: number }[] = [],
): OpalJob {
  const id = opalIdOf(job) ?? job.id;
  const status = opalStatus(job.state);
  const last = attempts.at(-1) ?? null;
  const worker = job.worker === null ? null : workerName(job.worker);
  return {
    completed_at: isoTimeOrNull(job.finishedAt),
    created_at: isoTime(job.submittedAt),
    error: errorOf(job, attempts),
    id,
    outputs: status === "succeeded" ? outputsOf(job, id) : [],
    run_provenance: job.attempt === 0 ? null : provenance(job, last, worker),
    // Of the latest attempt; a job that waits for its retry keeps it.
    started_at: isoTimeOrNull(job.startedAt),
    status,
    updated_at: isoTime(updatedAt(job, last, events)),
    // Nobody has a job that waits; who had it last is in its provenance.
    worker_id: status === "queued" ? null : worker,
  };
}

/** `lease_expired_retry_N` means "requeued for retry", so it is there while the job is queued and gone when it runs again
 *  (Test #1: queued, then running, then succeeded, of which nobody wants to read an error). */
function errorOf(job: ShownJob, attempts: readonly OpalEndedAttempt[]): string | null {
  switch (job.state) {
    case "running":
    case "succeeded":
      return null;
    case "cancelled":
      return "cancelled";
    case "queued":
    case "blocked": {
      const last = lastRun(job, attempts);
      if (last?.outcome === "lost") return leaseExpired(job.failures + job.losses);
      return last?.failure?.message ?? null; // out of memory: the one failure of an engine that is retried
    }
    case "failed":
      return isSpentByLoss(job) ? MAX_RETRIES_EXCEEDED : (lastRun(job, attempts)?.failure?.message ?? job.reason);
  }
}

/** The last lease expired, or one did before and the runs are used up. */
function isSpentByLoss({ reason, losses }: Job): boolean {
  return reason === "lost" || reason === "poison" || (reason === "exhausted" && losses > 0);
}

/** Since the last redrive, which is a new beginning. One that was handed back before it began tells nothing. */
function lastRun({ chapter }: Job, attempts: readonly OpalEndedAttempt[]): OpalEndedAttempt | undefined {
  return attempts.findLast((each) => each.chapter === chapter && each.outcome !== "released");
}

/** A link names the attempt that won, since others of the same name may lie beside it. An output that has no link that works is left
 *  out, and kept. */
function outputsOf({ attempt, result }: ShownJob, id: string): OpalOutput[] {
  const listed = isPlain(result) ? (result as { outputs?: unknown }).outputs : null;
  if (!Array.isArray(listed)) return [];
  const linked = (listed as BlobFile[]).filter(({ name }) => hasLink(name));
  return linked.map(({ name, mime, size, sha256 }) => {
    const path = name.toWellFormed().split("/").map(encodeURIComponent).join("/");
    return { name, href: `/api/artifacts/${id}/attempt_${attempt}/${path}`, mime, size, sha256 };
  });
}

function provenance(job: ShownJob, last: OpalEndedAttempt | null, worker: string | null): RunProvenance {
  const argv = isPlain(job.payload) ? (job.payload as { argv?: unknown }).argv : null;
  const engine = Array.isArray(argv) && typeof argv[0] === "string" ? argv[0] : null;
  return { engine, attempt: job.attempt, exit_code: exitCode(job, last), worker_id: worker };
}

function exitCode({ attempt, state, result }: ShownJob, last: OpalEndedAttempt | null): number | null {
  if (state !== "succeeded") return last?.attempt === attempt ? (last.failure?.exitCode ?? null) : null;
  const code = isPlain(result) ? (result as { exitCode?: unknown }).exitCode : null;
  return typeof code === "number" ? code : null;
}

function updatedAt(job: ShownJob, last: OpalEndedAttempt | null, events: readonly { readonly at: number }[]): number {
  const { submittedAt, startedAt, cancelRequestedAt, finishedAt, discardedAt } = job;
  const instants = [startedAt, cancelRequestedAt, finishedAt, discardedAt, last?.endedAt, events.at(-1)?.at];
  return Math.max(submittedAt, ...instants.map((at) => at ?? -Infinity));
}
