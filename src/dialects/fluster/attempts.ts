/** The attempts of a job as fluster's `JobAttempt`: one for each that the engine has counted and that has ended, so that
 *  `attempt_id` is 0, 1, 2, … without gaps. It is the number that the attempt itself finds as `FLUSTER_ATTEMPT_ID`.
 *
 *  An attempt that is charged to nothing is KILLED, and `error` says what ended it: its worker handed it back, at its shutdown
 *  or before it began, or it ended in order to wait for its children. So FAILED are those of `failure_count`, WORKER_FAILED
 *  those of `preemption_count`, and SUCCEEDED is what the job was to do.
 *
 *  The rows of attempts are read up to a number of them, the latest; what is missing there is in the events. */
import type { JobEvent } from "../../core/event.ts";
import type { Failure } from "../../core/failure.ts";
import type { AttemptRow } from "../../core/views.ts";
import type { ViewParts } from "../dialect.ts";

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

export const TERMINATED = "Terminated by user";

/** An event that carries a decision. */
export type Decided = Extract<JobEvent, { data: { decision: unknown } }>;

export function isDecided(event: JobEvent): event is Decided {
  return "decision" in event.data;
}

/** An attempt that has ended, from its row or from its events. */
type EndedAttempt = Pick<AttemptRow, "attempt" | "session" | "startedAt" | "endedAt" | "outcome"> & {
  readonly failure: Pick<Failure, "exitCode" | "message"> | null;
};

type Started = Extract<JobEvent, { name: "attempt.started" }>;

/** What the events record of attempts. */
interface Recorded {
  readonly starts: ReadonlyMap<number, Started>;
  readonly ends: ReadonlyMap<number, Decided>;
}

/** All that have ended, in order. */
export function flusterAttempts({ attempts: rows, events, workerName }: ViewParts): FlusterAttempt[] {
  const recorded = recordedIn(events);
  const ended = new Map<number, EndedAttempt>(rows.map((row) => [row.attempt, row]));
  for (const [attempt, end] of recorded.ends) {
    if (!ended.has(attempt)) ended.set(attempt, fromEvents(end, recorded.starts.get(attempt)));
  }
  return [...ended.values()].sort((a, b) => a.attempt - b.attempt).map((each) => attemptOf(each, recorded, workerName));
}

/** The name of the worker that had an attempt; its session where the name is not known any more. */
export function workerOf(
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
  const ends = new Map<number, Decided>();
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

function fromEvents(end: Decided, start: Started | undefined): EndedAttempt {
  const { attempt, failure = null } = end.data;
  return {
    ...{ attempt, failure, session: start?.data.session ?? null, startedAt: start?.at ?? end.at, endedAt: end.at },
    outcome: end.name === "attempt.interrupted" ? end.data.why : (OUTCOMES[end.name] ?? "failed"),
  };
}

function attemptOf(ended: EndedAttempt, { starts, ends }: Recorded, workerName: ViewParts["workerName"]) {
  const { attempt, session, outcome, failure, startedAt, endedAt } = ended;
  const worker = nameOf(starts.get(attempt), session, workerName);
  const decided = ends.get(attempt);
  const state = stateOf(outcome, decided);
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

function stateOf(outcome: string, decided: Decided | undefined): FlusterState {
  const { kind, class: cls } = decided?.data.decision ?? {};
  // A completed run that a condition sends round again is not what was wanted of it.
  if (outcome === "completed" && (kind === undefined || kind === "succeed")) return "SUCCEEDED";
  if (kind === "cancel") return "KILLED";
  // One that was handed back is charged as a loss where it was one too many, or may not be run again.
  if (outcome === "lost" || cls === "lost") return "WORKER_FAILED";
  return outcome in UNCHARGED ? "KILLED" : "FAILED";
}

/** Of a run that left no failure of its own. */
function errorWithoutFailure(outcome: string, state: FlusterState, worker: string, decided: Decided | undefined) {
  if (state === "WORKER_FAILED") return `Worker ${worker} failed: ${lossOf(outcome, decided)}`;
  if (decided?.data.decision.kind === "cancel") return TERMINATED;
  return UNCHARGED[outcome]?.(worker) ?? null;
}

const LOSSES: Readonly<Record<string, string>> = {
  lease_expired: "its lease expired",
  worker_gone: "it is gone",
  killed: "the run was killed, and nobody had asked for it",
};

function lossOf(outcome: string, event: Decided | undefined): string {
  if (outcome === "interrupted") return "it was shut down";
  if (outcome === "released") return `the job was ${event?.data.decision.matched ?? "handed back"}`;
  return (event?.name === "attempt.lost" ? LOSSES[event.data.why] : undefined) ?? "it was lost";
}
