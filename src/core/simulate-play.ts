/** A job in a simulation, and the steps it has gone through. The times beside the drawn one bound what other draws of jitter
 *  would make of the same steps. */
import { decideCommand } from "./command.ts";
import { type Decision, decide } from "./decide.ts";
import type { JobEvent, JobEventBody } from "./event.ts";
import { because, type DecidedEvent } from "./explain-decision.ts";
import { evolve } from "./fold.ts";
import type { Job, Usage } from "./job.ts";
import {
  DEFAULT_PRIORITY,
  happened,
  NO_LABELS,
  settleJob,
  startedData,
  submitJob,
  type Transition,
} from "./lifecycle.ts";
import type { Outcome } from "./outcome.ts";
import type { Range, Scenario, SimulatedEnd, SimulatedStep } from "./simulate.ts";
import type { Played } from "./simulate-outcome.ts";
import type { AttemptRow } from "./views.ts";

/** The step that gives a run back as if it had not been: `maxElapsed` does not hold there. */
const HANDED_BACK = 4;
/** The draw that leaves a delay as it is. */
const MIDDLE = 0.5;

/** An instant as drawn, and the earliest and the latest that other draws make of it. */
interface When {
  readonly at: number;
  readonly least: number;
  readonly most: number;
}

const BEGINNING: When = { at: 0, least: 0, most: 0 };

function later({ at, least, most }: When, ms: number, [leastMs, mostMs]: Range = [ms, ms]): When {
  return { at: at + ms, least: least + leastMs, most: most + mostMs };
}

