/** Explains a job for people: where it stands, why, what it waits for and what happens next. */
import { chargedText } from "../decision/budget.ts";
import { SUSPECT_STREAK } from "../decision/evidence.ts";
import { counted, quoted, showAt, showSpan, showText } from "../format.ts";
import { RESOURCE_PREFIX, resourcesIn, showResources } from "../input/resources.ts";
import type { JobEvent } from "../job/event.ts";
import type { FailReason, JobProgressFields, JobState } from "../job/job.ts";
import type { Policy, PresetName } from "../policy/policy.ts";
import type { PolicySources } from "../policy/policy-sources.ts";
import { type AttemptHistory, failureWords } from "./attempt-text.ts";
import { adviceOn, askedBy, because, type CommandOrigin, isDecided, type RetryWithLine } from "./decision-text.ts";
import { type JobHistory, tellStory } from "./story.ts";

// Tells a job's story in plain sentences, from its events alone: what it is, what each attempt did, which rule or
// step decided and at what cost, and then why it waits, or why it ended and what can be done about it. Pure: the same
// history at the same instant gives the same text. The events must be all there are of one job, in order; otherwise
// it throws what `foldEvents` throws.

/** What `explain` goes by: the events of a job, and what is known of workers and queues.
 *  @example
 *  const input: ExplainInput = { events, now: Date.now() }; */
export interface ExplainInput {
  readonly events: readonly JobEvent[];
  readonly now: number;
  /** Reports that came after their attempt had been closed. */
  readonly lateReports?: readonly LateReportSeen[];
  /** Live sessions that could run the job, and all live ones. Left out, nothing is said about them. */
  readonly capableSessions?: number;
  readonly liveSessions?: number;
  readonly queuePausedAt?: number | null;
  /** It is running in a session that does not exist any more. */
  readonly isOrphan?: boolean;
  /** The job's; left out, a preset is not named. */
  readonly policy?: Policy;
}

interface LateReportSeen {
  readonly attempt: number;
  readonly at: number;
  readonly session: string | null;
  readonly outcome: string;
}

/** What happens next, and who has to act. */
type Next =
  /** It runs at `at` or later, as soon as none of the reasons holds any more. */
  | {
      readonly kind: "run";
      readonly at: number;
      readonly waitsFor: readonly WaitReason[];
      readonly expiresAt: number | null;
    }
  /** The running attempt ends, by its report or as lost. */
  | { readonly kind: "report"; readonly attempt: number; readonly cancelling: boolean }
  /** All of these jobs end. */
  | { readonly kind: "unblock"; readonly waitsFor: readonly string[] }
  /** Nothing, unless a person asks for it. */
  | { readonly kind: "person"; readonly may: readonly ("redrive" | "discard")[] }
  | { readonly kind: "nothing" };

/** Why a job is where it is, and what happens next.
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
  /** What was granted and why, oldest first: each retry, and each redrive. */
  readonly retries: readonly RetryWithLine[];
  /** Of its policy; null where that is not known. */
  readonly preset: PresetName | null;
  /** Where the values of its policy came from; null where none was given, and for jobs of older versions. */
  readonly sources: PolicySources | null;
  /** How things stand, in one line. */
  readonly summary: string;
  /** The whole story, oldest first; indented lines belong to the one above. */
  readonly lines: readonly string[];
  /** The summary and the lines. */
  readonly text: string;
}

/** Says from the events of a job why it is where it is, and what happens next.
 *  @example
 *  console.log(explain({ events, now: Date.now() }).text); */
export function explain(input: ExplainInput): Explanation {
  return explainStory(tellStory(input.events, input.policy), input);
}

/** The same for a story that was told event by event. */
export function explainStory(story: JobHistory, input: ExplainContext): Explanation {
  const { submitted, job, attempts, retries, preset } = story;
  const { kind, queue, namespace } = submitted.data;
  const standing = stand(story, input);
  const lines = [...story.lines, ...(input.lateReports ?? []).map(tellLate), ...standing.lines];
  const { state, reason, chapter } = job;
  return {
    ...{ jobId: submitted.jobId, kind, queue, namespace, submittedAt: submitted.at },
    ...{ state, reason, chapter, nextRunAt: state === "queued" ? job.runAt : null, next: standing.next, attempts },
    ...{ retries, preset },
    sources: submitted.data.sources ?? null,
    ...{ summary: standing.summary, lines, text: [standing.summary, ...lines].join("\n") },
  };
}

