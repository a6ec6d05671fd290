/** Where a step of NoETL goes next: `next` in all its forms, and the arcs that are made of it. Targets are names here; the reader
 *  of the document turns them into indexes. */
import { isPlain } from "../../../core/check.ts";
import type { PlaybookArc, PlaybookStep } from "../../../core/playbook/playbook.ts";
import type { SourcePath } from "../../../core/playbook/problem.ts";
import type { Draft, Raw } from "./draft.ts";
import { both, eventsOf, readWhen } from "./when.ts";

const MAX_ARCS = 100;
const ARC_FIELDS = [
  "step",
  "when",
  "condition",
  "then",
  "else",
  "data",
  "with",
  "args",
  "input",
  "payload",
  "params",
  "set",
  "vars",
  "set_ctx",
  "desc",
  "name",
];

/** Of the events that a condition can name. */
export const UNKNOWN_EVENT = "only step.exit, call.done, loop.done and call.error are supported as events";

/** An arc whose target is still a name. */
export interface NamedArc extends Omit<PlaybookArc, "to"> {
  readonly target: string;
  readonly path: SourcePath;
  readonly whenPath: SourcePath;
}

export interface Flow {
  readonly mode: PlaybookStep["mode"];
  readonly arcs: readonly NamedArc[];
}

export const NO_FLOW: Flow = { mode: "match", arcs: [] };

/** `next`: a name, `{ step }`, a list of both with conditions, or `{ spec: { mode }, arcs }`. */
export function readNext(draft: Draft, value: unknown, path: SourcePath): Flow {
  if (value === undefined || value === null) return NO_FLOW;
  const isNew = isPlain(value) && (Object.hasOwn(value, "arcs") || Object.hasOwn(value, "spec"));
  if (!isNew) return { mode: "match", arcs: entries(draft, value, path, null) };
  const fields = value as Raw;
  draft.known(fields, path, ["spec", "arcs"]);
  const arcs = entries(draft, fields.arcs ?? [], [...path, "arcs"], null);
  return { mode: arcMode(draft, fields.spec, [...path, "spec"]), arcs };
}

/** exclusive is the default: the first arc that is true. */
function arcMode(draft: Draft, value: unknown, path: SourcePath): PlaybookStep["mode"] {
  if (value === undefined || value === null) return "first";
  const spec = draft.object(value, path);
  if (spec === null) return "first";
  draft.known(spec, path, ["mode"]);
  if (spec.mode === undefined || spec.mode === "exclusive") return "first";
  if (spec.mode === "inclusive") return "all";
  draft.invalid([...path, "mode"], spec.mode, '"exclusive" or "inclusive"');
  return "first";
}

function entries(draft: Draft, value: unknown, path: SourcePath, around: string | null): NamedArc[] {
  if (!Array.isArray(value)) return entry(draft, value, path, around);
  return draft.list(value, path, MAX_ARCS).flatMap((one, i) => entry(draft, one, [...path, i], around));
}

function entry(draft: Draft, value: unknown, path: SourcePath, around: string | null): NamedArc[] {
  if (typeof value === "string") return [arc(value, path, { when: around, whenPath: path })];
  const fields = draft.object(value, path, "the name of a step, or { step }");
  if (fields === null) return [];
  draft.known(fields, path, ARC_FIELDS);
  const condition = draft.one(fields, path, ["when", "condition"]);
  const whenPath = condition === null ? path : [...path, condition.name];
  const given = condition === null ? null : readWhen(draft, condition.value, whenPath);
  const { events, rest } = given === null ? { events: [], rest: null } : eventsOf(given);
  if (events.some((event) => event === "enter" || event === "other")) {
    draft.problem("case_action", whenPath, UNKNOWN_EVENT);
  }
  const when = both(around, rest);
  const on =
    events.length === 0 || new Set(events).size > 1 ? undefined : events[0] === "failure" ? "failure" : "success";
  const data = arcData(draft, fields, path);
  const set = readSet(draft, fields, path);
  const found: NamedArc[] = [];
  if (fields.step !== undefined) {
    const name = draft.text(fields.step, [...path, "step"], 200);
    if (name !== null) found.push(arc(name, [...path, "step"], { when, whenPath, data, set, on }));
  }
  if (fields.then !== undefined) {
    found.push(...entries(draft, fields.then, [...path, "then"], when).map((one) => withData(one, data, set)));
  }
  // Without a condition of its own it is taken where no other is true: the rule of mode `match`.
  if (fields.else !== undefined) {
    found.push(...entries(draft, fields.else, [...path, "else"], around).map((one) => withData(one, data, set)));
  }
  if (found.length === 0 && fields.step === undefined && fields.then === undefined && fields.else === undefined) {
    draft.problem("invalid_value", path, "has no step; write `step: NAME`");
  }
  return found;
}

