/** Jobs of documents with names: a document that is applied again is the existing job, unless it differs; nothing is ever
 *  updated. The submit decides by the key who is first; only existing jobs are compared, after it. A command of a job
 *  compares before it too: its submit redrives a failed child, which must not happen for a document that differs. */

import type { JobHandle, SubmitManyAnswer } from "../../core/api/jobs.ts";
import type { Perdure } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { SubmitEntry } from "../../core/task/task.ts";
import { childKey } from "../../core/task/task.ts";
import type { DialectName, Difference, NamedDocuments, ReadEntry } from "../../dialects/dialect.ts";
import { dialectOf } from "../../dialects/registry.ts";
import { limiter } from "../../lib/limiter.ts";
import type { PipedInput } from "../input/piped-input.ts";
import type { Io } from "../io.ts";
import { nullIfForbidden } from "../jobs/job-reference.ts";
import type { Target } from "../target/target.ts";

/** A job that was read and will be stored. */
export interface JobToStore {
  readonly entry: SubmitEntry;
  /** Its position in a file; null on the command line. */
  readonly where: string | null;
  /** The position of its parent's id, if known. */
  readonly parentWhere?: string | undefined;
  /** Standard input of its command, for the only job of a command line. */
  readonly piped?: PipedInput | null;
  /** The dialect of its file; none for job files of Perdure. */
  readonly dialect?: DialectName | null;
}

/** Null if its document has no name. */
export function namedBy({ dialect }: Pick<JobToStore, "dialect">): NamedDocuments | null {
  return dialect == null ? null : (dialectOf(dialect).named ?? null);
}

/** The job whose command runs this one, if the target is a server: the parent by default. */
export function impliedParent({ env }: Pick<Io, "env">, target: Target): string | null {
  return target.kind === "server" ? env.PERDURE_JOB_ID || null : null;
}

/** A job that has the key of a document. */
export interface ExistingJob {
  readonly job: JobInfo;
  readonly differences: readonly Difference[];
  /** For people: that it is unchanged, or what differs and what to do. */
  readonly text: string;
}

/** Null if no job has its key, or its document has no name. */
export async function existingFor(
  perdure: Pick<Perdure, "jobs">,
  wanted: JobToStore,
  parent: string | null,
): Promise<ExistingJob | null> {
  const named = namedBy(wanted);
  const entry = wanted.entry as ReadEntry;
  const { key, parent: given } = entry.options ?? {};
  if (named === null || key === undefined) return null;
  // A key is unique among the children of a parent.
  const above = given ?? parent;
  const keys = above === null ? [key] : given === undefined ? [childKey(above, key), key] : [childKey(above, key)];
  for (const each of keys) {
    const [job] = (await perdure.jobs({ key: each, limit: 1 })).jobs;
    if (job === undefined) continue;
    const differences = named.differences(job, entry);
    const isSame = differences.length === 0;
    return { job, differences, text: (isSame ? unchangedText : differsText)(named, job, entry, differences) };
  }
  return null;
}

function unchangedText(named: NamedDocuments, job: JobInfo, entry: ReadEntry): string {
  const reference = named.reference(job, entry);
  const { id, state, reason } = job;
  const again =
    state === "succeeded"
      ? `; for another like it use \`perdure resubmit ${reference}\``
      : `; to start it again use \`perdure redrive ${reference}\``;
  const stands = reason === null ? state : `${state} (${reason})`;
  return `${id} already exists, unchanged: ${named.called(entry)} is ${stands}${isTerminal(state) ? again : ""}`;
}

function differsText(
  named: NamedDocuments,
  job: JobInfo,
  entry: ReadEntry,
  differences: readonly Difference[],
): string {
  const what = differences.map(({ text }) => text).join("; ");
  const instead = named.instead(job, entry, differences);
  return `${named.called(entry)} already exists as ${job.id} (${job.state}) and differs: ${what}. It is not stored: ${instead}`;
}

/** If the connection broke it is unknown whether the call was done. */
async function submitted(
  perdure: Pick<Perdure, "submitMany">,
  jobs: readonly JobToStore[],
): Promise<SubmitManyAnswer[]> {
  try {
    return await perdure.submitMany(jobs.map(({ entry }) => entry));
  } catch (error) {
    if (!isLost(error) || jobs.some((job) => namedBy(job) === null)) throw error;
    throw new PerdureError(error.code, `${error.message}; ${SAFE_AGAIN}`, { cause: error });
  }
}

const SAFE_AGAIN = "apply again: a job that was stored is found by its name";

function isLost(error: unknown): error is PerdureError {
  return error instanceof PerdureError && error.code === "server_unreachable";
}

/** Concurrent searches. */
const TOGETHER = 16;

/** Results are in the order of the jobs. */
export function existingOf(
  perdure: Pick<Perdure, "jobs">,
  jobs: readonly JobToStore[],
  parent: string | null,
): Promise<(ExistingJob | null)[]> {
  const few = limiter(TOGETHER);
  return Promise.all(jobs.map((job) => few(() => existingFor(perdure, job, parent))));
}

export type SubmitOutcome =
  | { readonly ok: true; readonly job: JobHandle<unknown>; readonly note: string | null }
  | { readonly ok: false; readonly message: string };

/** Submits the jobs of files in order; each has its own result. */
export async function submitAll(
  perdure: Pick<Perdure, "jobs" | "job" | "submitMany">,
  jobs: readonly JobToStore[],
  parent: string | null,
): Promise<SubmitOutcome[]> {
  const found = parent === null ? [] : ((await nullIfForbidden(existingOf(perdure, jobs, parent))) ?? []);
  const isOpen = (i: number) => (found[i]?.differences ?? []).length === 0;
  const open = jobs.filter((_, i) => isOpen(i));
  const answers = open.length === 0 ? [] : await submitted(perdure, open);
  const few = limiter(TOGETHER);
  const places = new Map(open.map((job, k) => [job, k]));
  return Promise.all(
    jobs.map((wanted, i): Promise<SubmitOutcome> | SubmitOutcome => {
      if (!isOpen(i)) return { ok: false, message: (found[i] as ExistingJob).text };
      const answer = answers[places.get(wanted) as number] as SubmitManyAnswer;
      return few(() => outcomeOf(perdure, wanted, answer, parent));
    }),
  );
}

async function outcomeOf(
  perdure: Pick<Perdure, "jobs" | "job" | "submitMany">,
  wanted: JobToStore,
  answer: SubmitManyAnswer,
  parent: string | null,
): Promise<SubmitOutcome> {
  const isTaken = answer.ok ? !answer.job.created : answer.error.code === "key_conflict";
  const existing = isTaken ? await nullIfForbidden(existingFor(perdure, wanted, parent)) : null;
  if (existing !== null && existing.differences.length > 0) return { ok: false, message: existing.text };
  if (answer.ok) return { ok: true, job: answer.job, note: existing?.text ?? null };
  // Another order of fields is the same input but another request body to the engine.
  if (existing !== null) return { ok: true, job: await perdure.job(existing.job.id), note: existing.text };
  // Deleted since the submit was answered.
  const [again] = isTaken && namedBy(wanted) !== null ? await perdure.submitMany([wanted.entry]) : [];
  if (again?.ok) return { ok: true, job: again.job, note: null };
  const { error } = answer;
  const isSafe = isLost(error) && namedBy(wanted) !== null;
  return { ok: false, message: isSafe ? `${error.message}; ${SAFE_AGAIN}` : error.message };
}
