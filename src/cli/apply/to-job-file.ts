/** A job as a job file of ours says it: what `perdure convert` prints and `perdure submit -f` reads again, to the same job. */
import { isPlain } from "../../core/check.ts";
import type { Duration } from "../../core/duration.ts";
import type { PolicyFields } from "../../core/policy/policy.ts";
import type { ReadEntry } from "../../dialects/dialect.ts";
import { showSpan } from "../config/show-value.ts";
import { entryOf } from "../input/job-file.ts";

export function toJobFile({ task, input, options = {} }: ReadEntry): Record<string, unknown> {
  const work = isFlat(task, input) ? input : { kind: task, ...(input === undefined ? {} : { input }) };
  // Where a value came from is no word of a job file: there it is the submit's.
  const said = Object.entries(options).filter(([name, value]) => value !== undefined && name !== "sources");
  return { ...work, ...Object.fromEntries(said.map(([name, value]) => [name, inWords(name, value)])) };
}

/** A command's fields stand at the top, as people write them, where that makes the very same input of them: a submit key
 *  belongs to its text, in which the order counts. */
function isFlat(task: string, input: unknown): input is object {
  if (task !== "exec" || !isPlain(input)) return false;
  return JSON.stringify(entryOf(input, "").input) === JSON.stringify(input);
}

const SPANS = ["timeout", "expireIn", "delay"];
const INSTANTS = ["deadline", "runAt"];

/** The times of a policy, by the way to them. In a list, of each item. */
interface DurationFields {
  readonly [field: string]: true | DurationFields;
}
const BACKOFF: DurationFields = { initial: true, max: true, min: true, delay: true, delays: true };
/** The fields of a policy that are times: the type asks for each. */
type PolicySpans = { readonly [F in keyof PolicyFields as Duration extends PolicyFields[F] ? F : never]-?: true };
const POLICY_SPANS: PolicySpans & DurationFields = {
  ...{ backoff: BACKOFF, maxElapsed: true, retryAfterMax: true, rules: { backoff: BACKOFF } },
  workerLost: { backoff: BACKOFF, poison: { within: true } },
};

function inSpans(value: unknown, spans: true | DurationFields): unknown {
  if (Array.isArray(value)) return value.map((each) => inSpans(each, spans));
  if (spans === true) return Number.isSafeInteger(value) ? showSpan(value as number) : value;
  if (!isPlain(value)) return value;
  const fields = Object.entries(value).map(([name, each]) => {
    const within = Object.hasOwn(spans, name) ? spans[name] : undefined;
    return [name, within === undefined ? each : inSpans(each, within)];
  });
  return Object.fromEntries(fields);
}

/** With units, and instants with their zone: nobody reads milliseconds. */
function inWords(name: string, value: unknown): unknown {
  if (SPANS.includes(name) && typeof value === "number" && Number.isInteger(value)) return showSpan(value);
  if (name === "retry") return inSpans(value, POLICY_SPANS);
  if (INSTANTS.includes(name) && (typeof value === "number" || value instanceof Date)) {
    return new Date(value).toISOString();
  }
  return value;
}
