/** Writes a job as a job file of Perdure: `perdure convert` prints it, and `perdure submit -f` reads it as the same job. */
import { isPlain } from "../../core/check.ts";
import type { Duration } from "../../core/duration.ts";
import type { PolicyFields } from "../../core/policy/policy.ts";
import type { ReadEntry } from "../../dialects/dialect.ts";
import { showSpan } from "../config/show-value.ts";
import { entryOf } from "../input/job-file.ts";

export function toJobFile({ task, input, options = {} }: ReadEntry): Record<string, unknown> {
  const work = isFlat(task, input) ? input : { kind: task, ...(input === undefined ? {} : { input }) };
  // A job file does not contain the source of a value; the submit sets it.
  const said = Object.entries(options).filter(([name, value]) => value !== undefined && name !== "sources");
  return { ...work, ...Object.fromEntries(said.map(([name, value]) => [name, withUnits(name, value)])) };
}

/** A command's fields are written at the top if that gives exactly the same input: the submit key depends on the text of the
 *  input, including the order of its fields. */
function isFlat(task: string, input: unknown): input is object {
  if (task !== "exec" || !isPlain(input)) return false;
  return JSON.stringify(entryOf(input, "").input) === JSON.stringify(input);
}

const SPANS = ["timeout", "expireIn", "delay"];
const INSTANTS = ["deadline", "runAt"];

/** The durations of a policy, by their paths. In a list, of each item. */
interface DurationFields {
  readonly [field: string]: true | DurationFields;
}
const BACKOFF: DurationFields = { initial: true, max: true, min: true, delay: true, delays: true };
/** The fields of a policy that are durations; the type requires each of them. */
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

/** Durations with units, and instants with their zone, instead of milliseconds. */
function withUnits(name: string, value: unknown): unknown {
  if (SPANS.includes(name) && typeof value === "number" && Number.isInteger(value)) return showSpan(value);
  if (name === "retry") return inSpans(value, POLICY_SPANS);
  if (INSTANTS.includes(name) && (typeof value === "number" || value instanceof Date)) {
    return new Date(value).toISOString();
  }
  return value;
}
