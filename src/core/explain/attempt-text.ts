/** Each attempt as data and in sentences, from the events that started and ended it. */
import type { Charge, Delay } from "../decision/decide.ts";
import type { Crash, Excuse } from "../decision/evidence.ts";
import type { DecisionStep, Match } from "../decision/match.ts";
import { showMs } from "../duration.ts";
import { counted, quoted, showAt, showSpan, showText } from "../format.ts";
import type { JobEvent, StoredDecision } from "../job/event.ts";
import type { JobProgressFields, Usage } from "../job/job.ts";
import {
  because,
  type DecidedEvent,
  type DecisionInHistory,
  decisionLines,
  type ShownFailure,
  usageText,
} from "./decision-text.ts";

export type AttemptOutcome =
  | "running"
  | "completed"
  /** Completed, with a result that `retryWhen` matches: it runs again. */
  | "polled"
  | "failed"
  | "timed_out"
  | "lost"
  /** Ended to wait for its children. */
  | "waiting"
  | "interrupted"
  | "released";

export interface AttemptHistory {
  readonly attempt: number;
  readonly chapter: number;
  /** The worker's name, and the session it ran in. */
  readonly worker: string;
  readonly session: string;
  readonly startedAt: number;
  /** When its job was due. */
  readonly dueAt: number;
  readonly endedAt: number | null;
  readonly outcome: AttemptOutcome;
  readonly failure: ShownFailure | null;
  readonly usage: Usage | null;
  /** What was decided, by which step, and why, as a clause; null while it runs. */
  readonly verdict: StoredDecision["kind"] | null;
  readonly step: DecisionStep | null;
  /** The part of the policy or of the outcome that decided; null where the step is enough. */
  readonly match: Match | null;
  readonly because: string | null;
  /** The limit that it counts against; null where it counts against none. */
  readonly charge: Charge | null;
  readonly delay: Delay | null;
  readonly nextRunAt: number | null;
}

/** An event that ended an attempt; a queue timeout and a spent budget end a wait. */
export type AttemptEnded = Exclude<DecidedEvent, { name: "job.queue_timeout" | "job.over_budget" }>;
export type AttemptStarted = Extract<JobEvent, { name: "attempt.started" }>;

/** Shorter waits after the due time are not shown. */
const LONG_WAIT_MS = 1_000;

export function startedAttempt({ data, at }: AttemptStarted, before: JobProgressFields): AttemptHistory {
  return {
    attempt: data.attempt,
    chapter: before.chapter,
    worker: data.worker,
    session: data.session,
    startedAt: at,
    dueAt: before.runAt,
    endedAt: null,
    outcome: "running",
    failure: null,
    usage: null,
    verdict: null,
    step: null,
    match: null,
    because: null,
    charge: null,
    delay: null,
    nextRunAt: null,
  };
}

export function endedAttempt(started: AttemptHistory, event: AttemptEnded, decided: DecisionInHistory): AttemptHistory {
  const { decision, failure, usage } = event.data;
  return {
    ...started,
    endedAt: event.at,
    outcome: outcomeOf(event),
    failure: failure ?? null,
    usage: usage ?? null,
    verdict: decision.kind,
    step: decision.step,
    match: decision.match ?? null,
    because: because(decided),
    charge: decision.charge ?? null,
    delay: decision.delay ?? null,
    nextRunAt: decision.runAt ?? null,
  };
}

function outcomeOf(event: AttemptEnded): AttemptOutcome {
  switch (event.name) {
    case "attempt.succeeded":
      return "completed";
    case "attempt.failed":
      return event.data.decision.class === "polled" ? "polled" : "failed";
    case "attempt.timed_out":
      return "timed_out";
    case "attempt.lost":
      return "lost";
    case "attempt.waiting":
      return "waiting";
    case "attempt.interrupted":
      return event.data.why;
  }
}

export function runningLine(attempt: AttemptHistory): string {
  return `${startText(attempt)} and is still running.`;
}

export function attemptLines(attempt: AttemptHistory, event: AttemptEnded, decided: DecisionInHistory): string[] {
  const lines = [`${startText(attempt)} and ${endText(attempt, event)}.`];
  if (event.name === "attempt.lost" && event.data.crash !== undefined) {
    lines.push(`  ${crashText(event.data.crash)}`);
  }
  if (attempt.usage !== null) lines.push(`  It used ${usageText(attempt.usage)}.`);
  return [...lines, ...decisionLines(decided)];
}

