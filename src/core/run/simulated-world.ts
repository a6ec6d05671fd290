/** Runs and the jobs of their steps in memory, on a virtual clock: what stores, engines and workers do, without them. Decisions are
 *  those of `advance`, `decide` and `decideCommand`. A worker is always free, a lost one is detected immediately, and messages are
 *  read at the instant at which they are written. */
import type { Mutable } from "../check.ts";
import type { Failure } from "../decision/failure.ts";
import type { Outcome } from "../decision/outcome.ts";
import { decideCommand } from "../job/command.ts";
import type { JobEvent, JobEventBody } from "../job/event.ts";
import { evolve } from "../job/fold.ts";
import { isTerminal, type Job, type JobProgressFields } from "../job/job.ts";
import { DEFAULT_PRIORITY, happened, type Settlement, settleJob, startedData, submitJob } from "../job/lifecycle.ts";
import { type Playbook, type PlaybookStep, RUN_KIND } from "../playbook/playbook.ts";
import { presets } from "../policy/presets.ts";
import { advance } from "./advance.ts";
import { DueQueue } from "./due-queue.ts";
import { messageOf } from "./inbox.ts";
import type { AdvancePlan, FoundPlaybook, PlannedJob } from "./plan.ts";
import type { LoadedRun, RunMessageKind, StepRow } from "./run.ts";
import { KnownOfRun, SimulatedRun, type SimulatedStepJob } from "./simulated-run.ts";

/** What an attempt does. */
export interface AttemptPlay {
  readonly word: string;
  /** wait: no worker starts it. cancel: it is cancelled while it runs. */
  readonly kind: "run" | "wait" | "cancel";
  readonly takesMs: number;
  outcome(job: Job, endsAt: number): Outcome;
}

export interface WorldOptions {
  readonly startAt: number;
  /** A sub-playbook by the path in a step. Null: its step is played like any other. */
  readonly playbooks: (path: string) => Playbook | null;
  /** Whether the attempts of this step are played, and not the run below that it starts. */
  readonly isPlayed: (step: SimulatedStepJob) => boolean;
  readonly play: (step: SimulatedStepJob) => AttemptPlay;
  readonly random: () => number;
  readonly seen: (happening: Happening) => void;
  readonly maxEvents: number;
}

/** What happened in a simulation, in order. */
export type Happening =
  | {
      readonly kind: "attempt";
      readonly step: SimulatedStepJob;
      readonly startedAt: number;
      readonly at: number;
      readonly before: Job;
      readonly play: AttemptPlay;
      readonly outcome: Outcome;
      readonly settled: Settlement;
    }
  | { readonly kind: "advanced"; readonly run: SimulatedRun; readonly at: number; readonly plan: AdvancePlan };

export class SimulatedWorld {
  now: number;
  readonly root: SimulatedRun;
  /** Why it ended before the run did. */
  stopped: "limit" | "until" | "stuck" | null = null;
  readonly #options: WorldOptions;
  readonly #due = new DueQueue();
  /** Runs with messages or due timers. */
  readonly #busy = new Set<SimulatedRun>();
  #ids = 0;
  #messages = 0;
  #events = 0;

  constructor(playbook: Playbook, inputs: Readonly<Record<string, unknown>>, options: WorldOptions) {
    this.#options = options;
    this.now = options.startAt;
    const data = JSON.stringify({ inputs, workload: null });
    this.root = this.#startRun(playbook, data, null, null);
  }

  /** Until the run has ended, nothing is due, or the instant has come. */
  play(until = Number.POSITIVE_INFINITY): void {
    this.#readAll();
    while (!isTerminal(this.root.job.state)) {
      const next = this.#due.peek();
      if (next === undefined || next.at > until || this.#events >= this.#options.maxEvents) {
        this.stopped = next === undefined ? "stuck" : next.at > until ? "until" : "limit";
        if (this.stopped === "until") this.now = until;
        return;
      }
      this.#due.take();
      this.now = Math.max(this.now, next.at);
      this.#events += 1;
      next.do();
      this.#readAll();
    }
  }

