/** A job as fluster shows it: its state, its attempts, and the key that follows from its name. */

import { shortageText } from "../../core/decision/budget.ts";
import type { Failure } from "../../core/decision/failure.ts";
import { matchName } from "../../core/decision/match.ts";
import type { JobEvent } from "../../core/job/event.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { AttemptRow, JobInfo } from "../../core/job/views.ts";
import { isName } from "../../core/names.ts";
import { chargedBefore } from "../attempt-numbers.ts";
import type { ViewParts } from "../dialect.ts";
import { flusterEcho } from "./retry.ts";

// The attempts of a job as fluster's `JobAttempt`: one for each that the engine has counted and that has ended, so
// that `attempt_id` is 0, 1, 2, … without gaps. It is the number that the attempt itself finds as
// `FLUSTER_ATTEMPT_ID`. An attempt that is charged to nothing is KILLED, and `error` says what ended it: its worker
// handed it back, at its shutdown or before it began, or it ended in order to wait for its children. So FAILED are
// those of `failure_count`, WORKER_FAILED those of `preemption_count`, and SUCCEEDED is what the job was to do. The
// rows of attempts are read up to a number of them, the latest; what is missing there is in the events.

/** BUILDING is missing: environments are not built here. */
type FlusterState = "PENDING" | "RUNNING" | "SUCCEEDED" | "FAILED" | "WORKER_FAILED" | "KILLED" | "UNSCHEDULABLE";

