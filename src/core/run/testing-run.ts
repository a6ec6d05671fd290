/** A run in memory, for tests of advances: it loads exactly what an advance asks for, applies its plans as a store does, and checks
 *  after each of them what must hold. Jobs do nothing by themselves: a test ends them. */
import type { Mutable } from "../check.ts";
import { type Failure, failure } from "../decision/failure.ts";
import { decideCommand } from "../job/command.ts";
import type { JobEventBody } from "../job/event.ts";
import { isTerminal, type Job, type JobState } from "../job/job.ts";
import { testJob } from "../job/testing-job.ts";
import { type Playbook, RUN_KIND } from "../playbook/playbook.ts";
import { advance } from "./advance.ts";
import { messageOf } from "./inbox.ts";
import { runTroubles } from "./invariants.ts";
import type { AdvancePlan, FoundPlaybook, Known, Needs, PlannedJob } from "./plan.ts";
import {
  isOpen,
  type LoadedRun,
  type RunMessage,
  type RunRedrive,
  type RunRow,
  type StepRow,
  type StoredOutput,
} from "./run.ts";
import { newRunProgress } from "./start.ts";

export const RUN_T0 = Date.UTC(2026, 0, 1);

export interface TestRunOptions {
  readonly input?: Readonly<Record<string, unknown>>;
  /** Sub-playbooks by path. */
  readonly paths?: Readonly<Record<string, Playbook>>;
  /** A cancel of an open step only asks: a test ends it. Else it is cancelled at once. */
  readonly running?: boolean;
  readonly depth?: number;
}

interface TestStepJob {
  readonly planned: PlannedJob;
  state: JobState;
  result: string | null;
  failure: Failure | null;
  isAsked: boolean;
}

export class TestRun {
  playbook: Playbook;
  job: Job;
  run: RunRow;
  now = RUN_T0;
  readonly rows = new Map<number, Mutable<StepRow>>();
  readonly jobs = new Map<string, TestStepJob>();
  readonly events: (JobEventBody & { readonly at: number })[] = [];
  readonly variables: Record<string, string> = {};
  readonly timers = new Map<number, number>();
  messages: RunMessage[] = [];
  plans: AdvancePlan[] = [];
  rounds = 0;
  /** Jobs below that the run asked to redrive. */
  readonly redriven: string[] = [];
  readonly #lists = new Map<number, string>();
  readonly #loops = new Map<string, number>();
  readonly #own = new Map<number, { result: string | null; failure: Failure | null }>();
  readonly #options: TestRunOptions;
  #before: Playbook | null = null;
  #no = 0;
  #ids = 0;

  constructor(playbook: Playbook, options: TestRunOptions = {}) {
    this.playbook = playbook;
    this.#options = options;
    const id = "job_run";
    this.job = testJob({
      ...{ id, kind: RUN_KIND, state: "blocked", attempt: 0, worker: null },
      depth: options.depth ?? 0,
    });
    const deadlineAt = playbook.timeoutMs === null ? null : this.now + playbook.timeoutMs;
    this.run = {
      ...newRunProgress(),
      ...{
        id,
        namespace: "default",
        playbook: "hash",
        pins: {},
        deadlineAt,
        result: null,
        failure: null,
        origin: null,
      },
      data: JSON.stringify({ inputs: options.input ?? {}, workload: null }),
    };
    this.message("start");
  }