export class Play {
  job: Job;
  readonly steps: SimulatedStep[] = [];
  readonly attempts: AttemptRow[] = [];
  readonly events: JobEvent[] = [];
  readonly #scenario: Scenario;
  #due = BEGINNING;
  #firstStart: When | null = null;
  /** Of the last step. */
  #ended = BEGINNING;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    const fresh = { ...NEW_JOB, ...scenario.job, policy: scenario.policy };
    const { event, next } = submitJob(fresh, 0);
    this.job = { ...fresh, ...next };
    this.#keep(event, 0);
  }

  step(played: Played): void {
    const start = this.#due;
    const isRun = played.kind !== "wait";
    if (isRun) this.#start(start);
    const tookMs = this.#tookMs(played);
    this.#ended = later(start, tookMs);
    if (played.kind === "cancel") this.#cancel();
    const before = this.job;
    const { at } = this.#ended;
    const usage = isRun ? (this.#scenario.usage ?? null) : null;
    const outcome = played.outcome(before, at);
    const { decision, event, next } = settleJob(before, outcome, usage, at, this.#scenario.random?.() ?? MIDDLE);
    const kept = this.#keep(event, at) as DecidedEvent;
    this.job = { ...before, ...next };
    if (isRun) this.attempts.push(attemptRow(before, outcome, usage, at));

    const range = rangeOf(before, outcome, decision, at);
    const deferred = decision.kind === "retry" && next.defers > before.defers;
    const { delay } = decision.kind === "retry" ? decision : { delay: null };
    this.steps.push({
      attempt: isRun ? before.attempt : null,
      outcome: played.word,
      startMs: start.at,
      startRangeMs: [start.least, start.most],
      tookMs,
      decision: deferred ? "defer" : decision.kind,
      step: decision.step,
      class: decision.class,
      matched: decision.matched,
      matchedPart: decision.found?.part ?? null,
      matchedText: decision.found?.line ?? null,
      because: because({ event: kept, after: next, deferred, cancel: null }),
      reason: decision.kind === "fail" ? decision.reason : null,
      detail: decision.kind === "fail" ? decision.detail : null,
      charge: decision.charge,
      delayMs: delay?.delayMs ?? null,
      baseDelayMs: delay?.baseMs ?? null,
      delayRangeMs: delay === null ? null : range,
      dependsOnJitter: range !== null && this.#isClose(decision, range),
    });
    this.#due =
      delay === null ? this.#ended : this.#within(decision, later(this.#ended, delay.delayMs, range as Range));
  }

  end(stopped: SimulatedEnd["stopped"]): SimulatedEnd {
    const { state, reason, attempt, failures, losses } = this.job;
    const { at, least, most } = this.#ended;
    return {
      ...{ state, reason, detail: this.steps.at(-1)?.detail ?? null, attempts: attempt, failures, losses },
      ...{ totalMs: at, totalRangeMs: [least, most], stopped },
      nextRunMs: stopped === null ? null : this.#due.at,
    };
  }

  #start(start: When): void {
    const session = `session-${this.job.attempt + 1}`; // a worker of its own for each, as after a loss
    this.#apply({ name: "attempt.started", data: startedData(this.job.attempt + 1, session, session) }, start.at);
    this.#firstStart ??= start;
  }

  #cancel(): void {
    // It runs, and nobody has asked before: there is nothing that would refuse.
    const { event } = decideCommand(this.job, { kind: "cancel" }, this.#ended.at) as Transition;
    this.#apply(event, this.#ended.at);
  }

  #tookMs({ kind, outcome }: Played): number {
    const { timeoutMs, expireInMs } = this.job;
    if (kind === "wait") return expireInMs ?? 0;
    const takesMs = this.#scenario.takesMs ?? 0;
    if (timeoutMs === null) return takesMs;
    return outcome(this.job, this.#due.at).kind === "timeout" ? timeoutMs : Math.min(takesMs, timeoutMs);
  }

  #apply(event: JobEventBody, at: number): void {
    this.job = { ...this.job, ...evolve(this.job, happened(event, at)) };
    this.#keep(event, at);
  }

  #keep(event: JobEventBody, at: number): JobEvent {
    const n = this.events.length + 1;
    // Not by spreading: many simulations are played at once.
    const kept = { name: event.name, data: event.data, at, n, seq: n, jobId: this.job.id } as JobEvent;
    this.events.push(kept);
    return kept;
  }

  /** Whether other draws would put the next run on the other side of `maxElapsed`. */
  #isClose(decision: Decision, [leastMs, mostMs]: Range): boolean {
    const { maxElapsedMs } = this.#scenario.policy;
    const first = this.#firstStart;
    if (maxElapsedMs === null || first === null || decision.step === HANDED_BACK) return false;
    if (decision.kind === "retry") return this.#ended.most - first.most + mostMs > maxElapsedMs;
    return this.#ended.least - first.least + leastMs <= maxElapsedMs;
  }

  /** A run that comes at all comes within `maxElapsed`. */
  #within(decision: Decision, due: When): When {
    const { maxElapsedMs } = this.#scenario.policy;
    if (maxElapsedMs === null || this.#firstStart === null || decision.step === HANDED_BACK) return due;
    return { ...due, most: Math.min(due.most, this.#firstStart.most + maxElapsedMs) };
  }
}

/** What the delay is at the two ends of chance; null where there is none. Step 9 is left out: it forbids the wait, and does
 *  not change its length. */
function rangeOf(job: Job, outcome: Outcome, decision: Decision, at: number): Range | null {
  if (decision.kind !== "retry" && decision.step !== 9) return null;
  const free = { ...job, policy: { ...job.policy, maxElapsedMs: null } };
  const delayAt = (draw: number) =>
    (decide(free, outcome, at, draw) as Extract<Decision, { kind: "retry" }>).delay.delayMs;
  return [delayAt(0), delayAt(1)];
}

function attemptRow(job: Job, outcome: Outcome, usage: Usage | null, endedAt: number): AttemptRow {
  const { id, attempt, chapter, worker, startedAt } = job;
  const failure = outcome.kind === "failed" || outcome.kind === "timeout" ? outcome.failure : null;
  return {
    jobId: id,
    attempt,
    chapter,
    session: worker,
    startedAt: startedAt as number,
    endedAt,
    outcome: outcome.kind,
    failure,
    usage,
    result: null,
    log: null,
  };
}

const NEW_JOB = {
  ...{ id: "simulated", namespace: "default", queue: "default", kind: "exec", priority: DEFAULT_PRIORITY, key: null },
  ...{ tags: [], labels: NO_LABELS, submittedAt: 0, parentId: null, depth: 0, runAt: 0 },
  ...{ timeoutMs: null, expireInMs: null, deadlineAt: null },
} as const;
