/** Paths and contents of the files in OPAL's runtime directory, and how those of one job are written. */

import type { Readable } from "node:stream";
import type { JobEvent } from "../../../core/job/event.ts";
import type { Job } from "../../../core/job/job.ts";
import { attemptsAtSnapshot, eventsAtSnapshot } from "../../../core/job/snapshot.ts";
import { lastAttempts } from "../../../engine/read-job.ts";
import type { Blobs } from "../../../store/blobs.ts";
import type { JobRow, Store } from "../../../store/store.ts";
import { type AttemptWithResult, type OpalAttempts, opalAttempts, opalResult, opalResultText } from "../attempts.ts";
import { isOpalId, isoTime, isoTimeOrNull, opalIdOf, opalKey } from "../format.ts";
import { isOpalJob, MAX_EVENTS } from "./opal-reader.ts";

// Paths are lists of names.

/** Below `runtime/`. */
export const RUNTIME_FOLDERS = ["job_leases", "job_attempts", "opal_artifacts", "logs/worker_pool"] as const;

export const leaseFile = (id: string) => ["job_leases", `${id}.json`];
export const attemptsFile = (id: string) => ["job_attempts", `${id}.json`];
export const artifactsFolder = (id: string) => ["opal_artifacts", id];
export const attemptFolder = (id: string, attempt: number) => [...artifactsFolder(id), `attempt_${attempt}`];