  message(kind: RunMessage["kind"], ref: string | null = null, body: unknown = null): void {
    this.messages.push({ no: ++this.#no, kind, ref, at: this.now, body });
  }

  /** Advances until nothing is unread or due. */
  settle(): this {
    for (let turns = 0; turns < 10_000; turns++) {
      const isDue = [...this.timers.values()].some((dueAt) => dueAt <= this.now);
      if (this.messages.length === 0 && !isDue) return this;
      this.advance();
    }
    throw new Error("the run advances without an end");
  }

  advance(): AdvancePlan {
    const loaded = this.load();
    const known = { ...emptyKnown(), outputs: new Map(), items: new Map(), lists: new Map(), paths: new Map() };
    for (let round = 0; round < 100; round++) {
      this.rounds++;
      const answer = advance({
        ...{ loaded, playbook: this.playbook, before: this.#before, now: this.now, known },
        newJobId: () => `job_${++this.#ids}`,
      });
      if (answer.kind === "plan") {
        this.apply(answer.plan, loaded);
        return answer.plan;
      }
      this.#fetch(answer.needs, known as never);
    }
    throw new Error("an advance asks for more and more");
  }

  load(): LoadedRun {
    const messages = this.messages.slice(0, 500);
    const timers = [...this.timers].flatMap(([n, dueAt]) => (dueAt <= this.now ? [{ n, dueAt }] : [])).slice(0, 500);
    const numbers = new Set<number>(timers.map(({ n }) => n));
    const ends: Record<string, { state: JobState; reason: null; failure: Failure | null }> = {};
    for (const { ref } of messages) {
      const job = ref === null ? undefined : this.jobs.get(ref);
      if (ref === null || job === undefined) continue;
      numbers.add(job.planned.n);
      ends[ref] = { state: job.state, reason: null, failure: job.failure };
    }
    for (const n of [...numbers]) {
      const row = this.rows.get(n);
      const loop = row === undefined || row.item < 0 ? undefined : this.#loopOf(row);
      if (loop !== undefined) numbers.add(loop);
    }
    const steps = [...numbers].flatMap((n) => this.rows.get(n) ?? []).map((row) => ({ ...row }));
    return {
      ...{ job: this.job, run: this.run, messages, timers, steps, ends },
      hasMoreMessages: this.messages.length > 500,
    };
  }

  /** The latest row of the loop that an item belongs to. */
  #loopOf({ node, visit }: StepRow): number | undefined {
    return this.#loops.get(`${node} ${visit}`);
  }

  #fetch(needs: Needs, known: Mutable<Known> & { outputs: Map<number, StoredOutput> }): void {
    const of = (n: number): StoredOutput => {
      const step = { ...(this.rows.get(n) as StepRow) };
      const own = this.#own.get(n);
      const job = step.job === null ? undefined : this.jobs.get(step.job);
      const attempt = job === undefined ? 0 : 1;
      return {
        step,
        result: own?.result ?? job?.result ?? null,
        failure: own?.failure ?? job?.failure ?? null,
        attempt,
      };
    };
    for (const n of needs.outputs) known.outputs.set(n, of(n));
    for (const n of needs.items) {
      const { node, visit } = this.rows.get(n) as StepRow;
      const items = new Map<number, StoredOutput>();
      for (const row of this.rows.values()) {
        if (row.node === node && row.visit === visit && row.item >= 0 && row.n > n) items.set(row.item, of(row.n));
      }
      (known.items as Map<number, StoredOutput[]>).set(
        n,
        [...items.values()].sort((a, b) => a.step.item - b.step.item),
      );
    }
    for (const n of needs.lists) {
      (known.lists as Map<number, unknown[]>).set(n, JSON.parse(this.#lists.get(n) as string) as unknown[]);
    }
    if (needs.variables) {
      const entries = Object.entries(this.variables).map(([name, value]) => [name, JSON.parse(value) as unknown]);
      known.variables = Object.fromEntries(entries) as Record<string, unknown>;
    }
    for (const path of needs.paths) {
      const playbook = this.#options.paths?.[path];
      const found = playbook === undefined ? null : { hash: `hash of ${path}`, playbook, pins: {} };
      (known.paths as Map<string, FoundPlaybook | null>).set(path, found);
    }
    if (needs.waiting)
      known.waiting = [...this.rows.values()].filter(({ state }) => state === "waiting").map((row) => ({ ...row }));
  }

  apply(plan: AdvancePlan, loaded: LoadedRun): void {
    if (plan.stop) this.#stopSteps(loaded.run.made);
    for (const id of plan.redrive) {
      const job = this.jobs.get(id) as TestStepJob;
      if (job.state === "failed" || job.state === "cancelled")
        Object.assign(job, { state: "blocked", failure: null, isAsked: false });
      this.redriven.push(id);
    }
    if (plan.made.length > 500 || plan.read.length > 500) throw new Error("an advance does too much");
    this.plans.push(plan);
    for (const { event, next } of plan.transitions) {
      this.events.push({ ...event, at: this.now });
      this.job = { ...this.job, ...next };
    }
    const { data, playbook, deadlineAt, result, failure: cause } = plan;
    this.run = {
      ...this.run,
      // As read back from a store.
      ...(JSON.parse(JSON.stringify(plan.progress)) as typeof plan.progress),
      ...(data === undefined ? {} : { data }),
      ...(playbook === undefined ? {} : { playbook }),
      ...(deadlineAt === undefined ? {} : { deadlineAt }),
      ...(result === undefined ? {} : { result }),
      ...(cause === undefined ? {} : { failure: cause }),
    };
    if (playbook !== undefined) this.#before = null;
    for (const { row, items, result: own, failure: why } of plan.made) {
      this.rows.set(row.n, structuredClone(row) as Mutable<StepRow>);
      if (items !== null) {
        this.#lists.set(row.n, items);
        this.#loops.set(`${row.node} ${row.visit}`, row.n);
      }
      if (own !== null || why !== null) this.#own.set(row.n, { result: own, failure: why });
    }
    for (const { n, state, endedAt, result: own, failure: why } of plan.changed) {
      Object.assign(this.rows.get(n) as object, { state, endedAt });
      if (own === undefined && why === undefined) continue;
      const before = this.#own.get(n) ?? { result: null, failure: null };
      this.#own.set(n, {
        result: own === undefined ? before.result : own,
        failure: why === undefined ? before.failure : why,
      });
    }
    for (const planned of plan.jobs) {
      this.jobs.set(planned.id, { planned, state: "queued", result: null, failure: null, isAsked: false });
    }
    Object.assign(this.variables, plan.variables);
    this.messages = this.messages.filter(({ no }) => !plan.read.includes(no));
    for (const { kind, body } of plan.send) this.message(kind, null, body);
    for (const n of plan.timers.drop) this.timers.delete(n);
    for (const { n, dueAt } of plan.timers.set) this.timers.set(n, dueAt);
    if (isTerminal(this.job.state)) this.timers.clear();
    // All of a long run at each advance would take quadratic time.
    if (this.rows.size < 100 || this.plans.length % 50 === 0 || this.run.phase === "ended") this.check();
  }

  #stopSteps(upTo: number): void {
    const open = [...this.rows.values()].filter(({ state, job, n }) => isOpen(state) && job !== null && n <= upTo);
    const asked = open.flatMap(({ job }) => {
      const each = this.jobs.get(job as string) as TestStepJob;
      return each.isAsked || isTerminal(each.state) ? [] : [each];
    });
    for (const each of asked.slice(0, 200)) {
      each.isAsked = true;
      if (this.#options.running !== true) this.#endJob(each, "cancelled", null, null);
    }
  }

  #endJob(job: TestStepJob, state: JobState, result: unknown, cause: Failure | null): void {
    if (isTerminal(job.state)) throw new Error(`${job.planned.id} has ended`);
    job.state = state;
    job.result = state === "succeeded" ? JSON.stringify(result ?? null) : null;
    job.failure = cause;
    if (job.planned.isChild) this.message("ended", job.planned.id);
  }

