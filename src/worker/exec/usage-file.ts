/** What a command says that it has used: in usage.json while it runs, or below `usage` in its result.json. */
import { isPlain } from "../../core/check.ts";
import type { Usage } from "../../core/job.ts";
import { troubleIn, usageIn } from "../../core/said-usage.ts";
import { readSmallJson } from "./small-json.ts";

/** What a usage file says now; null while there is none, or it is being written. */
export async function readUsage(path: string, owner?: number): Promise<Usage | null> {
  const read = await readSmallJson(path, owner);
  if (read === null || "why" in read) return null;
  return usageIn({ usage: read.value }) ?? usageIn(read.value);
}

/** Why something in a usage file is not counted; null where all is, or there is none. Only for one that nobody writes any
 *  more. */
export async function usageTrouble(path: string, owner?: number): Promise<string | null> {
  const read = await readSmallJson(path, owner);
  if (read === null) return null;
  if ("why" in read) return read.why;
  const { value } = read;
  return troubleIn(isPlain(value) && Object.hasOwn(value, "usage") ? (value as { usage: unknown }).usage : value);
}
