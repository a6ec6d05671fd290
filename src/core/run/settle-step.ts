/** What follows the end of a step: `assert` and `set` after a success, which arcs are taken, and whether a failure is handled. */
import { type Failure, failure as failureOf } from "../decision/failure.ts";
import type { FailReason } from "../job/job.ts";
import type { PlaybookStep } from "../playbook/playbook.ts";
import { conditionWork } from "../template/fill.ts";
import { failRun, whyText } from "./fail-run.ts";
import type { RunEndCause, StepState } from "./run.ts";
import type { StepEnded } from "./step-end.ts";
import { arcIsTrue, fillSet } from "./step-fill.ts";
import { outputOf, returnsTrouble } from "./step-output.ts";
import { needsOf, type ScopePlace } from "./step-scope.ts";
import { MAX_CTX, type RunTurn } from "./turn.ts";

export interface StepEnding {
  readonly n: number;
  readonly step: number;
  readonly visit: number;
  readonly end: StepEnded;
  readonly reason: FailReason | null;
  /** The failure is of the step and not of its job, so it is stored with the row. */
  readonly isOwn: boolean;
  /** Why it was skipped. */
  readonly why?: string;
}

type AfterPlace = ScopePlace & { readonly at: "after" };

interface ChosenArcs {
  readonly taken: number[];
  readonly errors: Record<string, string> | null;
}

/** Ends a step and takes its arcs. False if something must be loaded first. */
export function settleStep(turn: RunTurn, ending: StepEnding): boolean {
  const step = turn.step(ending.step);
  const { phase } = turn.draft;
  let place: AfterPlace = { at: "after", step: ending.step, n: ending.n, end: ending.end };
  const missing = needsOf(turn, place);
  if (missing !== null) {
    turn.need(missing);
    return false;
  }
  let { reason, isOwn } = ending;
  const fail = (cause: Failure) => {
    place = { ...place, end: { status: "failed", failure: cause, attempt: place.end.attempt } };
    reason = "invalid";
    isOwn = true;
  };
  if (place.end.status === "succeeded") {
    const trouble = afterSuccess(turn, step, place);
    if (trouble !== null) fail(trouble);
  }
  const isHandler = turn.graph.handlers.has(ending.step);
  const evaluates = phase === "forward" && !isHandler;
  let chosen = NO_ARCS;
  if (evaluates && step.arcs.length > 0) {
    const first = choose(turn, step, place);
    if ("kind" in first) {
      fail(first);
      const second = choose(turn, step, place);
      if (!("kind" in second)) chosen = second;
    } else chosen = first;
  }
  const state = stateOf(step, place.end, chosen);
  const isBroken = state === "failed" || state === "cancelled";
  const lacksArc =
    evaluates && !isBroken && step.arcs.length > 0 && chosen.taken.length === 0 && turn.playbook.mustTakeArc;
  const isUnrouted = !isHandler && !isBroken && step.arcs.length > 0 && (phase === "stopping" || lacksArc);
  const { failure } = place.end;
  turn.end(
    ending.n,
    { step: ending.step, visit: ending.visit, item: -1 },
    {
      state,
      why: ending.why ?? whyText(failure, reason),
      isRoute: step.action === null && step.loop === null && state !== "failed" && !turn.hasResult(ending.n),
      isUnrouted,
      ...(isOwn && failure !== null ? { failure } : {}),
    },
  );
  if (evaluates && step.arcs.length > 0 && !lacksArc) route(turn, ending.n, ending.step, chosen);
  if (isBroken) unhandled(turn, ending.n, step, failure, reason, place.end.status);
  else if (lacksArc) noArc(turn, ending.n, step);
  return true;
}

/** Takes the arcs of a step that ended while nothing new started. False if something must be loaded first. */
export function routeLate(turn: RunTurn, n: number, index: number, end: StepEnded): boolean {
  const step = turn.step(index);
  const place: AfterPlace = { at: "after", step: index, n, end };
  const missing = needsOf(turn, place);
  if (missing !== null) {
    turn.need(missing);
    return false;
  }
  const chosen = choose(turn, step, place);
  const isRefused = "kind" in chosen;
  if (isRefused || (chosen.taken.length === 0 && step.arcs.length > 0 && turn.playbook.mustTakeArc)) {
    if (turn.draft.phase === "forward") noArc(turn, n, step, isRefused ? chosen : null);
  } else route(turn, n, index, chosen);
  return true;
}

/** Sets `ctx`. The failure, if the step did not return what it must or a value cannot be filled. */
function afterSuccess(turn: RunTurn, step: PlaybookStep, place: AfterPlace): Failure | null {
  if ((step.assert?.returns.length ?? 0) > 0) {
    const stored = turn.output(place.n);
    const items = step.loop === null ? null : (turn.items(place.n) ?? null);
    const trouble = stored === undefined ? null : returnsTrouble(step, outputOf(step, stored, items));
    if (trouble !== null) return trouble;
  }
  if (isEmpty(step.set)) return null;
  const filled = fillSet(turn, place, step.set);
  if (!filled.ok) return filled.failure;
  return turn.setVariables(filled.value) ? null : tooLarge();
}

