/** A job as fluster's `JobStatus` tells it.
 *
 *  `attempts` has all that have ended, each with how it truly ended, and so the last one too once the job is over. (fluster
 *  writes an attempt into its history before its end is known, and the last one never. Here an attempt is closed first and
 *  then decided on.) Runs that neither succeeded nor failed are left out: those handed back before they began, as in
 *  fluster, and those that ended only to wait for children, which it does not know. One that its worker cut off at its own
 *  shutdown had begun and is told. It is KILLED: the worker killed it, and did not fail, so that it is in no counter; `error`
 *  tells it from one that a user terminated.
 *
 *  The counters are what was charged to the two budgets, over all chapters, as `attempts` and `current_attempt_id` go on through
 *  all of them: "Number of job failures". After a redrive, which fluster does not know and which grants the retries anew, they
 *  may so pass their limits. */
import { shortageText } from "../../core/budget.ts";
import type { JobEvent } from "../../core/event.ts";
import { isTerminal } from "../../core/job.ts";
import type { AttemptRow, JobInfo } from "../../core/views.ts";
import { chargedBefore } from "../counted.ts";
import type { ViewParts } from "../dialect.ts";
import { flusterEcho } from "./retry.ts";

/** The annotation that keeps a job's name. */
export const FLUSTER_NAME = "fluster/name";

const TERMINATED = "Terminated by user";

/** BUILDING is missing: environments are not built here. */
export type FlusterState =
  | "PENDING"
  | "RUNNING"
  | "SUCCEEDED"
  | "FAILED"
  | "WORKER_FAILED"
  | "KILLED"
  | "UNSCHEDULABLE";

export interface FlusterAttempt {
  /** From 0. */
  readonly attempt_id: number;
  readonly worker_id: string | null;
  readonly state: FlusterState;
  readonly exit_code: number | null;
  readonly error: string | null;
  readonly started_at_ms: number;
  readonly finished_at_ms: number;
  /** It was charged as a preemption: `preemption_count` is the number of these. */
  readonly is_worker_failure: boolean;
}

/** A job as fluster's API shows it.
 *  @example
 *  const { state, exit_code }: FlusterStatus = await fluster(perdure).status(job.id); */
export interface FlusterStatus {
  readonly job_id: string;
  readonly name: string;
  readonly parent_job_id: string | null;
  readonly state: FlusterState;
  // Of the run in hand or the one that ended the job; null while it waits.
  readonly exit_code: number | null;
  readonly error: string | null;
  readonly started_at_ms: number | null;
  readonly finished_at_ms: number | null;
  readonly worker_id: string | null;
  readonly failure_count: number;
  readonly preemption_count: number;
  /** From 0; of a job that waits, the run that comes next, and of one that has ended, the last that there was. */
  readonly current_attempt_id: number;
  readonly attempts: readonly FlusterAttempt[];
  readonly max_retries_failure: number;
  readonly max_retries_preemption: number;
  /** Of the retry that it waits for; 0 if it waits for none. */
  readonly next_retry_delay_ms: number;
  /** 0 if it is ready, or not waiting. Who has no clock may show an instant that has passed, which is ready too. */
  readonly retry_available_at_ms: number;
}

/** An event that carries a decision. */
type Decided = Extract<JobEvent, { data: { decision: unknown } }>;

/** What of the events the view needs. */
interface Story {
  /** Of this chapter. */
  readonly decided: readonly Decided[];
  /** Whether it was a run that ended the job, and not a wait. */
  readonly endedByRun: boolean;
  /** The latest instant that is known. */
  readonly now: number;
  readonly worker: (attempt: number, session: string | null) => string | null;
  readonly decision: (attempt: number) => Decided | undefined;
}

export function flusterStatus(parts: ViewParts): FlusterStatus {
  const { job } = parts;
  const story = storyOf(parts);
  const state = stateOf(job, story);
  const inHand = job.state === "running" || (isTerminal(job.state) && story.endedByRun);
  const last = inHand ? parts.attempts.findLast(({ attempt }) => attempt === job.attempt) : undefined;
  const waitsFor = job.state === "queued" ? story.decided.at(-1)?.data.decision : undefined;
  const before = chargedBefore(parts.events);
  const unscheduled = parts.events.filter(({ name, data }) => {
    return name === "job.queue_timeout" && data.decision.charge?.to === "maxAttempts";
  });
  return {
    job_id: job.id,
    name: job.annotations?.[FLUSTER_NAME] ?? job.key ?? job.kind,
    parent_job_id: job.parentId ?? null,
    state,
    exit_code: state === "SUCCEEDED" ? 0 : (last?.failure?.exitCode ?? null),
    error: errorOf(job, state, last, story),
    started_at_ms: inHand ? job.startedAt : null,
    finished_at_ms: job.finishedAt,
    worker_id: inHand ? story.worker(job.attempt, job.worker) : null,
    // With us a wait that ran out is charged to the failures; in fluster nothing has failed.
    failure_count: Math.max(0, before.failures + job.failures - unscheduled.length),
    preemption_count: before.losses + job.losses,
    current_attempt_id: isWaiting(job) ? job.attempt : Math.max(0, job.attempt - 1),
    attempts: parts.attempts.filter((row) => isTold(row, story)).map((row) => attemptOf(row, story)),
    ...flusterEcho(job.policy),
    next_retry_delay_ms: waitsFor?.kind === "retry" ? (waitsFor.delay?.delayMs ?? 0) : 0,
    retry_available_at_ms: job.state === "queued" && job.runAt > story.now ? job.runAt : 0,
  };
}

