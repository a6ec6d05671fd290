/** The id of a job of ours, where a document names another one. Whether there is such a job, nobody knows here. */
import { ConfigError } from "../core/errors.ts";

const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

export function isJobId(value: unknown): value is string {
  return typeof value === "string" && JOB_ID.test(value);
}

export function asJobId(value: unknown, path: string): string {
  if (isJobId(value)) return value;
  throw new ConfigError({ path, given: value, allowed: "the id of a job, in full: job_ and 26 characters" });
}