interface FlusterAttempt {
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

const TERMINATED = "Terminated by user";

/** An event that carries a decision. */
type FlusterDecidedEvent = Extract<JobEvent, { data: { decision: unknown } }>;

function isDecided(event: JobEvent): event is FlusterDecidedEvent {
  return "decision" in event.data;
}

/** An attempt that has ended, from its row or from its events. */
type FlusterEndedAttempt = Pick<AttemptRow, "attempt" | "session" | "startedAt" | "endedAt" | "outcome"> & {
  readonly failure: Pick<Failure, "exitCode" | "message"> | null;
};

type Started = Extract<JobEvent, { name: "attempt.started" }>;

/** What the events record of attempts. */
interface Recorded {
  readonly starts: ReadonlyMap<number, Started>;
  readonly ends: ReadonlyMap<number, FlusterDecidedEvent>;
}

/** All that have ended, in order. */
function flusterAttempts({ attempts: rows, events, workerName }: ViewParts): FlusterAttempt[] {
  const recorded = recordedIn(events);
  const ended = new Map<number, FlusterEndedAttempt>(rows.map((row) => [row.attempt, row]));
  for (const [attempt, end] of recorded.ends) {
    if (!ended.has(attempt)) ended.set(attempt, fromEvents(end, recorded.starts.get(attempt)));
  }
  return [...ended.values()].sort((a, b) => a.attempt - b.attempt).map((each) => attemptOf(each, recorded, workerName));
}

/** The name of the worker that had an attempt; its session where the name is not known any more. */
function workerOf(
  attempt: number,
  session: string | null,
  { events, workerName }: Pick<ViewParts, "events" | "workerName">,
): string | null {
  const start = events.find((event) => event.name === "attempt.started" && event.data.attempt === attempt);
  return nameOf(start as Started | undefined, session, workerName);
}

function nameOf(start: Started | undefined, session: string | null, workerName: ViewParts["workerName"]) {
  return start?.data.worker ?? (session === null ? null : (workerName(session) ?? session));
}

function recordedIn(events: readonly JobEvent[]): Recorded {
  const starts = new Map<number, Started>();
  const ends = new Map<number, FlusterDecidedEvent>();
  for (const event of events) {
    if (event.name === "attempt.started") starts.set(event.data.attempt, event);
    else if (isDecided(event) && event.name.startsWith("attempt.")) ends.set(event.data.attempt, event);
  }
  return { starts, ends };
}

const OUTCOMES: Readonly<Record<string, string>> = {
  "attempt.succeeded": "completed",
  "attempt.failed": "failed",
  "attempt.timed_out": "timeout",
  "attempt.lost": "lost",
  "attempt.waiting": "waiting",
};

function fromEvents(end: FlusterDecidedEvent, start: Started | undefined): FlusterEndedAttempt {
  const { attempt, failure = null } = end.data;
  return {
    ...{ attempt, failure, session: start?.data.session ?? null, startedAt: start?.at ?? end.at, endedAt: end.at },
    outcome: end.name === "attempt.interrupted" ? end.data.why : (OUTCOMES[end.name] ?? "failed"),
  };
}

function attemptOf(ended: FlusterEndedAttempt, { starts, ends }: Recorded, workerName: ViewParts["workerName"]) {
  const { attempt, session, outcome, failure, startedAt, endedAt } = ended;
  const worker = nameOf(starts.get(attempt), session, workerName);
  const decided = ends.get(attempt);
  const state = attemptState(outcome, decided);
  const isGood = state === "SUCCEEDED";
  const shown: FlusterAttempt = {
    attempt_id: attempt - 1,
    worker_id: worker,
    state,
    exit_code: isGood ? 0 : (failure?.exitCode ?? null),
    error: isGood ? null : (failure?.message ?? errorWithoutFailure(outcome, state, worker ?? "unknown", decided)),
    started_at_ms: startedAt,
    finished_at_ms: endedAt,
    is_worker_failure: state === "WORKER_FAILED",
  };
  return shown;
}

/** Outcomes that are charged to nothing, unless the decision says so: what ended the attempt. */
const UNCHARGED: Readonly<Record<string, (worker: string) => string>> = {
  interrupted: (worker) => `Worker ${worker} was shut down and handed it back; it is not counted`,
  released: (worker) => `Worker ${worker} handed it back before it began; it is not counted`,
  waiting: () => "Ended to wait for its children; it is not counted",
};

function attemptState(outcome: string, decided: FlusterDecidedEvent | undefined): FlusterState {
  const { kind, class: cls } = decided?.data.decision ?? {};
  // A completed run that a condition sends round again is not what was wanted of it.
  if (outcome === "completed" && (kind === undefined || kind === "succeed")) return "SUCCEEDED";
  if (kind === "cancel") return "KILLED";
  // One that was handed back is charged as a loss where it was one too many, or may not be run again.
  if (outcome === "lost" || cls === "lost") return "WORKER_FAILED";
  return outcome in UNCHARGED ? "KILLED" : "FAILED";
}

/** Of a run that left no failure of its own. */
function errorWithoutFailure(
  outcome: string,
  state: FlusterState,
  worker: string,
  decided: FlusterDecidedEvent | undefined,
) {
  if (state === "WORKER_FAILED") return `Worker ${worker} failed: ${lossOf(outcome, decided)}`;
  if (decided?.data.decision.kind === "cancel") return TERMINATED;
  return UNCHARGED[outcome]?.(worker) ?? null;
}

const LOSSES: Readonly<Record<string, string>> = {
  lease_expired: "its lease expired",
  worker_gone: "it is gone",
  killed: "the run was killed, and nobody had asked for it",
};

function lossOf(outcome: string, event: FlusterDecidedEvent | undefined): string {
  if (outcome === "interrupted") return "it was shut down";
  if (outcome === "released") {
    const match = event?.data.decision.match;
    return `the job was ${match === undefined ? "handed back" : matchName(match)}`;
  }
  return (event?.name === "attempt.lost" ? LOSSES[event.data.why] : undefined) ?? "it was lost";
}

// A job as fluster's `JobStatus` shows it. `attempts` has all that have ended, each with how it truly ended, and so
// the last one too once the job is over (`attempts.ts`). fluster writes an attempt into its history before its end is
// known, and the last one never. Here an attempt is closed first and then decided on. The counters are what was
// charged to the two budgets, over all redrives, as `attempts` and `current_attempt_id` go on through all of them:
// "Number of job failures". After a redrive, which fluster does not know and which grants the retries anew, they may
// so pass their limits.

/** The tag of all jobs that came in as fluster's, by a file or by its controller's calls. */
export const FLUSTER_TAG = "fluster";
/** The annotation that keeps a job's name. */
export const FLUSTER_NAME = "fluster/name";

/** A job as fluster's API shows it.
 *  @example
 *  const { state, exit_code }: FlusterStatus = await fluster(perdure).status(job.id); */
export interface FlusterStatus {
  readonly job_id: string;
  readonly name: string;
  readonly parent_job_id: string | null;
  readonly state: FlusterState;
  // Of the attempt that runs or the one that ended the job; null while it waits.
  readonly exit_code: number | null;
  readonly error: string | null;
  readonly started_at_ms: number | null;
  readonly finished_at_ms: number | null;
  readonly worker_id: string | null;
  readonly failure_count: number;
  readonly preemption_count: number;
  /** From 0; of a job that waits, the attempt that comes next, and of one that has ended, the last that there was. */
  readonly current_attempt_id: number;
  readonly attempts: readonly FlusterAttempt[];
  readonly max_retries_failure: number;
  readonly max_retries_preemption: number;
  /** Of the retry that it waits for; 0 if it waits for none. */
  readonly next_retry_delay_ms: number;
  /** 0 if it is ready, or not waiting. Who has no clock may show an instant that has passed, which is ready too. */
  readonly retry_available_at_ms: number;
}

/** What of the events the view needs. */
interface FlusterHistory {
  /** Since the last redrive. */
  readonly decided: readonly FlusterDecidedEvent[];
  /** Whether it was a run that ended the job, and not a wait. */
  readonly endedByRun: boolean;
  /** The latest instant that is known. */
  readonly now: number;
}

export function flusterStatus(parts: ViewParts): FlusterStatus {
  const { job } = parts;
  const story = storyOf(parts);
  const state = stateOf(job, story);
  const attempts = flusterAttempts(parts);
  const isCurrent = ["running", "succeeded"].includes(job.state) || (isTerminal(job.state) && story.endedByRun);
  const last = isCurrent ? attempts.findLast(({ attempt_id }) => attempt_id === job.attempt - 1) : undefined;
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
    exit_code: state === "SUCCEEDED" ? 0 : (last?.exit_code ?? null),
    error: errorOf(job, state, last, story),
    started_at_ms: isCurrent ? job.startedAt : null,
    finished_at_ms: job.finishedAt,
    worker_id: isCurrent ? workerOf(job.attempt, job.worker, parts) : null,
    // With us a wait that ran out is charged to the failures; in fluster nothing has failed.
    failure_count: Math.max(0, before.failures + job.failures - unscheduled.length),
    preemption_count: before.losses + job.losses,
    current_attempt_id: isWaiting(job) ? job.attempt : Math.max(0, job.attempt - 1),
    attempts,
    ...flusterEcho(job.policy),
    next_retry_delay_ms: waitsFor?.kind === "retry" ? (waitsFor.delay?.delayMs ?? 0) : 0,
    retry_available_at_ms: job.state === "queued" && job.runAt > story.now ? job.runAt : 0,
  };
}

