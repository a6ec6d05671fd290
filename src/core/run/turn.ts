/** One advance of a run while it is decided: the draft of its progress, the changes and rows made so far, and what is missing.
 *  Its parts (settling steps, starting them, loops, phases) change it one after another; if anything is missing, all of it is
 *  thrown away and decided again with more loaded. */
import type { Mutable } from "../check.ts";
import type { Failure } from "../decision/failure.ts";
import { MAX_WORK } from "../expression/values.ts";
import { graphOf, type PlaybookGraph } from "../playbook/graph.ts";
import { type Playbook, type PlaybookStep, RUN_KIND } from "../playbook/playbook.ts";
import { WorkMeter } from "../template/fill.ts";
import { RunDraft } from "./draft.ts";
import type { AdvanceInput, Known, Needs, PlannedChange, PlannedJob, PlannedStep } from "./plan.ts";
import { isOpen, type RunChange, type RunRow, type StepRow, type StepState, type StoredOutput } from "./run.ts";
import { parseRunData, type RunData } from "./run-data.ts";
import type { ScopeNeeds, ScopeSource } from "./step-scope.ts";

export const ADVANCE_LIMITS = {
  /** Messages and timers read, and steps started, in one advance. */
  messages: 500,
  starts: 500,
  /** After this many characters of filled inputs, the rest starts in the next advance. */
  chars: 4_194_304,
  /** And after this much work on templates: as much as eight values may take. */
  work: 8 * MAX_WORK,
  /** Steps whose cancel is requested before one advance. */
  stops: 200,
} as const;

/** Of all values of `ctx` of a run, in characters of JSON. */
export const MAX_CTX = 4 * 1_048_576;

export interface NewRow {
  readonly step: number;
  readonly visit: number;
  /** -1 for the step itself. */
  readonly item: number;
  readonly try: number;
  readonly tokens: StepRow["tokens"];
  /** Only these arrivals are taken. */
  readonly explicit: boolean;
  readonly job: Omit<PlannedJob, "id" | "n" | "name" | "options"> | null;
  readonly due: number | null;
  /** A loop's list. */
  readonly items: readonly unknown[] | null;
}

/** The end of a row. */
export interface RowEnd {
  readonly state: StepState;
  /** In one line. */
  readonly why: string | null;
  /** Of a step without a job, or whose job succeeded: stored with the row. */
  readonly failure?: Failure;
  readonly result?: string | null;
  readonly isRoute?: boolean;
  readonly isUnrouted?: boolean;
}

type MadeStep = Mutable<Omit<PlannedStep, "row">> & { readonly row: Mutable<StepRow> };

export class RunTurn implements ScopeSource {
  readonly input: AdvanceInput;
  readonly playbook: Playbook;
  readonly graph: PlaybookGraph;
  readonly run: RunRow;
  readonly runId: string;
  readonly known: Known;
  readonly now: number;
  readonly draft: RunDraft;

  readonly changes: RunChange[] = [];
  readonly made: MadeStep[] = [];
  readonly changed = new Map<number, Mutable<PlannedChange>>();
  readonly jobs: PlannedJob[] = [];
  readonly written: Record<string, string> = {};
  readonly send: { kind: "stop" | "continue"; body: unknown }[] = [];
  readonly timersSet: { n: number; dueAt: number }[] = [];
  readonly timersDropped: number[] = [];
  readonly redrive: string[] = [];
  stop = false;
  starts = 0;
  readonly meter = new WorkMeter();
  /** Of the inputs of its jobs. */
  chars = 0;
  /** Something could start, but not in this advance. */
  isCapped = false;
  /** What changes in the run's row, if it does. */
  newData: string | undefined;
  newPlaybook: string | undefined;
  newPins: Readonly<Record<string, string>> | undefined;
  deadlineAt: number | null | undefined;
  result: string | null | undefined;
  failure: Failure | null | undefined;
  /** Of failed items in this advance, by row of the loop: the failure of the first. */
  readonly itemFailures = new Map<number, string>();

