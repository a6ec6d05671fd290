/** The attempts of a job as OPAL records them, and its result. */

import { isPlain } from "../../core/check.ts";
import type { StoredDecision } from "../../core/job/event.ts";
import type { TimedEvent } from "../../core/job/fold.ts";
import { isTerminal, type Job } from "../../core/job/job.ts";
import type { AttemptRow } from "../../core/job/views.ts";
import { counted } from "../attempt-numbers.ts";
import { isoTime, leaseExpired, MAX_RETRIES_EXCEEDED, opalIdOf } from "./format.ts";
import type { OpalEndedAttempt } from "./job.ts";

// OPAL keeps an attempt document beside each job. Perdure derives it from the job's events: the number of attempts, the
// last reclaim with its backoff, and a history. In OPAL the next attempt erases the last reclaim; here nothing is erased,
// so OPAL's sample (two attempts, a backoff of 8 s and its reclaim) is what a client reads during the second attempt.
// Numbers are those of the attempt folders and continue through redrives; `lease_expired_retry_N` has the number that
// OPAL's limit counts.

interface OpalHistoryEntry {
  readonly attempt: number;
  readonly started_at: string;
  /** Null while it runs. */
  readonly ended_at: string | null;
  readonly outcome: "succeeded" | "failed" | "timeout" | "lease_expired" | "interrupted" | "released" | null;
  readonly error: string | null;
  readonly worker_id: string | null;
  /** How long the job waited after it; null if no retry followed. */
  readonly backoff_secs: number | null;
}

export interface OpalAttempts {
  readonly job_id: string;
  readonly attempts: number;
  readonly updated_at: string;
  readonly not_before: string | null;
  readonly backoff_secs_applied: number | null;
  readonly reclaim: {
    readonly reclaimed_by: string | null;
    readonly reclaimed_at: string;
    readonly reason: "lease_expired";
  } | null;
  readonly history: readonly OpalHistoryEntry[];
}

type Closing = Extract<TimedEvent, { data: { decision: StoredDecision } }>;

/** `attempts` are all ended attempts, `events` all events of the job, both in order. */
export function opalAttempts(
  job: Job,
  attempts: readonly OpalEndedAttempt[],
  events: readonly TimedEvent[],
): OpalAttempts {
  const inChapter = events.slice(events.findLastIndex(({ name }) => name === "job.redriven") + 1);
  const closings = events.filter(isClosing);
  // A returned attempt is not a failure: the backoff before it still counts.
  const last = inChapter.filter(isClosing).findLast(({ name }) => name !== "attempt.interrupted");
  // A job that ended while it waited has no next attempt.
  const backoff = last?.data.decision.kind === "retry" && !isTerminal(job.state) ? last.data.decision : null;
  const lost = inChapter.findLast((event) => event.name === "attempt.lost");
  // It may have been rescheduled since.
  const notBefore = job.state === "queued" ? job.runAt : (backoff?.runAt ?? null);
  return {
    job_id: opalIdOf(job) ?? job.id,
    attempts: job.attempt,
    updated_at: isoTime(events.at(-1)?.at ?? job.submittedAt),
    not_before: backoff === null || notBefore === null ? null : isoTime(notBefore),
    backoff_secs_applied: backoff === null ? null : delaySecs(backoff),
    reclaim:
      lost === undefined
        ? null
        : { reclaimed_by: lost.data.by, reclaimed_at: isoTime(lost.at), reason: "lease_expired" },
    history: historyOf(job, attempts, events, closings),
  };
}

function isClosing(event: TimedEvent): event is Closing {
  // An expired wait closes no attempt, nor does a refused start.
  return "decision" in event.data && event.name.startsWith("attempt.");
}

