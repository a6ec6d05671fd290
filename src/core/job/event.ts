/** Events of jobs. One change of a job writes one event; some are shown under two names (`shownNames`). `data` has a format
 *  number `v`, and readers refuse unknown formats. */
import type { Amount, BudgetShortage } from "../decision/budget.ts";
import type { Charge, Counters, Decision, Delay } from "../decision/decide.ts";
import type { Crash } from "../decision/evidence.ts";
import type { Failure } from "../decision/failure.ts";
import type { DecisionStep, Match } from "../decision/match.ts";
import type { PolicySources } from "../policy/policy-sources.ts";
import type { RunChange, RunRedrive } from "../run/run.ts";
import type { FailReason, JobState, Usage } from "./job.ts";
import type { ChangedTerms } from "./redrive.ts";

/** The format of new events. Earlier formats are converted to it when they are read (event-formats.ts). */
export const EVENT_FORMAT = 2;

/** A stored decision, without the counters: the event has those that changed. */
export interface StoredDecision {
  readonly kind: Decision["kind"];
  readonly step: DecisionStep;
  readonly class: string;
  /** The part of the policy or of the outcome that decided; absent where the step is enough. */
  readonly match?: Match;
  readonly reason?: FailReason;
  readonly detail?: string | null;
  readonly charge?: Charge | null;
  readonly runAt?: number;
  readonly delay?: Delay;
  readonly conditionError?: string;
  /** The budget that is used up, for a decision about a budget. */
  readonly shortage?: BudgetShortage;
}

export interface AttemptEndData {
  readonly v: number;
  readonly attempt: number;
  readonly decision: StoredDecision;
  readonly counters?: Partial<Counters>;
  readonly usage?: Usage;
  readonly expiresAt?: number | null;
  readonly failure?: Omit<Failure, "stack">;
}

/** The name and the data of an event of a job.
 *  @example
 *  const isEnd = (event: JobEventBody) => event.name === "attempt.succeeded"; */
export type JobEventBody =
  | {
      readonly name: "job.submitted";
      readonly data: {
        readonly v: number;
        readonly state: JobState;
        readonly runAt: number;
        readonly expiresAt: number | null;
        readonly kind: string;
        readonly queue: string;
        readonly namespace: string;
        readonly maxAttempts: number;
        readonly labels?: Readonly<Record<string, string>>;
        readonly priority?: number;
        readonly timeoutMs?: number;
        readonly deadlineAt?: number;
        /** Its parent job. */
        readonly parentId?: string;
        /** Who submitted it, if known. */
        readonly by?: string;
        /** The id of the token that submitted it to a server; names of tokens are not unique. */
        readonly token?: string;
        /** Where the values of its policy came from; absent where all are the preset's. */
        readonly sources?: PolicySources;
      };
    }
  | {
      readonly name: "attempt.started";
      readonly data: {
        readonly v: number;
        readonly attempt: number;
        readonly session: string;
        readonly worker: string;
      };
    }
  | { readonly name: "attempt.succeeded" | "attempt.failed" | "attempt.timed_out"; readonly data: AttemptEndData }
  | {
      readonly name: "attempt.lost";
      readonly data: AttemptEndData & {
        readonly why: string;
        readonly session: string | null;
        readonly by: string | null;
        readonly renewedAt: number | null;
        /** The circumstances of the loss; not in events of earlier versions. */
        readonly crash?: Crash;
      };
    }
  /** It runs again when all jobs it waits for have ended. */
  | { readonly name: "attempt.waiting"; readonly data: AttemptEndData & { readonly waitsFor: readonly string[] } }
  | {
      readonly name: "attempt.interrupted";
      readonly data: AttemptEndData & { readonly why: "interrupted" | "released" };
    }
  | {
      readonly name: "job.queue_timeout";
      readonly data: AttemptEndData & { readonly why: "queue_timeout" | "deadline" };
    }
  /** It was due and not started, because a budget above it had too little left. */
  | { readonly name: "job.over_budget"; readonly data: AttemptEndData }
  | { readonly name: "job.cancel_requested" | "job.cancelled" | "job.discarded"; readonly data: CommandData }
  | {
      readonly name: "job.rescheduled" | "job.unblocked";
      readonly data: CommandData & { readonly runAt: number; readonly expiresAt: number | null };
    }
  | {
      readonly name: "job.redriven";
      readonly data: CommandData & {
        readonly runAt: number;
        readonly expiresAt: number | null;
        /** The terms that changed. */
        readonly changed?: ChangedTerms;
        /** The amount added to every budget that covers the job. */
        readonly budget?: Partial<Amount>;
        /** Of a run: what it repeats and what it takes as done. Its state is `blocked` again. */
        readonly run?: RunRedrive;
      };
    }
  /** Of a run: what ended, which arcs were taken, and what started. One event for any number of steps. */
  | {
      readonly name: "run.advanced";
      readonly data: { readonly v: number; readonly messages: number; readonly changes: readonly RunChange[] };
    }
  | {
      readonly name: "run.ended";
      readonly data: {
        readonly v: number;
        readonly state: "succeeded" | "failed" | "cancelled";
        readonly reason: FailReason | null;
        readonly message: string | null;
        /** The name of the first step that failed with nothing to handle it. */
        readonly step: string | null;
      };
    };

