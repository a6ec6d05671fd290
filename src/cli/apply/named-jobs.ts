/** Jobs of documents that have names: a document that is applied again is the job that exists, unless it differs from it. Nothing is ever updated. The submit decides who is first, by the key; only those that exist already are compared
 *  after it. By the command of a job they are compared before it as well: its submit runs a failed child again, which
 *  must not happen for a document that differs. */

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

/** A job that has been read and is to be stored. */
export interface JobToStore {
  readonly entry: SubmitEntry;
  /** Its place in a file; null on the command line. */
  readonly where: string | null;
  /** The place of its parent's id, as far as it is known. */
  readonly parentWhere?: string | undefined;
  /** What its command reads; for the only job of a command line. */
  readonly piped?: PipedInput | null;
  /** Of the file that it was read from, unless that is ours. */
  readonly dialect?: DialectName | null;
}

/** Null of a job whose document has no name. */
export function namedBy({ dialect }: Pick<JobToStore, "dialect">): NamedDocuments | null {
  return dialect == null ? null : (dialectOf(dialect).named ?? null);
}

/** The job whose children a command submits: within a job of a server. */
export function impliedParent({ env }: Pick<Io, "env">, target: Target): string | null {
  return target.kind === "server" ? env.PERDURE_JOB_ID || null : null;
}

/** A job that has the key of a document. */
export interface ExistingJob {
  readonly job: JobInfo;
  readonly differences: readonly Difference[];
  /** For a person: that it is the same, or what differs and what to do. */
  readonly text: string;
}

/** Null where no job has its key, or its document has no name. */
export async function existingFor(
  perdure: Pick<Perdure, "jobs">,
  wanted: JobToStore,
  parent: string | null,
): Promise<ExistingJob | null> {
  const named = namedBy(wanted);
  const entry = wanted.entry as ReadEntry;
  const { key, parent: given } = entry.options ?? {};
  if (named === null || key === undefined) return null;
  // A key is one among the children of a parent.
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

/** Whether a call was done whose connection broke is not known. */
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

/** Searches at a time. */
const TOGETHER = 16;

/** In their order. */
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

/** Submits the jobs of files, each answered for itself, in their order. */
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
  // The order of fields makes another text of the same input, which is another body to the engine.
  if (existing !== null) return { ok: true, job: await perdure.job(existing.job.id), note: existing.text };
  // Pruned since the submit was answered.
  const [again] = isTaken && namedBy(wanted) !== null ? await perdure.submitMany([wanted.entry]) : [];
  if (again?.ok) return { ok: true, job: again.job, note: null };
  const { error } = answer;
  const isSafe = isLost(error) && namedBy(wanted) !== null;
  return { ok: false, message: isSafe ? `${error.message}; ${SAFE_AGAIN}` : error.message };
}