function tooLarge(): Failure {
  const message = `the values of ctx have more than ${MAX_CTX} characters together`;
  return failureOf({ kind: "error", class: "invalid", code: "too_large", message });
}

const NO_ARCS: ChosenArcs = { taken: [], errors: null };

/** The failure, if an arc is taken that sets a value which cannot be filled. */
function choose(turn: RunTurn, step: PlaybookStep, place: AfterPlace): ChosenArcs | Failure {
  const { arcs, mode } = step;
  const { status } = place.end;
  const isFailure = status === "cancelled" || (status === "failed" && step.onError === "fail");
  const after = isFailure ? "failure" : "success";
  let taken: number[] = [];
  const others: number[] = [];
  let errors: Record<string, string> | null = null;
  const work = conditionWork(4);
  for (const [index, arc] of arcs.entries()) {
    if (arc.on !== "always" && arc.on !== after) continue;
    if (arc.when === null) (mode === "match" ? others : taken).push(index);
    else {
      const { value, error } = arcIsTrue(turn, place, arc, work);
      if (value) taken.push(index);
      if (error !== null) {
        errors ??= {};
        errors[index] = error;
      }
    }
    if (mode === "first" && taken.length > 0) break;
  }
  if (taken.length === 0 && mode === "match") taken = others;
  const set: Readonly<Record<string, unknown>>[] = [];
  for (const index of taken) {
    const values = arcs[index]?.set;
    if (values === undefined || isEmpty(values)) continue;
    const filled = fillSet(turn, place, values);
    if (!filled.ok) return filled.failure;
    set.push(filled.value);
  }
  // All of them are filled before any is set: a value of one arc is not for another.
  for (const values of set) if (!turn.setVariables(values)) return tooLarge();
  return { taken, errors };
}

function route(turn: RunTurn, n: number, index: number, { taken, errors }: ChosenArcs): void {
  const { arcs } = turn.step(index);
  const to = taken.map((arc) => (arcs[arc] as { to: number }).to);
  turn.emit(
    errors === null ? { do: "route", n, step: index, taken, to } : { do: "route", n, step: index, taken, to, errors },
  );
}

function stateOf(step: PlaybookStep, end: StepEnded, { taken }: ChosenArcs): StepState {
  if (end.status === "succeeded" || end.status === "skipped") return end.status;
  if (end.status === "failed" && step.onError === "continue") return "handled";
  return taken.length > 0 ? "handled" : end.status;
}

function unhandled(
  turn: RunTurn,
  n: number,
  step: PlaybookStep,
  failure: Failure | null,
  reason: FailReason | null,
  status: StepEnded["status"],
): void {
  const { phase, end } = turn.draft;
  const { failureMode } = turn.playbook;
  const isForward = phase === "forward" && failureMode !== "continue";
  if (!isForward && !(phase === "finally" && end === null)) return;
  const cause = stepCause(n, step.name, failure, reason, status, failureMode === "cancel");
  turn.failure = runFailure(step.name, failure, status);
  if (isForward) failRun(turn, cause);
  else turn.emit({ do: "fail", cause });
}

/** Why a run fails because of a step. */
export function stepCause(
  n: number,
  node: string,
  failure: Failure | null,
  reason: FailReason | null,
  status: StepEnded["status"],
  cancel: boolean,
): RunEndCause {
  const why = whyText(failure, reason);
  const message = `step "${node}" ${status === "cancelled" ? "was cancelled" : "failed"}${why === null ? "" : `: ${why}`}`;
  return { state: "failed", reason: "step", message, step: n, node, cancel, skipsHandlers: false };
}

/** The failure of the run: that of the step, with its name. */
export function runFailure(node: string, failure: Failure | null, status: StepEnded["status"]): Failure {
  const text = failure?.message ?? status;
  const parts = {
    kind: "error",
    ...failure,
    stack: null,
    class: "logical",
    message: `step "${node}": ${text}`,
  } as const;
  return failureOf(parts);
}

function noArc(turn: RunTurn, n: number, step: PlaybookStep, because: Failure | null = null): void {
  if (turn.playbook.failureMode === "continue" && because === null) return;
  const message = because?.message ?? `no arc of step "${step.name}" is true`;
  turn.failure = failureOf({ kind: "error", class: "logical", message });
  failRun(turn, {
    ...{ state: "failed", reason: "step", message, step: n, node: step.name },
    ...{ cancel: turn.playbook.failureMode === "cancel", skipsHandlers: false },
  });
}

function isEmpty(record: Readonly<Record<string, unknown>>): boolean {
  for (const _ in record) return false;
  return true;
}