  /** As an operator does. */
  cancel(): void {
    this.#cancelJob(this.root, this.root.job, (job) => {
      this.root.job = job;
    });
    this.#readAll();
  }

  #startRun(playbook: Playbook, data: string, timeoutMs: number | null, step: SimulatedStepJob | null): SimulatedRun {
    const timeout = timeoutMs ?? playbook.timeoutMs;
    const deadlineAt = timeout === null ? null : this.now + timeout;
    const job = step?.job ?? this.#newJob({ kind: RUN_KIND, policy: presets.default });
    const run = new SimulatedRun(playbook, job, data, deadlineAt, step);
    this.#send(run, "start", null, null);
    if (deadlineAt !== null) this.#setTimer(run, 0, deadlineAt);
    return run;
  }

  #newJob(parts: Pick<Job, "kind" | "policy"> & Partial<Job>): Job {
    const fresh = { ...NEW_JOB, ...parts, id: this.#newId(), submittedAt: this.now, runAt: this.now };
    const { event, next } = submitJob(fresh, this.now);
    const isRun = fresh.kind === RUN_KIND;
    return { ...fresh, ...next, ...(isRun ? { state: "blocked" as const } : {}), revision: event === null ? 0 : 1 };
  }

  #newId(): string {
    this.#ids += 1;
    return `job_${String(this.#ids).padStart(6, "0")}`;
  }

  #send(run: SimulatedRun, kind: RunMessageKind, ref: string | null, body: unknown): void {
    this.#messages += 1;
    run.inbox.push({ no: this.#messages, kind, ref, at: this.now, body });
    this.#busy.add(run);
  }

  #setTimer(run: SimulatedRun, n: number, dueAt: number): void {
    run.timers.set(n, dueAt);
    this.#due.add(dueAt, () => this.#busy.add(run));
  }

  /** Until no run has anything to read. */
  #readAll(): void {
    while (this.#events < this.#options.maxEvents) {
      const [run] = this.#busy;
      if (run === undefined) return;
      this.#busy.delete(run);
      if (!this.#isDue(run)) continue;
      this.#events += 1;
      this.#advance(run);
      if (this.#isDue(run)) this.#busy.add(run);
    }
  }

  #isDue({ inbox, timers, job }: SimulatedRun): boolean {
    if (inbox.length > 0) return true;
    return !isTerminal(job.state) && [...timers.values()].some((at) => at <= this.now);
  }

  #advance(run: SimulatedRun): void {
    const loaded = this.#load(run);
    const known = new KnownOfRun(run, (path) => this.#found(run, path));
    const input = {
      ...{ loaded, playbook: run.playbook, before: null, now: this.now, known },
      newJobId: () => this.#newId(),
    };
    let answer = advance(input);
    // Each turn adds what was missing, so this ends; a mistake in that must not hang.
    for (let turn = 0; answer.kind === "needs" && turn < 100; turn++) {
      known.load(answer.needs);
      answer = advance(input);
    }
    if (answer.kind === "needs")
      throw new Error(`an advance needs what does not exist: ${JSON.stringify(answer.needs)}`);
    if (answer.plan.stop) this.#stopSteps(run);
    this.#write(run, answer.plan);
    this.#options.seen({ kind: "advanced", run, at: this.now, plan: answer.plan });
  }

  #load(run: SimulatedRun): LoadedRun {
    const messages = run.inbox.slice(0, 500);
    const timers = [...run.timers].flatMap(([n, dueAt]) => (dueAt <= this.now ? [{ n, dueAt }] : []));
    const steps = new Map<number, StepRow>();
    const ends: Record<string, Pick<Job, "state" | "reason"> & { failure: Failure | null }> = {};
    const add = (row: StepRow | undefined) => {
      if (row === undefined) return;
      steps.set(row.n, row);
      const loop = row.item < 0 ? undefined : run.loopOf(row);
      if (loop !== undefined) steps.set(loop.n, loop);
    };
    for (const { kind, ref } of messages) {
      const step = kind !== "ended" || ref === null ? undefined : run.jobs.get(ref);
      if (step === undefined) continue;
      add(run.rows.get(step.row.n));
      ends[step.job.id] = { state: step.job.state, reason: step.job.reason, failure: step.failure };
    }
    for (const { n } of timers) add(run.rows.get(n));
    const { progress, data, deadlineAt, result, failure, job } = run;
    return {
      job,
      run: {
        ...{ id: job.id, namespace: job.namespace, playbook: run.playbook.name, pins: {}, data, deadlineAt },
        ...{ result, failure, origin: null, ...progress },
      },
      messages,
      hasMoreMessages: run.inbox.length > messages.length,
      timers,
      steps: [...steps.values()],
      ends,
    };
  }

  #playbook(run: SimulatedRun, path: string): Playbook | null {
    const action = /^#\d+$/.test(path) ? run.playbook.steps[Number(path.slice(1))]?.action : undefined;
    return action?.type === "playbook" ? action.inline : this.#options.playbooks(path);
  }

  /** Nothing is played of a playbook that is not known. It has the steps that its callers take the output from. */
  #found(run: SimulatedRun, path: string): FoundPlaybook {
    const playbook = this.#playbook(run, path);
    if (playbook !== null) return { hash: path, playbook, pins: {} };
    const returned = run.playbook.steps.flatMap((step) => {
      const name = step.action?.type === "playbook" ? step.action.returnStep : null;
      return name === null ? [] : [{ ...step, name }];
    });
    return { hash: path, playbook: { ...run.playbook, inputs: null, workload: {}, steps: returned }, pins: {} };
  }

  #write(run: SimulatedRun, plan: AdvancePlan): void {
    for (const { event, next } of plan.transitions) {
      this.#keep(run, event);
      run.job = { ...run.job, ...next };
    }
    run.progress = plan.progress;
    if (plan.data !== undefined) run.data = plan.data;
    if (plan.deadlineAt !== undefined) run.deadlineAt = plan.deadlineAt;
    if (plan.result !== undefined) run.result = plan.result;
    if (plan.failure !== undefined) run.failure = plan.failure;
    for (const [name, json] of Object.entries(plan.variables)) run.variables[name] = JSON.parse(json);
    for (const { row, items, result, failure } of plan.made) {
      run.setRow(row);
      if (items !== null) run.lists.set(row.n, JSON.parse(items) as unknown[]);
      if (row.job === null || result !== null || failure !== null) run.results.set(row.n, { result, failure });
    }
    for (const { n, state, endedAt, result, failure } of plan.changed) {
      run.setRow({ ...(run.rows.get(n) as StepRow), state, endedAt });
      const own = run.results.get(n);
      if (result !== undefined || failure !== undefined) {
        run.results.set(n, { result: result ?? own?.result ?? null, failure: failure ?? own?.failure ?? null });
      }
    }
    const read = new Set(plan.read);
    run.inbox = run.inbox.filter(({ no }) => !read.has(no));
    for (const { kind, body } of plan.send) this.#send(run, kind, null, body);
    for (const n of plan.timers.drop) run.timers.delete(n);
    for (const { n, dueAt } of plan.timers.set) this.#setTimer(run, n, dueAt);
    for (const job of plan.jobs) this.#submit(run, job, run.rows.get(job.n) as StepRow);
    if (isTerminal(run.job.state)) this.#ended(run);
  }

  /** A run that is not awaited is not part of the simulation. */
  #submit(run: SimulatedRun, planned: PlannedJob, row: StepRow): void {
    if (!planned.isChild) return;
    const step = run.playbook.steps.find(({ name }) => name === row.node) as PlaybookStep;
    const type = step.action?.type ?? "task";
    const { policy, timeoutMs } = planned.options;
    const parts = { policy, timeoutMs, parentId: run.job.id, runId: run.job.id, depth: run.job.depth + 1 };
    const job = { ...this.#newJob({ ...parts, kind: planned.kind }), id: planned.id };
    const made: Mutable<SimulatedStepJob> = { run, row, step, type, job, result: null, failure: null, below: null };
    run.jobs.set(job.id, made);
    const { run: below } = planned;
    const playbook = below === null ? null : this.#playbook(run, below.hash);
    if (below !== null && playbook !== null && !this.#options.isPlayed(made)) {
      made.below = this.#startRun(playbook, below.data, below.timeoutMs, made);
      return;
    }
    // A step that is played is an ordinary job.
    if (below !== null) made.job = { ...job, kind: "task", state: "queued" };
    this.#due.add(job.runAt, () => this.#start(made));
  }

  #start(step: SimulatedStepJob): void {
    const { job } = step;
    if (job.state !== "queued" || job.runAt > this.now) return;
    const play = this.#options.play(step);
    const startedAt = this.now;
    if (play.kind !== "wait") {
      const session = `session-${job.attempt + 1}`;
      this.#change(step, { name: "attempt.started", data: startedData(job.attempt + 1, session, session) });
    }
    const { attempt } = step.job;
    this.#due.add(this.now + play.takesMs, () => {
      if (isTerminal(step.job.state) || step.job.attempt !== attempt) return;
      if (play.kind === "cancel") this.#cancelJob(null, step.job, (next) => (step.job = next));
      this.#settle(step, play, startedAt);
    });
  }

  #settle(step: SimulatedStepJob, play: AttemptPlay, startedAt: number): void {
    const before = step.job;
    const outcome = play.outcome(before, this.now);
    const settled = settleJob(before, outcome, null, this.now, this.#options.random());
    const { next, event } = settled;
    if (next.state === "succeeded" && outcome.kind === "completed")
      step.result = JSON.stringify(outcome.result ?? null);
    if (next.state === "failed") step.failure = failureIn(outcome, settled);
    step.job = { ...before, ...next };
    this.#options.seen({ kind: "attempt", step, startedAt, at: this.now, before, play, outcome, settled });
    this.#message(step, before, event, next);
    if (next.state === "queued") this.#due.add(next.runAt, () => this.#start(step));
  }

  #change(step: SimulatedStepJob, event: JobEventBody): void {
    const before = step.job;
    const next = evolve(before, happened(event, this.now));
    step.job = { ...before, ...next };
    this.#message(step, before, event, next);
  }

  #message({ run }: SimulatedStepJob, before: Job, event: JobEventBody, next: Pick<JobProgressFields, "state">): void {
    const message = messageOf(before, event, next);
    if (message !== null) this.#send(run, message.kind, message.ref, message.body);
  }

  /** Open steps: one that is queued ends at once, one that runs is interrupted, a run below reads its message. */
  #stopSteps(run: SimulatedRun): void {
    for (const step of run.jobs.values()) {
      if (isTerminal(step.job.state) || step.job.cancelRequestedAt !== null) continue;
      if (step.below !== null) {
        const { below } = step;
        this.#cancelJob(below, below.job, (job) => (below.job = job));
        step.job = below.job;
        continue;
      }
      const isRunning = step.job.state === "running";
      const decided = decideCommand(step.job, { kind: "cancel" }, this.now);
      if (decided.kind !== "apply") continue;
      this.#change(step, decided.event);
      if (isRunning) {
        const outcome = { kind: "interrupted" } as const;
        const play = { word: "cancelled", kind: "run", takesMs: 0, outcome: () => outcome } as const;
        this.#settle(step, play, step.job.startedAt ?? this.now);
      }
    }
  }

  #cancelJob(run: SimulatedRun | null, job: Job, set: (job: Job) => void): void {
    const decided = decideCommand(job, { kind: "cancel" }, this.now);
    if (decided.kind !== "apply") return;
    set({ ...job, ...decided.next });
    if (run === null) return;
    this.#keep(run, decided.event);
    const message = messageOf(job, decided.event, decided.next);
    if (message !== null) this.#send(run, message.kind, message.ref, message.body);
  }

  #keep(run: SimulatedRun, { name, data }: JobEventBody): void {
    const n = run.events.length + 1;
    run.events.push({ name, data, at: this.now, n, seq: n, jobId: run.job.id } as JobEvent);
  }

  /** The end of a run below is the end of a step. */
  #ended({ parent, job, result, failure, events }: SimulatedRun): void {
    if (parent === null) return;
    const before = parent.job;
    parent.job = { ...parent.job, state: job.state, reason: job.reason, finishedAt: this.now };
    parent.result = job.state === "succeeded" ? (result ?? "null") : null;
    parent.failure = failure;
    const last = events.at(-1) as JobEventBody;
    this.#message(parent, { ...before, state: "blocked" }, last, parent.job);
  }
}

function failureIn(outcome: Outcome, { event }: Settlement): Failure | null {
  if ("failure" in outcome) return outcome.failure;
  return "failure" in event.data ? ((event.data.failure as Failure | undefined) ?? null) : null;
}

const NEW_JOB = {
  namespace: "default",
  queue: "default",
  priority: DEFAULT_PRIORITY,
  key: null,
  tags: [],
  labels: {},
  parentId: null,
  runId: null,
  depth: 0,
  timeoutMs: null,
  expireInMs: null,
  deadlineAt: null,
} as const;
