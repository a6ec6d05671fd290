/** Plays outcomes through a policy without a store, a worker or a clock, once or many times, and returns the schedule
 *  that follows. Each step is the real `settleJob`. */

import { type Charge, type Decision, decide } from "../decision/decide.ts";
import type { DecisionStep, Match } from "../decision/match.ts";
import type { Outcome } from "../decision/outcome.ts";
import { because, type DecidedEvent } from "../explain/decision-text.ts";
import { decideCommand } from "../job/command.ts";
import type { JobEvent, JobEventBody } from "../job/event.ts";
import { evolve } from "../job/fold.ts";
import { type FailReason, isTerminal, type Job, type JobState, type Usage } from "../job/job.ts";
import {
  DEFAULT_PRIORITY,
  happened,
  NO_LABELS,
  settleJob,
  startedData,
  submitJob,
  type Transition,
} from "../job/lifecycle.ts";
import type { AttemptRow } from "../job/views.ts";
import type { Policy } from "../policy/policy.ts";
import type { PlayedOutcome } from "./played-outcome.ts";

// A job in a simulation, and the steps it has gone through. The times beside the drawn one bound what other draws of
// jitter would make of the same steps.

/** The draw that leaves a delay as it is. */
const MIDDLE = 0.5;

/** An instant as drawn, and the earliest and the latest that other draws make of it. */
interface SimulatedInstant {
  readonly at: number;
  readonly least: number;
  readonly most: number;
}

const BEGINNING: SimulatedInstant = { at: 0, least: 0, most: 0 };

function later(
  { at, least, most }: SimulatedInstant,
  ms: number,
  [leastMs, mostMs]: MsRange = [ms, ms],
): SimulatedInstant {
  return { at: at + ms, least: least + leastMs, most: most + mostMs };
}

