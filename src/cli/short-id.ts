/** Short ids: the beginning of a job's id, with or without `job_`, wherever one job of the namespace begins so. Found by the
 *  index of ids, never by a scan. */
import { PerdureError, show } from "../core/errors.ts";
import type { Perdure } from "../core/face.ts";
import { jobName } from "../core/job-name.ts";
import type { JobInfo } from "../core/views.ts";
import { opalKey } from "../dialects/opal/words.ts";
import { isId } from "../lib/id.ts";
import { usageError } from "./exit.ts";

const FEWEST = 4;
export const SHORT_ID = /^(?:job_)?([0-7][0-9a-hjkmnp-tv-z]{3,25})$/;
/** Candidates that an error names. */
const SHOWN = 5;

/** An id or the beginning of one; refuses what can be neither, and explains how to find a job of OPAL's. */
export function asJobId(text: string): string {
  const [, digits] = SHORT_ID.exec(text) ?? [];
  if (digits !== undefined) return `job_${digits}`;
  const find = opalHint(text) || "; see `perdure ps`";
  throw usageError(
    `${show(text)} is not a job id: use job_ and 26 characters, or at least the first ${FEWEST} of them${find}`,
  );
}

/** The whole id of the one job that is meant. */
export async function fullId(perdure: Pick<Perdure, "jobs">, text: string): Promise<string> {
  if (isId(text, "job")) return text;
  // What is no id at all is refused by whoever is asked for the job.
  if (!SHORT_ID.test(text)) return text;
  const { jobs, next } = await perdure.jobs({ id: text, limit: SHOWN + 1 });
  const [only] = jobs;
  if (only === undefined) throw new PerdureError("job_not_found", notFound(text));
  if (jobs.length === 1 && next === null) return only.id;
  const named = jobs.slice(0, SHOWN).map((job) => `${job.id} (${jobName(job)}, ${job.state})`);
  const more = jobs.length > SHOWN ? ", …" : "";
  throw usageError(`${text} is ambiguous, use more characters: ${named.join(", ")}${more}`);
}

function notFound(text: string): string {
  return `there is no job whose id begins with ${text}${opalHint(text)}`;
}

function opalHint(text: string): string {
  if (!/^job_[0-9a-f]{12}$/.test(text)) return "";
  return `; if it is OPAL's, find the job with \`perdure ps --key ${opalKey(text)}\``;
}

/** Time and a counter fill this much of an id: the rest is drawn, and differs only between programs. */
const USUAL = 14;

/** Ids as a narrow list shows them: as many characters as tell these jobs apart, and usually all others. */
export function shortIds(jobs: readonly Pick<JobInfo, "id">[]): readonly string[] {
  const ids = jobs.map(({ id }) => id);
  const whole = "job_".length + 26;
  let length = "job_".length + USUAL;
  while (length < whole && new Set(ids.map((id) => id.slice(0, length))).size < ids.length) length += 1;
  return ids.map((id) => id.slice(0, length));
}
