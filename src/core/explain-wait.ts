/** Why a queued job does not run yet, and what has to happen first. */
import type { JobEvent } from "./event.ts";
import { SUSPECT_STREAK } from "./evidence.ts";
import { type Asked, askedBy, isDecided } from "./explain-decision.ts";
import type { JobProgressFields } from "./job.ts";
import { RESOURCE_PREFIX, resourcesIn, showResources } from "./resources.ts";
import { counted, quoted, showAt, showSpan } from "./show.ts";

export type WaitReason =
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

export interface Surroundings {
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

export interface Wait {
  readonly summary: string;
  readonly lines: readonly string[];
  readonly reasons: readonly WaitReason[];
}

export function tellWait(job: JobProgressFields, events: readonly JobEvent[], around: Surroundings): Wait {
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

interface Later {
  readonly reason: WaitReason;
  readonly summary: string;
  readonly line: string;
}

/** The event that set `runAt` says why it lies ahead. */
function dueLater(job: JobProgressFields, events: readonly JobEvent[], now: number): Later {
  const due = `due at ${showAt(job.runAt)}, in ${showSpan(now, job.runAt)}`;
  const hint = "The retry command runs it now.";
  const cause = events.findLast(setsRunAt);
  if (cause?.name === "job.rescheduled") {
    const by = askedBy({ at: cause.at, by: cause.data.by } satisfies Asked);
    return { reason: "rescheduled", summary: `Queued: rescheduled, ${due}`, line: `It was rescheduled ${by}. ${hint}` };
  }
  if (cause === undefined || !isDecided(cause)) {
    const line = `It was asked to run no sooner than ${showAt(job.runAt)}. ${hint}`;
    return { reason: "delayed", summary: `Queued with a delay: ${due}`, line };
  }
  if (cause.data.decision.step === 4) {
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

function dueNow(job: JobProgressFields, reasons: readonly WaitReason[], { now, queue, labels }: Surroundings): string {
  const due = `Queued and due ${since(job.runAt, now)}`;
  if (reasons[0] === "paused") return `${due}, but queue ${quoted(queue)} is paused`;
  if (reasons[0] !== "no_worker") return `${due}: it waits for a free worker`;
  return `${due}, but ${noneWords(labels)}`;
}

function noWorker({ kind, queue, labels, liveSessions }: Surroundings): string {
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

function busy({ kind, queue, labels, capableSessions, liveSessions }: Surroundings): string {
  if (capableSessions === undefined) {
    return `Any worker that takes kind ${quoted(kind)} from queue ${quoted(queue)} may run it.`;
  }
  const of = liveSessions === undefined ? "" : ` of ${liveSessions}`;
  const needs = resourcesIn(labels);
  const room = needs === null ? "" : `, or their hosts have less than ${showResources(needs)} left`;
  return `Live workers that can run it: ${capableSessions}${of}. None has taken it yet: they are busy${room}, or just about to.`;
}

function expiry(expiresAt: number, { now, queuePausedAt }: Surroundings): string {
  if (queuePausedAt !== null) return "Its time in the queue (expireIn) stands still while the queue is paused.";
  if (expiresAt < now)
    return `Its time in the queue ran out at ${showAt(expiresAt)}; the engine is about to settle that.`;
  return `It expires at ${showAt(expiresAt)}, in ${showSpan(now, expiresAt)}: not started by then, it has a queue timeout.`;
}

function since(at: number, now: number): string {
  return `since ${showAt(at)} (for ${showSpan(at, now)})`;
}
