/** Plays outcomes through a policy without a store, a worker or a clock, once or many times, and returns the schedule: when each
 *  attempt starts, what is decided after it and why, how long it waits, and where it ends. Each step is the real `settleJob`.
 *  A worker is always free when the job is due, and a lost one is detected immediately. */

import { type Charge, type Decision, decide } from "../decision/decide.ts";
import type { DecisionStep, Match } from "../decision/match.ts";
import type { Outcome } from "../decision/outcome.ts";
import { because, type DecidedEvent, endsAtMostOnce } from "../explain/decision-text.ts";
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

/** The random number without jitter. */
const MIDDLE = 0.5;

/** An instant, with its earliest and latest value under other jitter. */
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
  /** The end of the last step. */
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
    const isAtMostOnce = endsAtMostOnce(kept, before.policy.maxAttempts);
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
      because: because({ event: kept, after: next, deferred, cancel: null, isAtMostOnce }),
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
      state,
      reason,
      detail: this.steps.at(-1)?.detail ?? null,
      attempts: attempt,
      failures,
      losses,
      totalMs: at,
      totalRangeMs: [least, most],
      stopped,
      nextRunMs: stopped === null ? null : this.#due.at,
    };
  }

  #start(start: SimulatedInstant): void {
    const session = `session-${this.job.attempt + 1}`; // a new worker for each attempt
    this.#apply({ name: "attempt.started", data: startedData(this.job.attempt + 1, session, session) }, start.at);
    this.#firstStart ??= start;
  }

  #cancel(): void {
    // A running job without an earlier cancel is never refused.
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
    // A spread would slow down many simulations.
    const kept = { name: event.name, data: event.data, at, n, seq: n, jobId: this.job.id } as JobEvent;
    this.events.push(kept);
    return kept;
  }

  /** Whether other jitter would move the next attempt across `maxElapsed`. */
  #isClose(decision: Decision, [leastMs, mostMs]: MsRange): boolean {
    const { maxElapsedMs } = this.#scenario.policy;
    const first = this.#firstStart;
    if (maxElapsedMs === null || first === null || isHandedBack(decision)) return false;
    if (decision.kind === "retry") return this.#ended.most - first.most + mostMs > maxElapsedMs;
    return this.#ended.least - first.least + leastMs <= maxElapsedMs;
  }

  /** An attempt that is retried starts within `maxElapsed`. */
  #within(decision: Decision, due: SimulatedInstant): SimulatedInstant {
    const { maxElapsedMs } = this.#scenario.policy;
    if (maxElapsedMs === null || this.#firstStart === null || isHandedBack(decision)) return due;
    return { ...due, most: Math.min(due.most, this.#firstStart.most + maxElapsedMs) };
  }
}

/** `maxElapsed` does not apply to such an attempt. */
function isHandedBack({ step }: Decision): boolean {
  return step === "handback";
}

/** The least and the greatest delay under any jitter; null where there is none. Ignores `maxElapsed`, which forbids a retry and
 *  does not change its delay. */
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
  id: "simulated",
  namespace: "default",
  queue: "default",
  kind: "exec",
  priority: DEFAULT_PRIORITY,
  key: null,
  tags: [],
  labels: NO_LABELS,
  submittedAt: 0,
  parentId: null,
  runId: null,
  depth: 0,
  runAt: 0,
  timeoutMs: null,
  expireInMs: null,
  deadlineAt: null,
} as const;

export interface Scenario {
  readonly policy: Policy;
  readonly job?: Partial<Pick<Job, "kind" | "timeoutMs" | "expireInMs">>;
  /** How long an attempt takes, at most its timeout. One that times out takes the whole timeout, if there is one. */
  readonly takesMs?: number;
  /** The usage of each attempt. */
  readonly usage?: Usage | null;
  /** The outcome of step n, from 0; null after the last. */
  readonly next: (n: number) => PlayedOutcome | null;
  /** Random numbers for jitter, from 0 to below 1. Default: no jitter. */
  readonly random?: () => number;
  /** The limit of steps. */
  readonly maxSteps?: number;
}

