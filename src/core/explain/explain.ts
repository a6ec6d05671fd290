/** Explains a job for people: its state, why it is in it, what it waits for and what happens next. */
import { attemptText } from "../decision/budget.ts";
import { SUSPECT_STREAK } from "../decision/evidence.ts";
import { counted, quoted, showAt, showSpan, showText } from "../format.ts";
import { resourcesIn, showResources } from "../input/resources.ts";
import type { JobEvent } from "../job/event.ts";
import type { FailReason, JobProgressFields, JobState } from "../job/job.ts";
import type { Policy, PresetName } from "../policy/policy.ts";
import type { PolicySources } from "../policy/policy-sources.ts";
import { type AttemptHistory, failureText } from "./attempt-text.ts";
import {
  type AttemptFailReason,
  adviceOn,
  because,
  type CommandOrigin,
  isDecided,
  originText,
  type RetryWithLine,
} from "./decision-text.ts";
import { type JobHistory, readHistory } from "./history.ts";
import { noWorkerText } from "./worker-command.ts";

// Pure: the same history at the same instant gives the same text. The events must be all events of one job, in order;
// otherwise `explain` throws what `foldEvents` throws.

/** The events of a job, and what is known about workers and queues.
 *  @example
 *  const input: ExplainInput = { events, now: Date.now() }; */
export interface ExplainInput {
  readonly events: readonly JobEvent[];
  readonly now: number;
  /** Reports that arrived after their attempt had ended. */
  readonly lateReports?: readonly LateReportSeen[];
  /** Live sessions that could run the job, and all live ones. Omitted where not known. */
  readonly capableSessions?: number;
  readonly liveSessions?: number;
  readonly queuePausedAt?: number | null;
  /** It is running in a session that no longer exists. */
  readonly isOrphan?: boolean;
  /** The job's policy; without it the text does not name the preset. */
  readonly policy?: Policy;
}

interface LateReportSeen {
  readonly attempt: number;
  readonly at: number;
  readonly session: string | null;
  readonly outcome: string;
}

/** What happens next, and who must act. */
type Next =
  /** It runs at `at` or later, as soon as none of the reasons applies. */
  | {
      readonly kind: "run";
      readonly at: number;
      readonly waitsFor: readonly WaitReason[];
      readonly expiresAt: number | null;
    }
  /** The running attempt ends, by its report or as lost. */
  | { readonly kind: "report"; readonly attempt: number; readonly cancelling: boolean }
  /** It is queued when all of these jobs have ended. */
  | { readonly kind: "unblock"; readonly waitsFor: readonly string[] }
  /** Nothing, unless a person requests it. */
  | { readonly kind: "person"; readonly may: readonly ("redrive" | "discard")[] }
  | { readonly kind: "nothing" };

/** Why a job is in its state, and what happens next.
 *  @example
 *  const { summary, next }: Explanation = await job.explain();
 *  console.log(summary, next.kind); */
export interface Explanation {
  readonly jobId: string;
  readonly kind: string;
  readonly queue: string;
  readonly namespace: string;
  readonly submittedAt: number;
  readonly state: JobState;
  readonly reason: FailReason | null;
  readonly chapter: number;
  /** When it may run next; null unless it is queued. */
  readonly nextRunAt: number | null;
  readonly next: Next;
  readonly attempts: readonly AttemptHistory[];
  /** Each retry and each redrive with its reason, oldest first. */
  readonly retries: readonly RetryWithLine[];
  /** The preset of its policy; null where that is not known. */
  readonly preset: PresetName | null;
  /** Where the values of its policy came from; null where all are the preset's, and for jobs of older versions. */
  readonly sources: PolicySources | null;
  /** The current state in one line. */
  readonly summary: string;
  /** The history, oldest first; indented lines belong to the one above. */
  readonly lines: readonly string[];
  /** The summary and the lines. */
  readonly text: string;
}

/** Explains from the events of a job why it is in its state, and what happens next.
 *  @example
 *  console.log(explain({ events, now: Date.now() }).text); */
export function explain(input: ExplainInput): Explanation {
  return explainHistory(readHistory(input.events, input.policy), input);
}