function startText({ attempt, worker, session, startedAt, dueAt }: AttemptHistory): string {
  const wait = startedAt - dueAt >= LONG_WAIT_MS ? `, ${showSpan(dueAt, startedAt)} after it was due,` : "";
  return `Attempt ${attempt} started at ${showAt(startedAt)}${wait} on worker ${quoted(worker)} (session ${quoted(session)})`;
}

function endText({ startedAt, failure }: AttemptHistory, event: AttemptEnded): string {
  const after = `after ${showSpan(startedAt, event.at)}`;
  const cause = failure === null ? "" : `: ${failureText(failure)}`;
  switch (event.name) {
    case "attempt.succeeded":
      return `completed ${after}`;
    case "attempt.failed":
      if (event.data.decision.class === "polled") return `completed ${after} with a result that matches retryWhen`;
      return `failed ${after}${cause}`;
    case "attempt.timed_out":
      return `timed out ${after}${cause}`;
    case "attempt.lost":
      return `was lost ${after}: ${lossText(event.data, startedAt)}`;
    case "attempt.waiting":
      return `ended ${after} to wait for ${counted(event.data.waitsFor.length, "child", "children")}`;
    case "attempt.interrupted":
      if (event.data.why === "released") return `was handed back ${after}, before it started`;
      return `was interrupted ${after} by the shutdown of its worker`;
  }
}

const LOSSES: Readonly<Record<string, string>> = {
  lease_expired: "its session did not renew its lease in time",
  worker_gone: "its worker had exited",
  killed: "it was killed without a request to stop it",
};

function lossText(
  { why, by, renewedAt }: { why: string; by: string | null; renewedAt: number | null },
  startedAt: number,
): string {
  const cause = LOSSES[why] ?? showText(why);
  return `${cause}; ${heartbeatText(renewedAt, startedAt)}; detected by ${by === null ? "an unnamed server process" : `server process ${showText(by)}`}`;
}

const EXCUSES: Readonly<Record<Excuse, string>> = {
  engine_away: "the engine had exited at that time too, probably for the same reason",
  stopped: "its worker had shut down cleanly",
  alive: "its worker kept running",
  unknown: "its session has no record",
};

/** What the loss shows about the job. */
function crashText({ beside, excuse, others }: Crash): string {
  if (excuse !== undefined) return `The job is not suspected of causing it: ${EXCUSES[excuse] ?? showText(excuse)}.`;
  if (beside > 0) {
    return `${counted(beside, "other attempt")} ran in the same process; any of them may have caused the loss.`;
  }
  if (others === undefined) return "No other attempt ran in its worker.";
  const { lost, watchedMs } = others;
  return `No other attempt ran in its worker. In the ten minutes before, ${counted(lost, "similar worker")} ${lost === 1 ? "was" : "were"} lost in ${showMs(watchedMs)} of running time.`;
}

/** A heartbeat renews all attempts of a session at once, so the last one may be older than a young attempt. */
function heartbeatText(renewedAt: number | null, startedAt: number): string {
  if (renewedAt === null) return "no heartbeat was recorded";
  const last = `last heartbeat at ${showAt(renewedAt)}`;
  if (renewedAt < startedAt) return `${last}, ${showSpan(renewedAt, startedAt)} before the attempt started`;
  return `${last}, ${showSpan(startedAt, renewedAt)} into the attempt`;
}

/** The message, and the facts that it does not contain. */
export function failureText({ message, name, code, exitCode, signal, status, kind }: ShownFailure): string {
  const details: string[] = [];
  if (kind === "oom") details.push("out of memory");
  if (name !== null && name !== "Error") details.push(showText(name, NAME_LIMIT));
  if (code !== null) details.push(`code ${showText(code, NAME_LIMIT)}`);
  if (exitCode !== null && !message.startsWith(`exit code ${exitCode}`)) details.push(`exit code ${exitCode}`);
  if (signal !== null) details.push(`signal ${showText(signal, NAME_LIMIT)}`);
  if (status !== null && !message.startsWith(`${status}`)) details.push(`status ${status}`);
  return `${quoted(message)}${details.length === 0 ? "" : ` (${details.join(", ")})`}`;
}
const NAME_LIMIT = 80;
