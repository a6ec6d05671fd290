/** A job in NoETL's format: its queue row, its status and its timeline. */

import { isTerminal, type JobState } from "../../core/job/job.ts";
import { counted, type NumberedEvent } from "../attempt-numbers.ts";
import type { EventTable, ViewParts } from "../dialect.ts";
import { errorIn, type NoetlEvent, secondsOf } from "./events.ts";
import { type NoetlNode, nodeOf, retryOf } from "./node.ts";

// Events as lines of the "Event Timeline Example": `step_retry (attempt=1, delay=1.0s)`, followed by `[wait 1 second]`.
// Each is one line; other data of events is only in JSON.

type NoetlTimelineContext = NoetlEvent["context"];

export function noetlTimeline(events: readonly NoetlEvent[]): EventTable {
  // Of one step, as in the document; of several, each row has its own.
  const hasNodes = new Set(events.map(({ node_name }) => node_name)).size > 1;
  const node = (name: string) => (hasNodes ? [name] : []);
  const rows = events.flatMap((event, i) => {
    const row = [`${i + 1}.`, event.timestamp, event.status, ...node(event.node_name), noetlLine(event)];
    const wait = event.event_type === "step_retry" ? waitText(event.context.delay_seconds) : null;
    return wait === null ? [row] : [row, ["", "", "", ...node(""), wait]];
  });
  return { heads: ["#", "AT", "STATUS", ...node("STEP"), "EVENT"], rows };
}

/** `action_error (attempt=1, error="503 Service Unavailable")` */
export function noetlLine(event: NoetlEvent): string {
  const facts = factsOf(event)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${value}`);
  return facts.length === 0 ? event.event_type : `${event.event_type} (${facts.join(", ")})`;
}

type NoetlFact = readonly [name: string, value: unknown];

function factsOf({ event_type, context, error }: NoetlEvent): readonly NoetlFact[] {
  const quotedError: NoetlFact = ["error", quoted(error)];
  switch (event_type) {
    case "action_started":
      return [["attempt", (context.retry as { readonly attempt: number }).attempt]];
    case "action_completed":
      return [
        ["attempt", context.attempt],
        ["success", context.success === true ? "True" : "False"],
        problemIn(context),
      ];
    case "action_error":
      return [["attempt", context.attempt], quotedError];
    case "step_retry":
      return [
        ["attempt", context.attempt],
        ["delay", secondsText(context.delay_seconds)],
      ];
    case "step_retry_exhausted":
      return [
        ["attempts", context.attempts],
        ["max_attempts", context.max_attempts],
      ];
    case "step_failed_terminal":
      return terminalFacts(context);
    case "step_completed":
      return [];
    case "execution_failed":
      // Of a run, whose step failed; of a task the line above has the reason.
      return context.step === undefined ? [] : [["reason", context.reason], ["step", context.step], quotedError];
    default:
      return [...ownFacts(context), quotedError];
  }
}

/** If all attempts are used, the line above shows it. */
function terminalFacts(context: NoetlTimelineContext): readonly NoetlFact[] {
  const { reason, decided_by: by, detail } = context;
  if (by === "max_attempts") return reason === "no_retry_configured" ? [["reason", reason]] : [];
  return [["reason", reason], ["decided_by", by], ["detail", quoted(detail)], problemIn(context)];
}

function problemIn({ condition_error }: NoetlTimelineContext): NoetlFact {
  return ["condition_error", quoted(condition_error)];
}

/** Seconds in NoETL's format, `1.0s`. */
function secondsText(value: unknown): string | null {
  return typeof value === "number" ? `${Number.isInteger(value) ? value.toFixed(1) : value}s` : null;
}

function waitText(value: unknown): string | null {
  if (typeof value !== "number" || value === 0) return null;
  return `[wait ${value} ${value === 1 ? "second" : "seconds"}]`;
}

/** For events that are not in NoETL's document. */
function ownFacts(context: NoetlTimelineContext): NoetlFact[] {
  return Object.entries(context)
    .filter(([name]) => name !== "chapter") // the event type already shows that counting restarts
    .map(([name, value]): NoetlFact => {
      if (name === "delay_seconds") return ["delay", secondsText(value)];
      if (Array.isArray(value)) return [name, value.length === 1 ? value[0] : quoted(`${value.length} jobs`)];
      return [name, typeof value === "string" && /^[\w.:-]+$/.test(value) ? value : quoted(value)];
    });
}

/** In quotes, on one line. */
function quoted(value: unknown): string | null {
  return value === undefined || value === null ? null : JSON.stringify(value);
}

// A job as a row of NoETL's queue. There is one row per step, so its history is only in the events. In Perdure leases
// belong to workers and not to jobs: `lease_until` is always null.

type NoetlStatus = "queued" | "leased" | "done" | "dead";

interface NoetlQueueRow extends NoetlNode {
  readonly execution_id: string;
  readonly status: NoetlStatus;
  /** Attempts that count towards `max_attempts`, including the running one. */
  readonly attempts: number;
  readonly max_attempts: number;
  /** Null while it waits for children. */
  readonly available_at: string | null;
  readonly retry_delay_seconds: number | null;
  readonly last_error: string | null;
  /** The worker that has it, or had it last; null while it is queued. */
  readonly worker_id: string | null;
  readonly lease_until: null;
  readonly retry_config: object | null;
  readonly result: unknown;
  readonly created_at: string;
  readonly updated_at: string;
}

/** The document has no status for a cancelled job: its row is dead too. One that waits for children has no worker. */
const STATUS: Readonly<Record<JobState, NoetlStatus>> = {
  queued: "queued",
  blocked: "queued",
  running: "leased",
  succeeded: "done",
  failed: "dead",
  cancelled: "dead",
};

export function noetlQueueRow(parts: ViewParts): NoetlQueueRow {
  const { job, events, workerName } = parts;
  // Counting restarts at a redrive.
  const chapter = counted(events).filter((each) => each.chapter === job.chapter);
  const isHeld = job.state === "running" || isTerminal(job.state);
  return {
    execution_id: job.id,
    ...nodeOf(job),
    status: STATUS[job.state],
    attempts: attemptsIn(chapter),
    max_attempts: job.policy.maxAttempts,
    available_at: job.state === "blocked" ? null : iso(job.runAt),
    retry_delay_seconds: lastOf(chapter, ({ event }) => {
      return "decision" in event.data && event.data.decision.class !== "handback"
        ? secondsOf(event.data.decision)
        : null;
    }),
    last_error: lastOf(chapter, ({ event }) => errorIn(event)),
    worker_id: isHeld && job.worker !== null ? (workerName(job.worker) ?? job.worker) : null,
    lease_until: null,
    retry_config: retryOf(job),
    result: job.result ?? null,
    created_at: iso(job.submittedAt),
    updated_at: iso(events.at(-1)?.at ?? job.submittedAt),
  };
}

/** An attempt that was returned, or waits for children, does not count. */
function attemptsIn(chapter: readonly NumberedEvent[]): number {
  return chapter.reduce((attempts, { event, attempt, next }) => {
    if (event.name === "attempt.started") return attempt;
    if (!("decision" in event.data)) return attempts;
    const { class: cls, kind } = event.data.decision;
    return (cls === "handback" || cls === "waiting") && kind !== "cancel" ? next - 1 : attempts;
  }, 0);
}

function lastOf<T>(chapter: readonly NumberedEvent[], read: (each: NumberedEvent) => T | null): T | null {
  return chapter.map(read).findLast((value) => value !== null) ?? null;
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
