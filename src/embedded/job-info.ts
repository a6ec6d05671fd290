/** A job as a user of the library sees it: texts that hold JSON are given as values. */
import type { Job } from "../core/job.ts";
import { NO_INPUT } from "../core/work.ts";
import type { JobRow } from "../store/store.ts";

export interface JobInfo extends Job {
  readonly payload: unknown;
  /** Of the winning attempt; undefined until there is one. */
  readonly result: unknown;
  /** What the latest attempt last said of its progress. */
  readonly progress: unknown;
}

export function toInfo(row: JobRow): JobInfo {
  const value = (text: string | null) =>
    text === null || text === NO_INPUT ? undefined : (JSON.parse(text) as unknown);
  return { ...row, payload: value(row.payload), result: value(row.result), progress: value(row.progress) };
}
