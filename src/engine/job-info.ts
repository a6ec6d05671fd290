/** A row as people are shown it: texts that hold JSON are given as values. */
import type { JobInfo } from "../core/views.ts";
import { NO_INPUT } from "../core/work.ts";
import type { JobRow } from "../store/store.ts";

export function toInfo(row: JobRow): JobInfo {
  const value = (text: string | null) =>
    text === null || text === NO_INPUT ? undefined : (JSON.parse(text) as unknown);
  return { ...row, payload: value(row.payload), result: value(row.result), progress: value(row.progress) };
}