function tellLate({ attempt, at, session, outcome }: LateReportSeen): string {
  const from = session === null ? "" : ` from session ${quoted(session)}`;
  return `A late report of attempt ${attempt} (${showText(outcome)})${from} arrived at ${showAt(at)} and changed nothing.`;
}

/** How a job stands now: the summary, what is to be said below its history, and what comes next. */
interface JobStanding {
  readonly summary: string;
  readonly lines: readonly string[];
  readonly next: Next;
}

type ExplainContext = Omit<ExplainInput, "events" | "policy">;

function stand(story: JobHistory, input: ExplainContext): JobStanding {
  const { job } = story;
  switch (job.state) {
    case "queued":
      return standQueued(story, input);
    case "running":
      return standRunning(story, input);
    case "blocked":
      return standBlocked(story, input);
    case "succeeded": {
      const took = `${showSpan(story.submitted.at, job.finishedAt as number)} after its submission`;
      const summary = `Succeeded at ${showAt(job.finishedAt as number)}, ${took}; ${spent(story)}.`;
      return { summary, lines: [], next: { kind: "nothing" } };
    }
    case "failed":
      return standFailed(story);
    case "cancelled": {
      const asked = story.cancel === null ? "" : `, as asked ${askedBy(story.cancel)}`;
      const summary = `Cancelled at ${showAt(job.finishedAt as number)}${asked}; ${spent(story)}.`;
      const lines = ["A redrive would run it again, in a new chapter with a fresh budget."];
      return { summary, lines, next: { kind: "person", may: ["redrive"] } };
    }
  }
}

function standQueued(story: JobHistory, input: ExplainContext): JobStanding {
  const { job, submitted } = story;
  const around: WaitContext = {
    ...{ now: input.now, kind: submitted.data.kind, queue: submitted.data.queue },
    labels: submitted.data.labels ?? {},
    ...{ capableSessions: input.capableSessions, liveSessions: input.liveSessions },
    queuePausedAt: input.queuePausedAt ?? null,
  };
  const { summary, lines, reasons } = tellWait(job, story.recent, around);
  const next: Next = { kind: "run", at: job.runAt, waitsFor: reasons, expiresAt: job.expiresAt };
  return { summary: `${summary}; ${spent(story)}.`, lines, next };
}

function standBlocked(story: JobHistory, { now }: ExplainContext): JobStanding {
  const cause = story.recent.findLast((event) => event.name === "attempt.waiting");
  if (cause === undefined) {
    const summary = "Blocked: it waits for something other than time (its children, earlier steps or a person).";
    return { summary, lines: [], next: { kind: "unblock", waitsFor: [] } };
  }
  const { waitsFor } = cause.data;
  const since = `since ${showAt(cause.at)} (for ${showSpan(cause.at, now)})`;
  return {
    summary: `Blocked ${since}: it waits for ${counted(waitsFor.length, "child", "children")} to end; ${spent(story)}.`,
    lines: [`It waits for ${shortList(waitsFor)}. When all of them have ended it runs again, from the top.`],
    next: { kind: "unblock", waitsFor },
  };
}

const NAMED = 5;

