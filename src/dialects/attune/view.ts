/** A job in Attune's format: its newest execution, with the chain of all. In Attune each retry is an execution of its
 *  own that refers to the original; here they are one job, and are derived from its events. An execution begins when
 *  the job is submitted, when a retry is granted or when a person asks for another, and ends with the event that
 *  closes its attempt. Attempts that were returned, or wait for children, are not retries: the execution continues. */

import { isPlain } from "../../core/check.ts";
import { shortageText } from "../../core/decision/budget.ts";
import { retryIn } from "../../core/explain/decision-text.ts";
import type { JobEvent } from "../../core/job/event.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { ViewParts } from "../dialect.ts";
import { ACTION } from "./action.ts";
import { type RetryReason, reasonOf } from "./retry.ts";

export const ATTUNE_STATUSES = [
  ...(["requested", "scheduling", "scheduled", "running", "completed", "failed"] as const),
  ...(["canceling", "cancelled", "timeout", "abandoned"] as const),
];
/** A queued job is `requested`, even when it is due: it is not scheduled before a worker takes it. */
export type AttuneStatus = (typeof ATTUNE_STATUSES)[number];

export interface AttuneExecution {
  /** The original has the job's id; retry n has the suffix `.rN`. */
  readonly id: string;
  readonly action_ref: string;
  readonly status: AttuneStatus;
  /** 0 is the original. Retries requested by a person are counted too, and may exceed `max_retries`. */
  readonly retry_count: number;
  readonly max_retries: number;
  readonly retry_reason: RetryReason | null;
  readonly retry_at: string | null;
  /** The first of the chain; null for the first itself. */
  readonly original_execution: string | null;
  /** The previous execution; null for the original. */
  readonly retry_of: string | null;
  /** The job whose child this one is. */
  readonly parent: string | null;
  /** Its parameters. */
  readonly config: unknown;
  readonly result: unknown;
  readonly error: string | null;
  readonly worker: string | null;
  readonly created: string;
  readonly updated: string;
}

export interface AttuneView extends AttuneExecution {
  /** Oldest first. */
  readonly chain: readonly AttuneExecution[];
}

/** Used while the events are read. */
interface Link {
  status: AttuneStatus;
  readonly reason: RetryReason | null;
  /** When it may start; null for the original. */
  retryAt: number | null;
  error: string | null;
  worker: string | null;
  readonly created: number;
  updated: number;
  /** Whether this execution succeeded. */
  won: boolean;
}

export function attuneView(parts: ViewParts): AttuneView {
  const { job } = parts;
  const about = {
    action_ref: job.annotations?.[ACTION] ?? job.kind,
    // From the policy: a resubmitted job may have another one than its action.
    max_retries: job.policy.maxAttempts - 1,
    config: configOf(job),
  };
  const links = linksOf(parts);
  const idOf = (index: number) => (index === 0 ? job.id : `${job.id}.r${index}`);
  const chain = links.map((link, index): AttuneExecution => {
    return {
      id: idOf(index),
      action_ref: about.action_ref,
      status: link.status,
      retry_count: index,
      max_retries: about.max_retries,
      retry_reason: link.reason,
      retry_at: link.retryAt === null ? null : isoTime(link.retryAt),
      original_execution: index === 0 ? null : job.id,
      retry_of: index === 0 ? null : idOf(index - 1),
      parent: job.parentId ?? null,
      config: about.config,
      result: link.won ? (job.result ?? null) : null,
      error: link.error,
      worker: link.worker,
      created: isoTime(link.created),
      updated: isoTime(link.updated),
    };
  });
  return { ...(chain.at(-1) as AttuneExecution), chain };
}

function linksOf({ job, events, workerName }: ViewParts): Link[] {
  const links = [newLink(job.submittedAt, null, null)];
  for (const event of events) {
    const link = links.at(-1) as Link;
    // The ended execution stays unchanged: a redrive starts the next.
    if (event.name !== "job.redriven") link.updated = event.at;
    switch (event.name) {
      case "attempt.started":
        link.status = "running";
        link.worker = workerName(event.data.session) ?? event.data.worker;
        break;
      case "job.cancel_requested":
        link.status = "canceling";
        break;
      case "job.cancelled":
        link.status = "cancelled";
        break;
      case "job.rescheduled":
        if (link.retryAt !== null) link.retryAt = event.data.runAt;
        break;
      case "job.redriven":
        links.push(newLink(event.at, reasonIn(event), event.data.runAt));
        break;
      case "attempt.succeeded":
      case "attempt.failed":
      case "attempt.timed_out":
      case "attempt.lost":
      case "attempt.interrupted":
      case "job.queue_timeout":
      case "job.over_budget":
        end(links, link, event);
    }
  }
  return links;
}

function newLink(at: number, reason: RetryReason | null, retryAt: number | null): Link {
  return {
    ...{ status: "requested", reason, retryAt, error: null, worker: null, created: at, updated: at, won: false },
  };
}

type EndEvent = Extract<JobEvent, { data: { decision: unknown } }>;

function end(links: Link[], link: Link, event: EndEvent): void {
  const { kind, runAt = event.at } = event.data.decision;
  if (kind === "succeed") {
    link.status = "completed";
    link.won = true;
    return;
  }
  if (kind === "cancel") {
    link.status = "cancelled";
    return;
  }
  // Returned and not counted: it waits for another worker.
  if (kind === "retry" && event.name === "attempt.interrupted" && event.data.decision.class === "handback") {
    link.status = "requested";
    link.worker = null;
    return;
  }
  link.status = statusOf(event);
  link.error = errorOf(event);
  if (kind === "retry") links.push(newLink(event.at, reasonIn(event), runAt));
}

function reasonIn(event: JobEvent): RetryReason | null {
  const retry = retryIn(event);
  return retry === null ? null : reasonOf(retry);
}

function statusOf(event: EndEvent): AttuneStatus {
  switch (event.name) {
    case "attempt.timed_out":
      return "timeout";
    case "attempt.lost":
    case "attempt.interrupted":
      return "abandoned";
    default:
      return "failed";
  }
}

/** The messages by which Attune recognises retriable errors. */
function errorOf(event: EndEvent): string {
  if (event.name === "attempt.lost") {
    return event.data.why === "lease_expired" ? "Worker heartbeat stale" : "Worker unavailable";
  }
  if (event.name === "attempt.interrupted") return "Worker unavailable";
  if (event.name === "job.queue_timeout") {
    return event.data.why === "deadline" ? "Scheduling deadline passed" : "Worker queue TTL expired";
  }
  const { shortage } = event.data.decision;
  if (shortage !== undefined) return `Budget exceeded: ${shortageText(shortage)}`;
  return event.data.failure?.message ?? event.data.decision.reason ?? "failed";
}

function configOf({ annotations, payload }: JobInfo): unknown {
  if (annotations?.[ACTION] === undefined) return payload ?? null;
  return isPlain(payload) ? ((payload as { input?: unknown }).input ?? {}) : {};
}

function isoTime(at: number): string {
  return new Date(at).toISOString();
}