function storyOf({ job, events, workerName, now }: ViewParts): Story {
  const chapter = events.slice(events.findLastIndex(({ name }) => name === "job.redriven") + 1);
  const workers = new Map<number, string>();
  const decisions = new Map<number, Decided>();
  for (const event of events) {
    if (event.name === "attempt.started") workers.set(event.data.attempt, event.data.worker);
    if (isDecided(event) && event.name.startsWith("attempt.")) decisions.set(event.data.attempt, event);
  }
  const ends = chapter.filter((event) => event.name === "job.cancelled" || isDecided(event));
  return {
    decided: chapter.filter(isDecided),
    endedByRun: ends.at(-1)?.name.startsWith("attempt.") ?? false,
    now: now ?? events.at(-1)?.at ?? job.submittedAt,
    worker: (attempt, session) => workers.get(attempt) ?? (session === null ? null : (workerName(session) ?? session)),
    decision: (attempt) => decisions.get(attempt),
  };
}

function isDecided(event: JobEvent): event is Decided {
  return "decision" in event.data;
}

function stateOf({ state, reason }: JobInfo, { decided }: Story): FlusterState {
  switch (state) {
    case "queued":
    case "blocked": // it waits, and no worker has it
      return "PENDING";
    case "running":
      return "RUNNING";
    case "succeeded":
      return "SUCCEEDED";
    case "cancelled":
      return "KILLED";
    case "failed": {
      const last = decided.at(-1);
      // Also when it waited for a retry, which is another reason of ours.
      if (last?.name === "job.queue_timeout" || reason === "unschedulable") return "UNSCHEDULABLE";
      if (last?.data.decision.class === "lost" || reason === "lost" || reason === "poison") return "WORKER_FAILED";
      return "FAILED";
    }
  }
}

function errorOf(job: JobInfo, state: FlusterState, last: AttemptRow | undefined, story: Story): string | null {
  switch (state) {
    case "KILLED":
      return TERMINATED;
    case "UNSCHEDULABLE": {
      const event = story.decided.at(-1);
      if (event?.name === "job.queue_timeout" && event.data.why === "deadline") return "Scheduling deadline exceeded";
      return `Scheduling timeout exceeded${job.expireInMs === null ? "" : ` (${job.expireInMs / 1_000}s)`}`;
    }
    case "FAILED":
    case "WORKER_FAILED": {
      const shortage = story.decided.at(-1)?.data.decision.shortage;
      if (shortage !== undefined) return `Budget exceeded: ${shortageText(shortage)}`;
      return (last === undefined ? null : attemptOf(last, story).error) ?? job.reason;
    }
    default:
      return null;
  }
}

function isWaiting({ state }: JobInfo): boolean {
  return state === "queued" || state === "blocked";
}

function isTold({ attempt, outcome }: AttemptRow, { decision }: Story): boolean {
  // One that is handed back once too often is a loss, whether it had begun or not.
  if (outcome === "released") return decision(attempt)?.data.decision.class === "lost";
  return outcome !== "waiting";
}

function attemptOf(row: AttemptRow, story: Story): FlusterAttempt {
  const { attempt, session, outcome, failure, startedAt, endedAt } = row;
  const worker = story.worker(attempt, session);
  const decided = story.decision(attempt);
  const state = stateOfAttempt(outcome, decided);
  const isGood = state === "SUCCEEDED";
  return {
    attempt_id: attempt - 1,
    worker_id: worker,
    state,
    exit_code: isGood ? 0 : (failure?.exitCode ?? null),
    error: isGood ? null : (failure?.message ?? errorOfWorker(outcome, state, worker ?? "unknown", decided)),
    started_at_ms: startedAt,
    finished_at_ms: endedAt,
    is_worker_failure: state === "WORKER_FAILED",
  };
}

function stateOfAttempt(outcome: string, decided: Decided | undefined): FlusterState {
  const { kind, class: cls } = decided?.data.decision ?? {};
  // A completed run that a condition sends round again is not what was wanted of it.
  if (outcome === "completed" && (kind === undefined || kind === "succeed")) return "SUCCEEDED";
  if (kind === "cancel") return "KILLED";
  // An interrupted run is charged as a loss where it was one too many, or may not be run again.
  if (outcome === "lost" || cls === "lost") return "WORKER_FAILED";
  return outcome === "interrupted" ? "KILLED" : "FAILED";
}

/** Of a run that left no failure of its own. */
function errorOfWorker(outcome: string, state: FlusterState, worker: string, decided: Decided | undefined) {
  if (state === "WORKER_FAILED") return `Worker ${worker} failed: ${lossOf(outcome, decided)}`;
  if (decided?.data.decision.kind === "cancel") return TERMINATED;
  return outcome === "interrupted" ? `Worker ${worker} was shut down and handed it back; it is not counted` : null;
}

const LOSSES: Readonly<Record<string, string>> = {
  lease_expired: "its lease ran out",
  worker_gone: "it is gone",
  killed: "the run was killed, and nobody had asked for it",
};

function lossOf(outcome: string, event: Decided | undefined): string {
  if (outcome === "interrupted") return "it was shut down";
  if (outcome === "released") return `the job was ${event?.data.decision.matched ?? "handed back"}`;
  return (event?.name === "attempt.lost" ? LOSSES[event.data.why] : undefined) ?? "it was lost";
}
