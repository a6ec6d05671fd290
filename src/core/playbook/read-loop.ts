/** Reads the loop of a step. */
import { asInteger, asOneOf, asText } from "../check.ts";
import { ConfigError } from "../errors.ts";
import { PLAYBOOK_LIMITS, type StepLoop } from "./playbook.ts";
import type { SourcePath } from "./problem.ts";
import { isFilled } from "./read-action.ts";
import { type DocumentReading, ObjectReader } from "./reading.ts";

export const LOOP_FIELDS = [
  ...["in", "iterator", "mode", "concurrency", "where", "limit", "onItemFailure", "maxFailures"],
] as const;

export function readLoop(value: unknown, path: SourcePath, part: string, reading: DocumentReading): StepLoop {
  const fields = new ObjectReader(reading, value, path, "loop");
  reading.from(part, path);
  for (const name of ["in", "where", "iterator"]) reading.from(`${part}.${name}`, fields.at(name));
  const mode = fields.check("mode", (given, at) => asOneOf(given, ["parallel", "sequential"] as const, at), "parallel");
  const most = PLAYBOOK_LIMITS.highestParallel;
  const open = fields.check("concurrency", (given, at) => asInteger(given, at, { min: 1, max: most }), null);
  if (mode === "sequential" && open !== null && open !== 1) {
    reading.error("invalid_value", fields.at("concurrency"), "concurrency: cannot be used with mode: sequential");
  }
  const onItemFailure = fields.check(
    "onItemFailure",
    (given, at) => asOneOf(given, ["fail", "continue"] as const, at),
    "fail",
  );
  const maxFailures = fields.check("maxFailures", asMaxFailures, null);
  if (maxFailures !== null && onItemFailure === "fail") {
    reading.error("invalid_value", fields.at("maxFailures"), "maxFailures: requires onItemFailure: continue");
  }
  const loop: StepLoop = {
    in: fields.required("in", asItems, []),
    iterator: fields.check("iterator", (given, at) => asText(given, at, 100), "item"),
    concurrency: mode === "sequential" ? 1 : (open ?? PLAYBOOK_LIMITS.concurrency),
    where: fields.check("where", asCondition, null),
    limit: fields.check("limit", (given, at) => asInteger(given, at, { min: 1, max: PLAYBOOK_LIMITS.items }), null),
    onItemFailure,
    maxFailures,
  };
  fields.end("loop", { order_by: "is not available; sort the list in a step before" }, { collection: "; write in" });
  return loop;
}

function asItems(value: unknown, path: string): unknown {
  if (Array.isArray(value) && value.length <= PLAYBOOK_LIMITS.items) return value;
  if (typeof value === "string" && isFilled(value)) return value;
  const allowed = `a list of at most ${PLAYBOOK_LIMITS.items} items, or a template that gives one`;
  const shown = Array.isArray(value) ? `a list of ${value.length}` : undefined;
  throw new ConfigError({ path, given: value, allowed, ...(shown === undefined ? {} : { shown }) });
}

function asMaxFailures(value: unknown, path: string): { count: number } | { percent: number } {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= PLAYBOOK_LIMITS.items) {
    return { count: value };
  }
  const percent =
    typeof value === "string" ? Number(/^(\d{1,3}(?:\.\d{1,3})?)\s*%$/.exec(value.trim())?.[1]) : Number.NaN;
  if (percent >= 0 && percent <= 100) return { percent };
  throw new ConfigError({ path, given: value, allowed: 'a number of items, or a share such as "10%"' });
}

/** The source of a condition: its template is checked with all others. */
export function asCondition(value: unknown, path: string): string {
  if (typeof value === "boolean") return `${value}`;
  if (typeof value === "string" && value.trim() !== "") return value;
  throw new ConfigError({ path, given: value, allowed: 'a condition as text, such as "{{ result.total > 100 }}"' });
}
