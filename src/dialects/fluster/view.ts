/** A job in fluster's format: its state, its attempts, and the key derived from its name. */

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

// Each ended attempt that the engine counted is one `JobAttempt`, so `attempt_id` is 0, 1, 2, … without gaps, and equals
// `FLUSTER_ATTEMPT_ID` in the attempt. An attempt that was not counted is KILLED, and `error` has the reason: its worker
// returned it at shutdown or before it began, or it waits for its children. So FAILED are those of `failure_count`, and
// WORKER_FAILED those of `preemption_count`. A limited number of attempt rows is read, the latest; earlier ones are
// derived from the events.

/** BUILDING is missing: Perdure builds no environments. */
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
  /** It was counted as a preemption: `preemption_count` is the number of these. */
  readonly is_worker_failure: boolean;
}

const TERMINATED = "Terminated by user";

/** An event with a decision. */
type FlusterDecidedEvent = Extract<JobEvent, { data: { decision: unknown } }>;

function isDecided(event: JobEvent): event is FlusterDecidedEvent {
  return "decision" in event.data;
}

/** An ended attempt, from its row or from its events. */
type FlusterEndedAttempt = Pick<AttemptRow, "attempt" | "session" | "startedAt" | "endedAt" | "outcome"> & {
  readonly failure: Pick<Failure, "exitCode" | "message"> | null;
};

type Started = Extract<JobEvent, { name: "attempt.started" }>;

/** What the events record of attempts. */
interface Recorded {
  readonly starts: ReadonlyMap<number, Started>;
  readonly ends: ReadonlyMap<number, FlusterDecidedEvent>;
}

/** All ended attempts, in order. */
function flusterAttempts({ attempts: rows, events, workerName }: ViewParts): FlusterAttempt[] {
  const recorded = recordedIn(events);
  const ended = new Map<number, FlusterEndedAttempt>(rows.map((row) => [row.attempt, row]));
  for (const [attempt, end] of recorded.ends) {
    if (!ended.has(attempt)) ended.set(attempt, fromEvents(end, recorded.starts.get(attempt)));
  }
  return [...ended.values()].sort((a, b) => a.attempt - b.attempt).map((each) => attemptOf(each, recorded, workerName));
}

/** The name of the attempt's worker; its session if the name is no longer known. */
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

/** Outcomes that are not counted, unless the decision counts them: what ended the attempt. */
const UNCHARGED: Readonly<Record<string, (worker: string) => string>> = {
  interrupted: (worker) => `Worker ${worker} was shut down and returned it; not counted`,
  released: (worker) => `Worker ${worker} returned it before it began; not counted`,
  waiting: () => "Ended to wait for its children; not counted",
};

function attemptState(outcome: string, decided: FlusterDecidedEvent | undefined): FlusterState {
  const { kind, class: cls } = decided?.data.decision ?? {};
  // A completed attempt that a condition repeats is not a success.
  if (outcome === "completed" && (kind === undefined || kind === "succeed")) return "SUCCEEDED";
  if (kind === "cancel") return "KILLED";
  // A returned attempt is counted as a loss if it was returned too often, or may not be repeated.
  if (outcome === "lost" || cls === "lost") return "WORKER_FAILED";
  return outcome in UNCHARGED ? "KILLED" : "FAILED";
}

/** For an attempt without a failure of its own. */
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
  worker_gone: "it exited",
  killed: "the attempt was killed without a request",
};

function lossOf(outcome: string, event: FlusterDecidedEvent | undefined): string {
  if (outcome === "interrupted") return "it was shut down";
  if (outcome === "released") {
    const match = event?.data.decision.match;
    return `the job was ${match === undefined ? "returned" : matchName(match)}`;
  }
  return (event?.name === "attempt.lost" ? LOSSES[event.data.why] : undefined) ?? "it was lost";
}

// `attempts` has all ended attempts with their final state, including the last one once the job has ended. fluster adds
// an attempt to its history before its end is known, and never the last one. The counters are what was counted against
// the two budgets, over all redrives, as `attempts` and `current_attempt_id` continue through redrives: "Number of job
// failures". fluster has no redrive, which resets the budgets, so after one they may exceed their limits.

/** The tag of all fluster jobs, from a file or through its controller's calls. */
export const FLUSTER_TAG = "fluster";
/** The annotation with a job's name. */
export const FLUSTER_NAME = "fluster/name";

/** A job in fluster's format.
 *  @example
 *  const { state, exit_code }: FlusterStatus = await fluster(perdure).status(job.id); */
export interface FlusterStatus {
  readonly job_id: string;
  readonly name: string;
  readonly parent_job_id: string | null;
  readonly state: FlusterState;
  // From the running attempt or the last one; null while the job waits.
  readonly exit_code: number | null;
  readonly error: string | null;
  readonly started_at_ms: number | null;
  readonly finished_at_ms: number | null;
  readonly worker_id: string | null;
  readonly failure_count: number;
  readonly preemption_count: number;
  /** From 0; for a queued job the next attempt, for an ended job the last one. */
  readonly current_attempt_id: number;
  readonly attempts: readonly FlusterAttempt[];
  readonly max_retries_failure: number;
  readonly max_retries_preemption: number;
  /** The number of the retry that it waits for; 0 if none. */
  readonly next_retry_delay_ms: number;
  /** 0 if it is ready, or not waiting. Without a clock it may be a past timestamp, which also means ready. */
  readonly retry_available_at_ms: number;
}

/** What the view needs from the events. */
interface FlusterHistory {
  /** Since the last redrive. */
  readonly decided: readonly FlusterDecidedEvent[];
  /** Whether an attempt ended the job, and not an expired wait. */
  readonly endedByRun: boolean;
  /** The latest known timestamp. */
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
    // In Perdure an expired wait is counted as a failure; in fluster nothing has failed.
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
    case "blocked": // no worker has it while it waits
      return "PENDING";
    case "running":
      return "RUNNING";
    case "succeeded":
      return "SUCCEEDED";
    case "cancelled":
      return "KILLED";
    case "failed": {
      const last = decided.at(-1);
      // Also if it waited for a retry, which has another reason in Perdure.
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

// The client's name of a job is its job id in fluster. It is stored as a submit key and as a tag.

/** Limited because the id is in a tag, and a tag has 200 characters. */
const PREFIX = `${FLUSTER_TAG}:`;
export const MAX_FLUSTER_ID = 200 - PREFIX.length;

/** The tag by which a job is found, even after its key was removed. */
export function flusterIdTag(jobId: string): string {
  return PREFIX + jobId;
}

/** The submit key, so that one name is one job. */
export function flusterKey(jobId: string): string {
  return PREFIX + jobId;
}

/** Whether a text can be the id of a job. */
export function isFlusterId(jobId: string): boolean {
  return isName(jobId, MAX_FLUSTER_ID);
}
