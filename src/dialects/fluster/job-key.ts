/** The name that a client of fluster's controller chose for a job, which is its job id there: as a submit key and as a tag. */
import { isName } from "../../core/name.ts";
import { FLUSTER_TAG } from "./view.ts";

/** The id is in a tag, and a tag has 200 characters. */
const PREFIX = `${FLUSTER_TAG}:`;
export const MAX_FLUSTER_ID = 200 - PREFIX.length;

/** By which a job is found, also one whose key is gone. */
export function flusterIdTag(jobId: string): string {
  return PREFIX + jobId;
}

/** Under which one name is one job. */
export function flusterKey(jobId: string): string {
  return PREFIX + jobId;
}

/** Whether it can be the id of a job at all. */
export function isFlusterId(jobId: string): boolean {
  return isName(jobId, MAX_FLUSTER_ID);
}
