/** Reads `next` of a step: a name, an arc, a list of these, or `{ spec: { mode }, arcs }`. */
import { asOneOf, asText, isPlain } from "../check.ts";
import { show } from "../errors.ts";
import { PLAYBOOK_LIMITS, type PlaybookArc, type PlaybookStep } from "./playbook.ts";
import type { SourcePath } from "./problem.ts";
import { asCondition } from "./read-loop.ts";
import { type DocumentReading, ObjectReader } from "./reading.ts";

/** An arc whose next step is still a name. */
export interface ArcDraft extends Omit<PlaybookArc, "to" | "on"> {
  readonly to: string;
  readonly toPath: SourcePath;
  /** Null where the document leaves it to the condition. */
  readonly on: PlaybookArc["on"] | null;
}

interface ReadNext {
  readonly mode: PlaybookStep["mode"] | null;
  readonly arcs: readonly ArcDraft[];
}

export const MODES = ["match", "first", "all"] as const;
export const ARC_EVENTS = ["success", "failure", "always"] as const;
const MAX_ENTRIES = 1_000;

export function readNext(value: unknown, path: SourcePath, part: string, reading: DocumentReading): ReadNext {
  if (value === undefined) return { mode: null, arcs: [] };
  if (isPlain(value) && ("arcs" in value || "spec" in value)) {
    const fields = new ObjectReader(reading, value, path, "next");
    const spec = fields.value("spec");
    const mode = spec === undefined ? null : readSpec(spec, fields.at("spec"), reading);
    const arcs = readArcs(fields.value("arcs") ?? [], fields.at("arcs"), part, reading);
    fields.end("next");
    return { mode, arcs };
  }
  return { mode: null, arcs: readArcs(value, path, part, reading) };
}

function readSpec(value: unknown, path: SourcePath, reading: DocumentReading): PlaybookStep["mode"] | null {
  const fields = new ObjectReader(reading, value, path, "spec");
  const mode = fields.check("mode", (given, at) => asOneOf(given, MODES, at), null);
  fields.end("spec");
  return mode;
}

function readArcs(value: unknown, path: SourcePath, part: string, reading: DocumentReading): ArcDraft[] {
  if (!Array.isArray(value)) return readArc(value, path, `${part}.arcs[0]`, reading);
  if (value.length > PLAYBOOK_LIMITS.arcs) {
    reading.error("too_large", path, `next: has ${value.length} arcs; at most ${PLAYBOOK_LIMITS.arcs}`);
    return [];
  }
  let count = 0; // a wrong arc has no place among those that are compiled
  return value.flatMap((each, index) => {
    const arcs = readArc(each, [...path, index], `${part}.arcs[${count}]`, reading);
    count += arcs.length;
    return arcs;
  });
}

function readArc(value: unknown, path: SourcePath, part: string, reading: DocumentReading): ArcDraft[] {
  reading.from(part, path);
  if (typeof value === "string") {
    return [{ to: value, toPath: path, when: null, on: null, data: null, set: {} }];
  }
  if (!isPlain(value)) {
    const allowed = "the name of a step, or an object with step, when, on, data and set";
    reading.error("invalid_value", path, `next: must be ${allowed}; got ${show(value)}`);
    return [];
  }
  const fields = new ObjectReader(reading, value, path, "an arc");
  for (const name of ["when", "data", "set"]) reading.from(`${part}.${name}`, fields.at(name));
  const to = fields.required("step", (given, at) => asText(given, at, 1_000), null);
  const arc = {
    toPath: fields.at("step"),
    when: fields.check("when", asCondition, null),
    on: fields.check("on", (given, at) => asOneOf(given, ARC_EVENTS, at), null),
    data: fields.object("data", MAX_ENTRIES) ?? null,
    set: fields.object("set", MAX_ENTRIES) ?? {},
  };
  const then = "is not a form of perdure/v1; write { when, step }";
  fields.end(
    "an arc",
    { then, else: "is not a form of perdure/v1; an arc without when is taken if none of the others is" },
    { condition: "; write when", args: "; write data", with: "; write data", to: "; write step", name: "; write step" },
  );
  return to === null ? [] : [{ ...arc, to }];
}