  check(): void {
    const troubles = runTroubles({
      ...{ run: this.run, job: this.job, steps: [...this.rows.values()], unread: this.messages, events: this.events },
      playbook: this.playbook,
      timers: [...this.timers].map(([n, dueAt]) => ({ n, dueAt })),
      jobs: new Map([...this.jobs].flatMap(([id, { state, planned }]) => (planned.isChild ? [[id, state]] : []))),
    });
    if (troubles.length > 0) throw new Error(troubles.join("\n"));
    const size = JSON.stringify(this.run.state).length;
    if (size > 65_536) throw new Error(`the state has ${size} characters`);
  }

  // What tests do.

  /** Open jobs, oldest first. `node` may have an item: `fetch[2]`. */
  open(node?: string): (StepRow & { readonly planned: PlannedJob; readonly isAsked: boolean })[] {
    return [...this.rows.values()].flatMap((row) => {
      const job = row.job === null ? undefined : this.jobs.get(row.job);
      if (job === undefined || row.state !== "open" || isTerminal(job.state)) return [];
      const name = row.item < 0 ? row.node : `${row.node}[${row.item}]`;
      return node === undefined || node === name || node === row.node
        ? [{ ...row, planned: job.planned, isAsked: job.isAsked }]
        : [];
    });
  }

  end(node: string, state: "succeeded" | "failed" | "cancelled", value: unknown = null): this {
    const [row] = this.open(node);
    if (row === undefined)
      throw new Error(`no job of ${node} is open; open are: ${this.open().map((each) => each.node)}`);
    return this.endById(row.job as string, state, value);
  }

  /** The same for callers that know the job. */
  endById(id: string, state: "succeeded" | "failed" | "cancelled", value: unknown = null): this {
    const cause = state === "failed" ? failure({ kind: "error", message: String(value ?? "it failed") }) : null;
    this.#endJob(this.jobs.get(id) as TestStepJob, state, value, cause);
    return this;
  }

  succeed(node: string, result: unknown = null): this {
    return this.end(node, "succeeded", result).settle();
  }

  fail(node: string, message = "it failed"): this {
    return this.end(node, "failed", message).settle();
  }

  cancel(): this {
    return this.#command({ kind: "cancel" });
  }

  /** `playbook`: another definition. */
  redrive(changes: RunRedrive = {}, playbook?: Playbook): this {
    if (playbook !== undefined) {
      this.#before = this.playbook;
      this.playbook = playbook;
    }
    return this.#command({
      kind: "redrive",
      run: playbook === undefined ? changes : { ...changes, playbook: "another" },
    });
  }

  #command(command: Parameters<typeof decideCommand>[1]): this {
    const decision = decideCommand(this.job, command, this.now);
    if (decision.kind !== "apply") throw new Error(decision.message);
    const message = messageOf(this.job, decision.event, decision.next);
    this.job = { ...this.job, ...decision.next };
    this.events.push({ ...decision.event, at: this.now });
    if (message !== null) this.message(message.kind, message.ref, message.body);
    return this;
  }

  wait(ms: number): this {
    this.now += ms;
    return this.settle();
  }

  /** `a: succeeded, b#2: open, c[0]: failed`, in the order of rows. */
  states(): string {
    return [...this.rows.values()]
      .map(({ node, visit, item, try: attempt, state }) => {
        const at = `${visit > 1 ? `#${visit}` : ""}${item < 0 ? "" : `[${item}]`}${attempt > 1 ? `~${attempt}` : ""}`;
        return `${node}${at}: ${state}`;
      })
      .join(", ");
  }
}

function emptyKnown(): Pick<Known, "variables" | "waiting"> {
  return { variables: null, waiting: null };
}
