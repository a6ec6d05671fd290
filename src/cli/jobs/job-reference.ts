/** Finds the job that a command-line argument refers to. In this order: the full id; an id or name of another system;
 *  the beginning of an id; the name of a job. The first that finds a job counts, an ambiguous one is refused with the
 *  candidates. Everything is found by indexes. */

import type { Perdure } from "../../core/api.ts";
import { PerdureError, show } from "../../core/errors.ts";
import { jobName } from "../../core/job/job-name.ts";
import type { JobsFilter } from "../../core/job/jobs-filter.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { isName, MAX_KEY } from "../../core/names.ts";
import { originOf } from "../../dialects/shared.ts";
import { isId } from "../../lib/id.ts";
import { usageError } from "../exit.ts";

// What stands for a job wherever a command takes one, in this order: 1. its id in full 2. the id or the name that
// another system uses for it 3. the beginning of its id, with or
// without `job_` 4. its name; a job that `resubmit` made from another counts only where no other has the name The
// first of these that finds a job counts. One that finds several is refused with the candidates: nothing is guessed.
// All of it is found by indexes, never by a scan, in the namespace of the command.

/** For the help of every command that takes a job. */
export async function referenceHelp(): Promise<string> {
  const { REFERENCE_TEXTS } = await dialects();
  return (
    `ID is the id of a job, ${REFERENCE_TEXTS.join(", ")}, the first characters of an id (4 or ` +
    "more, with or without job_), or the job's name. They are tried in this order; an ambiguous one is refused."
  );
}

/** Loaded when needed: most commands refer to no job, and all readers of foreign documents take longer to load than they run. */
const dialects = () => import("../../dialects/registry.ts");

const FEWEST = 4;
const SHORT_ID = /^(?:job_)?[0-7][0-9a-hjkmnp-tv-z]{3,25}$/;
/** Candidates that an error names. */
const SHOWN = 5;
/** Most names are those of one job; some are those of thousands. */
const NAMED_PAGE = 20;
/** A page may be empty where a token may see few of the jobs. */
const MAX_PAGES = 20;

export function isReference(text: unknown): text is string {
  return typeof text === "string" && text.trim() === text && isName(text, MAX_KEY);
}

/** Text that may stand for a job. Which job, if any, is known when somebody is asked. */
export function asReference(text: string): string {
  if (isReference(text)) return text;
  throw usageError(`${show(text)} is neither the id nor the name of a job; see \`perdure ps\``);
}

/** The whole id of the one job that is meant. An id in full needs no token that may read. */
export async function fullId(perdure: Pick<Perdure, "job" | "jobs">, text: string): Promise<string> {
  const isWhole = isId(text, "job");
  const missing = isWhole ? await missingError(perdure, text) : null;
  if (isWhole && missing === null) return text;
  const { submitKeysOf } = await dialects();
  const keys = submitKeysOf(text).map((key) => ({ key }));
  const byKey = onlyOne(text, await found(perdure, keys));
  if (byKey !== null) return byKey;
  // Nobody names a job by the id of another one.
  if (missing !== null) throw missing;
  const byId = SHORT_ID.test(text) ? onlyOne(text, await found(perdure, [{ id: text }])) : null;
  if (byId !== null) return byId;
  // A pattern is not a name.
  const byName = /[*?]/.test(text) ? null : onlyOne(text, await named(perdure, text));
  if (byName !== null) return byName;
  throw new PerdureError("job_not_found", notFound(text));
}

/** Null where the job exists, or the token may not read. */
async function missingError(perdure: Pick<Perdure, "job">, id: string): Promise<PerdureError | null> {
  try {
    await nullIfForbidden(perdure.job(id));
    return null;
  } catch (error) {
    if (error instanceof PerdureError && error.code === "job_not_found") return error;
    throw error;
  }
}

/** All that fit any of the filters, each once; of very many, more than an error names. */
async function found(perdure: Pick<Perdure, "jobs">, filters: readonly JobsFilter[]): Promise<readonly JobInfo[]> {
  const lists = await Promise.all(filters.map((filter) => listed(perdure, { ...filter, limit: SHOWN + 1 })));
  return [...new Map(lists.flatMap(({ jobs }) => jobs).map((job) => [job.id, job])).values()];
}

/** A job keeps its name when others are made from it, which have the same one. They have it only where it is gone. */
async function named(perdure: Pick<Perdure, "jobs">, name: string): Promise<readonly JobInfo[]> {
  const isFirst = (job: JobInfo) => originOf(job) === null;
  const { jobs, isCut } = await listed(perdure, { name, limit: NAMED_PAGE }, isFirst);
  const first = jobs.filter(isFirst);
  if (isCut && first.length < 2) {
    throw usageError(`more than ${NAMED_PAGE * MAX_PAGES} jobs may have the name ${show(name)}; pass the id of one`);
  }
  return first.length > 0 ? first : jobs;
}

/** Page by page, until there are more that count than an error names. */
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
    : "";
  return `no job has the id or name ${show(text)}${hint}`;
}

// For commands of which reading is only a part: a token that may not read does the rest all the same.

/** Null where the token may not read it. */
export async function nullIfForbidden<T>(read: Promise<T>): Promise<T | null> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof PerdureError && error.code === "forbidden") return null;
    throw error;
  }
}
