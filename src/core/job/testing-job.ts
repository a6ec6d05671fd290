/** For tests only: jobs with sensible defaults, outcomes in a word, and a `JobStory` that plays them through
 *  claim and settle as a store does, without one. Nothing outside of tests imports this file. */

import type { Decision } from "../decision/decide.ts";
import { type Failure, failure } from "../decision/failure.ts";
import type { Outcome } from "../decision/outcome.ts";
import type { Policy, Rule, RuleCondition } from "../policy/policy.ts";
import { presets } from "../policy/presets.ts";
import { type Command, type CommandDecision, decideCommand } from "./command.ts";
import type { JobEventBody } from "./event.ts";
import { evolve, foldEvents, type TimedEvent } from "./fold.ts";
import type { Job, JobProgressFields, Usage } from "./job.ts";
import { type Settlement, settleJob, startedData, submitJob } from "./lifecycle.ts";

export const T0 = Date.UTC(2026, 0, 1);
/** The draw that leaves a jittered delay as it is. */
export const MIDDLE = 0.5;

/** The counters of a job that has just been submitted or redriven. */
export const NO_COUNTS = {
  failures: 0,
  losses: 0,
  defers: 0,
  handbacks: 0,
  streak: 0,
  streakSession: null,
  evidence: 0,
  ruleCounts: null,
} as const;

export type TestJobFields = Partial<Omit<Job, "policy">> & { readonly policy?: Partial<Policy> };

/** A job in its first run, started at T0 by session "s1", under the default preset. */
export function testJob({ policy, ...parts }: TestJobFields = {}): Job {
  return {
    id: "01890000-0000-7000-8000-000000000001",
    namespace: "default",
    queue: "default",
    kind: "resize-image",
    priority: 5,
    key: null,
    tags: [],
    labels: {},
    submittedAt: T0,
    parentId: null,
    runId: null,
    depth: 0,
    timeoutMs: null,
    expireInMs: null,
    deadlineAt: null,
    state: "running",
    reason: null,
    chapter: 1,
    attempt: 1,
    revision: 2,
    ...NO_COUNTS,
    runAt: T0,
    expiresAt: null,
    cancelRequestedAt: null,
    worker: "s1",
    startedAt: T0,
    firstStartedAt: T0,
    finishedAt: null,
    discardedAt: null,
    usage: null,
    ...parts,
    policy: { ...presets.default, ...policy },
  };
}

/** A job that no worker has started yet. */
export function waitingJob(parts: TestJobFields = {}): Job {
  const never = { state: "queued", attempt: 0, revision: 1, worker: null, startedAt: null, firstStartedAt: null };
  return testJob({ ...(never as TestJobFields), ...parts });
}

/** The fields of a job that its events contain. */
export function progressOf(job: JobProgressFields): JobProgressFields {
  return {
    state: job.state,
    reason: job.reason,
    chapter: job.chapter,
    attempt: job.attempt,
    revision: job.revision,
    failures: job.failures,
    losses: job.losses,
    defers: job.defers,
    handbacks: job.handbacks,
    streak: job.streak,
    streakSession: job.streakSession,
    evidence: job.evidence,
    ruleCounts: job.ruleCounts,
    runAt: job.runAt,
    expiresAt: job.expiresAt,
    cancelRequestedAt: job.cancelRequestedAt,
    worker: job.worker,
    startedAt: job.startedAt,
    firstStartedAt: job.firstStartedAt,
    finishedAt: job.finishedAt,
    discardedAt: job.discardedAt,
    usage: job.usage,
  };
}

export function testRule(
  condition: Partial<RuleCondition>,
  verdict: Rule["then"],
  more: Partial<Pick<Rule, "maxRetries" | "backoff">> = {},
): Rule {
  const any = { kind: null, exitCode: null, signal: null, error: null, message: null, status: null, attempt: null };
  // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
  return { if: { ...any, ...condition }, then: verdict, maxRetries: null, backoff: null, ...more };
}

// Outcomes.

type OutcomeOf<K extends Outcome["kind"]> = Extract<Outcome, { kind: K }>;

export const INTERRUPTED: Outcome = { kind: "interrupted" };
export const RELEASED: Outcome = { kind: "released", session: "s1" };
export const QUEUE_TIMEOUT: OutcomeOf<"queue_timeout"> = { kind: "queue_timeout" };
export const WAITING: OutcomeOf<"waiting"> = { kind: "waiting", children: ["job_a", "job_b"] };
export const DEADLINE: Outcome = { kind: "deadline" };

