/** A job as it comes over the wire, as people see it. */
import { PerdureError, show } from "../core/errors.ts";
import type { JobInfo } from "../core/views.ts";

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
