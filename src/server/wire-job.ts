/** A job as it goes out: all fields of its row, with payload, result and progress as the JSON that they are, byte for byte.
 *  They are put into the text as they lie in the store: parsing them would change numbers, doubled keys and escapes. */
import { NO_INPUT } from "../core/work.ts";
import type { JobRow } from "../store/store.ts";

export function wireJob(row: JobRow): string {
  const { payload, result, progress, ...fields } = row;
  let text = JSON.stringify(fields).slice(0, -1);
  // Absent is not null: a job without an input, or one that has no result yet.
  if (payload !== NO_INPUT) text += `,"payload":${payload}`;
  if (result !== null) text += `,"result":${result}`;
  if (progress !== null && isJson(progress)) text += `,"progress":${progress}`;
  return `${text}}`;
}

/** Progress is cut to its limit behind the server's door, and half of a value would break the reply it stands in. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