/** The same from a history that was read event by event. */
export function explainHistory(history: JobHistory, input: ExplainContext): Explanation {
  const { submitted, job, attempts, retries, preset } = history;
  const { kind, queue, namespace } = submitted.data;
  const status = statusText(history, input);
  const lines = [...history.lines, ...(input.lateReports ?? []).map(lateReportLine), ...status.lines];
  return {
    jobId: submitted.jobId,
    kind,
    queue,
    namespace,
    submittedAt: submitted.at,
    state: job.state,
    reason: job.reason,
    chapter: job.chapter,
    nextRunAt: job.state === "queued" ? job.runAt : null,
    next: status.next,
    attempts,
    retries,
    preset,
    sources: submitted.data.sources ?? null,
    summary: status.summary,
    lines,
    text: [status.summary, ...lines].join("\n"),
  };
}

function lateReportLine({ attempt, at, session, outcome }: LateReportSeen): string {
  const from = session === null ? "" : ` from session ${quoted(session)}`;
  return `A late report of attempt ${attempt} (${showText(outcome)})${from} arrived at ${showAt(at)} and was ignored.`;
}

/** The summary, the lines below the history, and what happens next. */
interface StatusText {
  readonly summary: string;
  readonly lines: readonly string[];
  readonly next: Next;
}

type ExplainContext = Omit<ExplainInput, "events" | "policy">;

function statusText(history: JobHistory, input: ExplainContext): StatusText {
  const { job } = history;
  switch (job.state) {
    case "queued":
      return queuedText(history, input);
    case "running":
      return runningText(history, input);
    case "blocked":
      return blockedText(history, input);
    case "succeeded": {
      const took = `${showSpan(history.submitted.at, job.finishedAt as number)} after submission`;
      const summary = `Succeeded at ${showAt(job.finishedAt as number)}, ${took}, with ${latestAttempt(history, true)}.`;
      return { summary, lines: [], next: { kind: "nothing" } };
    }
    case "failed":
      return failedText(history);
    case "cancelled": {
      const requested = history.cancel === null ? "" : `, requested ${originText(history.cancel)}`;
      const summary = `Cancelled at ${showAt(job.finishedAt as number)}${requested}, ${afterAttempt(history)}.`;
      const lines = [`To run it again: perdure redrive ${history.submitted.jobId}`];
      return { summary, lines, next: { kind: "person", may: ["redrive"] } };
    }
  }
}

function queuedText(history: JobHistory, input: ExplainContext): StatusText {
  const { job, submitted } = history;
  const context: WaitContext = {
    now: input.now,
    namespace: submitted.data.namespace,
    kind: submitted.data.kind,
    queue: submitted.data.queue,
    labels: submitted.data.labels ?? {},
    capableSessions: input.capableSessions,
    liveSessions: input.liveSessions,
    queuePausedAt: input.queuePausedAt ?? null,
  };
  const { summary, lines, reasons } = waitText(job, history.recent, context);
  const next: Next = { kind: "run", at: job.runAt, waitsFor: reasons, expiresAt: job.expiresAt };
  return { summary: `${summary}; ${latestAttempt(history, false)}.`, lines, next };
}

function blockedText(history: JobHistory, { now }: ExplainContext): StatusText {
  const cause = history.recent.findLast((event) => event.name === "attempt.waiting");
  if (cause === undefined) {
    const summary = "Blocked: it waits for its children, earlier steps or a person.";
    return { summary, lines: [], next: { kind: "unblock", waitsFor: [] } };
  }
  const { waitsFor } = cause.data;
  const since = `since ${showAt(cause.at)} (for ${showSpan(cause.at, now)})`;
  return {
    summary: `Blocked ${since}: it waits for ${counted(waitsFor.length, "child", "children")} to end; ${latestAttempt(history, false)}.`,
    lines: [`It waits for ${shortList(waitsFor)}. When all of them have ended, it runs again from the start.`],
    next: { kind: "unblock", waitsFor },
  };
}

const NAMED = 5;