function withData(one: NamedArc, data: NamedArc["data"], set: NamedArc["set"]): NamedArc {
  if (data === null && Object.keys(set).length === 0) return one;
  return {
    ...one,
    data: data === null && one.data === null ? null : { ...data, ...one.data },
    set: { ...set, ...one.set },
  };
}

interface ArcParts {
  readonly when: string | null;
  readonly whenPath: SourcePath;
  readonly data?: NamedArc["data"];
  readonly set?: NamedArc["set"];
  readonly on?: NamedArc["on"] | undefined;
}

export function arc(
  target: string,
  path: SourcePath,
  { when, whenPath, data = null, set = {}, on }: ArcParts,
): NamedArc {
  return {
    target,
    path,
    whenPath,
    when,
    on: on ?? (when !== null && namesFailure(when) ? "always" : "success"),
    data,
    set,
  };
}

/** As in a playbook of Perdure: an arc whose condition refers to a failure is also evaluated after one. */
export function namesFailure(condition: string): boolean {
  const words = condition.replace(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/gs, "''");
  return /(?<![\w.])(error|failure|success|status|status_code|exit_code|signal)\b(?!\s*\()/.test(words);
}

function arcData(draft: Draft, fields: Raw, path: SourcePath): NamedArc["data"] {
  let data: Record<string, unknown> | null = null;
  for (const name of ["data", "params", "payload", "input", "with", "args"]) {
    if (fields[name] === undefined || fields[name] === null) continue;
    const object = draft.object(fields[name], [...path, name]);
    if (object !== null) data = Object.assign(data ?? {}, object);
  }
  return data;
}

/** Values of ctx: `set_ctx`, `vars`, and `set` with `ctx` or without, as an object or a list of names with values. Values of one
 *  iteration (`iter.NAME`) only exist within a pipeline, where they are values of ctx. */
export function readSet(
  draft: Draft,
  fields: Raw,
  path: SourcePath,
  place: "step" | "pipeline" = "step",
): Readonly<Record<string, unknown>> {
  let set: Record<string, unknown> = {};
  for (const name of ["vars", "set_ctx", "set_iter", "set"]) {
    if (fields[name] === undefined || fields[name] === null) continue;
    const object = draft.object(asFields(fields[name]), [...path, name]);
    if (object === null) continue;
    for (const [key, value] of Object.entries(object)) {
      const isIter = name === "set_iter" || key === "iter" || key.startsWith("iter.");
      if (isIter && place === "step") {
        draft.note(
          "values of one iteration (`iter.NAME`) are not kept after it: read the results of the items instead",
        );
      } else if ((key === "ctx" || key === "iter") && isPlain(value)) set = { ...set, ...(value as Raw) };
      else set[key.replace(/^(?:ctx|iter|vars)\./, "")] = value;
    }
  }
  return set;
}

/** `[{ name: x, value: 1 }]` is `{ x: 1 }`. */
function asFields(value: unknown): unknown {
  if (!Array.isArray(value) || value.length === 0) return value;
  const named = value.every((one) => isPlain(one) && typeof (one as Raw).name === "string");
  return named ? Object.fromEntries(value.map((one: Raw) => [one.name, one.value ?? null])) : value;
}
