/** Finds the job that an argument refers to: 1. the full id 2. an id or name of another system 3. the beginning of an id,
 *  with or without `job_` 4. the name of a job; one made by `resubmit` only if no other job has it. The first step that
 *  finds a job counts; if it finds several, they are listed in an error. All steps use indexes, within the namespace of the
 *  command. */

import type { Perdure } from "../../core/api.ts";
import { PerdureError, show } from "../../core/errors.ts";
import { jobName } from "../../core/job/job-name.ts";
import type { JobsFilter } from "../../core/job/jobs-filter.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { isName, MAX_KEY } from "../../core/names.ts";
import { originOf } from "../../dialects/shared.ts";
import { isId } from "../../lib/id.ts";
import { usageError } from "../exit.ts";

/** For the help of every command that takes a job. */
export async function referenceHelp(): Promise<string> {
  const { REFERENCE_TEXTS } = await dialects();
  return (
    `ID is the id of a job, ${REFERENCE_TEXTS.join(", ")}, the first characters of an id (4 or ` +
    "more, with or without job_), or the job's name. They are tried in this order; an ambiguous one is refused."
  );
}

/** Loaded when needed: the readers of other systems take longer to load than most commands run. */
const dialects = () => import("../../dialects/registry.ts");

const FEWEST = 4;
const SHORT_ID = /^(?:job_)?[0-7][0-9a-hjkmnp-tv-z]{3,25}$/;
/** Candidates shown in an error. */
const SHOWN = 5;
/** Most names belong to one job; some belong to thousands. */
const NAMED_PAGE = 20;
/** Pages may be empty if a token may read few of the jobs. */
const MAX_PAGES = 20;

export function isReference(text: unknown): text is string {
  return typeof text === "string" && text.trim() === text && isName(text, MAX_KEY);
}

/** Checks the form of a reference; the job is looked up later. */
export function asReference(text: string): string {
  if (isReference(text)) return text;
  throw usageError(`${show(text)} is neither the id nor the name of a job; see \`perdure ps\``);
}

/** The full id of the one matching job. A full id requires no token that may read. */
export async function fullId(perdure: Pick<Perdure, "job" | "jobs">, text: string): Promise<string> {
  const isWhole = isId(text, "job");
  const missing = isWhole ? await missingError(perdure, text) : null;
  if (isWhole && missing === null) return text;
  const { submitKeysOf } = await dialects();
  const keys = submitKeysOf(text).map((key) => ({ key }));
  const byKey = onlyOne(text, await found(perdure, keys));
  if (byKey !== null) return byKey;
  // A full id is never the name of another job.
  if (missing !== null) throw missing;
  const byId = SHORT_ID.test(text) ? onlyOne(text, await found(perdure, [{ id: text }])) : null;
  if (byId !== null) return byId;
  // A pattern is not a name.
  const byName = /[*?]/.test(text) ? null : onlyOne(text, await named(perdure, text));
  if (byName !== null) return byName;
  throw new PerdureError("job_not_found", notFound(text));
}

/** Null if the job exists, or the token may not read it. */
async function missingError(perdure: Pick<Perdure, "job">, id: string): Promise<PerdureError | null> {
  try {
    await nullIfForbidden(perdure.job(id));
    return null;
  } catch (error) {
    if (error instanceof PerdureError && error.code === "job_not_found") return error;
    throw error;
  }
}

/** All jobs that match any of the filters, each once; at most one more than an error shows. */
async function found(perdure: Pick<Perdure, "jobs">, filters: readonly JobsFilter[]): Promise<readonly JobInfo[]> {
  const lists = await Promise.all(filters.map((filter) => listed(perdure, { ...filter, limit: SHOWN + 1 })));
  return [...new Map(lists.flatMap(({ jobs }) => jobs).map((job) => [job.id, job])).values()];
}

/** Copies have the name of their original. They count only if the original was deleted. */
async function named(perdure: Pick<Perdure, "jobs">, name: string): Promise<readonly JobInfo[]> {
  const isFirst = (job: JobInfo) => originOf(job) === null;
  const { jobs, isCut } = await listed(perdure, { name, limit: NAMED_PAGE }, isFirst);
  const first = jobs.filter(isFirst);
  if (isCut && first.length < 2) {
    throw usageError(`more than ${NAMED_PAGE * MAX_PAGES} jobs may have the name ${show(name)}; pass the id of one`);
  }
  return first.length > 0 ? first : jobs;
}

/** Reads page by page, until there are more matches than an error shows. */
async function listed(
  perdure: Pick<Perdure, "jobs">,
  filter: JobsFilter,
  counts: (job: JobInfo) => boolean = () => true,
): Promise<{ readonly jobs: readonly JobInfo[]; readonly isCut: boolean }> {
  const jobs: JobInfo[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < MAX_PAGES && jobs.filter(counts).length <= SHOWN; page += 1) {
    const answer: Awaited<ReturnType<Perdure["jobs"]>> = await perdure.jobs({
      ...filter,
      ...(cursor === null ? {} : { cursor }),
    });
    jobs.push(...answer.jobs);
    cursor = answer.next;
    if (cursor === null) break;
  }
  return { jobs, isCut: cursor !== null };
}

function onlyOne(text: string, jobs: readonly JobInfo[]): string | null {
  const [only] = jobs;
  if (only === undefined) return null;
  if (jobs.length === 1) return only.id;
  const named = jobs.slice(0, SHOWN).map((job) => `${job.id} (${jobName(job)}, ${job.state})`);
  const more = jobs.length > SHOWN ? ", …" : "";
  throw usageError(`${text} is ambiguous; pass the id of one of these jobs: ${named.join(", ")}${more}`);
}

function notFound(text: string): string {
  const hint = text.startsWith("job_")
    ? `; an id is job_ and 26 characters, or at least the first ${FEWEST} of them`
    : "; see `perdure ps`";
  return `no job has the id or name ${show(text)}${hint}`;
}

/** Null if the token may not read it: for commands that only in part read, and whose other part still works. */
export async function nullIfForbidden<T>(read: Promise<T>): Promise<T | null> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof PerdureError && error.code === "forbidden") return null;
    throw error;
  }
}
