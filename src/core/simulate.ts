/** Plays outcomes through a policy without a store, a worker or a clock, and tells the schedule that follows: when each run
 *  starts, what is decided after it and why, how long it waits and how far chance may move that, where it ends. Each step is
 *  the real `settleJob`, on a job that is queued and started by the real events; nothing is decided here. A worker is taken
 *  to be free whenever the job is due, and a lost one to be noticed at once. */
import type { Charge, Decision } from "./decide.ts";
import type { JobEvent } from "./event.ts";
import { type FailReason, isTerminal, type Job, type JobState, type Usage } from "./job.ts";
import type { Policy } from "./policy.ts";
import type { Played } from "./simulate-outcome.ts";
import { Play } from "./simulate-play.ts";
import type { AttemptRow } from "./views.ts";

export interface Scenario {
  readonly policy: Policy;
  readonly job?: Partial<Pick<Job, "kind" | "timeoutMs" | "expireInMs">>;
  /** How long a run takes, at most its timeout. One that times out takes all of its timeout, if there is one. */
  readonly takesMs?: number;
  /** What each run uses up of the budgets. */
  readonly usage?: Usage | null;
  /** How the n-th step ends, from 0; null when there is no more to play. */
  readonly next: (n: number) => Played | null;
  /** Draws for jitter, from 0 to below 1. Without it delays are those without jitter. */
  readonly random?: () => number;
  /** No more steps than this, whatever the policy grants. */
  readonly maxSteps?: number;
}

/** From least to most, both reached. */
export type Range = readonly [leastMs: number, mostMs: number];

/** One run and what was decided after it. All times are milliseconds since the beginning. */
export interface SimulatedStep {
  /** Null for a wait that ran out: nobody started it. */
  readonly attempt: number | null;
  /** The word that was played. */
  readonly outcome: string;
  readonly startMs: number;
  readonly startRangeMs: Range;
  /** How long it ran, or waited to be started. */
  readonly tookMs: number;
  readonly decision: Decision["kind"] | "defer";
  /** Which step of the decision, and which rule, list, condition or switch in it. */
  readonly step: number;
  readonly class: string;
  readonly matched: string;
  /** Which part of that rule or list, and the text in which it was found. */
  readonly matchedPart: string | null;
  readonly matchedText: string | null;
  readonly because: string;
  readonly reason: FailReason | null;
  readonly detail: string | null;
  readonly charge: Charge | null;
  /** Until the next run is due; null when there is none. */
  readonly delayMs: number | null;
  /** Before jitter. */
  readonly baseDelayMs: number | null;
  readonly delayRangeMs: Range | null;
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
  readonly totalRangeMs: Range;
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
export const MAX_STEPS = 10_000;

export function simulate(scenario: Scenario): Simulation {
  const play = new Play(scenario);
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
