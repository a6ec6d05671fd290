/** Jobs and searches between the library's terms and those of the wire. */

import type { JobsFilter } from "../core/api.ts";
import { checkOptions } from "../core/check.ts";
import { toInstant } from "../core/duration.ts";
import { PerdureError, show } from "../core/errors.ts";
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

// A search in people's words, made into those of the wire.

const FILTER_KEYS = [
  ...["state", "kind", "queue", "tag", "key", "deadLetter", "submittedAfter", "submittedBefore", "order", "limit"],
  ...["cursor", "parent", "name", "action", "reason", "id"],
];

/** As the body of a request has it: lists where one or many may be given, instants in milliseconds. */
export function toWireFilter(filter: JobsFilter): Readonly<Record<string, unknown>> {
  checkOptions(filter, FILTER_KEYS, "jobs");
  const many = (value: unknown) => (typeof value === "string" ? [value] : value);
  const instant = (value: Date | number | undefined, path: string) =>
    value === undefined ? undefined : toInstant(value, path);
  return {
    ...filter,
    ...{ state: many(filter.state), kind: many(filter.kind), queue: many(filter.queue), reason: many(filter.reason) },
    submittedAfter: instant(filter.submittedAfter, "jobs.submittedAfter"),
    submittedBefore: instant(filter.submittedBefore, "jobs.submittedBefore"),
  };
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
