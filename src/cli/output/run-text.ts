/** Short texts for runs and their steps that several commands print. They may contain untrusted text; the printer escapes it. */
import type { RunInfo, RunStatus, StepInfo } from "../../core/api/runs.ts";
import { failureText } from "../../core/decision/failure.ts";
import { showMs } from "../../core/duration.ts";
import { counted } from "../../core/format.ts";
import { oneLine } from "../../core/job/job-name.ts";
import { isOpen, type StepState } from "../../core/run/run.ts";
import { showLocal, showSince } from "./print.ts";
import type { Column } from "./table.ts";
import { type Colour, type ColouredText, painted, type TextPiece } from "./terminal-text.ts";

const COLOURS: Readonly<Record<RunStatus, Colour>> = {
  running: "cyan",
  succeeded: "green",
  failed: "red",
  cancelled: "yellow",
};

const PHASES: Readonly<Partial<Record<RunInfo["phase"], string>>> = {
  stopping: "stopping",
  failing: "steps of onFailure",
  finally: "steps of finally",
};

/** The state with its main detail: `failed (step)`, `running (cancelling)`. */
export function runStateText({ state, reason, phase, cancelRequestedAt }: RunInfo): ColouredText {
  const notes: string[] = reason === null ? [] : [reason];
  if (state === "running" && cancelRequestedAt !== null) notes.push("cancelling");
  const named = state === "running" ? PHASES[phase] : undefined;
  if (named !== undefined) notes.push(named);
  return painted(COLOURS[state], notes.length === 0 ? state : `${state} (${notes.join(", ")})`);
}

/** `shop/orders@3`, or the name of a playbook that has no path. */
export function playbookText({ playbook: { name, path, version } }: Pick<RunInfo, "playbook">): string {
  return path === null ? name : `${path}${version === null ? "" : `@${version}`}`;
}

/** `7 made, 2 open` */
export function stepCounts({ madeSteps, openSteps }: Pick<RunInfo, "madeSteps" | "openSteps">): string {
  return openSteps === 0 ? String(madeSteps) : `${madeSteps} made, ${openSteps} open`;
}

const MAX_FAILURE = 500;

/** `charge: exit code 75`; empty unless the run failed. */
export function runFailureLine({ state, failure, failedStep }: RunInfo): string {
  if (state !== "failed") return "";
  const why = failure === null ? "" : failureText(failure);
  const step = failedStep === null || why.includes(failedStep) ? "" : `${failedStep}: `;
  return oneLine(`${step}${why}`, MAX_FAILURE);
}

export function runFacts(run: RunInfo): [string, TextPiece | null][] {
  const at = (instant: number | null) => (instant === null ? null : showLocal(instant));
  return [
    ["Run", painted("bold", run.id)],
    ["Name", run.name],
    ["Playbook", playbookText(run)],
    ["Definition", run.playbook.hash.slice(0, 12)],
    ["State", runStateText(run)],
    ["Failed step", run.failedStep],
    ["Failure", run.failure === null ? null : failureText(run.failure)],
    ["Steps", stepCounts(run)],
    ["Namespace", run.namespace === "default" ? null : run.namespace],
    ["Queue", run.queue === "default" ? null : run.queue],
    ["Key", run.key],
    ["Step of", run.parentId],
    ["Tags", run.tags.join(", ")],
    ["Redrives", run.chapter === 1 ? null : String(run.chapter - 1)],
    ["Started", at(run.submittedAt)],
    ["Timeout at", at(run.finishedAt === null ? run.deadlineAt : null)],
    ["Finished", at(run.finishedAt)],
  ];
}

// Steps.

const STEP_COLOURS: Readonly<Record<StepState, Colour>> = {
  open: "cyan",
  waiting: "cyan",
  looping: "cyan",
  succeeded: "green",
  skipped: "dim",
  handled: "yellow",
  failed: "red",
  cancelled: "yellow",
};

/** The step with what distinguishes it from others of its name: `fetch`, `fetch[3]`, `poll (visit 2)`. */
export function stepName({
  step,
  item,
  visit,
  try: attempt,
}: Pick<StepInfo, "step" | "item" | "visit" | "try">): string {
  const notes = [...(visit === 1 ? [] : [`visit ${visit}`]), ...(attempt === 1 ? [] : [`redrive ${attempt - 1}`])];
  return `${step}${item === null ? "" : `[${item}]`}${notes.length === 0 ? "" : ` (${notes.join(", ")})`}`;
}

/** `open` is shown as the state of its job. */
export function stepStateText({ state, jobState, nextRunAt, waitsUntil, reason }: StepInfo, now: number): ColouredText {
  const notes: string[] = [];
  if (state === "open" && jobState === "queued" && nextRunAt !== null && nextRunAt > now) {
    notes.push(`in ${showMs(nextRunAt - now)}`);
  }
  if (state === "waiting" && waitsUntil !== null) notes.push(`due in ${showMs(Math.max(0, waitsUntil - now))}`);
  if (!isOpen(state) && reason !== null) notes.push(reason);
  const shown = state === "handled" ? "failed, handled" : state === "open" ? (jobState ?? "open") : state;
  const word = shown === "blocked" ? "running" : shown;
  return painted(STEP_COLOURS[state], notes.length === 0 ? word : `${word} (${notes.join(", ")})`);
}

export const STEP_COLUMNS: readonly Column[] = [
  { head: "N", side: "right" },
  { head: "STEP" },
  { head: "TYPE" },
  { head: "STATE" },
  { head: "ATTEMPT", side: "right" },
  { head: "TOOK", side: "right" },
  { head: "JOB" },
  { head: "FAILURE", flexible: true },
];

export function stepRow(step: StepInfo, now: number): TextPiece[] {
  const { n, type, attempt, maxAttempts, startedAt, endedAt, job, failure } = step;
  const isRoute = type === null && job === null;
  return [
    String(n),
    stepName(step),
    type ?? "",
    stepStateText(step, now),
    job === null || attempt === 0 ? "" : attemptText(attempt, maxAttempts),
    isRoute ? "" : showSince(startedAt, endedAt ?? now),
    job ?? "",
    failure === null ? "" : oneLine(failureText(failure), MAX_FAILURE),
  ];
}

/** Attempts that were lost with their worker are not counted, so there may be more than the limit. */
function attemptText(attempt: number, most: number | null): string {
  return most === null || attempt > most ? String(attempt) : `${attempt}/${most}`;
}

/** `succeeded after 7 steps, 12.3 s` */
export function runEndText(run: RunInfo, now: number): string {
  const how = run.reason === null ? run.state : `${run.state} (${run.reason})`;
  return `${how} after ${counted(run.madeSteps, "step")}, ${showSince(run.submittedAt, run.finishedAt ?? now)}`;
}
