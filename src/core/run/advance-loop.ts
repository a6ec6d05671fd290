/** Loops: items start up to the loop's concurrency, each end makes place for the next, and the loop ends when none is left. */
import { failure as failureOf } from "../decision/failure.ts";
import type { FailReason } from "../job/job.ts";
import type { StepLoop } from "../playbook/playbook.ts";
import { failRun, whyText } from "./fail-run.ts";
import type { LoopCursor, StepRow } from "./run.ts";
import { settleStep, stepCause } from "./settle-step.ts";
import { hasPlace, isFull, workOf } from "./start-step.ts";
import type { StepEnded } from "./step-end.ts";
import { needsOf, type StartPlace } from "./step-scope.ts";
import type { RunTurn } from "./turn.ts";

export interface ItemEnding {
  readonly n: number;
  readonly step: number;
  readonly visit: number;
  readonly item: number;
  readonly end: StepEnded;
  readonly reason: FailReason | null;
  readonly isOwn: boolean;
}

export function endItem(turn: RunTurn, ending: ItemEnding): void {
  const { n, step: index, visit, item, end, reason, isOwn } = ending;
  const { status, failure } = end;
  const cursor = turn.draft.loops[`${index}:${visit}`] as LoopCursor;
  turn.end(
    n,
    { step: index, visit, item },
    {
      state: status,
      why: whyText(failure, reason),
      ...(isOwn && failure !== null ? { failure } : {}),
    },
  );
  if (status !== "failed" && status !== "cancelled") return;
  const text = `item ${item}: ${whyText(failure, reason) ?? status}`;
  if (!turn.itemFailures.has(cursor.n)) turn.itemFailures.set(cursor.n, text);
  const { loop, name, arcs, onError } = turn.step(index);
  if (loop?.onItemFailure !== "fail" || cursor.stopped || turn.draft.phase !== "forward") return;
  turn.emit({ do: "stopLoop", step: index, visit });
  // With an arc that may handle the failure, the running items are let to end: only the whole run can be cancelled.
  const mayBeHandled = onError === "continue" || arcs.some(({ on }) => on !== "success");
  if (turn.playbook.failureMode !== "cancel" || mayBeHandled) return;
  const cause = failureOf({ kind: "error", class: "logical", code: "items_failed", message: text });
  turn.failure = { ...cause, message: `step "${name}": ${text}` };
  failRun(turn, stepCause(cursor.n, name, cause, null, "failed", true));
}

/** Starts items where there is place, and ends loops that are done. True if anything changed. */
export function fillLoops(turn: RunTurn): boolean {
  let hasChanged = false;
  for (const key of Object.keys(turn.draft.loops)) {
    const cursor = turn.draft.loops[key];
    if (cursor === undefined || cursor.isOver) continue;
    const [step, visit] = key.split(":").map(Number) as [number, number];
    if (fillLoop(turn, step, visit, key)) hasChanged = true;
  }
  return hasChanged;
}

function fillLoop(turn: RunTurn, step: number, visit: number, key: string): boolean {
  let hasChanged = false;
  const { loop } = turn.step(step) as { readonly loop: StepLoop };
  for (;;) {
    // Each change may make another copy of the cursor.
    const cursor = turn.draft.loops[key] as LoopCursor;
    const isDone = cursor.stopped || turn.draft.phase === "stopping" || !hasMore(cursor);
    if (isDone && cursor.open === 0) return finish(turn, cursor, step, visit, loop) || hasChanged;
    if (isDone || cursor.open >= loop.concurrency) return hasChanged;
    if (!startItem(turn, cursor, step, visit)) return hasChanged;
    hasChanged = true;
  }
}

function hasMore({ again, next, total }: LoopCursor): boolean {
  return again.length > 0 || next < total;
}

function startItem(turn: RunTurn, cursor: LoopCursor, step: number, visit: number): boolean {
  if (!hasPlace(turn, true)) return false;
  const row: StepRow | undefined = turn.row(cursor.n);
  const list = turn.list(cursor.n);
  if (row === undefined || list === undefined) return false;
  const isAgain = cursor.again.length > 0;
  const item = isAgain ? (cursor.again[0] as number) : cursor.next;
  const attempt = isAgain ? cursor.try : row.try;
  if (turn.draft.phase === "forward" && attempt === 1 && isFull(turn)) return false;
  const place: StartPlace = {
    ...{ at: "start", step, arrivals: row.tokens },
    item: { index: item, size: cursor.total, value: list[item] },
  };
  const missing = needsOf(turn, place);
  if (missing !== null) {
    turn.need(missing);
    return false;
  }
  const work = workOf(turn, place);
  if (work === null) return false;
  const n = turn.begin({
    ...{ step, visit, item, try: attempt, tokens: [], explicit: false, items: null },
    job: "job" in work ? work.job : null,
    due: work.do === "wait" ? work.due : null,
  });
  if (work.do === "job" || work.do === "wait") return true;
  const failure = work.do === "fail" ? work.failure : null;
  if (work.do === "done" && work.result !== null) turn.setResult(n, work.result);
  endItem(turn, {
    ...{ n, step, visit, item, isOwn: true, reason: failure === null ? null : "invalid" },
    end: { status: failure === null ? "succeeded" : "failed", failure, attempt: 0 },
  });
  return true;
}

function finish(turn: RunTurn, cursor: LoopCursor, step: number, visit: number, loop: StepLoop): boolean {
  const { n, total, failed, stopped } = cursor;
  const { phase, end } = turn.draft;
  // Items that were cancelled with the run are repeated by a redrive.
  const isCancelled = phase === "stopping" && end?.cancel === true && failed.length > 0;
  const isWhole = !hasMore(cursor) && !isCancelled;
  const isTooMany = failed.length > 0 && (loop.onItemFailure === "fail" || failed.length > allowed(loop, total));
  const status = isTooMany && (stopped || isWhole) ? "failed" : isWhole ? "succeeded" : "cancelled";
  const first = turn.itemFailures.get(n);
  const message = `${failed.length} of ${total} items failed${first === undefined ? "" : `; ${first}`}`;
  const failure =
    status === "failed" ? failureOf({ kind: "error", class: "logical", code: "items_failed", message }) : null;
  return settleStep(turn, {
    ...{ n, step, visit, end: { status, failure, attempt: 0 }, isOwn: true },
    reason: null,
  });
}

function allowed({ maxFailures }: StepLoop, total: number): number {
  if (maxFailures === null) return total;
  return "count" in maxFailures ? maxFailures.count : (total * maxFailures.percent) / 100;
}