function shortList(ids: readonly string[]): string {
  const more = ids.length - NAMED;
  return ids.slice(0, NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function runningText(history: JobHistory, { now, isOrphan = false }: ExplainContext): StatusText {
  const { job, cancel } = history;
  const { worker, startedAt } = history.attempts.at(-1) as AttemptHistory;
  const where = `${latestAttempt(history, true)} on worker ${quoted(worker)}`;
  const requested = cancel === null ? "" : `; cancel requested ${originText(cancel)}`;
  const span = `since ${showAt(startedAt)} (for ${showSpan(startedAt, now)})`;
  return {
    summary: `Running: ${where} ${span}${requested}.`,
    lines: isOrphan ? [orphanLine(cancel !== null)] : cancel === null ? [] : [cancelLine(cancel, now)],
    next: { kind: "report", attempt: job.attempt, cancelling: cancel !== null },
  };
}

function orphanLine(isCancelled: boolean): string {
  const cause = "Its session no longer exists, so no worker can report it.";
  if (isCancelled) {
    return `${cause} A server, or the next engine on this data, cancels it; a second cancel does so immediately.`;
  }
  return `${cause} A server, or the next engine on this data, requeues it as lost; a cancel ends it immediately.`;
}

function cancelLine({ at }: CommandOrigin, now: number): string {
  return `The cancel has been pending for ${showSpan(at, now)}. It takes effect when the attempt or its lease ends, unless the task completes first.`;
}

function failedText(history: JobHistory): StatusText {
  const { job, decided, discard, submitted } = history;
  const at = `Failed (${job.reason}) at ${showAt(job.finishedAt as number)}, ${afterAttempt(history)}`;
  const cause = decided === null ? "" : `: ${because(decided)}`;
  const failure = decided?.event.data.failure;
  const last = failure === undefined ? "" : ` Last failure: ${failureText(failure)}.`;
  const advice = decided === null ? [] : [adviceOn(job.reason as AttemptFailReason, decided, submitted.data)];
  if (discard !== null) {
    const summary = `${at}${cause}.${last} Discarded ${originText(discard)}.`;
    const lines = ["It is no longer a dead letter; it can still be redriven."];
    return { summary, lines, next: { kind: "person", may: ["redrive"] } };
  }
  const lines = [...advice, "It stays a dead letter until someone redrives or discards it."];
  return { summary: `${at}${cause}.${last}`, lines, next: { kind: "person", may: ["redrive", "discard"] } };
}

/** `attempt 2 of 5`; `isOpen`: it runs or has succeeded. */
function latestAttempt({ job, counted }: JobHistory, isOpen: boolean): string {
  const { attempt, losses, chapter } = job;
  if (attempt === 0 && counted.used === 0) return `no attempt yet, ${counted.limit} allowed`;
  if (attempt === 0) return `no attempt yet, ${counted.used} of ${counted.limit} counted`;
  return `attempt ${attemptText({ attempt, losses, chapter, isOpen, ...counted })}`;
}

function afterAttempt(history: JobHistory): string {
  return history.job.attempt === 0 ? "before the first attempt" : `after ${latestAttempt(history, false)}`;
}

// Why a queued job does not run yet, and what must happen first.

type WaitReason =
  /** Submitted, or redriven, to run later. */
  | "delayed"
  | "rescheduled"
  | "backoff"
  /** Released a moment ago, which does not count as an attempt. */
  | "handed_back"
  | "paused"
  | "no_worker"
  /** Due, and all workers that can run it are busy, as far as known. */
  | "busy";

interface WaitContext {
  readonly now: number;
  readonly namespace: string;
  readonly kind: string;
  readonly queue: string;
  /** A worker must have these. */
  readonly labels: Readonly<Record<string, string>>;
  /** Live sessions that could run it, and all live ones; undefined where not known. */
  readonly capableSessions: number | undefined;
  readonly liveSessions: number | undefined;
  readonly queuePausedAt: number | null;
}

interface WaitStatus {
  readonly summary: string;
  readonly lines: readonly string[];
  readonly reasons: readonly WaitReason[];
}

function waitText(job: JobProgressFields, events: readonly JobEvent[], context: WaitContext): WaitStatus {
  const { now, queuePausedAt, capableSessions, queue } = context;
  const later = job.runAt > now ? dueLater(job, events, now) : null;
  const reasons: WaitReason[] = later === null ? [] : [later.reason];
  const lines: string[] = later === null ? [] : [later.line];
  if (queuePausedAt !== null) {
    reasons.push("paused");
    lines.push(
      `Queue ${quoted(queue)} has been paused ${since(queuePausedAt, now)}. No job in it starts until it is resumed.`,
    );
  }
  if (capableSessions === 0) {
    reasons.push("no_worker");
    lines.push(noWorkerText(context));
  }
  if (reasons.length === 0) {
    reasons.push("busy");
    lines.push(busy(context));
  }
  if (job.streak >= SUSPECT_STREAK) {
    lines.push(
      `It was lost soon after its start ${counted(job.streak, "time")} in a row, so only a worker without other jobs takes it.`,
    );
  }
  if (job.expiresAt !== null) lines.push(expiryText(job.expiresAt, context));
  return { summary: later?.summary ?? dueNow(job, reasons, context), lines, reasons };
}

interface DueLater {
  readonly reason: WaitReason;
  readonly summary: string;
  readonly line: string;
}

/** The event that set `runAt` is the reason that it lies in the future. */
function dueLater(job: JobProgressFields, events: readonly JobEvent[], now: number): DueLater {
  const due = `due at ${showAt(job.runAt)}, in ${showSpan(now, job.runAt)}`;
  const hint = "`perdure retry` runs it now.";
  const cause = events.findLast(setsRunAt);
  if (cause?.name === "job.rescheduled") {
    const line = `It was rescheduled ${originText({ at: cause.at, by: cause.data.by })}. ${hint}`;
    return { reason: "rescheduled", summary: `Queued, rescheduled: ${due}`, line };
  }
  if (cause === undefined || !isDecided(cause)) {
    const line = `It was submitted to run no earlier than ${showAt(job.runAt)}. ${hint}`;
    return { reason: "delayed", summary: `Queued with a delay: ${due}`, line };
  }
  if (cause.data.decision.step === "handback") {
    const line = `Attempt ${job.attempt} was handed back before it started; the job is offered again after a short delay.`;
    return { reason: "handed_back", summary: `Queued again after it was handed back: ${due}`, line };
  }
  const after =
    cause.name === "job.queue_timeout" || cause.name === "job.over_budget"
      ? "the queue timeout"
      : `attempt ${job.attempt}`;
  const line = `It waits in backoff after ${after}. ${hint}`;
  return { reason: "backoff", summary: `Queued for a retry: ${due}`, line };
}

function setsRunAt(event: JobEvent): boolean {
  if (isDecided(event)) return event.data.decision.kind === "retry";
  return ["job.submitted", "job.rescheduled", "job.redriven", "job.unblocked"].includes(event.name);
}

function dueNow(job: JobProgressFields, reasons: readonly WaitReason[], { now, queue }: WaitContext): string {
  const due = `Queued and due ${since(job.runAt, now)}`;
  if (reasons[0] === "paused") return `${due}, but queue ${quoted(queue)} is paused`;
  if (reasons[0] !== "no_worker") return `${due}, waiting for a free worker`;
  return `${due}, but no live worker takes it`;
}

function busy({ kind, queue, labels, capableSessions, liveSessions }: WaitContext): string {
  if (capableSessions === undefined) {
    return `Any worker that takes kind ${quoted(kind)} from queue ${quoted(queue)} can run it.`;
  }
  const of = liveSessions === undefined ? "" : ` of ${liveSessions}`;
  const needs = resourcesIn(labels);
  const shortage = needs === null ? "" : `, or their hosts have less than ${showResources(needs)} free`;
  return `Live workers that can run it: ${capableSessions}${of}. They are busy${shortage}, or about to take it.`;
}

function expiryText(expiresAt: number, { now, queuePausedAt }: WaitContext): string {
  if (queuePausedAt !== null) return "Its time in the queue (expireIn) does not pass while the queue is paused.";
  if (expiresAt < now)
    return `Its time in the queue (expireIn) ended at ${showAt(expiresAt)}; the engine is about to record that.`;
  return `If no worker starts it by ${showAt(expiresAt)}, in ${showSpan(now, expiresAt)}, it has a queue timeout (expireIn).`;
}

function since(at: number, now: number): string {
  return `since ${showAt(at)} (for ${showSpan(at, now)})`;
}
