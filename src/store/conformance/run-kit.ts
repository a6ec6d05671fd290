/** Builders for the tests of runs: a definition, new runs, and advances that a test writes by hand, as an engine would write those
 *  that it plans. */
import { EVENT_FORMAT, type JobEventBody } from "../../core/job/event.ts";
import { BEFORE, evolve } from "../../core/job/fold.ts";
import type { FailReason, JobProgressFields } from "../../core/job/job.ts";
import { happened } from "../../core/job/lifecycle.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import {
  isOpen,
  type LoadedRun,
  type NewRun,
  type RunChange,
  type RunProgress,
  type RunRow,
  type StepRow,
  type StepState,
} from "../../core/run/run.ts";
import { newRunProgress } from "../../core/run/start.ts";
import type { AdvanceAnswer, AdvanceWrite, NewJob, RunStore, Store } from "../store.ts";
import type { Bench } from "./bench.ts";
import { type JobParts, newJob, T0 } from "./kit.ts";

export const DEFINITION = "hash-of-a-definition";

/** How many messages each run has sent to itself, less those that it read after its end: events do not record them. */
export const sentByRun = new Map<string, number>();

export interface RunParts extends JobParts {
  readonly of?: Partial<NewRun>;
}

/** A job that is a run. */
export function newRun({ of = {}, at = T0, ...parts }: RunParts = {}): NewJob {
  const job = newJob({ kind: RUN_KIND, ...parts, at });
  const { event } = job.transition;
  const blocked = { ...event, data: { ...event.data, state: "blocked" as const } };
  return {
    ...job,
    run: {
      ...{ playbook: DEFINITION, pins: {}, data: '{"inputs":{},"workload":null}', deadlineAt: null, origin: null },
      progress: newRunProgress(),
      ...of,
    },
    transition: { event: blocked, next: evolve(BEFORE, happened(blocked, at)) },
  };
}

/** A job of a step, as an advance has it in `jobs`. */
export function newStepJob(run: string, parts: JobParts = {}): NewJob {
  return newJob({ depth: 1, ...parts, parent: { id: run, attempt: null }, runId: run });
}

export interface StartParts extends Partial<Omit<StepRow, "n" | "job">> {
  /** Null: a step without a job. */
  readonly job?: JobParts | NewJob | null;
  readonly items?: string;
  readonly result?: string;
}

export interface AdvanceParts extends Partial<Omit<AdvanceWrite, "made" | "changed" | "jobs" | "timers" | "send">> {
  readonly start?: readonly StartParts[];
  readonly end?: readonly { readonly n: number; readonly state?: StepState; readonly result?: string }[];
  /** The run ends. */
  readonly finish?: { readonly state: "succeeded" | "failed" | "cancelled"; readonly reason?: FailReason };
  readonly send?: readonly ("stop" | "continue")[];
  readonly timers?: Partial<AdvanceWrite["timers"]>;
  readonly phase?: RunProgress["phase"];
}

/** What an engine would write: reads all messages that were loaded, and drops the timers that were due. */
export function writeOf(loaded: LoadedRun, parts: AdvanceParts = {}, now = T0): AdvanceWrite {
  const { start = [], end = [], finish, send = [], timers = {}, phase, ...rest } = parts;
  const { job, run, messages } = loaded;
  const changes: RunChange[] = [];
  const made: AdvanceWrite["made"][number][] = [];
  const jobs: NewJob[] = [];
  for (const [i, one] of start.entries()) {
    const { job: given = {}, items = null, result = null, ...place } = one;
    const own = given === null ? null : "transition" in given ? given : newStepJob(run.id, { at: now, ...given });
    if (own !== null) jobs.push(own);
    const row: StepRow = {
      ...{ n: run.made + i + 1, node: "a", visit: 1, item: -1, try: 1, state: "open", job: own?.id ?? null },
      ...{ due: null, tokens: [], at: now, endedAt: null },
      ...place,
    };
    made.push({ row, items, result, failure: null });
    changes.push({ do: "start", n: row.n, step: 0, visit: row.visit });
  }
  for (const { n, state = "succeeded" } of end) changes.push({ do: "end", n, step: 0, visit: 1, state });
  const advanced = transition(
    job,
    { name: "run.advanced", data: { v: EVENT_FORMAT, messages: messages.length, changes } },
    now,
  );
  const transitions = [advanced];
  if (finish !== undefined) {
    const { state, reason = null } = finish;
    const data = { v: EVENT_FORMAT, state, reason, message: null, step: null };
    transitions.push(transition({ ...job, ...advanced.next }, { name: "run.ended", data }, now));
  }
  const opened = made.filter(({ row }) => isOpen(row.state)).length;
  return {
    run: run.id,
    revision: job.revision,
    transitions,
    progress: {
      phase: finish === undefined ? (phase ?? (run.phase === "ended" ? "forward" : run.phase)) : "ended",
      open: run.open + opened - end.length,
      made: run.made + made.length,
      state: run.state,
    },
    made,
    changed: end.map(({ n, state = "succeeded", ...more }) => ({
      n,
      state,
      endedAt: isOpen(state) ? null : now,
      ...more,
    })),
    jobs,
    variables: {},
    read: messages.map(({ no }) => no),
    send: send.map((kind) => ({ kind, body: null })),
    timers: { set: timers.set ?? [], drop: timers.drop ?? loaded.timers.map(({ n }) => n) },
    ...rest,
  };
}

