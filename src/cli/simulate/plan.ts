/** Plans a simulation from the options of `perdure simulate`: the outcome, duration and random numbers of each attempt. */
import { toMs } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import type { Usage } from "../../core/job/job.ts";
import type { Backoff, Policy } from "../../core/policy/policy.ts";
import { type PlayedOutcome, playedOutcome, playedOutcomes } from "../../core/simulate/played-outcome.ts";
import { failingAt, type Scenario, scripted } from "../../core/simulate/simulate.ts";
import type { Arguments, CommandOption } from "../command.ts";
import { conflictError, usageError, valueError } from "../exit.ts";
import { timeOf } from "../input/shared-options.ts";

const text = (name: string, value: string, help: string): CommandOption => ({ name, type: "string", value, help });

export const PLAN_OPTIONS: readonly CommandOption[] = [
  text(
    "outcomes",
    "LIST",
    "How the attempts end, in this order: fail,lost,http:503,ok. Default: fail, with --repeat. Of a playbook: a file with a " +
      "list for each step. Default: ok.",
  ),
  { name: "repeat", type: "boolean", help: "Repeat the last outcome until the job has ended." },
  text(
    "failure-rate",
    "RATE",
    "Instead of a list: each attempt fails with this probability, from 0 to 1, as one of --outcomes.",
  ),
  text("runs", "N", "With --failure-rate: print the distribution of the ends of this many simulations."),
  text("seed", "N", "The seed of random jitter and failures. Default: no random jitter; with --failure-rate, 1."),
  text("takes", "TIME", "How long each attempt takes. Default: no time."),
  text("tokens", "N", "The tokens that each attempt uses."),
  text("cost", "USD", "The money that each attempt uses."),
];

const MAX_RUNS = 100_000;
const MAX_SEED = 4_294_967_295;
const DEFAULT_SEED = 1;

interface SimulationPlan {
  /** The scenario without policy and job. */
  readonly scenario: Pick<Scenario, "next" | "takesMs" | "usage" | "random">;
  /** Null for one simulation, printed step by step. */
  readonly runs: number | null;
  readonly seed: number | null;
  /** How many outcomes of a list were not used; 0 without a list. */
  readonly leftOver: () => number;
}

export function planOf(given: Arguments): SimulationPlan {
  const rate = rateOf(given);
  const runs = runsOf(given, rate);
  if (rate !== null && given.flag("repeat")) throw conflictError("--repeat", "--failure-rate");
  const { seed, random } = randomOf(given, rate);
  const outcomes = outcomesOf(given);
  const takes = timeOf(given, "takes");
  const isList = rate === null || random === null;
  const next = isList ? listOf(given, outcomes) : failing(rate, outcomes, random);
  let played = 0;
  return {
    scenario: {
      next: (n) => {
        played = Math.max(played, n + 1);
        return next(n);
      },
      takesMs: takes === undefined ? 0 : toMs(takes, "--takes"),
      usage: usageOf(given),
      ...(random === null ? {} : { random }),
    },
    ...{ runs, seed },
    leftOver: () => (isList && outcomes !== null ? Math.max(0, outcomes.length - played) : 0),
  };
}

export function runsOf(given: Arguments, rate: number | null): number | null {
  const runs = given.integer("runs", { min: 1, max: MAX_RUNS }) ?? null;
  if (rate !== null || runs === null) return runs;
  throw usageError("--runs requires --failure-rate: a list of outcomes ends the same way each time");
}

/** Nothing is random without a seed or a rate. */
export function randomOf(
  given: Arguments,
  rate: number | null,
): { seed: number | null; random: (() => number) | null } {
  const seed = given.integer("seed", { min: 0, max: MAX_SEED }) ?? (rate === null ? null : DEFAULT_SEED);
  return { seed, random: seed === null ? null : seeded(seed) };
}

function outcomesOf(given: Arguments): PlayedOutcome[] | null {
  const list = given.text("outcomes");
  if (list === undefined) return null;
  try {
    return playedOutcomes(list, "--outcomes");
  } catch (error) {
    throw error instanceof ConfigError ? usageError(error.message) : error;
  }
}

const FAIL = playedOutcome("fail", "");
const OK = playedOutcome("ok", "");

function listOf(given: Arguments, outcomes: readonly PlayedOutcome[] | null): Scenario["next"] {
  return outcomes === null ? scripted([FAIL], true) : scripted(outcomes, given.flag("repeat"));
}

function failing(rate: number, outcomes: readonly PlayedOutcome[] | null, random: () => number): Scenario["next"] {
  const good = outcomes?.find(({ isSuccess }) => isSuccess);
  if (good !== undefined) {
    throw usageError(`--outcomes: with --failure-rate, must be failures; got ${good.word}`);
  }
  const [first = FAIL, ...others] = outcomes ?? [];
  return failingAt(rate, [first, ...others], OK, random);
}

export function rateOf(given: Arguments): number | null {
  const rate = given.text("failure-rate");
  if (rate === undefined) return null;
  const value = /^\d(\.\d{1,15})?$/.test(rate) ? Number(rate) : Number.NaN;
  if (value <= 1) return value;
  throw valueError("--failure-rate", rate, "a number from 0 to 1, such as 0.3");
}

function usageOf(given: Arguments): Usage | null {
  const tokens = given.integer("tokens", { min: 0, max: 1_000_000_000 });
  const cost = given.text("cost");
  if (cost !== undefined && !/^\d{1,9}(\.\d{1,9})?$/.test(cost)) {
    throw valueError("--cost", cost, "an amount of money, such as 0.25");
  }
  if (tokens === undefined && cost === undefined) return null;
  return { tokensIn: tokens ?? 0, tokensOut: 0, costUsd: Number(cost ?? 0) };
}

/** A policy whose every backoff has this jitter. */
export function withJitter(policy: Policy, jitter: number): Policy {
  const jittered = <B extends Backoff | null>(backoff: B): B =>
    backoff === null || backoff.type === "none" ? backoff : { ...backoff, jitter };
  return {
    ...policy,
    backoff: jittered(policy.backoff),
    rules: policy.rules.map((rule) => ({ ...rule, backoff: jittered(rule.backoff) })),
    workerLost: { ...policy.workerLost, backoff: jittered(policy.workerLost.backoff) },
  };
}

/** Random numbers from 0 to below 1 (mulberry32). Seeded, so that a simulation can be repeated. */
function seeded(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b9);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
