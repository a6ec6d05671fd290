/** Jobs and searches in the forms of the library and of the wire, and calls on one job. */

import { PerdureError, show } from "../core/errors.ts";
import { type JobsFilter, toWireFilter } from "../core/job/jobs-filter.ts";
import type { JobInfo } from "../core/job/views.ts";
import type { ClientCallOptions, ClientHttpLink } from "./http-call.ts";

/** A job as the server sends it: without the fields that have no value. */
export type WireJob = Omit<JobInfo, "payload" | "result" | "progress" | "liveUsage" | "budgets"> &
  Partial<Pick<JobInfo, "payload" | "result" | "progress" | "liveUsage" | "budgets">>;

export function toJobInfo(job: WireJob): JobInfo {
  const { liveUsage = null, budgets = [] } = job;
  return { ...job, liveUsage, budgets, payload: job.payload, result: job.result, progress: job.progress };
}

const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** As in an engine of this process: a text that cannot be an id is the id of no job. */
export function checkJobId(id: string): string {
  if (typeof id === "string" && JOB_ID.test(id)) return id;
  throw new PerdureError("job_not_found", `${show(id)} is not a job id; ids look like job_ and 26 characters`);
}

/** As a query string: lists are repeated names. Null for a search that nothing can match, as with an empty list of states,
 *  which a query string cannot express. */
export function toQuery(filter: JobsFilter): URLSearchParams | null {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(toWireFilter(filter))) {
    if (Array.isArray(value) && value.length === 0) return null;
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) query.append(name, String(one));
  }
  return query;
}

export type JobRoute = Parameters<ClientHttpLink["json"]>[0];

/** Calls a route with the id of a job in its path. */
export async function callJob<T>(
  link: ClientHttpLink,
  route: JobRoute,
  id: string,
  options: ClientCallOptions = {},
): Promise<T> {
  return link.json<T>(route, { ...options, params: { id: checkJobId(id) } });
}