function transition(job: JobProgressFields, event: JobEventBody, now: number) {
  return { event, next: evolve(job, happened(event, now)) };
}

export function runsOf(store: Store): RunStore {
  return store.runs;
}

/** Short forms of the verbs for runs. */
export class RunBench {
  readonly #bench: Bench;
  constructor(bench: Bench) {
    this.#bench = bench;
  }

  get runs(): RunStore {
    return runsOf(this.#bench.store);
  }

  /** Stores a run, and its definition. */
  async submit(parts: RunParts = {}): Promise<string> {
    await saveDefinition(this.#bench.store);
    const run = newRun(parts);
    const [answer] = await this.#bench.store.insert([run], parts.at ?? T0);
    if (answer?.status !== "inserted") throw new Error(`not inserted: ${JSON.stringify(answer)}`);
    return run.id;
  }

  async load(id: string, now = T0): Promise<LoadedRun> {
    const [loaded] = await this.runs.load([id], now);
    if (loaded == null) throw new Error(`nothing is due in ${id}`);
    return loaded;
  }

  async write(loaded: LoadedRun, parts: AdvanceParts = {}, now = T0): Promise<AdvanceAnswer> {
    return advanceOn(this.#bench.store, loaded, parts, now);
  }

  /** Loads and writes. */
  async advance(id: string, parts: AdvanceParts = {}, now = T0): Promise<void> {
    const answer = await this.write(await this.load(id, now), parts, now);
    if (answer.status !== "written") throw new Error(`not written: ${answer.status}`);
  }

  /** A run whose first steps are open: their jobs, in order. */
  async started(start: readonly StartParts[] = [{}], parts: RunParts = {}): Promise<{ id: string; jobs: string[] }> {
    const id = await this.submit(parts);
    await this.advance(id, { start }, parts.at);
    const rows = await this.runs.steps({ run: id, after: 0, limit: 1_000 });
    return { id, jobs: rows.flatMap(({ job }) => job ?? []) };
  }

  async row(id: string): Promise<RunRow> {
    const row = await this.runs.row(id);
    if (row === null) throw new Error(`no run ${id}`);
    return row;
  }

  async due(now = T0, limit = 100): Promise<string[]> {
    return (await this.runs.due({ now, limit })).runs;
  }

  /** The unread messages as text. */
  async messages(id: string, now = T0): Promise<string[]> {
    const [loaded] = await this.runs.load([id], now);
    return (loaded?.messages ?? []).map(({ kind, ref }) => (ref === null ? kind : `${kind} ${ref}`));
  }
}

export async function advanceOn(
  store: Store,
  loaded: LoadedRun,
  parts: AdvanceParts = {},
  now = T0,
): Promise<AdvanceAnswer> {
  const write = writeOf(loaded, parts, now);
  const [answer] = await runsOf(store).advance([write], now);
  if (answer?.status === "written") {
    const unrecorded = write.transitions.length === 0 ? write.read.length : 0;
    sentByRun.set(write.run, (sentByRun.get(write.run) ?? 0) + write.send.length - unrecorded);
  }
  return answer as AdvanceAnswer;
}

export async function saveDefinition(store: Store, now = T0): Promise<void> {
  await runsOf(store).savePlaybooks([{ hash: DEFINITION, body: '{"steps":[]}' }], [], now);
}