interface CommandData {
  readonly v: number;
  /** Who requested it, if known. */
  readonly by: string | null;
}

export type JobEventName = JobEventBody["name"];

/** An event of a job as read back. `n` counts from 1 without gaps; `seq` is store-wide.
 *  @example
 *  for await (const event of job.events()) console.log((event as JobEvent).n, event.name); */
export type JobEvent = JobEventBody & {
  readonly seq: number;
  readonly jobId: string;
  readonly n: number;
  readonly at: number;
};

/** An event of the engine (`worker.*`, `queue.*`, `engine.*`), which belongs to no job.
 *  @example
 *  const isEngines = (event: PerdureEvent): event is EngineEvent => event.jobId === null; */
export interface EngineEvent {
  readonly seq: number;
  readonly jobId: null;
  readonly n: 0;
  readonly at: number;
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** An event of a job, or of the engine.
 *  @example
 *  for await (const event of perdure.events({ follow: true })) console.log(event.seq, event.name); */
export type PerdureEvent = JobEvent | EngineEvent;

/** The names under which an event is shown: what happened to the attempt, then the consequence for the job.
 *  @example
 *  for await (const event of job.events()) if (event.jobId !== null) console.log(shownNames(event).join(", ")); */
export function shownNames(event: JobEventBody): readonly string[] {
  switch (event.name) {
    case "attempt.succeeded":
    case "attempt.failed":
    case "attempt.timed_out":
    case "attempt.lost":
    case "attempt.waiting":
    case "attempt.interrupted":
    case "job.queue_timeout":
    case "job.over_budget":
      return [event.name, ...consequence(event.data.decision)];
    case "run.advanced":
      return [event.name, ...new Set(event.data.changes.flatMap(stepName))];
    case "run.ended":
      return [event.name, `job.${event.data.state}`];
    default:
      return [event.name];
  }
}

function stepName(change: RunChange): string[] {
  if (change.do === "start") return ["step.started"];
  return change.do === "end" ? [`step.${change.state}`] : [];
}

function consequence(decision: StoredDecision): readonly string[] {
  switch (decision.kind) {
    case "succeed":
      return ["job.succeeded"];
    case "cancel":
      return ["job.cancelled"];
    case "retry":
      return ["job.retry_scheduled"];
    case "block":
      return ["job.blocked"];
    case "fail":
      return decision.step === "exhausted" ? ["job.retries_exhausted", "job.failed"] : ["job.failed"];
  }
}

/** An event of the engine, written in the transaction of a change. */
export interface EngineRecord {
  readonly at: number;
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
}