function storyOf({ job, events, now }: ViewParts): FlusterHistory {
  const latest = events.slice(events.findLastIndex(({ name }) => name === "job.redriven") + 1);
  const ends = latest.filter((event) => event.name === "job.cancelled" || isDecided(event));
  return {
    decided: latest.filter(isDecided),
    endedByRun: ends.at(-1)?.name.startsWith("attempt.") ?? false,
    now: now ?? events.at(-1)?.at ?? job.submittedAt,
  };
}

function stateOf({ state, reason }: JobInfo, { decided }: FlusterHistory): FlusterState {
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

function errorOf(
  job: JobInfo,
  state: FlusterState,
  last: FlusterAttempt | undefined,
  story: FlusterHistory,
): string | null {
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
      return last?.error ?? job.reason;
    }
    default:
      return null;
  }
}

function isWaiting({ state }: JobInfo): boolean {
  return state === "queued" || state === "blocked";
}

// The name that a client of fluster's controller chose for a job, which is its job id there: as a submit key and as a
// tag.

/** The id is in a tag, and a tag has 200 characters. */
const PREFIX = `${FLUSTER_TAG}:`;
export const MAX_FLUSTER_ID = 200 - PREFIX.length;

/** By which a job is found, also one whose key is gone. */
export function flusterIdTag(jobId: string): string {
  return PREFIX + jobId;
}

/** Under which one name is one job. */
export function flusterKey(jobId: string): string {
  return PREFIX + jobId;
}

/** Whether it can be the id of a job at all. */
export function isFlusterId(jobId: string): boolean {
  return isName(jobId, MAX_FLUSTER_ID);
}
