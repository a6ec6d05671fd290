/** Fills the parts of a playbook that decide where a run goes: guards, conditions of arcs, values of `ctx`, lists of loops, and the
 *  run's result. Call `needsOf` of step-scope.ts before any of them. */
import { PLAYBOOK_LIMITS, type PlaybookArc, type PlaybookStep } from "../playbook/playbook.ts";
import { conditionWork, evaluateWhen, fillValue } from "../template/fill.ts";
import { mayBringData, stepIndex } from "./part-names.ts";
import type { Arrival } from "./run.ts";
import { type Filled, fillPart, invalid } from "./run-data.ts";
import { endedOf, type StepEnded } from "./step-end.ts";
import {
  MAX_FILLED,
  optionsOf,
  type ScopePlace,
  type ScopeSource,
  type StartPlace,
  scopeOf,
  tooMuch,
  valueOfRow,
} from "./step-scope.ts";

export interface WhenAnswer {
  readonly value: boolean;
  /** Why it could not be evaluated: then it is false. */
  readonly error: string | null;
}

/** The guard of a step; true without one. */
export function guardOf(source: ScopeSource, place: StartPlace): WhenAnswer {
  const { when } = source.playbook.steps[place.step] as PlaybookStep;
  if (when === null) return { value: true, error: null };
  const data = startData(source, place);
  if (!data.ok) return { value: false, error: data.failure.message };
  return evaluateWhen(when, scopeOf(source, place, data.value));
}

/** The condition of an arc; true without one. */
export function arcIsTrue(
  source: ScopeSource,
  place: ScopePlace,
  { when }: PlaybookArc,
  work = conditionWork(),
): WhenAnswer {
  if (when === null) return { value: true, error: null };
  const trouble = tooMuch(source, place);
  return trouble === null ? evaluateWhen(when, scopeOf(source, place), work) : { value: false, error: trouble };
}

export function fillSet(
  source: ScopeSource,
  place: ScopePlace,
  set: Readonly<Record<string, unknown>>,
): Filled<Readonly<Record<string, unknown>>> {
  const trouble = tooMuch(source, place);
  if (trouble !== null) return invalid("too_large", trouble);
  const scope = scopeOf(source, place);
  return fillPart("set", () => fillValue(set, scope, optionsOf(source)) as Readonly<Record<string, unknown>>);
}

/** The data of the arcs by which a step was reached, merged in the order of the file, and filled. Null if none brings any. */
export function arrivedData(source: ScopeSource, place: StartPlace): Filled<Readonly<Record<string, unknown>> | null> {
  const { playbook } = source;
  if (!mayBringData(playbook.steps[place.step] as PlaybookStep, playbook)) return { ok: true, value: null };
  const trouble = tooMuch(source, place);
  if (trouble !== null) return invalid("too_large", trouble);
  let merged: Record<string, unknown> | null = null;
  for (const [from, index, step] of inFileOrder(place.arrivals)) {
    const { name, arcs } = playbook.steps[step] ?? {};
    const data = arcs?.[index]?.data ?? null;
    if (data === null) continue;
    const stored = source.output(from);
    const end = stored === undefined ? NO_END : endedOf(stored);
    const scope = scopeOf(source, { at: "after", step, n: from, end });
    const path = `data of the arc from step "${name}"`;
    const filled = fillPart(path, () => fillValue(data, scope, optionsOf(source)) as Record<string, unknown>);
    if (!filled.ok) return filled;
    merged = Object.assign(merged ?? {}, filled.value);
  }
  return { ok: true, value: merged };
}

/** Not loaded, as nothing reads it. */
const NO_END: StepEnded = { status: "succeeded", failure: null, attempt: 0 };

function inFileOrder(arrivals: readonly Arrival[]): Arrival[] {
  return [...arrivals].sort((a, b) => a[2] - b[2] || a[1] - b[1] || a[0] - b[0]);
}

/** The list of a loop: the items for which `where` is true, at most `limit` of them. */
export function loopList(source: ScopeSource, place: StartPlace): Filled<readonly unknown[]> {
  const { loop } = source.playbook.steps[place.step] as PlaybookStep;
  if (loop === null) return invalid("not_a_list", "the step has no loop");
  const data = startData(source, place);
  if (!data.ok) return data;
  const scope = scopeOf(source, place, data.value);
  const filled = fillPart("loop.in", () => fillValue(loop.in, scope, optionsOf(source)));
  if (!filled.ok) return filled;
  const all = filled.value;
  if (!Array.isArray(all)) return invalid("not_a_list", `loop.in: must be a list; got ${described(all)}`);
  let items: readonly unknown[] = all;
  if (loop.where !== null) {
    const kept: unknown[] = [];
    // For the whole list, as it may have 10,000 items.
    const work = conditionWork(16);
    for (const [index, value] of all.entries()) {
      const item = { index, size: all.length, value };
      const { value: isKept, error } = evaluateWhen(loop.where, scopeOf(source, { ...place, item }, data.value), work);
      if (error !== null) return invalid("template", `loop.where: item ${index}: ${error}`);
      if (isKept) kept.push(value);
    }
    items = kept;
  }
  if (loop.limit !== null) items = items.slice(0, loop.limit);
  if (items.length > PLAYBOOK_LIMITS.items) {
    return invalid("too_large", `loop.in: has ${items.length} items; at most ${PLAYBOOK_LIMITS.items} are allowed`);
  }
  if (JSON.stringify(items).length > MAX_FILLED) {
    return invalid("too_large", `loop.in: is longer than ${MAX_FILLED} characters as JSON`);
  }
  return { ok: true, value: items };
}

/** What `data` is at the start of a step, before its own data is filled. */
function startData(source: ScopeSource, place: StartPlace): Filled<Readonly<Record<string, unknown>> | null> {
  const trouble = tooMuch(source, place);
  return trouble === null ? arrivedData(source, place) : invalid("too_large", trouble);
}

/** The run's result: of a run below the output of a step that was asked for, else the playbook's `result`, else the output of
 *  `end`, else of the step that ended last. */
export function runResult(source: ScopeSource, place: ScopePlace & { readonly at: "result" }): Filled<unknown> {
  const { playbook, data, latest } = source;
  const trouble = tooMuch(source, place);
  if (trouble !== null) return invalid("too_large", trouble);
  if (data.returnStep === undefined && playbook.result !== null) {
    const { value } = playbook.result;
    return fillPart("result", () => fillValue(value, scopeOf(source, place), optionsOf(source)));
  }
  const named = valueOfRow(source, latest[stepIndex(playbook, data.returnStep ?? "end") ?? -1]);
  if (data.returnStep !== undefined || named !== null) return { ok: true, value: named };
  return { ok: true, value: valueOfRow(source, place.last) };
}

function described(value: unknown): string {
  if (value === null || value === undefined) return "None";
  return typeof value === "object" ? "an object" : typeof value === "string" ? "text" : String(value);
}
