/** What an attempt says it has used, checked: numbers that can be added up over all attempts and stay numbers. */
import { asNumber, asObject, fieldPath } from "../core/check.ts";
import { MAX_USAGE, type Usage } from "../core/job.ts";

export function checkUsage(usage: unknown, path = "usage"): Usage {
  const fields = asObject(usage, path, ["tokensIn", "tokensOut", "costUsd"]);
  const read = (name: keyof Usage) => asNumber(fields[name], fieldPath(path, name), { min: 0, max: MAX_USAGE });
  return { tokensIn: read("tokensIn"), tokensOut: read("tokensOut"), costUsd: read("costUsd") };
}
