/** Jobs and searches between the library's terms and those of the wire. */

import { PerdureError, show } from "../core/errors.ts";
import { type JobsFilter, toWireFilter } from "../core/job/jobs-filter.ts";
import type { JobInfo } from "../core/job/views.ts";

// A job as it comes over the wire, as people see it.

/** What has no value is not sent. */
export type WireJob = Omit<JobInfo, "payload" | "result" | "progress" | "liveUsage" | "budgets"> &
  Partial<Pick<JobInfo, "payload" | "result" | "progress" | "liveUsage" | "budgets">>;

export function toJobInfo(job: WireJob): JobInfo {
  const { liveUsage = null, budgets = [] } = job;
  return { ...job, liveUsage, budgets, payload: job.payload, result: job.result, progress: job.progress };
}

const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** As in an engine of this process: what cannot be an id is no job's. */
export function checkJobId(id: string): string {
  if (typeof id === "string" && JOB_ID.test(id)) return id;
  throw new PerdureError("job_not_found", `${show(id)} is not a job id; ids look like job_ and 26 characters`);
}

/** As an address has it: lists are repeated names. Null for a search that nothing can fit, as with an empty list of
 *  states: in an address it could not be told from no such condition. */
export function toQuery(filter: JobsFilter): URLSearchParams | null {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(toWireFilter(filter))) {
    if (Array.isArray(value) && value.length === 0) return null;
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) query.append(name, String(one));
  }
  return query;
}
