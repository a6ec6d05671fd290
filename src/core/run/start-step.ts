/** Starts a step: its guard, its loop's list, or its filled input as a job, a run below or a wait. One that only routes, is skipped
 *  or cannot start ends at once. */
import { type Failure, failure as failureOf } from "../decision/failure.ts";
import { show } from "../errors.ts";
import { PLAYBOOK_LIMITS, RUN_KIND } from "../playbook/playbook.ts";
import { inFileOrder } from "./draft.ts";
import { cutWhy, failRun } from "./fail-run.ts";
import type { Arrival } from "./run.ts";
import type { RunData } from "./run-data.ts";
import { settleStep } from "./settle-step.ts";
import { guardOf, loopList } from "./step-fill.ts";
import { planStep, type StepPlan } from "./step-job.ts";
import { needsOf, type StartPlace } from "./step-scope.ts";
import { ADVANCE_LIMITS, type NewRow, type RunTurn } from "./turn.ts";

/** What a step or an item of a loop does. done: it has nothing to wait for. */
export type Work =
  | { readonly do: "job"; readonly job: NonNullable<NewRow["job"]> }
  | { readonly do: "wait"; readonly due: number }
  | { readonly do: "done"; readonly job: NewRow["job"]; readonly result: string | null }
  | { readonly do: "fail"; readonly failure: Failure };

export interface StepStart {
  readonly step: number;
  readonly by: readonly Arrival[];
  /** More arrivals wait than these. */
  readonly isPart: boolean;
  /** It cannot start: why. */
  readonly trouble?: string;
}

/** False if it cannot start now: there is no place, or something must be loaded first. */
export function startStep(turn: RunTurn, { step: index, by, isPart, trouble }: StepStart): boolean {
  const step = turn.step(index);
  const { draft } = turn;
  const isForward = draft.phase === "forward";
  if (!hasPlace(turn, step.action !== null && step.loop === null)) return false;
  const visit = (draft.visits[index] ?? 0) + 1;
  const tries = draft.tries[index];
  const attempt = tries !== undefined && visit <= tries[1] ? tries[0] : 1;
  if (isForward && attempt === 1 && isFull(turn)) return false;

  const tokens = inFileOrder(by);
  const place: StartPlace = { at: "start", step: index, arrivals: tokens, item: null };
  const missing = needsOf(turn, place);
  if (missing !== null) {
    turn.need(missing);
    return false;
  }
  const row = {
    step: index,
    visit,
    item: -1,
    try: attempt,
    tokens,
    explicit: isPart,
    job: null,
    due: null,
    items: null,
  };
  const end = (n: number, failure: Failure | null, status: "succeeded" | "failed" | "skipped", why?: string) =>
    settleStep(turn, {
      ...{ n, step: index, visit, end: { status, failure, attempt: 0 }, isOwn: true },
      reason: failure === null ? null : "invalid",
      ...(why === undefined ? {} : { why }),
    });
  const refusal = trouble ?? (visit > PLAYBOOK_LIMITS.visits ? TOO_OFTEN : undefined);
  if (refusal !== undefined) {
    const message = `step "${step.name}" ${refusal}`;
    end(turn.begin(row), failureOf({ kind: "error", class: "logical", message }), "failed");
    return true;
  }
  if (step.when !== null) {
    const { value, error } = guardOf(turn, place);
    if (!value) {
      end(turn.begin(row), null, "skipped", cutWhy(error === null ? "`when` is false" : `when: ${error}`));
      return true;
    }
  }
  if (step.loop !== null) {
    const list = loopList(turn, place);
    if (list.ok) turn.begin({ ...row, items: list.value });
    else end(turn.begin(row), list.failure, "failed");
    return true;
  }
  const work = workOf(turn, place);
  if (work === null) return false;
  const n = turn.begin({ ...row, job: "job" in work ? work.job : null, due: work.do === "wait" ? work.due : null });
  if (work.do === "fail") end(n, work.failure, "failed");
  else if (work.do === "done") {
    if (work.result !== null) turn.setResult(n, work.result);
    end(n, null, "succeeded");
  }
  return true;
}

const TOO_OFTEN = `would start for the ${PLAYBOOK_LIMITS.visits + 1}st time; at most ${PLAYBOOK_LIMITS.visits} visits are allowed`;

/** Whether one more step may start in this advance and, if it works, beside those that are open. */
export function hasPlace(turn: RunTurn, isWork: boolean): boolean {
  if (isWork && turn.draft.open >= turn.playbook.parallel) return false;
  const { starts, chars, work } = ADVANCE_LIMITS;
  if (turn.starts < starts && turn.chars < chars && turn.meter.spent < work) return true;
  turn.isCapped = true;
  return false;
}

/** Whether the run has made all the steps that it may: then it fails. */
export function isFull(turn: RunTurn): boolean {
  const { maxSteps, failureMode } = turn.playbook;
  if (turn.draft.made - turn.draft.extra < maxSteps) return false;
  const message = `the run has made ${maxSteps} steps, as many as its maxSteps allows`;
  turn.failure = failureOf({ kind: "error", class: "logical", message });
  failRun(turn, {
    ...{ state: "failed", reason: "step", message, step: null, node: null },
    ...{ cancel: failureMode === "cancel", skipsHandlers: false },
  });
  return true;
}

/** Null if something must be loaded first. All that `needsOf` finds must be loaded. */
export function workOf(turn: RunTurn, place: StartPlace): Work | null {
  const plan = planStep(turn, place, turn.draft.edits[place.step]);
  switch (plan.kind) {
    case "job":
      return { do: "job", job: { ...plan.job, isChild: true, run: null } };
    case "wait":
      return { do: "wait", due: plan.dueAt };
    case "route":
      return { do: "done", job: null, result: plan.result };
    case "failed":
      return { do: "fail", failure: plan.failure };
    case "run":
      return runBelow(turn, plan);
  }
}

function runBelow(turn: RunTurn, { path, data, wait }: StepPlan & { kind: "run" }): Work | null {
  const invalid = (message: string): Work => ({
    do: "fail",
    failure: failureOf({ kind: "error", class: "invalid", code: "playbook", message }),
  });
  const found = turn.path(path);
  if (found === undefined) return null;
  if (found === null) return invalid(`the playbook ${path} does not exist`);
  const depth = turn.input.loaded.job.depth + 1;
  if (depth > PLAYBOOK_LIMITS.depth)
    return invalid(`runs are nested ${depth} deep; at most ${PLAYBOOK_LIMITS.depth} are allowed`);
  const { inputs, returnStep } = JSON.parse(data) as Pick<RunData, "inputs" | "returnStep">;
  if (returnStep !== undefined && !found.playbook.steps.some(({ name }) => name === returnStep))
    return invalid(`return_step: the playbook ${path} has no step ${show(returnStep)}`);
  const job = {
    ...{ kind: RUN_KIND, payload: JSON.stringify(inputs), labels: {}, isChild: wait },
    run: { hash: found.hash, pins: found.pins, data, timeoutMs: found.playbook.timeoutMs },
  };
  return wait ? { do: "job", job } : { do: "done", job, result: null };
}
