/** Loads what an advance needs beyond the run itself. Outputs of steps that have succeeded never change, so they are cached; a
 *  step that failed may be opened again by a redrive, and values of `ctx` change. */
import type { Playbook } from "../../core/playbook/playbook.ts";
import type { FoundPlaybook, Known, Needs, PlannedChange } from "../../core/run/plan.ts";
import type { LoadedRun, StepRow, StoredOutput } from "../../core/run/run.ts";
import { ByteCache } from "../../lib/byte-cache.ts";
import type { RunStore } from "../../store/store.ts";
import type { Playbooks } from "../playbooks/playbooks.ts";

const CACHE_BYTES = 33_554_432;
const LISTS_BYTES = 16_777_216;
/** Of a parsed list for each character of its JSON. */
const LIST_BYTES = 6;
/** Of an output besides its text. */
const ROW_BYTES = 400;
/** The items of a loop together: as much as all outputs that one step may read. */
const ITEM_CHARS = 8_388_608;
const STEPS_PAGE = 1_000;

interface Facts {
  readonly outputs: Map<number, StoredOutput>;
  readonly items: Map<number, readonly StoredOutput[] | null>;
  readonly lists: Map<number, readonly unknown[]>;
  variables: Readonly<Record<string, unknown>> | null;
  readonly paths: Map<string, FoundPlaybook | null>;
  waiting: readonly StepRow[] | null;
}

export class RunFacts {
  readonly #runs: RunStore;
  readonly #playbooks: Playbooks;
  readonly #outputs = new ByteCache<string, StoredOutput>(CACHE_BYTES);
  readonly #lists = new ByteCache<string, readonly unknown[]>(LISTS_BYTES);

  constructor(runs: RunStore, playbooks: Playbooks) {
    this.#runs = runs;
    this.#playbooks = playbooks;
  }

  empty(): Facts & Known {
    return { outputs: new Map(), items: new Map(), lists: new Map(), variables: null, paths: new Map(), waiting: null };
  }

  /** What was read while a step was open. An advance may end it otherwise than its job did. */
  written(run: string, changed: readonly PlannedChange[]): void {
    for (const { n, state, endedAt } of changed) {
      const key = `${run} ${n}`;
      const known = this.#outputs.get(key);
      if (known === undefined) continue;
      if (state === "succeeded") this.#keep(key, { ...known, step: { ...known.step, state, endedAt } });
      else this.#outputs.delete(key);
    }
  }

  /** Adds what is needed. */
  async add(facts: Facts, needs: Needs, loaded: LoadedRun, playbook: Playbook): Promise<void> {
    const { run, job } = loaded;
    if (needs.outputs.length > 0) await this.#addOutputs(facts, run.id, needs.outputs);
    for (const n of needs.items) facts.items.set(n, await this.#runs.items(run.id, n, ITEM_CHARS));
    for (const n of needs.lists) facts.lists.set(n, await this.#list(run.id, n));
    if (needs.variables) {
      const values: Record<string, unknown> = {};
      for (const [name, text] of Object.entries(await this.#runs.variables(run.id))) values[name] = JSON.parse(text);
      facts.variables = values;
    }
    const of = { playbook, pins: pinsOf(loaded) };
    for (const path of needs.paths) facts.paths.set(path, await this.#playbooks.find(job.namespace, of, path));
    if (needs.waiting) facts.waiting = await this.#waiting(run.id);
  }

  async #addOutputs(facts: Facts, run: string, rows: readonly number[]): Promise<void> {
    const missing: number[] = [];
    for (const n of rows) {
      const known = this.#outputs.get(`${run} ${n}`);
      if (known === undefined) missing.push(n);
      else facts.outputs.set(n, known);
    }
    if (missing.length === 0) return;
    for (const output of await this.#runs.outputs(run, missing)) {
      const { n } = output.step;
      facts.outputs.set(n, output);
      if (!isFinal(output)) continue;
      this.#keep(`${run} ${n}`, output);
    }
  }

  #keep(key: string, output: StoredOutput): void {
    this.#outputs.set(key, output, ROW_BYTES + 2 * (output.result?.length ?? 0));
  }

  /** Never changes. A loop asks for it whenever an item starts. */
  async #list(run: string, n: number): Promise<readonly unknown[]> {
    const key = `${run} ${n}`;
    const known = this.#lists.get(key);
    if (known !== undefined) return known;
    const text = (await this.#runs.list(run, n)) ?? "[]";
    const list = JSON.parse(text) as unknown[];
    this.#lists.set(key, list, ROW_BYTES + LIST_BYTES * text.length);
    return list;
  }

  async #waiting(run: string): Promise<StepRow[]> {
    const rows: StepRow[] = [];
    for (let after = 0; ; after = rows.at(-1)?.n as number) {
      const page = await this.#runs.steps({ run, after, limit: STEPS_PAGE, states: ["waiting"] });
      rows.push(...page);
      if (page.length < STEPS_PAGE) return rows;
    }
  }
}

/** The row of a step whose job has just succeeded is still open. */
function isFinal({ step, result, failure }: StoredOutput): boolean {
  if (step.state === "succeeded" || step.state === "skipped") return true;
  return step.state === "open" && failure === null && result !== null;
}

/** Those of a redrive with another definition instead of its own. */
function pinsOf({ run, messages }: LoadedRun): Readonly<Record<string, string>> {
  return redriveOf(messages)?.pins ?? run.pins;
}

/** The definition that a run continues with. */
export function definitionOf({ run, messages }: LoadedRun): string {
  return redriveOf(messages)?.playbook ?? run.playbook;
}

type Repinned = { readonly playbook?: string; readonly pins?: Readonly<Record<string, string>> };

/** The last redrive with another definition. */
function redriveOf(messages: LoadedRun["messages"]): Repinned | null {
  const last = messages.findLast(({ kind, body }) => kind === "redrive" && (body as Repinned)?.playbook !== undefined);
  return last === undefined ? null : (last.body as Repinned);
}
