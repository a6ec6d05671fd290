/** A run in memory, as stores keep it, and what an advance has loaded of it. */
import type { Failure } from "../decision/failure.ts";
import type { JobEvent } from "../job/event.ts";
import type { Job } from "../job/job.ts";
import type { Playbook, PlaybookStep, StepType } from "../playbook/playbook.ts";
import type { FoundPlaybook, Known, Needs } from "./plan.ts";
import type { RunMessage, RunProgress, StepRow, StoredOutput } from "./run.ts";
import { newRunProgress } from "./start.ts";

/** The job of a step. */
export interface SimulatedStepJob {
  readonly run: SimulatedRun;
  readonly row: StepRow;
  readonly step: PlaybookStep;
  readonly type: StepType;
  job: Job;
  result: string | null;
  failure: Failure | null;
  /** The run below that it is. */
  readonly below: SimulatedRun | null;
}

export class SimulatedRun {
  readonly playbook: Playbook;
  /** The names of the steps that lead to a run below, with a slash after each; empty for the first run. */
  readonly prefix: string;
  readonly parent: SimulatedStepJob | null;
  job: Job;
  progress: RunProgress = newRunProgress();
  data: string;
  deadlineAt: number | null;
  result: string | null = null;
  failure: Failure | null = null;
  readonly events: JobEvent[] = [];
  readonly rows = new Map<number, StepRow>();
  /** Of steps without a job. */
  readonly results = new Map<number, { result: string | null; failure: Failure | null }>();
  readonly lists = new Map<number, readonly unknown[]>();
  readonly jobs = new Map<string, SimulatedStepJob>();
  readonly variables: Record<string, unknown> = {};
  readonly timers = new Map<number, number>();
  inbox: RunMessage[] = [];

  constructor(playbook: Playbook, job: Job, data: string, deadlineAt: number | null, parent: SimulatedStepJob | null) {
    this.playbook = playbook;
    this.job = job;
    this.data = data;
    this.deadlineAt = deadlineAt;
    this.parent = parent;
    this.prefix = parent === null ? "" : `${parent.run.prefix}${stepName(parent)}/`;
  }

  setRow(row: StepRow): void {
    this.rows.set(row.n, row);
    if (row.item < 0) this.#heads.set(`${row.node}:${row.visit}`, row.n);
  }

  /** The row of the loop that has this item. */
  loopOf({ node, visit }: StepRow): StepRow | undefined {
    return this.rows.get(this.#heads.get(`${node}:${visit}`) ?? 0);
  }

  /** An end never changes, so the same object is returned again. */
  output(n: number): StoredOutput | undefined {
    const known = this.#outputs.get(n);
    if (known !== undefined) return known;
    const row = this.rows.get(n);
    if (row === undefined) return undefined;
    const step = row.job === null ? undefined : this.jobs.get(row.job);
    const own = this.results.get(n);
    const result = own?.result ?? step?.result ?? null;
    const failure = own?.failure ?? step?.failure ?? null;
    const output = { step: row, result, failure, attempt: step?.job.attempt ?? 0 };
    if (row.endedAt !== null) this.#outputs.set(n, output);
    return output;
  }

  readonly #outputs = new Map<number, StoredOutput>();
  readonly #heads = new Map<string, number>();
}

/** `fetch`, or `each[3]` for an item of a loop. */
export function stepName({ row }: Pick<SimulatedStepJob, "row">): string {
  return row.item < 0 ? row.node : `${row.node}[${row.item}]`;
}

/** What an advance has asked for. */
export class KnownOfRun implements Known {
  readonly outputs = new Map<number, StoredOutput>();
  readonly items = new Map<number, readonly StoredOutput[] | null>();
  readonly lists = new Map<number, readonly unknown[]>();
  readonly paths = new Map<string, FoundPlaybook | null>();
  variables: Readonly<Record<string, unknown>> | null = null;
  waiting: readonly StepRow[] | null = null;
  readonly #run: SimulatedRun;
  readonly #find: (path: string) => FoundPlaybook;

  constructor(run: SimulatedRun, find: (path: string) => FoundPlaybook) {
    this.#run = run;
    this.#find = find;
  }

  load({ outputs, items, lists, variables, paths, waiting }: Needs): void {
    for (const n of outputs) {
      const output = this.#run.output(n);
      if (output !== undefined) this.outputs.set(n, output);
    }
    for (const n of items) this.items.set(n, this.#itemsOf(n));
    for (const n of lists) this.lists.set(n, this.#run.lists.get(n) ?? []);
    for (const path of paths) this.paths.set(path, this.#find(path));
    if (variables) this.variables = { ...this.#run.variables };
    if (waiting) this.waiting = [...this.#run.rows.values()].filter(({ state }) => state === "waiting");
  }

  #itemsOf(loop: number): StoredOutput[] {
    const { node, visit } = this.#run.rows.get(loop) as StepRow;
    const latest = new Map<number, StepRow>();
    for (const row of this.#run.rows.values()) {
      if (row.item >= 0 && row.node === node && row.visit === visit) latest.set(row.item, row);
    }
    return [...latest.values()].sort((a, b) => a.item - b.item).map(({ n }) => this.#run.output(n) as StoredOutput);
  }
}
