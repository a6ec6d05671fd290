/** The names that templates of a run can read, and what must be loaded before they can: `needsOf` first, then the functions that
 *  fill. Values are made when a template asks for them. A step that has not ended does not exist; one that has is read as in
 *  step-output.ts. */
import type { Playbook, PlaybookStep } from "../playbook/playbook.ts";
import { type FillOptions, Layered, type TemplateScope, type WorkMeter } from "../template/fill.ts";
import {
  afterUses,
  arcDataUses,
  headUses,
  itemUses,
  mayBringData,
  type PartUses,
  resultUses,
  stepIndex,
} from "./part-names.ts";
import type { Needs } from "./plan.ts";
import type { Arrival, StoredOutput } from "./run.ts";
import { isRecord, type RunData, runName } from "./run-data.ts";
import { endNames, failedResult, type StepEnded } from "./step-end.ts";
import { dataOf, layered, outputOf, type StepOutput } from "./step-output.ts";

/** A run in the middle of an advance: what is loaded, with what the advance has made so far. */
export interface ScopeSource {
  readonly playbook: Playbook;
  readonly runId: string;
  readonly now: number;
  readonly data: RunData;
  /** The row of the latest visit that has ended, by the index of the step. */
  readonly latest: Readonly<Record<string, number>>;
  readonly visits: Readonly<Record<string, number>>;
  /** Undefined: not loaded. */
  output(n: number): StoredOutput | undefined;
  /** Of a loop that has ended. Undefined: not loaded; null: too large together. */
  items(loop: number): readonly StoredOutput[] | null | undefined;
  /** `ctx`; null: not loaded. */
  readonly variables: Readonly<Record<string, unknown>> | null;
  /** What all its fillings cost. */
  readonly meter?: WorkMeter;
}

export interface LoopItem {
  /** From 0. */
  readonly index: number;
  /** Of the list. */
  readonly size: number;
  readonly value: unknown;
}

/** Where in a run templates are filled: before a step or an item of its loop starts, after a step has ended, or at the end. */
export type ScopePlace =
  | StartPlace
  | { readonly at: "after"; readonly step: number; readonly n: number; readonly end: StepEnded }
  /** `last`: the row that ended last, 0 for none. */
  | { readonly at: "result"; readonly last: number };

export interface StartPlace {
  readonly at: "start";
  readonly step: number;
  readonly arrivals: readonly Arrival[];
  readonly item: LoopItem | null;
}

export type ScopeNeeds = Pick<Needs, "outputs" | "items" | "variables">;

/** Of all outputs that one place reads, in characters. */
const MAX_READ = 8 * 1_048_576;
/** Of a value of `ctx`, of a list, and of a filled input. */
export const MAX_FILLED = 1_048_576;

/** What is missing; null if nothing is. */
export function needsOf(source: ScopeSource, place: ScopePlace): ScopeNeeds | null {
  const needs = new MissingParts(source);
  for (const part of partsOf(source, place)) needs.add(part);
  if (place.at === "result") needs.addResult(place.last);
  return needs.found();
}

/** A part that is filled, with the row that ended before it and the index of that row's step; 0 and -1 without one. A step that
 *  refers to itself by name means that row, which is not its latest one yet. */
interface FilledPart {
  readonly uses: PartUses;
  readonly own: number;
  readonly step: number;
}

function partsOf(source: ScopeSource, place: ScopePlace): FilledPart[] {
  const { playbook } = source;
  if (place.at === "result") {
    return source.data.returnStep === undefined ? [{ uses: resultUses(playbook, playbook), own: 0, step: -1 }] : [];
  }
  const step = playbook.steps[place.step] as PlaybookStep;
  if (place.at === "after") return [{ uses: afterUses(step, playbook), own: place.n, step: place.step }];
  const uses = place.item === null ? headUses(step, playbook) : itemUses(step, playbook);
  const parts: FilledPart[] = [{ uses, own: 0, step: -1 }];
  if (!mayBringData(step, playbook)) return parts;
  for (const [from, arc, index] of place.arrivals) {
    const taken = playbook.steps[index]?.arcs[arc];
    if (taken !== undefined) parts.push({ uses: arcDataUses(taken, playbook), own: from, step: index });
  }
  return parts;
}

class MissingParts {
  readonly #source: ScopeSource;
  readonly #outputs = new Set<number>();
  readonly #items = new Set<number>();
  #variables = false;

  constructor(source: ScopeSource) {
    this.#source = source;
  }

