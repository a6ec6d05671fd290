/** A job in OPAL's format, with links to its outputs. */
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
} from "./format.ts";

// Checks for paths that would leave a job's folder, and for output names that a link cannot have.

/** How many layers of encoding are still recognised. */
const MAX_DECODED = 4;

/** As given, or decoded again: a path may be encoded several times. */
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

/** A parent folder, an absolute path (an empty part before the last one, or a drive), or a NUL, at which some programs
 *  end a path. */
function isOutside(text: string): boolean {
  const parts = text.split(/[/\\]/);
  return parts.includes("..") || parts.slice(0, -1).includes("") || text.includes("\0") || DRIVE.test(text);
}

const DRIVE = /(?:^|[/\\])[a-z]:\\/i;

/** Whether an output can be read by its link. Not if it has control characters or `\`, which the file store refuses,
 *  and not if it is like `%2e%2e`, which is refused as a path that leaves the folder. */
function hasLink(name: string): boolean {
  return !/[\p{Cc}\\]/u.test(name) && !leavesFolder(name);
}

// An object of exactly ten keys: OPAL's "zero ABI drift" forbids an eleventh. More about the attempts is in
// `attempts.ts`.

/** A job with its input and result as values. */
export type ShownJob = Job & Partial<Pick<JobInfo, "payload" | "result">>;

/** What is used of an ended attempt. */
export type OpalEndedAttempt = Pick<
  AttemptRow,
  "attempt" | "chapter" | "startedAt" | "endedAt" | "outcome" | "failure"
>;

interface OpalOutput extends BlobFile {
  readonly href: string;
}

/** OPAL's document names this key without its content. Here: which command ran, as which attempt, where, and how it ended. */
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

/** `attempts` are all ended attempts, oldest first; `events` are all of the job. For a running or ended job `events`
 *  may be left out: nothing in them is newer than its row. A job that did not come through OPAL's API has Perdure's
 *  id. */
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
    // From the latest attempt; a job that waits for its retry keeps it.
    started_at: isoTimeOrNull(job.startedAt),
    status,
    updated_at: isoTime(updatedAt(job, last, events)),
    // A queued job has no worker; its provenance has the last one.
    worker_id: status === "queued" ? null : worker,
  };
}

/** `lease_expired_retry_N` means "requeued for retry", so it is shown only while the job is queued (Test #1: queued,
 *  then running, then succeeded without an error). */
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
      return last?.failure?.message ?? null; // out of memory: the only engine failure that is retried
    }
    case "failed":
      return isSpentByLoss(job) ? MAX_RETRIES_EXCEEDED : (lastRun(job, attempts)?.failure?.message ?? job.reason);
  }
}

/** The last lease expired, or an earlier one did and no attempts are left. */
function isSpentByLoss({ reason, losses }: Job): boolean {
  return reason === "lost" || reason === "poison" || (reason === "exhausted" && losses > 0);
}

/** Since the last redrive. An attempt that was returned before it began does not count. */
function lastRun({ chapter }: Job, attempts: readonly OpalEndedAttempt[]): OpalEndedAttempt | undefined {
  return attempts.findLast((each) => each.chapter === chapter && each.outcome !== "released");
}

/** A link names the last attempt, because other attempts may have outputs of the same name. An output without a
 *  working link is left out, and kept. */
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
