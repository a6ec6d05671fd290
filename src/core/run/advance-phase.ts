/** The phases of a run: forward until nothing is alive, then stopping if something failed, the handlers one after another, and the
 *  end. What is asked from outside, a cancel or the run's timeout, begins here too. */
import { failure as failureOf } from "../decision/failure.ts";
import { endItem } from "./advance-loop.ts";
import { askToStop, failRun } from "./fail-run.ts";
import type { RunEndCause, RunPhase, StepRow } from "./run.ts";
import { runFailure, settleStep, stepCause } from "./settle-step.ts";
import { startStep } from "./start-step.ts";
import { endedOf, type StepEnded } from "./step-end.ts";
import { runResult } from "./step-fill.ts";
import { needsOf } from "./step-scope.ts";
import { ADVANCE_LIMITS, type RunTurn } from "./turn.ts";

/** When nothing more can start: ends waits of a run that stops, and enters the next phase or starts the next handler. */
export function conclude(turn: RunTurn): void {
  const { draft } = turn;
  if (draft.phase === "stopping" && draft.waits > 0) stopWaits(turn);
  else if (draft.phase !== "ended" && isEmpty(draft.alive)) goOn(turn);
}

function goOn(turn: RunTurn): void {
  const { phase, end, handler } = turn.draft;
  if (phase === "forward") goneForward(turn);
  else if (phase === "stopping") {
    const { state, skipsHandlers } = end as RunEndCause;
    enter(turn, skipsHandlers ? "ended" : state === "failed" ? "failing" : "finally");
  } else {
    const isFailing = phase === "failing";
    const step = (isFailing ? turn.playbook.onFailure : turn.playbook.finally)[handler];
    if (step === undefined) enter(turn, isFailing ? "finally" : "ended");
    else if (startStep(turn, { step, by: [], isPart: true })) turn.emit({ do: "handler" });
  }
}

/** Phases without handlers are passed over. */
function enter(turn: RunTurn, phase: RunPhase): void {
  const { onFailure, finally: last } = turn.playbook;
  let next = phase;
  if (next === "failing" && onFailure.length === 0) next = "finally";
  if (next === "finally" && last.length === 0) next = "ended";
  turn.emit({ do: "phase", phase: next });
  if (next !== "ended") return;
  turn.timersDropped.push(0);
  if (turn.draft.end !== null) turn.result = null;
  else turn.failure = null;
}

function goneForward(turn: RunTurn): void {
  const { draft } = turn;
  const short = Object.keys(draft.pending).find((step) => !turn.graph.handlers.has(Number(step)));
  if (short !== undefined) {
    // Joins by number that wait for each other: the first has to go without.
    const by = draft.pending[short] ?? [];
    startStep(turn, { step: Number(short), by, isPart: false, trouble: shortText(by.length) });
    return;
  }
  const [first] = [...draft.broken, ...draft.unrouted];
  if (first === undefined) succeed(turn);
  else failAtEnd(turn, first);
}

/** With `failureMode: continue` a run fails when nothing is left to do. */
function failAtEnd(turn: RunTurn, first: number): void {
  const stored = turn.output(first);
  if (stored === undefined) {
    turn.need({ outputs: [first], items: [], variables: false });
    return;
  }
  const { node } = stored.step;
  const { status, failure } = endedOf(stored);
  const cause = stepCause(first, node, failure, null, status, false);
  const isArc = turn.draft.broken.length === 0;
  const message = isArc ? `no arc of step "${node}" is true` : cause.message;
  turn.failure = isArc
    ? failureOf({ kind: "error", class: "logical", message: message ?? "" })
    : runFailure(node, failure, status);
  failRun(turn, { ...cause, message });
}

function succeed(turn: RunTurn): void {
  const place = { at: "result", last: turn.draft.last } as const;
  const missing = needsOf(turn, place);
  if (missing !== null) {
    turn.need(missing);
    return;
  }
  const result = runResult(turn, place);
  if (result.ok) {
    turn.result = JSON.stringify(result.value) ?? "null";
    enter(turn, "finally");
    return;
  }
  turn.failure = result.failure;
  failRun(turn, {
    ...{ state: "failed", reason: "invalid", message: result.failure.message, step: null, node: null },
    ...{ cancel: false, skipsHandlers: false },
  });
}

export function shortText(arrived: number): string {
  return `cannot start: only ${arrived} of the branches that it joins arrived, and no other can`;
}

/** Waits are not work that could be let to end. */
function stopWaits(turn: RunTurn): void {
  const rows = turn.waiting();
  if (rows === undefined) return;
  const made = turn.made.map(({ row }) => row as StepRow).filter(({ state }) => state === "waiting");
  const open = [...rows, ...made].filter(({ n }) => !turn.isLoaded(n) || turn.row(n)?.state === "waiting");
  const end: StepEnded = { status: "cancelled", failure: null, attempt: 0 };
  for (const row of open.slice(0, ADVANCE_LIMITS.messages)) {
    const step = turn.graph.indexOf(row.node);
    if (step === undefined) continue;
    turn.load(row);
    const { n, visit, item } = row;
    const ending = { n, step, visit, end, reason: null, isOwn: true } as const;
    if (item >= 0) endItem(turn, { ...ending, item });
    else settleStep(turn, ending);
  }
  if (open.length > ADVANCE_LIMITS.messages) {
    turn.isCapped = true;
  }
}

/** A first cancel lets `finally` run; a second one while it runs ends that too. */
export function cancelRun(turn: RunTurn): void {
  const { phase, end } = turn.draft;
  if (phase === "ended") return;
  const isAgain = end?.state === "cancelled";
  const cause: RunEndCause = {
    ...{ state: "cancelled", reason: null, message: "the run was cancelled", step: end?.step ?? null },
    ...{ node: end?.node ?? null, cancel: true, skipsHandlers: isAgain },
  };
  if (phase === "finally") {
    if (isAgain) failRun(turn, cause);
    else turn.emit({ do: "fail", cause });
  } else if (!isAgain) failRun(turn, cause);
}

/** The run's own timeout. Handlers have their own limits. */
export function timeOut(turn: RunTurn): void {
  const { phase, end } = turn.draft;
  turn.timersDropped.push(0);
  if (phase === "forward") {
    const message = "the run took longer than its timeout";
    turn.failure = failureOf({ kind: "timeout", class: "logical", message });
    failRun(turn, {
      ...{ state: "failed", reason: "timeout", message, step: null, node: null },
      ...{ cancel: true, skipsHandlers: false },
    });
  } else if (phase === "stopping" && end !== null && !end.cancel) failRun(turn, { ...end, cancel: true });
}

/** A message of the run to itself: more open steps are to be cancelled. */
export function goOnStopping(turn: RunTurn, body: unknown): void {
  const { phase, end } = turn.draft;
  if (phase !== "stopping" || end?.cancel !== true) return;
  const { left } = (body ?? {}) as { readonly left?: number };
  askToStop(turn, Math.min(turn.openJobs, left ?? turn.openJobs));
}

function isEmpty(record: Readonly<Record<string, unknown>>): boolean {
  for (const _ in record) return false;
  return true;
}
