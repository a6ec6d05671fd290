/** OPAL's ids, statuses, error texts, reclaim line and workers. OPAL's clients read these texts and depend on them.
 *  The views of jobs and attempts are in files of their own. */
import { ConfigError } from "../../core/errors.ts";
import type { JobState } from "../../core/job/job.ts";
import type { SessionRow } from "../../core/job/views.ts";

/** The tag of all OPAL jobs. */
export const OPAL_TAG = "opal";
const KEY_PREFIX = "opal:";

export type OpalStatus = "queued" | "running" | "succeeded" | "failed";

const STATUS: Readonly<Record<JobState, OpalStatus>> = {
  queued: "queued",
  blocked: "queued",
  running: "running",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "failed", // OPAL has no other status for it; the error is `cancelled`
};

export function opalStatus(state: JobState): OpalStatus {
  return STATUS[state];
}

// A client may choose the id, so it is part of the submit key and not Perdure's job id.

const ID = /^[A-Za-z0-9._-]{1,100}$/;

/** The client's id, or a new one in OPAL's form: `job_` and 12 hex digits. */
export function opalId(given: unknown, randomBytes: (size: number) => Uint8Array): string {
  if (given === undefined || given === null) return `job_${hex(randomBytes(6))}`;
  if (isOpalId(given)) return given;
  const allowed = '1 to 100 letters, digits, ".", "_" and "-", but not "." or ".."';
  throw new ConfigError({ path: "job_id", given, allowed });
}

export function isOpalId(given: unknown): given is string {
  // "." and ".." would be removed from a URL before it is sent.
  return typeof given === "string" && ID.test(given) && given !== "." && given !== "..";
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The submit key: one id, one job. */
export function opalKey(id: string): string {
  return KEY_PREFIX + id;
}

/** Marks jobs of files without an id: clients use the job's own id. */
export const OPAL_FILE_ANNOTATION = "opal/file";

export interface MaybeOpal {
  readonly id: string;
  readonly key: string | null;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The id that OPAL's clients use for a job; null if it is not an OPAL job. */
export function opalIdOf({ id, key, annotations }: MaybeOpal): string | null {
  if (key?.startsWith(KEY_PREFIX)) return key.slice(KEY_PREFIX.length);
  return key === null && annotations !== undefined && Object.hasOwn(annotations, OPAL_FILE_ANNOTATION) ? id : null;
}

export const MAX_RETRIES_EXCEEDED = "max_retries_exceeded_a2";

/** The error of a job that was requeued after a lost lease. The number is that of OPAL's counter, which
 *  `OPAL_MAX_RETRIES` limits: counted attempts since the last redrive. */
export function leaseExpired(attempt: number): string {
  return `lease_expired_retry_${attempt}`;
}

export interface Reclaim {
  readonly id: string;
  /** The attempt whose lease expired, counted like `maxRetries`. */
  readonly attempt: number;
  readonly maxRetries: number;
  /** Null if there is no retry. */
  readonly backoffSecs: number | null;
  /** The job's error if there is no retry; default: the limit of attempts. */
  readonly error?: string;
}

/** The warning that OPAL's workers log for each reclaim, exactly as in its document. */
export function reclaimLine({ id, attempt, maxRetries, backoffSecs, error }: Reclaim): string {
  const end = backoffSecs === null ? `FAILED (${error ?? MAX_RETRIES_EXCEEDED})` : `QUEUED (backoff=${backoffSecs}s)`;
  return `[Lease] ♻️ Reclaiming job ${id} (Attempt ${attempt}/${maxRetries}) -> ${end}`;
}

/** Always UTC; OPAL mixes UTC and local time. */
export function isoTime(at: number): string {
  return new Date(at).toISOString();
}

export function isoTimeOrNull(at: number | null): string | null {
  return at === null ? null : isoTime(at);
}

/** What is used of a session. */
export type OpalSession = Pick<SessionRow, "name" | "host" | "pid" | "renewedAt" | "endedAt" | "running">;

export interface OpalWorker {
  /** The worker's name, by default `host-pid` as in OPAL; `worker_id` of jobs. */
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly status: "online" | "offline";
  readonly last_seen: string;
  readonly current_jobs: number;
}

export function opalWorker(session: OpalSession, now: number, workerTtlSecs: number): OpalWorker {
  const { name, host, pid, renewedAt, endedAt, running } = session;
  const isOnline = endedAt === null && now - renewedAt <= workerTtlSecs * 1_000;
  return {
    ...{ id: name, name, host, pid, status: isOnline ? "online" : "offline" },
    ...{ last_seen: isoTime(renewedAt), current_jobs: running },
  };
}