class SimulatedJob {
  job: Job;
  readonly steps: SimulatedStep[] = [];
  readonly attempts: AttemptRow[] = [];
  readonly events: JobEvent[] = [];
  readonly #scenario: Scenario;
  #due = BEGINNING;
  #firstStart: SimulatedInstant | null = null;
  /** Of the last step. */
  #ended = BEGINNING;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    const fresh = { ...NEW_JOB, ...scenario.job, policy: scenario.policy };
    const { event, next } = submitJob(fresh, 0);
    this.job = { ...fresh, ...next };
    this.#keep(event, 0);
  }

  step(played: PlayedOutcome): void {
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
      match: decision.match ?? null,
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
      delay === null ? this.#ended : this.#within(decision, later(this.#ended, delay.delayMs, range as MsRange));
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

  #start(start: SimulatedInstant): void {
    const session = `session-${this.job.attempt + 1}`; // a worker of its own for each, as after a loss
    this.#apply({ name: "attempt.started", data: startedData(this.job.attempt + 1, session, session) }, start.at);
    this.#firstStart ??= start;
  }

  #cancel(): void {
    // It runs, and nobody has asked before: there is nothing that would refuse.
    const { event } = decideCommand(this.job, { kind: "cancel" }, this.#ended.at) as Transition;
    this.#apply(event, this.#ended.at);
  }

  #tookMs({ kind, outcome }: PlayedOutcome): number {
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
  #isClose(decision: Decision, [leastMs, mostMs]: MsRange): boolean {
    const { maxElapsedMs } = this.#scenario.policy;
    const first = this.#firstStart;
    if (maxElapsedMs === null || first === null || isHandedBack(decision)) return false;
    if (decision.kind === "retry") return this.#ended.most - first.most + mostMs > maxElapsedMs;
    return this.#ended.least - first.least + leastMs <= maxElapsedMs;
  }

  /** A run that comes at all comes within `maxElapsed`. */
  #within(decision: Decision, due: SimulatedInstant): SimulatedInstant {
    const { maxElapsedMs } = this.#scenario.policy;
    if (maxElapsedMs === null || this.#firstStart === null || isHandedBack(decision)) return due;
    return { ...due, most: Math.min(due.most, this.#firstStart.most + maxElapsedMs) };
  }
}

/** The attempt counts as if it had not been: `maxElapsed` does not apply. */
function isHandedBack({ step }: Decision): boolean {
  return step === "handback";
}

/** What the delay is at the two ends of chance; null where there is none. `maxElapsed` is left out: it forbids the
 *  wait, and does not change its length. */
function rangeOf(job: Job, outcome: Outcome, decision: Decision, at: number): MsRange | null {
  if (decision.kind !== "retry" && decision.step !== "elapsed") return null;
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

// Plays outcomes through a policy without a store, a worker or a clock, and tells the schedule that follows: when
// each run starts, what is decided after it and why, how long it waits and how far chance may move that, where it
// ends. Each step is the real `settleJob`, on a job that is queued and started by the real events; nothing is decided
// here. A worker is taken to be free whenever the job is due, and a lost one to be noticed at once.

export interface Scenario {
  readonly policy: Policy;
  readonly job?: Partial<Pick<Job, "kind" | "timeoutMs" | "expireInMs">>;
  /** How long a run takes, at most its timeout. One that times out takes all of its timeout, if there is one. */
  readonly takesMs?: number;
  /** What each run uses up of the budgets. */
  readonly usage?: Usage | null;
  /** How the n-th step ends, from 0; null when there is no more to play. */
  readonly next: (n: number) => PlayedOutcome | null;
  /** Draws for jitter, from 0 to below 1. Without it delays are those without jitter. */
  readonly random?: () => number;
  /** No more steps than this, whatever the policy grants. */
  readonly maxSteps?: number;
}

/** From least to most, both reached. */
export type MsRange = readonly [leastMs: number, mostMs: number];

/** One run and what was decided after it. All times are milliseconds since the beginning. */
export interface SimulatedStep {
  /** Null for a wait that ran out: nobody started it. */
  readonly attempt: number | null;
  /** The word that was played. */
  readonly outcome: string;
  readonly startMs: number;
  readonly startRangeMs: MsRange;
  /** How long it ran, or waited to be started. */
  readonly tookMs: number;
  readonly decision: Decision["kind"] | "defer";
  /** Which step of the decision, and what of the policy or of the outcome; null where the step alone says it. */
  readonly step: DecisionStep;
  readonly class: string;
  readonly match: Match | null;
  readonly because: string;
  readonly reason: FailReason | null;
  readonly detail: string | null;
  readonly charge: Charge | null;
  /** Until the next run is due; null when there is none. */
  readonly delayMs: number | null;
  /** Before jitter. */
  readonly baseDelayMs: number | null;
  readonly delayRangeMs: MsRange | null;
  /** Other draws would have decided otherwise: the next run is due close to `maxElapsed`. */
  readonly dependsOnJitter: boolean;
}

export interface SimulatedEnd {
  readonly state: JobState;
  readonly reason: FailReason | null;
  readonly detail: string | null;
  /** Runs started. */
  readonly attempts: number;
  readonly failures: number;
  readonly losses: number;
  readonly totalMs: number;
  /** Of these steps, whatever chance draws. */
  readonly totalRangeMs: MsRange;
  /** Null when the job has ended. Else why there is no more: nothing left to play, or `maxSteps`. */
  readonly stopped: "script" | "limit" | null;
  /** When the next run would be due, for a job that has not ended. */
  readonly nextRunMs: number | null;
}

export interface Simulation {
  readonly steps: readonly SimulatedStep[];
  readonly end: SimulatedEnd;
  /** The job at its end, with what a store would keep of it, for whoever tells it in other words. */
  readonly job: Job;
  readonly attempts: readonly AttemptRow[];
  readonly events: readonly JobEvent[];
}

/** Nobody reads more. */
const MAX_STEPS = 10_000;

export function simulate(scenario: Scenario): Simulation {
  const play = new SimulatedJob(scenario);
  const limit = scenario.maxSteps ?? MAX_STEPS;
  let stopped: SimulatedEnd["stopped"] = null;
  while (!isTerminal(play.job.state) && stopped === null) {
    const played = play.steps.length < limit ? scenario.next(play.steps.length) : null;
    if (played !== null) play.step(played);
    else stopped = play.steps.length < limit ? "script" : "limit";
  }
  const { job, steps, attempts, events } = play;
  return { steps, end: play.end(stopped), job, attempts, events };
}

// What a simulation plays: a list of outcomes, or failures at a rate. And many simulations at once, as a
// distribution.

/** One after the other; then nothing more, or the last again and again. */
export function scripted(list: readonly PlayedOutcome[], repeat = false): Scenario["next"] {
  return (n) => list[n] ?? (repeat ? (list.at(-1) ?? null) : null);
}

/** Each run fails with this chance, in one of these ways, all alike. */
export function failingAt(
  rate: number,
  ways: readonly [PlayedOutcome, ...PlayedOutcome[]],
  success: PlayedOutcome,
  random: () => number,
): Scenario["next"] {
  return () => {
    if (random() >= rate) return success;
    return ways[Math.floor(random() * ways.length)] ?? ways[0];
  };
}

/** Of many numbers. The percentiles are numbers that occurred. */
export interface Percentiles {
  readonly mean: number;
  readonly least: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly most: number;
}

/** How many simulations ended alike. */
interface EndShare {
  readonly state: JobState;
  readonly reason: FailReason | null;
  readonly count: number;
  readonly share: number;
}

export interface Distribution {
  readonly runs: number;
  /** Fewer simulations than were asked for: together they had more steps than are played. */
  readonly cutShort: boolean;
  readonly succeeded: number;
  readonly succeededShare: number;
  /** The commonest first. */
  readonly ends: readonly EndShare[];
  readonly attempts: Percentiles;
  readonly totalMs: Percentiles;
}

/** Steps of all simulations together: ten seconds or so. */
const MAX_TOTAL_STEPS = 1_000_000;

/** So many simulations of one scenario, at least one. Its draws must go on from one to the next. */
export function simulateMany(scenario: Scenario, runs: number, maxSteps = MAX_TOTAL_STEPS): Distribution {
  const ends = new Map<string, { state: JobState; reason: FailReason | null; count: number }>();
  const [attempts, totals]: [number[], number[]] = [[], []];
  for (let steps = 0; attempts.length < runs && (attempts.length === 0 || steps < maxSteps); ) {
    const { end, steps: played } = simulate(scenario);
    steps += played.length;
    attempts.push(end.attempts);
    totals.push(end.totalMs);
    const name = `${end.state} ${end.reason}`;
    const alike = ends.get(name) ?? { state: end.state, reason: end.reason, count: 0 };
    ends.set(name, { ...alike, count: alike.count + 1 });
  }
  const done = attempts.length;
  const succeeded = ends.get("succeeded null")?.count ?? 0;
  const counted = [...ends.values()].sort((a, b) => b.count - a.count);
  return {
    ...{ runs: done, cutShort: done < runs, succeeded, succeededShare: succeeded / done },
    ends: counted.map((each) => ({ ...each, share: each.count / done })),
    ...{ attempts: spreadOf(attempts), totalMs: spreadOf(totals) },
  };
}

function spreadOf(numbers: readonly number[]): Percentiles {
  const sorted = [...numbers].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number;
  const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
  return { mean, least: at(0), p50: at(0.5), p90: at(0.9), p99: at(0.99), most: at(1) };
}
