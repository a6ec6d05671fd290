/** A job's events as a Kubernetes operator would emit them for its AgentTask: `Normal/Retrying`,
 *  `Warning/RetryExhausted` and others. Computed on each request; nothing is stored. */
import { shortageText } from "../../core/decision/budget.ts";
import { failureText } from "../../core/decision/failure.ts";
import { showMs } from "../../core/duration.ts";
import { counted } from "../../core/format.ts";
import type { JobEvent } from "../../core/job/event.ts";
import type { EventTable, ViewParts } from "../dialect.ts";
import { type AgentEndedEvent, attemptReason, failureReason, isEnded, usedUp, wholeSeconds } from "./status.ts";

export interface AgentEvent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly timestamp: string;
  /** How often it was repeated in a row. */
  readonly count: number;
}

type AgentEventText = Pick<AgentEvent, "type" | "reason" | "message">;

export function agentTaskEvents(parts: ViewParts): AgentEvent[] {
  const shown: AgentEvent[] = [];
  for (const event of parts.events) {
    for (const each of agentEventsOf(event, parts)) {
      const timestamp = wholeSeconds(event.at);
      const last = shown.at(-1);
      const isAgain = last?.type === each.type && last.reason === each.reason && last.message === each.message;
      if (isAgain) shown[shown.length - 1] = { ...last, timestamp, count: last.count + 1 };
      else shown.push({ ...each, timestamp, count: 1 });
    }
  }
  return shown;
}

/** As listed by `kubectl describe`, with timestamps. */
export function agentEventTable(events: readonly AgentEvent[]): EventTable {
  const rows = events.map(({ timestamp, type, reason, message, count }) => {
    return [timestamp, `${type}/${reason}`, count > 1 ? `${message} (x${count})` : message];
  });
  return { heads: ["AT", "EVENT", "MESSAGE"], rows };
}

const normal = (reason: string, message: string): AgentEventText => ({ type: "Normal", reason, message });
const warning = (reason: string, message: string): AgentEventText => ({ type: "Warning", reason, message });

function agentEventsOf(event: JobEvent, parts: ViewParts): AgentEventText[] {
  if (isEnded(event)) return endEvents(event, parts);
  switch (event.name) {
    case "attempt.started":
      return [normal("Started", `attempt ${event.data.attempt} started on ${event.data.worker}`)];
    case "job.unblocked":
      return [normal("ChildrenEnded", "all awaited children have ended")];
    case "job.cancelled":
      return [normal("Cancelled", `cancelled${event.data.by === null ? "" : ` by ${event.data.by}`}`)];
    case "job.redriven":
      return [normal("Redriven", `redriven${event.data.by === null ? "" : ` by ${event.data.by}`}`)];
    default:
      return [];
  }
}

function failureIn({ data: { failure } }: AgentEndedEvent): string | null {
  return failure === undefined ? null : failureText(failure);
}

/** The message of an end without an attempt. */
function unstartedText({ name, data: { decision } }: AgentEndedEvent): string | null {
  if (name === "job.queue_timeout") return "no worker started it in time";
  if (name !== "job.over_budget") return null;
  return `not started: ${decision.shortage === undefined ? "the budget is spent" : shortageText(decision.shortage)}`;
}

function endEvents(event: AgentEndedEvent, { job, attempts }: ViewParts): AgentEventText[] {
  const { attempt, decision } = event.data;
  const row = attempts.find((each) => each.attempt === attempt);
  const unstarted = unstartedText(event);
  const why = unstarted !== null || row === undefined ? failureIn(event) : failureReason(row, decision);
  const cls = row === undefined || unstarted !== null ? null : attemptReason(row, decision);
  const kind = cls?.startsWith("logical: ") ? " (logical)" : "";
  const what = unstarted ?? `attempt ${attempt} failed${kind}: ${why ?? "unknown"}`;
  switch (decision.kind) {
    case "succeed":
      return [normal("Completed", `attempt ${attempt} completed`)];
    case "cancel":
      return [normal("Cancelled", `attempt ${attempt} was cancelled`)];
    case "block":
      return [normal("WaitingForChildren", `attempt ${attempt} waits for its children; not counted as an attempt`)];
    case "retry": {
      if (decision.class === "handback") {
        return [normal("Interrupted", `attempt ${attempt} was returned by its worker; not counted`)];
      }
      const next = `retrying in ${showMs(decision.delay?.delayMs ?? 0)}`;
      const left = decision.charge ? `, ${counted(decision.charge.left, "retry", "retries")} left` : "";
      return [normal("Retrying", `${what}; ${next}${left}`)];
    }
    case "fail": {
      if (decision.reason === "budget" && decision.detail !== "elapsed") return [warning("BudgetExceeded", what)];
      const used = usedUp(decision, job.policy.maxAttempts);
      const end = used === null ? [] : [warning("RetryExhausted", `${used}; ${what}`)];
      return [...end, warning("Failed", what)];
    }
  }
}
