/** What each attempt did, as data and in sentences, from the event that began it and the one that ended it. */
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
  type ShownFailure,
  tellDecision,
  usageWords,
} from "./decision-text.ts";

export type AttemptOutcome =
  | "running"
  | "completed"
  /** Completed, with a result that `retryWhen` sends round again. */
  | "polled"
  | "failed"
  | "timed_out"
  | "lost"
  /** Ended so that its children can be waited for. */
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
  /** When its job had been due. */
  readonly dueAt: number;
  readonly endedAt: number | null;
  readonly outcome: AttemptOutcome;
  readonly failure: ShownFailure | null;
  readonly usage: Usage | null;
  /** What was decided, by which step, and the same as a clause for people; null while it runs. */
  readonly verdict: StoredDecision["kind"] | null;
  readonly step: DecisionStep | null;
  /** What of the policy or of the outcome decided; null where the step alone says it. */
  readonly match: Match | null;
  readonly because: string | null;
  /** The budget that paid for it; null when nothing was charged. */
  readonly charge: Charge | null;
  readonly delay: Delay | null;
  readonly nextRunAt: number | null;
}

/** The event that ended an attempt; a queue timeout ends a wait. */
export type AttemptEnded = Exclude<DecidedEvent, { name: "job.queue_timeout" | "job.over_budget" }>;
export type AttemptStarted = Extract<JobEvent, { name: "attempt.started" }>;

/** A wait after the due time that is worth a word. */
const LONG_WAIT_MS = 1_000;

export function beginAttempt({ data, at }: AttemptStarted, before: JobProgressFields): AttemptHistory {
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

export function endAttempt(begun: AttemptHistory, event: AttemptEnded, decided: DecisionInHistory): AttemptHistory {
  const { decision, failure, usage } = event.data;
  return {
    ...begun,
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

export function tellRunning(story: AttemptHistory): string {
  return `${opening(story)} and is still running.`;
}

export function tellAttempt(story: AttemptHistory, event: AttemptEnded, decided: DecisionInHistory): string[] {
  const lines = [`${opening(story)} and ${ending(story, event)}.`];
  if (event.name === "attempt.lost" && event.data.crash !== undefined) {
    lines.push(`  ${crashWords(event.data.crash)}`);
  }
  if (story.usage !== null) lines.push(`  It used ${usageWords(story.usage)}.`);
  return [...lines, ...tellDecision(decided)];
}

function opening({ attempt, worker, session, startedAt, dueAt }: AttemptHistory): string {
  const wait = startedAt - dueAt >= LONG_WAIT_MS ? `, ${showSpan(dueAt, startedAt)} after it was due,` : "";
  return `Attempt ${attempt} started at ${showAt(startedAt)}${wait} on worker ${quoted(worker)} (session ${quoted(session)})`;
}

function ending({ startedAt, failure }: AttemptHistory, event: AttemptEnded): string {
  const after = `after ${showSpan(startedAt, event.at)}`;
  const cause = failure === null ? "" : `: ${failureWords(failure)}`;
  switch (event.name) {
    case "attempt.succeeded":
      return `completed ${after}`;
    case "attempt.failed":
      if (event.data.decision.class === "polled") return `completed ${after} with a result that asks for another run`;
      return `failed ${after}${cause}`;
    case "attempt.timed_out":
      return `timed out ${after}${cause}`;
    case "attempt.lost":
      return `was lost ${after}: ${lossWords(event.data, startedAt)}`;
    case "attempt.waiting":
      return `ended ${after} to wait for ${counted(event.data.waitsFor.length, "child", "children")}`;
    case "attempt.interrupted":
      if (event.data.why === "released") return `was handed back ${after}, before its work began`;
      return `was interrupted ${after} by its worker's shutdown`;
  }
}

const LOSS: Readonly<Record<string, string>> = {
  lease_expired: "its session did not renew its lease in time",
  worker_gone: "its worker was gone",
  killed: "it was killed and nobody had asked for that",
};

function lossWords(
  { why, by, renewedAt }: { why: string; by: string | null; renewedAt: number | null },
  startedAt: number,
): string {
  const cause = LOSS[why] ?? showText(why);
  return `${cause}; ${seenWords(renewedAt, startedAt)}; found by ${by === null ? "an engine that gave no name" : quoted(by)}`;
}

const EXCUSES: Readonly<Record<Excuse, string>> = {
  engine_away: "the engine had ended at that time, and what ended it is likely to have ended the worker",
  stopped: "its worker had stopped in good order",
  alive: "its worker lived on",
  unknown: "nothing is recorded of its session",
};

/** What the loss says about the job. */
function crashWords({ beside, excuse, others }: Crash): string {
  if (excuse !== undefined) return `It is not suspected for this loss: ${EXCUSES[excuse] ?? showText(excuse)}.`;
  if (beside > 0) {
    return `${counted(beside, "other attempt")} ran in the same process, so any of them may have ended it, or something else.`;
  }
  if (others === undefined) return "It was alone in its worker.";
  const { lost, watchedMs } = others;
  return `It was alone in its worker. Of other workers like it ${lost === 0 ? "none was" : lost === 1 ? "1 was" : `${lost} were`} lost in the ten minutes before, in which they ran for ${showMs(watchedMs)} in all.`;
}

/** A session renews for all its attempts at once, so its last renewal may be older than a young attempt. */
function seenWords(renewedAt: number | null, startedAt: number): string {
  if (renewedAt === null) return "no renewal is on record";
  const last = `its last renewal was at ${showAt(renewedAt)}`;
  if (renewedAt < startedAt) return `${last}, ${showSpan(renewedAt, startedAt)} before the attempt started`;
  return `${last}, ${showSpan(startedAt, renewedAt)} into the attempt`;
}

/** The message, and what it does not say itself. */
export function failureWords({ message, name, code, exitCode, signal, status, kind }: ShownFailure): string {
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
