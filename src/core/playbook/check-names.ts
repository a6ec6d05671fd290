/** The names that templates of a playbook can use, by place, and what is wrong with a name that nothing supplies. */

import { show } from "../errors.ts";
import type { NameUse } from "../template/template.ts";
import { graphOf } from "./graph.ts";
import { LOOP_NAMES, MEMBERS, RESULT_NAMES, RUN_NAMES, START_NAMES, STEP_NAMES } from "./names-in-scope.ts";
import type { Playbook } from "./playbook.ts";
import type { PlaybookProblem } from "./problem.ts";

/** Where a template is filled. workload: at the start, after the keys in `above`. start: before a step; `inItem`: for each item of
 *  its loop. after: after a step, in `set` and its arcs. result: at the end of the run. */
export type NamePlace =
  | { readonly at: "workload"; readonly above: readonly string[] }
  | { readonly at: "start"; readonly step: number; readonly inItem: boolean }
  | { readonly at: "after"; readonly step: number }
  | { readonly at: "result" };

export interface NameProblem {
  readonly code: "unknown_name" | "keyword_refused";
  readonly severity: PlaybookProblem["severity"];
  readonly message: string;
}

/** `; did you mean "x"?`, or nothing. */
export type Hint = (given: string, known: () => readonly string[]) => string;

export class PlaybookNames {
  readonly #playbook: Playbook;
  readonly #hint: Hint;
  readonly #steps: ReadonlySet<string>;
  readonly #bare: ReadonlySet<string>;
  readonly #ctx: ReadonlySet<string>;
  /** Names of the aliases, and their members. */
  readonly #aliases = new Map<string, Set<string>>();

  constructor(playbook: Playbook, hint: Hint) {
    this.#playbook = playbook;
    this.#hint = hint;
    this.#steps = new Set(playbook.steps.map(({ name }) => name));
    this.#bare = new Set([...Object.keys(playbook.workload), ...Object.keys(playbook.inputs ?? {})]);
    this.#ctx = new Set(
      playbook.steps.flatMap(({ set, arcs }) =>
        [set, ...arcs.map((arc) => arc.set)].flatMap((each) => Object.keys(each)),
      ),
    );
    for (const alias of Object.keys(playbook.aliases)) {
      const [name = "", ...members] = alias.split(".");
      const known = this.#aliases.get(name) ?? new Set();
      this.#aliases.set(name, known);
      if (members[0] !== undefined) known.add(members[0]);
    }
  }

  /** Null for a name that something can supply. */
  problemOf(use: NameUse, place: NamePlace): NameProblem | null {
    const { name } = use;
    if (name === "secret" && !this.#isOwn(name)) {
      const message =
        "secrets are not available yet; a worker resolves connections, and can have environment variables of its own";
      return { code: "keyword_refused", severity: "error", message };
    }
    const local = this.#localNames(place);
    if (local.includes(name)) return this.#memberProblem(use, name, place);
    if (this.#aliases.has(name)) return null;
    if (place.at === "workload") {
      if (place.above.includes(name) || this.#isInput(name)) return null;
    } else {
      if (this.#steps.has(name)) return this.#orderProblem(use, place);
      if (this.#bare.has(name)) return null;
    }
    return unknown(`unknown name "${name}"${this.#why(name, place, local)}`);
  }

  #isOwn(name: string): boolean {
    return this.#steps.has(name) || this.#bare.has(name) || this.#aliases.has(name);
  }

  #isInput(name: string): boolean {
    return this.#playbook.inputs !== null && Object.hasOwn(this.#playbook.inputs, name);
  }

  #localNames(place: NamePlace): readonly string[] {
    if (place.at === "workload") return [...START_NAMES, "workload"];
    if (place.at === "result") return RUN_NAMES;
    if (place.at === "after") return [...RUN_NAMES, ...STEP_NAMES, ...RESULT_NAMES];
    const loop = this.#playbook.steps[place.step]?.loop ?? null;
    if (!place.inItem || loop === null) return [...RUN_NAMES, ...STEP_NAMES];
    return [...RUN_NAMES, ...STEP_NAMES, ...LOOP_NAMES, loop.iterator];
  }

  /** A member that is not there gives nothing, so one that is covered is fine. */
  #memberProblem({ members, isCovered }: NameUse, name: string, place: NamePlace): NameProblem | null {
    const [member] = members;
    if (typeof member !== "string" || isCovered) return null;
    const known = this.#membersOf(name, place);
    if (known === null || known.includes(member) || this.#aliases.get(name)?.has(member)) return null;
    const full = known.map((each) => `${name}.${each}`);
    return unknown(`unknown name "${name}.${member}"${this.#hint(`${name}.${member}`, () => full)}`);
  }

  /** Null where they are not known. */
  #membersOf(name: string, place: NamePlace): readonly string[] | null {
    const { inputs } = this.#playbook;
    if (name === "inputs") return inputs === null ? null : Object.keys(inputs);
    if (name === "workload") {
      if (inputs === null) return null;
      return [...(place.at === "workload" ? place.above : this.#bare), ...Object.keys(inputs)];
    }
    if (name === "ctx") return [...this.#ctx];
    const isIterator = place.at === "start" && this.#playbook.steps[place.step]?.loop?.iterator === name;
    return isIterator || !Object.hasOwn(MEMBERS, name) ? null : (MEMBERS[name] as readonly string[]);
  }

  /** A step that always ends later, or never, has no output. */
  #orderProblem({ name, isCovered }: NameUse, place: NamePlace): NameProblem | null {
    if (place.at !== "start" && place.at !== "after") return null;
    const graph = graphOf(this.#playbook);
    const from = graph.indexOf(name);
    if (isCovered || from === undefined || graph.handlers.has(place.step) || !graph.reachable.has(place.step))
      return null;
    if (graph.canReach(from, place.step) || (place.at === "after" && from === place.step)) return null;
    const step = this.#playbook.steps[place.step]?.name;
    const message =
      from === place.step
        ? `"${name}" has no output before it has ended`
        : `"${name}" is not before ${show(step)} in the workflow, so it may have no output there`;
    return { ...unknown(message), severity: "warning" };
  }

  #why(name: string, place: NamePlace, local: readonly string[]): string {
    if (place.at === "workload" && (this.#isOwn(name) || name === "ctx")) {
      return "; the workload is filled at the start, from the inputs and the keys above";
    }
    if ((RESULT_NAMES as readonly string[]).includes(name)) {
      return place.at === "start" ? "; it exists after the step, in set and next" : "; write the name of a step";
    }
    const isOfLoop = name === "loop" || this.#playbook.steps.some(({ loop }) => loop?.iterator === name);
    if (isOfLoop && place.at !== "workload") return "; it exists in the items of a loop only";
    return this.#hint(name, () => [...this.#ownNames(place), ...local]);
  }

  #ownNames(place: NamePlace): readonly string[] {
    if (place.at === "workload") return [...place.above, ...Object.keys(this.#playbook.inputs ?? {})];
    return [...this.#steps, ...this.#bare, ...this.#aliases.keys()];
  }
}

function unknown(message: string): NameProblem {
  return { code: "unknown_name", severity: "error", message };
}
