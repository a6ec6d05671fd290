/** OPAL's words for what Perdure knows: ids, statuses, the texts of its error table, the reclaim line, workers.
 *  Everything a client of OPAL reads was fixed before Perdure; nothing is added here. The views of jobs and attempts are
 *  in files of their own. */
import { ConfigError } from "../../core/errors.ts";
import type { JobState } from "../../core/job/job.ts";
import type { SessionRow } from "../../core/job/views.ts";

/** The tag of all jobs that came in by this door. */
export const OPAL_TAG = "opal";
const KEY_PREFIX = "opal:";

export type OpalStatus = "queued" | "running" | "succeeded" | "failed";

const STATUS: Readonly<Record<JobState, OpalStatus>> = {
  queued: "queued",
  blocked: "queued",
  running: "running",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "failed", // OPAL knows no other end without success; the error says `cancelled`
};

export function opalStatus(state: JobState): OpalStatus {
  return STATUS[state];
}

// Ids. A client may choose its own, so they are not ours but part of the submit key.

const ID = /^[A-Za-z0-9._-]{1,100}$/;

/** The id a client gave, or a new one as OPAL makes them: `job_` and 12 hex digits. */
export function opalId(given: unknown, randomBytes: (size: number) => Uint8Array): string {
  if (given === undefined || given === null) return `job_${hex(randomBytes(6))}`;
  if (isOpalId(given)) return given;
  const allowed = '1 to 100 letters, digits, ".", "_" and "-", but not "." or ".."';
  throw new ConfigError({ path: "job_id", given, allowed });
}

export function isOpalId(given: unknown): given is string {
  // "." and ".." would be taken out of an address before it is sent.
  return typeof given === "string" && ID.test(given) && given !== "." && given !== "..";
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The submit key: one id, one job. */
export function opalKey(id: string): string {
  return KEY_PREFIX + id;
}

/** On jobs of files that name no id: clients know them by the job's own. */
export const OPAL_MARK = "opal/file";

export interface MaybeOpal {
  readonly id: string;
  readonly key: string | null;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The id under which clients of OPAL know a job; null for one that came in by another door. */
export function opalIdOf({ id, key, annotations }: MaybeOpal): string | null {
  if (key?.startsWith(KEY_PREFIX)) return key.slice(KEY_PREFIX.length);
  return key === null && annotations !== undefined && Object.hasOwn(annotations, OPAL_MARK) ? id : null;
}

// Texts.

export const MAX_RETRIES_EXCEEDED = "max_retries_exceeded_a2";

/** Lease expired on this attempt, requeued for retry. The number is that of OPAL's own counter, which `OPAL_MAX_RETRIES` limits:
 *  among the runs charged since the last redrive. */
export function leaseExpired(attempt: number): string {
  return `lease_expired_retry_${attempt}`;
}

export interface Reclaim {
  readonly id: string;
  /** The one whose lease expired, counted as `maxRetries` counts. */
  readonly attempt: number;
  readonly maxRetries: number;
  /** Null when there is no retry. */
  readonly backoffSecs: number | null;
  /** What the job failed with, where there is no retry; the limit, if nothing else is said. */
  readonly error?: string;
}

/** The warning that OPAL's workers log for each reclaim, as its document prints it. */
export function reclaimLine({ id, attempt, maxRetries, backoffSecs, error }: Reclaim): string {
  const end = backoffSecs === null ? `FAILED (${error ?? MAX_RETRIES_EXCEEDED})` : `QUEUED (backoff=${backoffSecs}s)`;
  return `[Lease] ♻️ Reclaiming job ${id} (Attempt ${attempt}/${maxRetries}) -> ${end}`;
}

/** UTC throughout: OPAL mixes it with local times. */
export function isoTime(at: number): string {
  return new Date(at).toISOString();
}

export function isoTimeOrNull(at: number | null): string | null {
  return at === null ? null : isoTime(at);
}

// Workers.

/** What is read of a session. */
export type OpalSession = Pick<SessionRow, "name" | "host" | "pid" | "renewedAt" | "endedAt" | "running">;

export interface OpalWorker {
  /** Its name, by default `host-pid` as in OPAL: what jobs give as `worker_id`. */
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