  isMissing = false;
  readonly #needs = {
    outputs: new Set<number>(),
    items: new Set<number>(),
    lists: new Set<number>(),
    paths: new Set<string>(),
    variables: false,
    waiting: false,
  };
  readonly #rows = new Map<number, StepRow>();
  readonly #madeRows = new Map<number, MadeStep>();
  readonly #lists = new Map<number, readonly unknown[]>();
  readonly #items = new Map<number, readonly StoredOutput[] | null>();
  readonly #outputs = new Map<number, StoredOutput>();
  #data: RunData | undefined;
  #set: Record<string, unknown> | null = null;
  #merged: Readonly<Record<string, unknown>> | null = null;

  constructor(input: AdvanceInput) {
    this.input = input;
    this.playbook = input.playbook;
    this.graph = graphOf(input.playbook);
    this.run = input.loaded.run;
    this.runId = this.run.id;
    this.known = input.known;
    this.now = input.now;
    this.draft = new RunDraft(this.run);
    for (const row of input.loaded.steps) this.#rows.set(row.n, row);
  }

  get latest(): Readonly<Record<string, number>> {
    return this.draft.latest;
  }

  get visits(): Readonly<Record<string, number>> {
    return this.draft.visits;
  }

  get data(): RunData {
    this.#data ??= parseRunData(this.run.data);
    return this.#data;
  }

  setData(data: RunData): void {
    this.#data = data;
    this.newData = JSON.stringify(data);
  }

  get variables(): Readonly<Record<string, unknown>> | null {
    if (this.#set === null || this.known.variables === null) return this.known.variables;
    this.#merged ??= { ...this.known.variables, ...this.#set };
    return this.#merged;
  }

  /** Sets values of `ctx`. False, and nothing is set, if all of them together would be too large. */
  setVariables(values: Readonly<Record<string, unknown>>): boolean {
    const names = Object.keys(values);
    const texts = names.map((name) => JSON.stringify(values[name]) ?? "null");
    let total = 0;
    for (const [name, chars] of Object.entries(this.draft.ctx)) if (!Object.hasOwn(values, name)) total += chars;
    for (const text of texts) total += text.length;
    if (total > MAX_CTX) return false;
    this.#set = { ...this.#set, ...values };
    this.#merged = null;
    for (const [index, name] of names.entries()) this.written[name] = texts[index] as string;
    this.emit({ do: "set", names, chars: texts.map(({ length }) => length) });
    return true;
  }

  step(index: number): PlaybookStep {
    return this.playbook.steps[index] as PlaybookStep;
  }

  emit(change: RunChange): void {
    this.changes.push(change);
    this.draft.apply(change);
  }

  /** Jobs that have not ended, as far as this advance knows. */
  get openJobs(): number {
    return this.draft.open - this.draft.waits;
  }

  // What is loaded.

  need(needs: ScopeNeeds): void {
    this.isMissing = true;
    for (const n of needs.outputs) this.#needs.outputs.add(n);
    for (const n of needs.items) this.#needs.items.add(n);
    this.#needs.variables ||= needs.variables;
  }

  needs(): Needs {
    const { outputs, items, lists, paths, variables, waiting } = this.#needs;
    return { outputs: [...outputs], items: [...items], lists: [...lists], paths: [...paths], variables, waiting };
  }

  /** Undefined: not loaded, and needed. */
  row(n: number): StepRow | undefined {
    const row = this.#rows.get(n) ?? this.known.outputs.get(n)?.step;
    if (row !== undefined) return row;
    this.isMissing = true;
    this.#needs.outputs.add(n);
    return undefined;
  }

  isLoaded(n: number): boolean {
    return this.#rows.has(n);
  }

  load(row: StepRow): void {
    if (!this.#rows.has(row.n)) this.#rows.set(row.n, row);
  }

  loadedRows(): Iterable<StepRow> {
    return this.#rows.values();
  }

  list(n: number): readonly unknown[] | undefined {
    const list = this.#lists.get(n) ?? this.known.lists.get(n);
    if (list !== undefined) return list;
    this.isMissing = true;
    this.#needs.lists.add(n);
    return undefined;
  }

  path(path: string): Known["paths"] extends ReadonlyMap<string, infer T> ? T | undefined : never {
    const found = this.known.paths.get(path);
    if (found !== undefined) return found;
    this.isMissing = true;
    this.#needs.paths.add(path);
    return undefined;
  }

  waiting(): readonly StepRow[] | undefined {
    if (this.known.waiting !== null) return this.known.waiting;
    this.isMissing = true;
    this.#needs.waiting = true;
    return undefined;
  }

  /** One object for as long as the row does not change, as what it holds is parsed once. */
  output(n: number): StoredOutput | undefined {
    const kept = this.#outputs.get(n);
    if (kept !== undefined) return kept;
    const output = this.#outputNow(n);
    if (output !== undefined) this.#outputs.set(n, output);
    return output;
  }

  #outputNow(n: number): StoredOutput | undefined {
    const made = this.#madeRows.get(n);
    if (made !== undefined) return { step: made.row, result: made.result, failure: made.failure, attempt: 0 };
    const changed = this.changed.get(n);
    const row = this.#rows.get(n);
    if (row !== undefined && row.job === null && (changed !== undefined || isOpen(row.state))) {
      const result = changed?.result ?? null;
      return { step: ended(row, changed), result, failure: changed?.failure ?? null, attempt: 0 };
    }
    const stored = this.known.outputs.get(n);
    if (stored === undefined || changed === undefined) return stored;
    return {
      step: ended(stored.step, changed),
      result: stored.result,
      failure: changed.failure ?? stored.failure,
      attempt: stored.attempt,
    };
  }

  items(loop: number): readonly StoredOutput[] | null | undefined {
    const cached = this.#items.get(loop);
    if (cached !== undefined) return cached;
    const made = this.#madeRows.get(loop);
    const before = made === undefined ? this.known.items.get(loop) : NO_ITEMS;
    if (before === undefined || before === null || this.made.length + this.changed.size === 0) return before;
    const row = made?.row ?? this.row(loop);
    if (row === undefined) return undefined;
    const { node, visit } = row;
    const items = new Map<number, StoredOutput>();
    for (const item of before) {
      const changed = this.changed.get(item.step.n);
      items.set(item.step.item, changed === undefined ? item : { ...item, step: ended(item.step, changed) });
    }
    for (const { row: step, result, failure } of this.made) {
      if (step.item < 0 || step.visit !== visit || step.node !== node) continue;
      items.set(step.item, { step, result, failure, attempt: 0 });
    }
    const all = [...items.values()].sort((a, b) => a.step.item - b.step.item);
    this.#items.set(loop, all);
    return all;
  }

  // Rows.

  /** Makes the row of a step or an item, with its job. Its number. */
  begin(row: NewRow): number {
    const { step, visit, item, tokens, due, items, job } = row;
    const n = this.draft.made + 1;
    const id = job === null ? null : this.input.newJobId();
    this.starts++;
    const change: Mutable<RunChange & { do: "start" }> = { do: "start", n, step, visit };
    if (item >= 0) change.item = item;
    if (row.try > 1) change.try = row.try;
    if (id !== null && job?.isChild) change.job = id;
    if (due !== null) change.due = due;
    if (items !== null) change.items = items.length;
    if (row.explicit) change.by = tokens;
    this.emit(change);
    const { name, options } = this.step(step);
    const made: MadeStep = {
      row: {
        ...{ n, node: name, visit, item, try: row.try, job: change.job ?? null, due, tokens: [...tokens] },
        state: items !== null ? "looping" : due !== null ? "waiting" : "open",
        at: this.now,
        endedAt: null,
      },
      items: items === null ? null : JSON.stringify(items),
      // An independent run is not waited for: its id is what the step returns.
      result: job === null || job.isChild ? null : JSON.stringify({ id }),
      failure: null,
    };
    this.made.push(made);
    this.#madeRows.set(n, made);
    this.#rows.set(n, made.row);
    if (items !== null) this.#lists.set(n, items);
    if (due !== null) this.timersSet.push({ n, dueAt: due });
    if (job !== null && id !== null) {
      this.chars += job.payload.length + (job.run?.data.length ?? 0);
      const of = item >= 0 ? `[${item}]` : "";
      this.jobs.push({ ...job, id, n, name: `${this.playbook.name} / ${name}${of}`, options });
    }
    return n;
  }

  /** Ends the row of a step or an item. */
  end(n: number, at: { readonly step: number; readonly visit: number; readonly item: number }, end: RowEnd): void {
    const { state, why, failure, result } = end;
    const row = this.#rows.get(n);
    const isWait = row !== undefined && row.due !== null;
    const change: Mutable<RunChange & { do: "end" }> = { do: "end", n, step: at.step, visit: at.visit, state };
    if (at.item >= 0) change.item = at.item;
    if (why !== null) change.why = why;
    if (end.isRoute) change.output = false;
    if (isWait) change.wait = true;
    if (end.isUnrouted) change.unrouted = true;
    this.emit(change);
    this.#outputs.delete(n);
    const made = this.#madeRows.get(n);
    if (made !== undefined) {
      made.row.state = state;
      made.row.endedAt = this.now;
      if (failure !== undefined) made.failure = failure;
      if (result !== undefined) made.result = result;
      const timer = isWait ? this.timersSet.findIndex((each) => each.n === n) : -1;
      if (timer >= 0) this.timersSet.splice(timer, 1);
      return;
    }
    if (isWait) this.timersDropped.push(n);
    const changed: Mutable<PlannedChange> = { n, state, endedAt: this.now };
    if (failure !== undefined) changed.failure = failure;
    if (result !== undefined) changed.result = result;
    this.changed.set(n, changed);
    if (row !== undefined) this.#rows.set(n, ended(row, changed));
  }

  /** A row that ended before is open again. */
  reopen(n: number, state: "open" | "looping"): void {
    this.#outputs.delete(n);
    this.changed.set(n, { n, state, endedAt: null, result: null, failure: null });
    const row = this.#rows.get(n) ?? this.known.outputs.get(n)?.step;
    if (row !== undefined) this.#rows.set(n, { ...row, state, endedAt: null });
  }

  /** What a step without a job returns. */
  setResult(n: number, result: string): void {
    const made = this.#madeRows.get(n);
    if (made === undefined) return;
    made.result = result;
    this.#outputs.delete(n);
  }

  /** A step without a job that returns something. */
  hasResult(n: number): boolean {
    return (this.#madeRows.get(n)?.result ?? null) !== null;
  }

  isRun(index: number): boolean {
    return this.step(index).action?.type === RUN_KIND;
  }
}

const NO_ITEMS: readonly StoredOutput[] = [];

function ended(row: StepRow, changed: PlannedChange | undefined): StepRow {
  if (changed === undefined) return row;
  const { n, node, visit, item, job, due, tokens, at } = row;
  return { n, node, visit, item, try: row.try, state: changed.state, job, due, tokens, at, endedAt: changed.endedAt };
}