/** The lease of a running job. OPAL's document names the file but not its keys. */
export interface OpalLease {
  readonly job_id: string;
  readonly worker_id: string | null;
  readonly attempt: number;
  readonly acquired_at: string;
  /** Extended as the worker renews; null if no session of the worker is recorded. */
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

/** The file name of a worker's log. Names that are not valid file names get a suffix, so that no two workers share a file. */
export function workerLogFile(worker: string | null): string {
  const name = worker ?? "unknown";
  const safe = name.replaceAll(/[^A-Za-z0-9._-]/g, "_").slice(0, 100);
  return `worker_${safe === name ? name : `${safe}~${hashOf(name)}`}`;
}

/** FNV-1a: distinguishes names; not for security. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}

/** In the document's format. */
function asFile(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

// One job in the runtime folder: its records, its small files, and the folders of its attempts, made from the store and
// the attempts' outputs. Outputs are copied, not linked: through a link a person could change the original. Nothing is
// read back except two timestamps, so that a start does not write everything again: an ended job's attempt document has
// the time of its end, and result.json the time of its attempt's end once all its files are written.

type RuntimePath = readonly string[];

/** The part of the folder that is needed here. Passed by the code that starts the server. */
export interface RuntimeFiles {
  /** False if the folder, or part of it, was removed and made again without its files. */
  isWhole(): Promise<boolean>;
  /** Rejects with the code `low_space` if a copy of this size would leave too little free disk space. */
  checkSpace(bytes: number): Promise<void>;
  write(path: RuntimePath, content: string | AsyncIterable<Uint8Array>, file?: RuntimeFile): Promise<void>;
  append(path: RuntimePath, text: string, maxBytes: number, older: RuntimePath): Promise<void>;
  makeFolder(path: RuntimePath): Promise<void>;
  modifiedAt(path: RuntimePath): Promise<number | null>;
  names(path: RuntimePath): AsyncIterable<string>;
  remove(path: RuntimePath): Promise<void>;
}

interface RuntimeFile {
  readonly modifiedAt?: number;
  readonly size?: number;
  readonly signal?: AbortSignal;
}

export interface RecordedJob {
  /** OPAL's id. */
  readonly id: string;
  readonly row: JobRow;
  /** Empty for a job with too many. */
  readonly events: readonly JobEvent[];
  readonly document: OpalAttempts;
}

const RESULT = "result.json";

/** The only namespace in the folder: OPAL ids are unique within one. It is the namespace of clients without a token. */
export const NAMESPACE = "default";

/** Null if it was pruned, or is not an OPAL job. */
export async function recordedJob(store: Store, jobId: string): Promise<RecordedJob | null> {
  const [facts = null] = await store.facts([jobId]);
  const history = facts === null ? null : await store.history(jobId, { events: facts.revision <= MAX_EVENTS });
  if (history === null) return null;
  const { job: row } = history;
  const id = isOpalJob(row) && row.namespace === NAMESPACE ? opalIdOf(row) : null;
  if (!isOpalId(id)) return null;
  // A client may have chosen a text equal to another job's own id: `OpalReader.row` finds the client's job.
  if (row.key === null && (await jobOfClient(store, id))) return null;
  const events = row.revision > MAX_EVENTS ? [] : eventsAtSnapshot(row, history.events as JobEvent[]);
  return { id, row, events, document: opalAttempts(row, await lastAttempts(store, row), events) };
}

/** Whether the store still has the job of an OPAL id. */
export async function isRecorded(store: Store, id: string): Promise<boolean> {
  return (await jobOfClient(store, id)) || (await recordedJob(store, id)) !== null;
}

async function jobOfClient(store: Store, id: string): Promise<boolean> {
  const { jobs } = await store.find({ namespace: NAMESPACE, key: opalKey(id), limit: 1 });
  return jobs[0] !== undefined && isOpalJob(jobs[0]);
}

/** For an ended job its timestamp is the end, which `isUpToDate` checks. */
export async function writeAttemptStore(files: RuntimeFiles, { id, row, document }: RecordedJob): Promise<void> {
  await files.write(
    attemptsFile(id),
    attemptsText(document),
    row.finishedAt === null ? {} : { modifiedAt: row.finishedAt },
  );
}

/** Whether all files of a job exist, judged by their timestamps: a start with many old jobs need not read each. Only
 *  for ended jobs; false in doubt. */
export async function isUpToDate(store: Store, files: RuntimeFiles, row: Job): Promise<boolean> {
  const id = opalIdOf(row);
  if (row.finishedAt === null || row.discardedAt !== null || !isOpalId(id)) return false;
  if ((await files.modifiedAt(attemptsFile(id))) !== row.finishedAt) return false;
  if ((await files.modifiedAt(leaseFile(id))) !== null) return false;
  for (let after = 0; after < row.attempt; ) {
    const page = await store.attempts(row.id, { after });
    if (page.length === 0) return false;
    for (const { attempt, endedAt } of page) {
      if ((await files.modifiedAt([...attemptFolder(id, attempt), RESULT])) !== endedAt) return false;
      after = attempt;
    }
  }
  return true;
}

interface CopyParts {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly files: RuntimeFiles;
  readonly signal: AbortSignal;
}

/** Writes `attempt_N/` of each attempt that is missing. Files are copied when the attempt has ended. An attempt is
 *  complete only after all before it, so the newest complete one is where work begins; `isWhole` checks all of them. A
 *  failure does not stop later attempts; the caller must pass `isWhole` the next time. */
export async function writeAttempts(parts: CopyParts, job: RecordedJob, isWhole: boolean): Promise<void> {
  const { store, files, signal } = parts;
  const { row } = job;
  const failures: unknown[] = [];
  const tried = async (attempt: number, ended: AttemptWithResult | null) => {
    await writeAttempt(parts, job, attempt, ended).catch((error: unknown) => failures.push(error));
    signal.throwIfAborted();
  };
  const complete = isWhole ? 0 : await newestComplete(parts, job);
  for (let after = complete; after < row.attempt; ) {
    const page = attemptsAtSnapshot(row, await store.attempts(row.id, { after }));
    for (const ended of page) await tried(ended.attempt, ended);
    if (page.length === 0) break;
    after = page.at(-1)?.attempt as number;
  }
  if (row.state === "running") await tried(row.attempt, null);
  if (complete === 0) await removeLater(files, job);
  // It may have been pruned meanwhile, and its files removed.
  const [facts = null] = await store.facts([row.id]);
  if (facts === null && !(await isRecorded(store, job.id))) await files.remove(artifactsFolder(job.id));
  else if (failures.length > 0) throw failures[0];
}

/** Its number; 0 if there is none. */
async function newestComplete({ store, files, signal }: CopyParts, { id, row }: RecordedJob): Promise<number> {
  for (let attempt = row.attempt; attempt > 0; attempt--) {
    signal.throwIfAborted();
    const modifiedAt = await files.modifiedAt([...attemptFolder(id, attempt), RESULT]);
    if (modifiedAt === null) continue;
    const [ended] = attemptsAtSnapshot(row, await store.attempts(row.id, { after: attempt - 1, limit: 1 }));
    if (ended?.attempt === attempt && ended.endedAt === modifiedAt) return attempt;
  }
  return 0;
}

/** Attempts of an earlier job with this id. */
async function removeLater(files: RuntimeFiles, { id, row }: RecordedJob): Promise<void> {
  for await (const name of files.names(artifactsFolder(id))) {
    const number = /^attempt_(\d+)$/.exec(name)?.[1];
    if (number !== undefined && Number(number) > row.attempt) await files.remove([...artifactsFolder(id), name]);
  }
}

async function writeAttempt(
  { blobs, files, signal }: CopyParts,
  { id, row, events }: RecordedJob,
  attempt: number,
  ended: AttemptWithResult | null,
): Promise<void> {
  const folder = attemptFolder(id, attempt);
  const file = [...folder, RESULT];
  const startedAt = ended?.startedAt ?? row.startedAt ?? 0;
  // A timestamp of 0 marks an attempt that has not ended, or whose files are missing.
  const unfinishedAt = startedAt - 1;
  const modifiedAt = ended?.endedAt ?? unfinishedAt;
  if ((await files.modifiedAt(file)) === modifiedAt) return;
  const result = opalResult(row, ended === null ? [] : [ended], events, attempt);
  if (result === null) return;
  await files.write(file, opalResultText(result), { modifiedAt: unfinishedAt });
  await files.makeFolder([...folder, "artifacts"]);
  const outputs = ended === null ? [] : (await blobs.list(row.id, attempt)).files;
  // Checked before the first file is copied: a retry would copy it again.
  if (outputs.length > 0) await files.checkSpace(outputs.reduce((sum, { size }) => sum + size, 0));
  await files.remove([...folder, "artifacts"]);
  await files.makeFolder([...folder, "artifacts"]);
  if (ended === null) return;
  for (const { name, size } of outputs) {
    const source = await blobs.get(row.id, attempt, `artifacts/${name}`);
    if (source !== null) await copy(files, [...folder, "artifacts", ...name.split("/")], source, { size, signal });
  }
  const own = await blobs.get(row.id, attempt, RESULT);
  if (own === null) await files.write(file, opalResultText(result), { modifiedAt });
  else await copy(files, file, own, { modifiedAt, signal });
}

/** Closes the source in any case, even if it was never read. */
async function copy(files: RuntimeFiles, path: RuntimePath, source: Readable, file: RuntimeFile): Promise<void> {
  try {
    await files.write(path, source, file);
  } finally {
    source.destroy();
  }
}