export function completed(
  result: unknown = "done",
  more: Partial<OutcomeOf<"completed">> = {},
): OutcomeOf<"completed"> {
  return { kind: "completed", result, ...more };
}

export function failed(parts: Partial<Failure> | string = "it broke"): OutcomeOf<"failed"> {
  const given = typeof parts === "string" ? { message: parts } : parts;
  return { kind: "failed", failure: failure({ kind: "error", message: "it broke", ...given }) };
}

export function exited(code: number): OutcomeOf<"failed"> {
  return failed({ kind: "exit", exitCode: code, message: `exit code ${code}` });
}

export function answered(status: number, parts: Partial<Failure> = {}): OutcomeOf<"failed"> {
  return failed({ kind: "http", status, message: `${status}`, ...parts });
}

export function timedOut(parts: Partial<Failure> = {}): OutcomeOf<"timeout"> {
  return { kind: "timeout", failure: failure({ kind: "timeout", message: "it ran longer than 2 min", ...parts }) };
}

/** The loss of a running job, with the last renewal `aliveMs` after its start. */
export function lost(aliveMs = 0): (job: Job) => OutcomeOf<"lost"> {
  return (job) => ({
    kind: "lost",
    why: "lease_expired",
    session: job.worker,
    renewedAt: (job.startedAt as number) + aliveMs,
    by: "engine-1",
  });
}

export function usageOf(tokens: number, costUsd = 0): Usage {
  return { tokensIn: tokens, tokensOut: 0, costUsd };
}

/** An event as a store keeps it. */
export type KeptEvent = TimedEvent & { readonly n: number };

export interface TestAttemptEnd {
  readonly usage?: Usage | null;
  readonly random?: number;
  /** How long it ran, or for a job that no worker starts, how long it was due. */
  readonly afterMs?: number;
  /** Default: a new session for each attempt. */
  readonly session?: string;
}

export class TestJobHistory {
  job: Job;
  now = T0;
  readonly events: KeptEvent[] = [];
  readonly settlements: Settlement[] = [];

  constructor(parts: TestJobFields = {}) {
    const job = waitingJob(parts);
    const { event, next } = submitJob(job, this.now);
    this.job = { ...job, ...next };
    this.keep(event);
  }

  /** A worker takes the job as soon as it is due. */
  start(session = `s${this.job.attempt + 1}`): this {
    this.now = Math.max(this.now, this.job.runAt);
    const data = startedData(this.job.attempt + 1, session, `worker-${session}`);
    const event = { name: "attempt.started", data } as JobEventBody;
    this.keep(event);
    this.job = { ...this.job, ...evolve(this.job, { ...event, at: this.now } as TimedEvent) };
    return this;
  }

  settle(outcome: Outcome | ((job: Job) => Outcome), ending: TestAttemptEnd = {}): this {
    const { usage = null, random = MIDDLE, afterMs = 0 } = ending;
    this.now = Math.max(this.now, this.job.runAt) + afterMs;
    const settled = typeof outcome === "function" ? outcome(this.job) : outcome;
    const settlement = settleJob(this.job, settled, usage, this.now, random);
    this.settlements.push(settlement);
    this.keep(settlement.event);
    this.job = { ...this.job, ...settlement.next };
    return this;
  }

  /** Starts and settles one attempt after the other. */
  run(...outcomes: (Outcome | ((job: Job) => Outcome))[]): this {
    for (const outcome of outcomes) this.start().settle(outcome);
    return this;
  }

  command(command: Command): CommandDecision {
    const decision = decideCommand(this.job, command, this.now);
    if (decision.kind === "apply") {
      this.keep(decision.event);
      this.job = { ...this.job, ...decision.next };
    }
    return decision;
  }

  get decisions(): Decision[] {
    return this.settlements.map((settlement) => settlement.decision);
  }

  get last(): Decision {
    return this.decisions.at(-1) as Decision;
  }

  /** The delays of all retries so far, in milliseconds. */
  get delays(): number[] {
    return this.decisions.flatMap((decision) => (decision.kind === "retry" ? [decision.delay.delayMs] : []));
  }

  /** The job from its events, read back from JSON as from a store. */
  fold(): JobProgressFields {
    return foldEvents(JSON.parse(JSON.stringify(this.events)) as KeptEvent[]);
  }

  private keep(event: JobEventBody): void {
    this.events.push({ ...event, at: this.now, n: this.events.length + 1 } as KeptEvent);
  }
}
