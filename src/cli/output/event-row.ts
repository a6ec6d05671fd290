/** An event as a row of a table. Cells may contain untrusted text; the printer escapes it. */

import { failureText } from "../../core/decision/failure.ts";
import { matchPart, matchText } from "../../core/decision/match.ts";
import { showMs } from "../../core/duration.ts";
import { type JobEvent, type PerdureEvent, shownNames } from "../../core/job/event.ts";
import { showTerms } from "../../core/job/redrive.ts";
import { showLocal } from "./print.ts";
import type { Column } from "./table.ts";
import { painted, type TextPiece } from "./terminal-text.ts";

export const EVENT_COLUMNS: readonly Column[] = [
  { head: "SEQ", side: "right" },
  { head: "AT" },
  { head: "JOB" },
  { head: "EVENT" },
  { head: "DETAIL", flexible: true },
];

/** All events are of one job, so its id is left out of each line. */
export function eventCells(event: PerdureEvent, withId: boolean): TextPiece[] {
  const names = event.jobId === null ? [event.name] : shownNames(event);
  const detail = event.jobId === null ? engineDetail(event.data) : jobDetail(event);
  const id = withId ? (event.jobId ?? "") : "";
  return [String(event.seq), painted("dim", showLocal(event.at)), id, names.join(", "), detail];
}

/** A short detail that distinguishes this event from others of its name; `--json` has everything. */
function jobDetail(event: JobEvent): string {
  switch (event.name) {
    case "job.submitted":
      return `kind ${event.data.kind}, queue ${event.data.queue}`;
    case "attempt.started":
      return `attempt ${event.data.attempt} on worker ${event.data.worker}`;
    case "job.cancel_requested":
    case "job.cancelled":
    case "job.discarded":
      return by(event.data.by);
    case "job.redriven":
    case "job.rescheduled":
    case "job.unblocked": {
      const changed = event.name === "job.redriven" && event.data.changed ? showTerms(event.data.changed) : "";
      const due = `due at ${showLocal(event.data.runAt)}`;
      return [due, changed, by(event.data.by)].filter((part) => part !== "").join(", ");
    }
    case "run.advanced": {
      const names = ["start", "end"] as const;
      const [started, ended] = names.map((name) => event.data.changes.filter((change) => change.do === name).length);
      return `${ended} ended, ${started} started`;
    }
    case "run.ended": {
      const { reason, step, message } = event.data;
      return [reason, step === null ? null : `step ${step}`, message].filter((part) => part !== null).join(", ");
    }
    default: {
      const { attempt, decision, failure } = event.data;
      const parts = [`attempt ${attempt}`];
      if (decision.delay !== undefined) parts.push(retryWords(decision.delay.delayMs));
      if (decision.reason !== undefined) parts.push(decision.reason);
      const { match } = decision;
      if (match !== undefined && matchPart(match) !== null) parts.push(`by ${matchText(match)}`);
      return parts.join(", ") + (failure === undefined ? "" : `: ${failureText(failure)}`);
    }
  }
}

function by(who: string | null): string {
  return who === null ? "" : `by ${who}`;
}

function retryWords(delayMs: number): string {
  return delayMs === 0 ? "retrying now" : `retrying in ${showMs(delayMs)}`;
}

/** Fields of the event under the names that the other tables use. */
function engineDetail({ v: _, ...data }: Readonly<Record<string, unknown>>): string {
  return Object.entries(data)
    .map(([name, value]) => engineField(name, value))
    .join(", ");
}

function engineField(name: string, value: unknown): string {
  if (name === "why") return `reason: ${plainValue(value)}`;
  if (name === "expiresAt") return typeof value === "number" ? `expires at ${showLocal(value)}` : "never expires";
  return `${name} ${plainValue(value)}`;
}

function plainValue(value: unknown): string {
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value.join(" ");
  return typeof value === "string" ? value : JSON.stringify(value);
}
