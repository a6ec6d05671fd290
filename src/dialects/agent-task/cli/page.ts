/** Prints a job in the terms of AgentTask, whatever it came from: a phase, a reason for each attempt (transient,
 *  logical or budget), and events such as Normal/Retrying and Warning/RetryExhausted. Times are UTC. */

import { commandLine, shortResult } from "../../../cli/output/job-text.ts";
import type { Printer } from "../../../cli/output/print.ts";
import { type Colour, painted } from "../../../cli/output/terminal-text.ts";
import { showMs } from "../../../core/duration.ts";
import type { DescribedJob } from "../../cli/dialect-cli.ts";
import { shownKey } from "../../registry.ts";
import { originOf } from "../../shared.ts";
import { type AgentEvent, agentTaskEvents } from "../events.ts";
import { type AgentTaskView, agentTaskView } from "../view.ts";

export function printAgentTask(out: Printer, described: DescribedJob): void {
  const { parts, now } = described;
  const view = agentTaskView(parts);
  printFacts(out, described, view);
  printAttempts(out, view);
  described.printChildren();
  printEvents(out, agentTaskEvents(parts), now);
}

const PHASES: Readonly<Record<AgentTaskView["status"]["phase"], Colour | null>> = {
  ...{ Pending: null, Running: "cyan", Retrying: "yellow", Waiting: "yellow", Completed: "green" },
  ...{ Failed: "red", TimedOut: "red", BudgetExceeded: "red", Cancelled: "yellow" },
};

function printFacts(out: Printer, { parts: { job }, name, state }: DescribedJob, view: AgentTaskView): void {
  const { metadata, spec, status } = view;
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  const { retry, budget, model } = spec as { retry: object; budget?: object; model?: unknown };
  const { usage } = status;
  out.facts([
    ["Name", painted("bold", name)],
    ["Job", job.id],
    ["State", state],
    ["Phase", painted(PHASES[status.phase], status.phase)],
    ["Message", status.message],
    ["Tier", text(spec.tier)],
    ["Role", text(spec.role)],
    ["Model", typeof model === "object" && model !== null ? pairs(model) : text(model)],
    ["Prompt", text(spec.prompt)?.slice(0, 300) ?? null],
    ["Command", commandLine(job)],
    ["Retry", pairs(retry)],
    ["Budget", budget === undefined ? null : pairs(budget)],
    ["Timeout", spec.timeout === undefined ? null : `${spec.timeout} s`],
    ["Queue", job.queue],
    ["Priority", String(job.priority)],
    ["Key", shownKey(job)],
    ["Parent", job.parentId],
    ["Resubmit of", originOf(job)],
    ["Created", text(metadata.creationTimestamp)],
    ["Attempts", String(status.attempts)],
    ["Last failure", status.lastFailureReason ?? null],
    ["Failed at", status.lastFailureTime ?? null],
    ["Next retry", status.nextRetryTime ?? null],
    ["Usage", usage === undefined ? null : pairs(usage)],
    ["Result", shortResult(job)],
  ]);
}

function pairs(values: object): string {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}

function printAttempts(out: Printer, { status: { history } }: AgentTaskView): void {
  if (history.length === 0) return;
  out.line();
  out.table(
    [
      { head: "ATTEMPT", side: "right" },
      { head: "STARTED" },
      { head: "ENDED" },
      { head: "EXIT", side: "right" },
      { head: "REASON", flexible: true },
    ],
    history.map(({ attempt, startTime, endTime, exitCode, reason }) => [
      ...[String(attempt), startTime, endTime, exitCode === undefined ? "" : String(exitCode)],
      painted(reason === "completed" ? "green" : null, reason),
    ]),
  );
}

function printEvents(out: Printer, events: readonly AgentEvent[], now: number): void {
  if (events.length === 0) return;
  out.line();
  out.table(
    [{ head: "EVENT" }, { head: "AGE", side: "right" }, { head: "MESSAGE", flexible: true }],
    events.map(({ type, reason, message, timestamp, count }) => [
      painted(type === "Warning" ? "yellow" : null, `${type}/${reason}`),
      `${ageOf(timestamp, now)}${count > 1 ? ` (x${count})` : ""}`,
      message,
    ]),
  );
}

/** These timestamps are whole seconds, so ages are too. */
function ageOf(timestamp: string, now: number): string {
  const ms = Math.floor(now / 1_000) * 1_000 - Date.parse(timestamp);
  return ms < 1_000 ? "0 s" : showMs(ms);
}