function shortList(ids: readonly string[]): string {
  const more = ids.length - NAMED;
  return ids.slice(0, NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function standRunning(story: JobHistory, { now, isOrphan = false }: ExplainContext): JobStanding {
  const { job, cancel } = story;
  const { worker, startedAt } = story.attempts.at(-1) as AttemptHistory;
  const where = `attempt ${job.attempt} on worker ${quoted(worker)}`;
  const asked = cancel === null ? "" : `, asked to stop ${askedBy(cancel)}`;
  const span = `since ${showAt(startedAt)} (for ${showSpan(startedAt, now)})`;
  return {
    summary: `Running: ${where} ${span}${asked}; ${spent(story)}.`,
    lines: isOrphan ? [orphaned(cancel !== null)] : cancel === null ? [] : [stopping(cancel, now)],
    next: { kind: "report", attempt: job.attempt, cancelling: cancel !== null },
  };
}

function orphaned(isCancelled: boolean): string {
  const gone = "Its session does not exist any more, so that no worker can report it:";
  if (isCancelled)
    return `${gone} a server, or the next engine on this data, cancels it; a repeated cancel does so at once.`;
  return `${gone} a server, or the next engine on this data, requeues it as lost; a cancel ends it at once.`;
}

function stopping({ at }: CommandOrigin, now: number): string {
  return `The cancel has been waiting for ${showSpan(at, now)}: it takes effect when the attempt ends or its lease does, unless the task completes first.`;
}

function standFailed(story: JobHistory): JobStanding {
  const { job, decided, discard, submitted } = story;
  const at = `Failed (${job.reason}) at ${showAt(job.finishedAt as number)}`;
  const cause = decided === null ? "" : `, because ${because(decided)}`;
  const failure = decided?.event.data.failure;
  const last = failure === undefined ? "" : ` The last failure was ${failureWords(failure)}.`;
  const advice = decided === null ? [] : [adviceOn(job.reason as FailReason, decided, submitted.data)];
  if (discard !== null) {
    const summary = `${at} and discarded ${askedBy(discard)}${cause}; ${spent(story)}.${last}`;
    const lines = ["It is no longer among the dead letters; a redrive would still bring it back."];
    return { summary, lines, next: { kind: "person", may: ["redrive"] } };
  }
  const summary = `${at}${cause}; ${spent(story)}.${last}`;
  const lines = [...advice, "It stays among the dead letters until someone redrives or discards it."];
  return { summary, lines, next: { kind: "person", may: ["redrive", "discard"] } };
}

/** "run 7, 4 of 5 charged", and the losses where they have a budget of their own. */
function spent({ job, spent }: JobHistory): string {
  return `${job.attempt === 0 ? "no run yet" : `run ${job.attempt}`}, ${chargedText(spent, job.losses)}`;
}

// Why a queued job does not run yet, and what has to happen first.

type WaitReason =
  /** Submitted, or redriven, to run later. */
  | "delayed"
  | "rescheduled"
  | "backoff"
  /** Handed back a moment ago; nothing was charged. */
  | "handed_back"
  | "paused"
  | "no_worker"
  /** Due, and all who could run it are busy as far as it is known. */
  | "busy";

interface WaitContext {
  readonly now: number;
  readonly kind: string;
  readonly queue: string;
  /** Those a worker must have. */
  readonly labels: Readonly<Record<string, string>>;
  /** Live sessions that could run it, and all live ones; undefined when nobody looked. */
  readonly capableSessions: number | undefined;
  readonly liveSessions: number | undefined;
  readonly queuePausedAt: number | null;
}

interface WaitText {
  readonly summary: string;
  readonly lines: readonly string[];
  readonly reasons: readonly WaitReason[];
}

function tellWait(job: JobProgressFields, events: readonly JobEvent[], around: WaitContext): WaitText {
  const { now, queuePausedAt, capableSessions, queue } = around;
  const later = job.runAt > now ? dueLater(job, events, now) : null;
  const reasons: WaitReason[] = later === null ? [] : [later.reason];
  const lines: string[] = later === null ? [] : [later.line];
  if (queuePausedAt !== null) {
    reasons.push("paused");
    lines.push(
      `Queue ${quoted(queue)} is paused ${since(queuePausedAt, now)}; nothing in it starts until it is resumed.`,
    );
  }
  if (capableSessions === 0) {
    reasons.push("no_worker");
    lines.push(noWorker(around));
  }
  if (reasons.length === 0) {
    reasons.push("busy");
    lines.push(busy(around));
  }
  if (job.streak >= SUSPECT_STREAK) {
    lines.push(
      `It was lost soon after its start ${counted(job.streak, "time")} in a row, so it is to run alone: a worker that holds nothing else takes it.`,
    );
  }
  if (job.expiresAt !== null) lines.push(expiry(job.expiresAt, around));
  return { summary: later?.summary ?? dueNow(job, reasons, around), lines, reasons };
}

interface DueLater {
  readonly reason: WaitReason;
  readonly summary: string;
  readonly line: string;
}

/** The event that set `runAt` says why it lies ahead. */
function dueLater(job: JobProgressFields, events: readonly JobEvent[], now: number): DueLater {
  const due = `due at ${showAt(job.runAt)}, in ${showSpan(now, job.runAt)}`;
  const hint = "The retry command runs it now.";
  const cause = events.findLast(setsRunAt);
  if (cause?.name === "job.rescheduled") {
    const by = askedBy({ at: cause.at, by: cause.data.by } satisfies CommandOrigin);
    return { reason: "rescheduled", summary: `Queued: rescheduled, ${due}`, line: `It was rescheduled ${by}. ${hint}` };
  }
  if (cause === undefined || !isDecided(cause)) {
    const line = `It was asked to run no sooner than ${showAt(job.runAt)}. ${hint}`;
    return { reason: "delayed", summary: `Queued with a delay: ${due}`, line };
  }
  if (cause.data.decision.step === "handback") {
    const line = `Attempt ${job.attempt} was handed back, so the job waits a moment before it is offered again.`;
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

function dueNow(job: JobProgressFields, reasons: readonly WaitReason[], { now, queue, labels }: WaitContext): string {
  const due = `Queued and due ${since(job.runAt, now)}`;
  if (reasons[0] === "paused") return `${due}, but queue ${quoted(queue)} is paused`;
  if (reasons[0] !== "no_worker") return `${due}: it waits for a free worker`;
  return `${due}, but ${noneWords(labels)}`;
}

function noWorker({ kind, queue, labels, liveSessions }: WaitContext): string {
  const wanted = `kind ${quoted(kind)} from queue ${quoted(queue)}${withLabels(labels)}`;
  const none = noneWords(labels);
  const said = `${none[0]?.toUpperCase()}${none.slice(1)}`;
  if (liveSessions === 0) return `${said}: no worker is live at all. Start one that takes ${wanted}.`;
  const live = liveSessions === undefined ? "no live worker" : `of ${counted(liveSessions, "live worker")} none`;
  return `${said}: ${live} takes ${wanted}. Start one that does.`;
}

/** A job may be too large for all that could run its kind. */
function noneWords(labels: Readonly<Record<string, string>>): string {
  return resourcesIn(labels) === null ? "no worker can run this kind" : "no worker can run this kind and size";
}

function withLabels(labels: Readonly<Record<string, string>>): string {
  const own = Object.entries(labels).filter(([name]) => !name.startsWith(RESOURCE_PREFIX));
  const pairs = own.map(([name, value]) => quoted(`${name}=${value}`));
  const named = pairs.length === 0 ? [] : [`${pairs.length === 1 ? "the label" : "the labels"} ${pairs.join(", ")}`];
  const needs = resourcesIn(labels);
  const size = needs === null ? [] : [showResources(needs)];
  return named.length + size.length === 0 ? "" : ` with ${[...named, ...size].join(" and ")}`;
}

function busy({ kind, queue, labels, capableSessions, liveSessions }: WaitContext): string {
  if (capableSessions === undefined) {
    return `Any worker that takes kind ${quoted(kind)} from queue ${quoted(queue)} may run it.`;
  }
  const of = liveSessions === undefined ? "" : ` of ${liveSessions}`;
  const needs = resourcesIn(labels);
  const room = needs === null ? "" : `, or their hosts have less than ${showResources(needs)} left`;
  return `Live workers that can run it: ${capableSessions}${of}. None has taken it yet: they are busy${room}, or just about to.`;
}

function expiry(expiresAt: number, { now, queuePausedAt }: WaitContext): string {
  if (queuePausedAt !== null) return "Its time in the queue (expireIn) stands still while the queue is paused.";
  if (expiresAt < now)
    return `Its time in the queue ran out at ${showAt(expiresAt)}; the engine is about to settle that.`;
  return `It expires at ${showAt(expiresAt)}, in ${showSpan(now, expiresAt)}: not started by then, it has a queue timeout.`;
}

function since(at: number, now: number): string {
  return `since ${showAt(at)} (for ${showSpan(at, now)})`;
}
