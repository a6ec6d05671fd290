/** `status` of an AgentTask, told from the job, its attempts and its events. */
import { chargedAttempts, shortageText } from "../../core/budget.ts";
import { isPlain } from "../../core/check.ts";
import type { JobEvent, StoredDecision } from "../../core/event.ts";
import { counted } from "../../core/show.ts";
import type { JobInfo } from "../../core/views.ts";
import type { ViewParts } from "../dialect.ts";
import { attemptReason, decisionsOf, failureReason, isEnded, usedUp, wholeSeconds } from "./reason.ts";

export type AgentPhase =
  | ("Pending" | "Running" | "Retrying" | "Waiting")
  | ("Completed" | "Failed" | "TimedOut" | "BudgetExceeded" | "Cancelled");

export interface AgentAttempt {
  readonly attempt: number;
  readonly startTime: string;
  readonly endTime: string;
  /** Not of one that was lost, or never had one. */
  readonly exitCode?: number;
  readonly reason: string;
}

export interface AgentStatus {
  readonly phase: AgentPhase;
  /** Runs started so far. */
  readonly attempts: number;
  readonly message: string;
  /** The attempts that have ended. */
  readonly history: readonly AgentAttempt[];
  readonly lastFailureReason?: string;
  readonly lastFailureTime?: string;
  /** While it is `Retrying`. */
  readonly nextRetryTime?: string;
  /** Over all attempts. */
  readonly usage?: { readonly tokensIn: number; readonly tokensOut: number; readonly costUsd: number };
  /** What the agent gave as `output` in its result.json. */
  readonly output?: unknown;
}

export function agentStatus({
  job,
  attempts,
  events,
  now = events.at(-1)?.at ?? job.submittedAt,
}: Pick<ViewParts, "job" | "attempts" | "events" | "now">): AgentStatus {
  const decisions = decisionsOf(events);
  const phase = agentPhase(job, events, now);
  const history = attempts.map((each): AgentAttempt => {
    const exitCode = exitCodeOf(job, each.outcome, each.failure?.exitCode ?? null, each.result);
    return {
      ...{ attempt: each.attempt, startTime: wholeSeconds(each.startedAt), endTime: wholeSeconds(each.endedAt) },
      ...(exitCode === null ? {} : { exitCode }),
      reason: attemptReason(each, decisions.get(each.attempt)),
    };
  });
  const failed = attempts.findLast((each) => failureReason(each, decisions.get(each.attempt)) !== null);
  const lastFailureReason = failed === undefined ? null : failureReason(failed, decisions.get(failed.attempt));
  const output = job.state === "succeeded" ? outputOf(job) : undefined;
  return {
    ...{
      phase,
      attempts: job.attempt,
      message: messageOf(job, phase, lastFailureReason, events),
      history,
    },
    ...(failed === undefined || lastFailureReason === null
      ? {}
      : { lastFailureReason, lastFailureTime: wholeSeconds(failed.endedAt) }),
    // The second is up when the task is due, and not before.
    ...(phase === "Retrying" ? { nextRetryTime: wholeSeconds(Math.ceil(job.runAt / 1_000) * 1_000) } : {}),
    ...(job.usage === null ? {} : { usage: job.usage }),
    ...(output === undefined ? {} : { output }),
  };
}

/** `Retrying` is a task until it is due: from then on it waits for a worker as any other. */
export function agentPhase(job: JobInfo, events: readonly JobEvent[], now: number): AgentPhase {
  switch (job.state) {
    case "queued":
      return job.attempt > 0 && isRetried(events) && now < job.runAt ? "Retrying" : "Pending";
    case "running":
      return "Running";
    case "blocked":
      return "Waiting";
    case "succeeded":
      return "Completed";
    case "cancelled":
      return "Cancelled";
    case "failed":
      if (job.reason === "timeout") return "TimedOut";
      // The time for all retries is no budget of an agent's.
      return job.reason === "budget" && lastDecision(events)?.detail !== "elapsed" ? "BudgetExceeded" : "Failed";
  }
}

/** Whether a failure put it back, and not a shutdown, its children's end, or a person. */
function isRetried(events: readonly JobEvent[]): boolean {
  const last = events.findLast(
    (event) =>
      event.name === "job.redriven" ||
      event.name === "job.unblocked" ||
      (isEnded(event) && event.data.decision.class !== "handback"),
  );
  return last !== undefined && isEnded(last) && last.data.decision.kind === "retry";
}

function lastDecision(events: readonly JobEvent[]): StoredDecision | undefined {
  return events.findLast(isEnded)?.data.decision;
}

/** A command that succeeded has its exit code in its result; the rows of attempts keep it as text. */
function exitCodeOf({ kind }: JobInfo, outcome: string, failed: number | null, result: string | null): number | null {
  if (outcome !== "completed" || kind !== "exec") return failed;
  try {
    const value: unknown = JSON.parse(result ?? "null");
    const code = isPlain(value) ? (value as { exitCode?: unknown }).exitCode : 0;
    return typeof code === "number" ? code : 0;
  } catch {
    return 0;
  }
}

/** Of a command its own output; of anything else the whole result. */
function outputOf({ kind, result }: JobInfo): unknown {
  if (kind !== "exec" || !isPlain(result)) return result ?? undefined;
  return (result as { output?: unknown }).output ?? undefined;
}

function messageOf(job: JobInfo, phase: AgentPhase, failure: string | null, events: readonly JobEvent[]): string {
  const decision = lastDecision(events);
  const { maxAttempts } = job.policy;
  const { used } = chargedAttempts(job);
  // Of the budget that the last run was charged to: lost workers may have their own.
  const isOwn = decision?.charge?.to === "workerLost";
  const left = isOwn ? (decision?.charge?.left ?? 0) : Math.max(0, maxAttempts - used);
  const charged = `${used} of ${counted(maxAttempts, "run")} used`;
  const spent = isOwn ? (usedUp(decision, maxAttempts) ?? "none was granted after a lost worker") : charged;
  switch (phase) {
    case "Pending":
      if (job.attempt === 0 || !isRetried(events)) return "waits for a worker";
      return `due, and waits for a worker; attempt ${job.attempt} failed: ${failure}; retries left: ${left}`;
    case "Running":
      return `attempt ${job.attempt} is running; ${charged} before it`;
    case "Retrying":
      return `attempt ${job.attempt} failed: ${failure}; retries left: ${left}`;
    case "Waiting":
      return "waits for its children";
    case "Completed":
      return job.attempt === 1 ? "completed" : `completed in attempt ${job.attempt}`;
    case "Cancelled":
      return "cancelled";
    case "BudgetExceeded":
      if (decision?.shortage !== undefined) return shortageText(decision.shortage);
      return failure ?? "the budget is spent";
    case "Failed":
    case "TimedOut":
      return job.reason === "exhausted" || job.reason === "lost" || job.reason === "timeout"
        ? `no retries left, ${spent}: ${failure}`
        : (failure ?? job.reason ?? "failed");
  }
}