  add({ uses, own, step }: FilledPart): void {
    if (uses.variables && this.#source.variables === null) this.#variables = true;
    if (uses.own && own > 0) this.#addRow(own, true);
    for (const [index, readsResults] of uses.steps) {
      const n = index === step ? own : this.#source.latest[index];
      if (n !== undefined) this.#addRow(n, readsResults);
    }
  }

  addResult(last: number): void {
    const { playbook, data, latest } = this.#source;
    if (data.returnStep === undefined && playbook.result !== null) return;
    const n = latest[stepIndex(playbook, data.returnStep ?? "end") ?? -1];
    if (n !== undefined) this.#addRow(n, true);
    if (data.returnStep !== undefined || last === 0) return;
    // What ended last counts if `end` has no output.
    const end = n === undefined ? undefined : this.#source.output(n);
    if (n === undefined || (end !== undefined && this.found() === null && valueOfRow(this.#source, n) === null)) {
      this.#addRow(last, true);
    }
  }

  #addRow(n: number, readsResults: boolean): void {
    const stored = this.#source.output(n);
    if (stored === undefined) this.#outputs.add(n);
    else if (readsResults && isLoop(this.#source.playbook, stored) && this.#source.items(n) === undefined) {
      this.#items.add(n);
    }
  }

  found(): ScopeNeeds | null {
    if (this.#outputs.size + this.#items.size === 0 && !this.#variables) return null;
    return { outputs: [...this.#outputs], items: [...this.#items], variables: this.#variables };
  }
}

function stepOf(playbook: Playbook, { step }: StoredOutput): PlaybookStep | undefined {
  const index = stepIndex(playbook, step.node);
  return index === undefined ? undefined : playbook.steps[index];
}

/** A row of its own for a loop; its items have rows too. */
function isLoop(playbook: Playbook, stored: StoredOutput): boolean {
  return stored.step.item < 0 && (stepOf(playbook, stored)?.loop ?? null) !== null;
}

/** The names at a place. `data`: at a start, what `data` is there. All that `needsOf` found must be loaded. */
export function scopeOf(
  source: ScopeSource,
  place: ScopePlace,
  data: Readonly<Record<string, unknown>> | null = null,
): TemplateScope {
  const { playbook } = source;
  const step = place.at === "result" ? null : (playbook.steps[place.step] as PlaybookStep);
  const local = localNames(source, place, step, data);
  const scope: TemplateScope = (name) => {
    const own = local(name);
    if (own !== undefined) return own;
    if (name === "inputs") return source.data.inputs;
    if (name === "workload") return source.data.workload ?? {};
    if (name === "ctx") return source.variables ?? {};
    const ofRun = runName(name, source.runId, source.now);
    if (ofRun !== undefined) return ofRun;
    const index = stepIndex(playbook, name);
    if (index !== undefined) {
      const isOwn = place.at === "after" && place.step === index;
      const value = stepValue(source, index, isOwn ? place.n : source.latest[index]);
      return value === undefined ? undefined : withAliases(playbook.aliases, name, value);
    }
    const { workload } = source.data;
    if (workload !== null && Object.hasOwn(workload, name)) return workload[name];
    return aliased(playbook.aliases, name, scope);
  };
  return scope;
}

function stepValue(source: ScopeSource, index: number, n: number | undefined): Layered | undefined {
  const stored = n === undefined ? undefined : source.output(n);
  if (n === undefined || stored === undefined) return undefined;
  const items = source.items(n) ?? null;
  const visits = source.visits[index] ?? stored.step.visit;
  const step = source.playbook.steps[index] as PlaybookStep;
  const known = stepValues.get(stored);
  if (known?.items === items && known.visits === visits && known.step === step) return known.value;
  const value = layered(outputOf(step, stored, items), stored, visits);
  stepValues.set(stored, { items, visits, step, value });
  return value;
}

/** A condition for each of 10,000 items may read a list of 10,000 results: it is made once. */
const stepValues = new WeakMap<
  StoredOutput,
  {
    readonly items: readonly StoredOutput[] | null;
    readonly visits: number;
    readonly step: PlaybookStep;
    readonly value: Layered;
  }
>();

function localNames(
  source: ScopeSource,
  place: ScopePlace,
  step: PlaybookStep | null,
  data: Readonly<Record<string, unknown>> | null,
): TemplateScope {
  if (place.at === "result" || step === null) return () => undefined;
  if (place.at === "start") {
    const { item } = place;
    return (name) => {
      if (item !== null && name === step.loop?.iterator) return item.value;
      if (item !== null && name === "loop") return loopNames(item);
      return name === "data" ? (data ?? {}) : undefined;
    };
  }
  let known: Readonly<Record<string, unknown>> | null = null;
  return (name) => {
    known ??= afterNames(source, step, place);
    return Object.hasOwn(known, name) ? known[name] : undefined;
  };
}

function loopNames({ index, size }: LoopItem): Record<string, unknown> {
  return { index, size, first: index === 0, last: index === size - 1 };
}

function afterNames(
  source: ScopeSource,
  step: PlaybookStep,
  { n, step: index, end }: ScopePlace & { readonly at: "after" },
): Record<string, unknown> {
  const stored = source.output(n);
  const output = stored === undefined ? NO_OUTPUT : outputOf(step, stored, source.items(n) ?? null);
  const ended = { ...end, attempt: stored?.attempt ?? end.attempt };
  const names = endNames(ended, (name) => factIn(output, name));
  if (end.status === "succeeded" && stored !== undefined) {
    return { ...names, result: layered(output, stored, source.visits[index] ?? 1), data: dataOf(output) };
  }
  if (end.status === "skipped" || end.status === "succeeded") return { ...names, result: null, data: null };
  // A loop that failed still has the results of its items.
  const { value } = output;
  if (Array.isArray(value)) {
    return { ...names, result: new Layered(value, { data: value, ...output.members }), data: value };
  }
  return { ...names, result: failedResult(end), data: null };
}

const NO_OUTPUT: StepOutput = { value: null, members: {} };

function factIn({ value, members }: StepOutput, name: string): unknown {
  return isRecord(value) && Object.hasOwn(value, name) ? value[name] : members[name];
}

/** An alias is a name (`vars`) or a path (`job.uuid`) with the meaning of another path. */
function aliased(aliases: Readonly<Record<string, string>>, name: string, scope: TemplateScope, depth = 0): unknown {
  const path = Object.hasOwn(aliases, name) ? aliases[name] : undefined;
  // Only a dialect writes aliases; one that leads to itself must not hang.
  if (depth > 8) return undefined;
  if (path !== undefined)
    return path.split(".").reduce<unknown>((value, key, i) => {
      if (i > 0) return memberOf(value, key);
      return key === name ? undefined : scope(key);
    }, undefined);
  const members: Record<string, unknown> = Object.create(null);
  for (const alias of Object.keys(aliases)) {
    if (!alias.startsWith(`${name}.`)) continue;
    const value = aliased(aliases, alias, scope, depth + 1);
    if (value !== undefined) members[alias.slice(name.length + 1)] = value;
  }
  return Object.keys(members).length === 0 ? undefined : members;
}

/** By the name that they are members of. */
const aliasMembers = new WeakMap<object, ReadonlyMap<string, readonly (readonly [member: string, path: string])[]>>();

/** The output of a step with the members that aliases of `STEP.MEMBER` add; its own count more. Their paths begin at the step itself. */
function withAliases(aliases: Readonly<Record<string, string>>, name: string, value: Layered): Layered {
  let known = aliasMembers.get(aliases);
  if (known === undefined) {
    const found = new Map<string, (readonly [string, string])[]>();
    for (const [alias, path] of Object.entries(aliases)) {
      const [root = "", member, more] = alias.split(".");
      if (member === undefined || more !== undefined) continue;
      found.set(root, [...(found.get(root) ?? []), [member, path]]);
    }
    known = found;
    aliasMembers.set(aliases, known);
  }
  const own = known.get(name)?.filter(([, path]) => path.split(".")[0] === name);
  if (own === undefined || own.length === 0) return value;
  const added = own.map(([member, path]) => {
    return [member, path.split(".").slice(1).reduce<unknown>(memberOf, value)] as const;
  });
  const present = added.filter(([, each]) => each !== undefined);
  return new Layered(value.value, { ...Object.fromEntries(present), ...value.members });
}

function memberOf(value: unknown, key: string): unknown {
  if (value instanceof Layered) {
    const own = memberOf(value.value, key);
    return own === undefined ? value.members[key] : own;
  }
  return isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** Null without an output. */
export function valueOfRow(source: ScopeSource, n: number | undefined): unknown {
  const stored = n === undefined ? undefined : source.output(n);
  const step = stored === undefined ? undefined : stepOf(source.playbook, stored);
  if (n === undefined || stored === undefined || step === undefined) return null;
  return outputOf(step, stored, source.items(n) ?? null).value ?? null;
}

/** Whether what the templates read is too large together; the sentence, or null. */
export function tooMuch(source: ScopeSource, place: ScopePlace): string | null {
  let chars = 0;
  const seen = new Set<number>();
  const count = (n: number | undefined, readsResults: boolean): string | null => {
    const stored = n === undefined || seen.has(n) ? undefined : source.output(n);
    if (n === undefined || stored === undefined) return null;
    seen.add(n);
    chars += stored.result?.length ?? 0;
    if (!readsResults || !isLoop(source.playbook, stored)) return null;
    const items = source.items(n);
    if (items === null) return `the results of the items of step "${stored.step.node}" are too large together`;
    if (items !== undefined) chars += charsOf(items);
    return null;
  };
  for (const { uses, own, step } of partsOf(source, place)) {
    for (const [index, readsResults] of uses.steps) {
      const trouble = count(index === step ? own : source.latest[index], readsResults);
      if (trouble !== null) return trouble;
    }
    const trouble = uses.own && own > 0 ? count(own, true) : null;
    if (trouble !== null) return trouble;
  }
  return chars > MAX_READ ? `the outputs that are read are longer than ${MAX_READ} characters together` : null;
}

const itemChars = new WeakMap<readonly StoredOutput[], number>();

function charsOf(items: readonly StoredOutput[]): number {
  const known = itemChars.get(items);
  if (known !== undefined) return known;
  const chars = items.reduce((sum, { result }) => sum + (result?.length ?? 0), 0);
  itemChars.set(items, chars);
  return chars;
}

export function optionsOf({ playbook, meter }: ScopeSource): FillOptions {
  return { undefined: playbook.undefined, meter };
}
