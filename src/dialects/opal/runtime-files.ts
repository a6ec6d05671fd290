/** The files that OPAL keeps beside its jobs (`runtime/`): where they are, and what is in them. Paths are lists of names. */
import type { OpalAttempts } from "./attempts.ts";
import { isoTime, isoTimeOrNull } from "./words.ts";

/** Below `runtime/`. */
export const RUNTIME_FOLDERS = ["job_leases", "job_attempts", "opal_artifacts", "logs/worker_pool"] as const;

export const leaseFile = (id: string) => ["job_leases", `${id}.json`];
export const attemptsFile = (id: string) => ["job_attempts", `${id}.json`];
export const artifactsFolder = (id: string) => ["opal_artifacts", id];
export const attemptFolder = (id: string, attempt: number) => [...artifactsFolder(id), `attempt_${attempt}`];

/** The lease of a job that a worker holds. The document names the file and not its keys (unsaid). */
export interface OpalLease {
  readonly job_id: string;
  readonly worker_id: string | null;
  readonly attempt: number;
  readonly acquired_at: string;
  /** It moves on as the worker renews; null where no session of that worker is recorded. */
  readonly expires_at: string | null;
}

export interface HeldLease {
  readonly id: string;
  readonly worker: string | null;
  readonly attempt: number;
  readonly acquiredAt: number;
  readonly expiresAt: number | null;
}

export function leaseText({ id, worker, attempt, acquiredAt, expiresAt }: HeldLease): string {
  const lease: OpalLease = {
    ...{ job_id: id, worker_id: worker, attempt },
    ...{ acquired_at: isoTime(acquiredAt), expires_at: isoTimeOrNull(expiresAt) },
  };
  return asFile(lease);
}

/** The "Attempt Store Schema", with its keys and no others. */
export function attemptsText(document: OpalAttempts): string {
  const { job_id, attempts, updated_at, not_before, backoff_secs_applied, reclaim } = document;
  return asFile({ job_id, attempts, updated_at, not_before, backoff_secs_applied, reclaim });
}

/** The name of a worker's log. Names that cannot be a file's as they are end with something of their own, so that no two workers
 *  share a file. */
export function workerLogFile(worker: string | null): string {
  const name = worker ?? "unknown";
  const safe = name.replaceAll(/[^A-Za-z0-9._-]/g, "_").slice(0, 100);
  return `worker_${safe === name ? name : `${safe}~${hashOf(name)}`}`;
}

/** FNV-1a: it keeps names apart, and is no secret. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}

/** As the document prints them. */
function asFile(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
