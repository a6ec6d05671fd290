/** Which names the templates of a part of a playbook use: what must be loaded before the part is filled, found once per part and
 *  without a value. What a template that does not parse would use is unknown; filling it reports the error. */
import { isPlain } from "../check.ts";
import { graphOf } from "../playbook/graph.ts";
import type { Playbook, PlaybookArc, PlaybookStep } from "../playbook/playbook.ts";
import {
  hasTemplate,
  type NameUse,
  namesOfTemplate,
  parseTemplate,
  parseWhen,
  TemplateError,
} from "../template/template.ts";

/** What a part reads. */
export interface PartUses {
  /** Steps by index; true if the results of a loop are read, and not only how it ended. */
  readonly steps: ReadonlyMap<number, boolean>;
  /** `ctx`. */
  readonly variables: boolean;
  /** Of the step that ended: its output. */
  readonly own: boolean;
}

/** After a step: how it ended, which is known without its output. */
const OF_END = new Set(["error", "failure", "success", "status", "signal"]);
const OF_OUTPUT = new Set(["result", "data", "status_code", "exit_code", "attempt"]);
/** Names beside the value of a step that need no results of its items. */
const OF_ROW = new Set(["status", "error", "attempt", "visits", "started_at", "ended_at"]);
const OF_RUN: ReadonlySet<string> = new Set(["inputs", "workload", "ctx", "execution_id", "run", "now"]);

/** Undefined for a name that no step has. */
export function stepIndex(playbook: Playbook, name: string): number | undefined {
  return graphOf(playbook).indexOf(name);
}

/** The guard, and the input or the list of a loop. */
export const headUses = cached((step: PlaybookStep, playbook) => {
  const uses = new UsesOf(playbook);
  uses.when(step.when);
  if (step.loop === null) uses.value(step.action);
  else {
    uses.value(step.loop.in);
    uses.within(step.loop.iterator).when(step.loop.where);
  }
  return uses;
});

/** The input of one item of a loop. */
export const itemUses = cached((step: PlaybookStep, playbook) => {
  const uses = new UsesOf(playbook);
  uses.within(step.loop?.iterator ?? null).value(step.action);
  return uses;
});

/** `set` and the arcs after the end, without their data, which is filled when the next step starts. */
export const afterUses = cached((step: PlaybookStep, playbook) => {
  const uses = new UsesOf(playbook, "after");
  uses.value(step.set);
  if ((step.assert?.returns.length ?? 0) > 0) uses.own = true;
  for (const arc of step.arcs) {
    uses.when(arc.when);
    uses.value(arc.set);
  }
  return uses;
});

/** Filled when the next step starts: by then, how this one ended is in its row. */
export const arcDataUses = cached((arc: PlaybookArc, playbook) => {
  const uses = new UsesOf(playbook, "arc");
  uses.value(arc.data);
  return uses;
});

export const resultUses = cached((playbook: Playbook) => {
  const uses = new UsesOf(playbook);
  uses.value(playbook.result?.value);
  return uses;
});

/** Whether an arc to the step brings data. */
export const mayBringData = cachedFlag((step: PlaybookStep, playbook) => {
  const to = stepIndex(playbook, step.name);
  return playbook.steps.some(({ arcs }) => arcs.some((arc) => arc.to === to && arc.data !== null));
});

function cached<K extends object>(find: (part: K, playbook: Playbook) => PartUses) {
  const found = new WeakMap<K, PartUses>();
  return (part: K, playbook: Playbook): PartUses => {
    let uses = found.get(part);
    if (uses === undefined) {
      uses = find(part, playbook);
      found.set(part, uses);
    }
    return uses;
  };
}

function cachedFlag<K extends object>(find: (part: K, playbook: Playbook) => boolean) {
  const found = new WeakMap<K, boolean>();
  return (part: K, playbook: Playbook): boolean => {
    let flag = found.get(part);
    if (flag === undefined) {
      flag = find(part, playbook);
      found.set(part, flag);
    }
    return flag;
  };
}

class UsesOf implements PartUses {
  readonly steps = new Map<number, boolean>();
  variables = false;
  own = false;
  readonly #playbook: Playbook;
  readonly #place: "start" | "after" | "arc";
  #iterator: string | null = null;

  constructor(playbook: Playbook, place: "start" | "after" | "arc" = "start") {
    this.#playbook = playbook;
    this.#place = place;
  }

  /** From here on, this name is the item of a loop. */
  within(iterator: string | null): this {
    this.#iterator = iterator;
    return this;
  }

  when(source: string | null): void {
    if (source !== null) this.#add(() => namesOfTemplate(parseWhen(source)));
  }

  value(value: unknown): void {
    if (typeof value === "string") {
      if (hasTemplate(value)) this.#add(() => namesOfTemplate(parseTemplate(value)));
    } else if (Array.isArray(value)) for (const item of value) this.value(item);
    else if (isPlain(value)) for (const item of Object.values(value)) this.value(item);
  }

  #add(names: () => readonly NameUse[]): void {
    try {
      for (const { name, members } of names()) this.#use(name, members[0] ?? null, 0);
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
    }
  }

  #use(name: string, member: string | number | null, depth: number): void {
    if (this.#iterator !== null && (name === this.#iterator || name === "loop")) return;
    if (this.#place !== "start" && (OF_END.has(name) || OF_OUTPUT.has(name))) {
      if (this.#place === "arc" || OF_OUTPUT.has(name)) this.own = true;
      return;
    }
    if (name === "ctx") this.variables = true;
    if (OF_RUN.has(name) || (this.#place === "start" && name === "data")) return;
    const index = stepIndex(this.#playbook, name);
    if (index !== undefined) {
      const readsResults = typeof member !== "string" || !OF_ROW.has(member);
      this.steps.set(index, readsResults || this.steps.get(index) === true);
      return;
    }
    if (depth > 8) return;
    for (const [alias, path] of Object.entries(this.#playbook.aliases)) {
      if (alias !== name && !alias.startsWith(`${name}.`)) continue;
      const [root = "", first = null] = path.split(".");
      // Members of an alias without dots are members of its path.
      this.#use(root, first ?? (alias === name ? member : null), depth + 1);
    }
  }
}
