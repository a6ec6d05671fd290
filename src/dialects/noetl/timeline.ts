/** The events of a job as the lines of the "Event Timeline Example": `step_retry (attempt=1, delay=1.0s)`, and below it
 *  `[wait 1 second]`. Each is one line; what of an event is only data is left to JSON. */
import type { EventTable } from "../dialect.ts";
import type { NoetlEvent } from "./events.ts";

type Context = NoetlEvent["context"];

export function noetlTimeline(events: readonly NoetlEvent[]): EventTable {
  const rows = events.flatMap((event, i) => {
    const row = [`${i + 1}.`, event.timestamp, event.status, noetlLine(event)];
    const wait = event.event_type === "step_retry" ? waitText(event.context.delay_seconds) : null;
    return wait === null ? [row] : [row, ["", "", "", wait]];
  });
  return { heads: ["#", "AT", "STATUS", "EVENT"], rows };
}

/** `action_error (attempt=1, error="503 Service Unavailable")` */
export function noetlLine(event: NoetlEvent): string {
  const facts = factsOf(event)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${value}`);
  return facts.length === 0 ? event.event_type : `${event.event_type} (${facts.join(", ")})`;
}

type Fact = readonly [name: string, value: unknown];

function factsOf({ event_type, context, error }: NoetlEvent): readonly Fact[] {
  const quotedError: Fact = ["error", quoted(error)];
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
    case "execution_failed":
      return [];
    default:
      return [...ownFacts(context), quotedError];
  }
}

/** Where all attempts are used, the line above says so. */
function terminalFacts(context: Context): readonly Fact[] {
  const { reason, decided_by: by, detail } = context;
  if (by === "max_attempts") return reason === "no_retry_configured" ? [["reason", reason]] : [];
  return [["reason", reason], ["decided_by", by], ["detail", quoted(detail)], problemIn(context)];
}

function problemIn({ condition_error }: Context): Fact {
  return ["condition_error", quoted(condition_error)];
}

/** Seconds as NoETL prints them, `1.0s`. */
function secondsText(value: unknown): string | null {
  return typeof value === "number" ? `${Number.isInteger(value) ? value.toFixed(1) : value}s` : null;
}

function waitText(value: unknown): string | null {
  if (typeof value !== "number" || value === 0) return null;
  return `[wait ${value} ${value === 1 ? "second" : "seconds"}]`;
}

/** Of the events that the document does not have. */
function ownFacts(context: Context): Fact[] {
  return Object.entries(context)
    .filter(([name]) => name !== "chapter") // the event type already says that counting restarts
    .map(([name, value]): Fact => {
      if (name === "delay_seconds") return ["delay", secondsText(value)];
      if (Array.isArray(value)) return [name, value.length === 1 ? value[0] : quoted(`${value.length} jobs`)];
      return [name, typeof value === "string" && /^[\w.:-]+$/.test(value) ? value : quoted(value)];
    });
}

/** In quotes, on one line. */
function quoted(value: unknown): string | null {
  return value === undefined || value === null ? null : JSON.stringify(value);
}