/** The least and the greatest value, inclusive. */
export type MsRange = readonly [leastMs: number, mostMs: number];

/** An attempt and the decision after it. Times are milliseconds from the start. */
export interface SimulatedStep {
  /** Null for a queue timeout. */
  readonly attempt: number | null;
  /** The outcome as it was written. */
  readonly outcome: string;
  readonly startMs: number;
  readonly startRangeMs: MsRange;
  /** How long it ran, or waited for a worker. */
  readonly tookMs: number;
  readonly decision: Decision["kind"] | "defer";
  /** The step that decided, and the part of the policy or of the outcome; null where the step is enough. */
  readonly step: DecisionStep;
  readonly class: string;
  readonly match: Match | null;
  readonly because: string;
  readonly reason: FailReason | null;
  readonly detail: string | null;
  readonly charge: Charge | null;
  /** Until the next attempt; null without one. */
  readonly delayMs: number | null;
  /** Before jitter. */
  readonly baseDelayMs: number | null;
  readonly delayRangeMs: MsRange | null;
  /** Other jitter would change the decision, as the next attempt is close to `maxElapsed`. */
  readonly dependsOnJitter: boolean;
}

export interface SimulatedEnd {
  readonly state: JobState;
  readonly reason: FailReason | null;
  readonly detail: string | null;
  /** Attempts started. */
  readonly attempts: number;
  readonly failures: number;
  readonly losses: number;
  readonly totalMs: number;
  /** The range of `totalMs` under any jitter. */
  readonly totalRangeMs: MsRange;
  /** Null when the job has ended. Else why the simulation ended: no more outcomes, or `maxSteps`. */
  readonly stopped: "script" | "limit" | null;
  /** When the next attempt would be due, for a job that has not ended. */
  readonly nextRunMs: number | null;
}

export interface Simulation {
  readonly steps: readonly SimulatedStep[];
  readonly end: SimulatedEnd;
  /** The job at its end with the rows that a store would have, for dialects. */
  readonly job: Job;
  readonly attempts: readonly AttemptRow[];
  readonly events: readonly JobEvent[];
}

/** The default limit of steps. */
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

/** The outcomes of a list in order, and with `repeat` the last one again and again. */
export function scripted(list: readonly PlayedOutcome[], repeat = false): Scenario["next"] {
  return (n) => list[n] ?? (repeat ? (list.at(-1) ?? null) : null);
}

/** Each attempt fails with this probability, in one of these ways with equal probability. */
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

/** Statistics of many numbers. The percentiles are among the numbers. */
export interface Percentiles {
  readonly mean: number;
  readonly least: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly most: number;
}

/** How many simulations ended with the same state and reason. */
interface EndShare {
  readonly state: JobState;
  readonly reason: FailReason | null;
  readonly count: number;
  readonly share: number;
}

export interface Distribution {
  readonly runs: number;
  /** Fewer simulations than requested, as the total of steps is limited. */
  readonly cutShort: boolean;
  readonly succeeded: number;
  readonly succeededShare: number;
  /** The most frequent first. */
  readonly ends: readonly EndShare[];
  readonly attempts: Percentiles;
  readonly totalMs: Percentiles;
}

/** The limit of steps of all simulations: about ten seconds. */
const MAX_TOTAL_STEPS = 1_000_000;

/** Runs a scenario this many times, at least once. Its random numbers must continue from one to the next. */
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
    runs: done,
    cutShort: done < runs,
    succeeded,
    succeededShare: succeeded / done,
    ends: counted.map((each) => ({ ...each, share: each.count / done })),
    attempts: spreadOf(attempts),
    totalMs: spreadOf(totals),
  };
}

export function spreadOf(numbers: readonly number[]): Percentiles {
  const sorted = [...numbers].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number;
  const mean = numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
  return { mean, least: at(0), p50: at(0.5), p90: at(0.9), p99: at(0.99), most: at(1) };
}