function historyOf(
  job: Job,
  attempts: readonly OpalEndedAttempt[],
  events: readonly TimedEvent[],
  closings: readonly Closing[],
): OpalHistoryEntry[] {
  const workers = new Map<number, string>();
  for (const { name, data } of events) if (name === "attempt.started") workers.set(data.attempt, data.worker);
  const decisions = new Map(closings.map(({ data }) => [data.attempt, data.decision]));
  const numbers = new Map(counted(events).map(({ event, attempt }) => [event, attempt]));
  const numberOf = new Map(closings.map((event) => [event.data.attempt, numbers.get(event)]));
  const history = attempts.map((each): OpalHistoryEntry => {
    const decision = decisions.get(each.attempt);
    return {
      attempt: each.attempt,
      started_at: isoTime(each.startedAt),
      ended_at: isoTime(each.endedAt),
      outcome: outcomeOf(each.outcome, decision),
      error: errorOf(each, decision, numberOf.get(each.attempt) ?? each.attempt),
      worker_id: workers.get(each.attempt) ?? null,
      backoff_secs: decision?.kind === "retry" ? delaySecs(decision) : null,
    };
  });
  if (job.state === "running" && job.startedAt !== null) {
    history.push({
      ...{ attempt: job.attempt, started_at: isoTime(job.startedAt), ended_at: null, outcome: null, error: null },
      ...{ worker_id: workers.get(job.attempt) ?? null, backoff_secs: null },
    });
  }
  return history;
}

function outcomeOf(outcome: string, decision: StoredDecision | undefined): OpalHistoryEntry["outcome"] {
  switch (outcome) {
    case "completed":
      // A completed attempt that a condition repeats is not a success.
      return decision === undefined || decision.kind === "succeed" ? "succeeded" : "failed";
    case "lost":
      return "lease_expired";
    case "timeout":
    case "interrupted":
    case "released":
      return outcome;
    default:
      return "failed";
  }
}

function errorOf(
  { outcome, failure }: OpalEndedAttempt,
  decision: StoredDecision | undefined,
  number: number,
): string | null {
  if (decision?.kind === "cancel") return "cancelled";
  if (outcome !== "lost") return failure?.message ?? null;
  return decision?.kind === "fail" ? MAX_RETRIES_EXCEEDED : leaseExpired(number);
}

function delaySecs({ delay }: StoredDecision): number | null {
  return delay === undefined ? null : delay.delayMs / 1_000;
}

// `attempt_N/result.json` for an attempt whose engine wrote none, from what is recorded. It is only served, never stored
// with the attempt's files: a result.json there would be the command's own verdict (docs/decisions/0042).

export interface OpalResult {
  readonly job_id: string;
  readonly attempt: number;
  readonly status: "running" | "succeeded" | "failed";
  /** As in the history of the attempt document; null while it runs. */
  readonly outcome: OpalHistoryEntry["outcome"];
  readonly error: string | null;
  /** Null while it runs, and if the engine's end was not observed. */
  readonly exit_code: number | null;
  readonly started_at: string;
  readonly completed_at: string | null;
  readonly worker_id: string | null;
}

/** An ended attempt with its result. */
export type AttemptWithResult = OpalEndedAttempt & Pick<AttemptRow, "result">;

/** `attempts` are some ended attempts, including this one unless it runs; `events` are all of the job, in order. Null
 *  if there is no such attempt. */
export function opalResult(
  job: Job,
  attempts: readonly AttemptWithResult[],
  events: readonly TimedEvent[],
  attempt: number,
): OpalResult | null {
  const { job_id, history } = opalAttempts(job, attempts, events);
  const entry = history.find((each) => each.attempt === attempt);
  if (entry === undefined) return null;
  const { outcome, started_at, ended_at, worker_id } = entry;
  const row = attempts.find((each) => each.attempt === attempt);
  return {
    ...{ job_id, attempt, status: statusOf(outcome), outcome, error: entry.error ?? endOf(outcome) },
    ...{ exit_code: exitCodeOf(row), started_at, completed_at: ended_at, worker_id },
  };
}

/** Formatted as a file. */
export function opalResultText(result: OpalResult): string {
  return `${JSON.stringify(result, null, 2)}\n`;
}

function statusOf(outcome: OpalHistoryEntry["outcome"]): OpalResult["status"] {
  if (outcome === null) return "running";
  return outcome === "succeeded" ? "succeeded" : "failed";
}

/** The status of an attempt that was returned: neither success nor failure. */
function endOf(outcome: OpalHistoryEntry["outcome"]): string | null {
  return outcome === null || outcome === "succeeded" ? null : outcome;
}

function exitCodeOf(row: AttemptWithResult | undefined): number | null {
  if (row?.failure != null) return row.failure.exitCode ?? null;
  const result = row?.result == null ? null : (JSON.parse(row.result) as unknown);
  const code = isPlain(result) ? (result as { exitCode?: unknown }).exitCode : null;
  return typeof code === "number" ? code : null;
}
