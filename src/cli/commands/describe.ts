/** `perdure describe`: a job told the way an operator tells of a task: what it is, how it stands, each attempt with its reason,
 *  its children, and what happened, as events. People read all jobs in these words; a program gets them only of AgentTasks. */
import { givenKey } from "../../core/child.ts";
import { showMs } from "../../core/duration.ts";
import { explain } from "../../core/explain.ts";
import type { Perdure } from "../../core/face.ts";
import type { JobInfo } from "../../core/views.ts";
import { type AgentEvent, agentTaskEvents } from "../../dialects/agent-task/events.ts";
import { type AgentTaskView, agentTaskView, taskName } from "../../dialects/agent-task/view.ts";
import { PREFIX } from "../../dialects/agent-task/words.ts";
import { documentName } from "../../dialects/job-name.ts";
import { storable } from "../../lib/text.ts";
import { viewParts } from "../apply/view-parts.ts";
import { type Colour, type Piece, painted } from "../colour.ts";
import { type Command, READING } from "../command.ts";
import { EXIT } from "../exit.ts";
import { bySession, commandLine, stateWords } from "../job-text.ts";
import type { Printer } from "../print.ts";
import { TARGET, withPerdure } from "../target.ts";

export const describe: Command = {
  name: "describe",
  summary: "Describe a job with its attempts, children and events",
  usage: "perdure describe ID [OPTIONS]",
  about:
    "In the words of AgentTasks, whatever the job came from: a phase, a reason for each attempt (transient, logical or budget), " +
    "and events such as Normal/Retrying and Warning/RetryExhausted. Times are UTC. With --json: job, attempts, children and " +
    "events; of an AgentTask also its manifest and status, and the events are its own.",
  options: [...TARGET, ...READING],
  examples: ["perdure describe job_01m7gekg9zevv9a6xvvwmt1v8g"],

  async run(context) {
    const { given, out } = context;
    const id = given.jobId();
    await withPerdure(context, async (perdure) => {
      const [parts, children, workers] = await Promise.all([
        viewParts(perdure, id),
        childrenOf(perdure, id),
        perdure.workers(),
      ]);
      const view = agentTaskView(parts);
      const events = agentTaskEvents(parts);
      if (given.flag("json")) {
        // Told from the events that are shown, and not asked for anew: the job may have gone on.
        const { attempts } = explain({ events: parts.events, now: Date.now() });
        const own = { job: parts.job, attempts, children: children.map(shownChild) };
        out.json(isAgentTask(parts.job) ? { ...view, ...own, events } : { ...own, events: parts.events });
        return;
      }
      const sessions = bySession(workers);
      const now = Date.now();
      printFacts(out, parts.job, view, stateWords(parts.job, now, sessions));
      printAttempts(out, view);
      printChildren(
        out,
        children.map((child) => [child.id, nameOf(child), stateWords(child, now, sessions)]),
      );
      printEvents(out, events, now);
    });
    return EXIT.done;
  },
};

/** More would fill the screen twice; `perdure tree` has them all. */
const MAX_CHILDREN = 100;

async function childrenOf(perdure: Perdure, id: string): Promise<JobInfo[]> {
  const { jobs } = await perdure.jobs({ parent: id, order: "oldest", limit: MAX_CHILDREN });
  return jobs;
}

function isAgentTask({ annotations }: JobInfo): boolean {
  return Object.keys(annotations).some((name) => name.startsWith(PREFIX));
}

function shownChild(child: JobInfo): Record<string, unknown> {
  const { id, kind, parentId, key, state, reason } = child;
  return { id, kind, name: nameOf(child), key: givenKey(parentId, key), state, reason };
}

/** The name in its document; else a key as it was given, without the parent that stands before it. A number alone says little: its kind stands before it. */
function nameOf(job: JobInfo): string {
  const name = documentName(job) ?? taskName(job);
  if (name !== job.key) return name;
  const key = givenKey(job.parentId, job.key) ?? name;
  return /^#\d+$/.test(key) ? `${job.kind} ${key}` : key;
}

/** A line or so of it; `perdure get` has the whole. */
const RESULT_LIMIT = 300;

function resultOf({ result }: JobInfo): string | null {
  if (result === undefined) return null;
  return storable(typeof result === "string" ? result : JSON.stringify(result), RESULT_LIMIT);
}

const PHASES: Readonly<Record<AgentTaskView["status"]["phase"], Colour | null>> = {
  ...{ Pending: null, Running: "cyan", Retrying: "yellow", Waiting: "yellow", Completed: "green" },
  ...{ Failed: "red", TimedOut: "red", BudgetExceeded: "red", Cancelled: "yellow" },
};

function printFacts(out: Printer, job: JobInfo, { metadata, spec, status }: AgentTaskView, state: Piece): void {
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  const { retry, budget, model } = spec as { retry: object; budget?: object; model?: unknown };
  const { usage } = status;
  out.facts([
    ["Name", painted("bold", nameOf(job))],
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
    ["Key", givenKey(job.parentId, job.key)],
    ["Parent", job.parentId],
    ["Created", text(metadata.creationTimestamp)],
    ["Attempts", String(status.attempts)],
    ["Last failure", status.lastFailureReason ?? null],
    ["Failed at", status.lastFailureTime ?? null],
    ["Next retry", status.nextRetryTime ?? null],
    ["Usage", usage === undefined ? null : pairs(usage)],
    ["Result", resultOf(job)],
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

function printChildren(out: Printer, children: readonly Piece[][]): void {
  if (children.length === 0) return;
  out.line();
  out.table([{ head: "CHILD" }, { head: "NAME", flexible: true }, { head: "STATE" }], children);
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

/** The instants of these events are whole seconds, and so are their ages: a tenth would be made up. */
function ageOf(timestamp: string, now: number): string {
  const ms = Math.floor(now / 1_000) * 1_000 - Date.parse(timestamp);
  return ms < 1_000 ? "0 s" : showMs(ms);
}
