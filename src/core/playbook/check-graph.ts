/** Checks of the arcs of a playbook: cycles that would never wait, joins that cannot be decided, steps that nothing leads to, and
 *  handlers that are part of the flow. */
import { show } from "../errors.ts";
import { graphOf, type PlaybookGraph } from "./graph.ts";
import type { Places } from "./places.ts";
import type { Playbook, PlaybookArc, PlaybookStep } from "./playbook.ts";
import type { PlaybookProblem, ProblemCode } from "./problem.ts";

/** Steps visited by the check of joins in cycles. A playbook of people needs a thousandth of it. */
const JOIN_WORK = 5_000_000;
const SHOWN_STEPS = 8;

export function* checkGraph(playbook: Playbook, places: Places): Generator<PlaybookProblem> {
  const graph = graphOf(playbook);
  yield* checkHandlers(playbook, graph, places);
  yield* checkInlineCycles(playbook, places);
  yield* checkJoins(playbook, graph, places);
  for (const [index, step] of playbook.steps.entries()) {
    if (graph.reachable.has(index) || step.name === "") continue;
    const message = `no arc leads to the step ${show(step.name)}; it is never started`;
    yield { ...problem("unreachable", places.of(`steps[${index}].name`), message), severity: "warning" };
  }
}

function problem(code: ProblemCode, path: PlaybookProblem["path"], message: string): PlaybookProblem {
  return { code, severity: "error", path, offset: null, message };
}

/** Handlers run alone, at the end, in the order of their list. */
function* checkHandlers(playbook: Playbook, graph: PlaybookGraph, places: Places): Generator<PlaybookProblem> {
  if (graph.handlers.size === 0) return;
  const list = (step: number) => (playbook.onFailure.includes(step) ? "onFailure" : "finally");
  for (const field of ["onFailure", "finally"] as const) {
    for (const [position, step] of playbook[field].entries()) {
      const at = places.of(`${field}[${position}]`);
      if (step === playbook.entry) {
        yield problem("invalid_value", at, `${field}: ${nameOf(playbook, step)} is the first step of the workflow`);
      }
      if (playbook[field].indexOf(step) < position) {
        yield problem("invalid_value", at, `${field}: ${nameOf(playbook, step)} is named twice`);
      }
    }
  }
  for (const [index, step] of playbook.steps.entries()) {
    for (const [position, { to }] of step.arcs.entries()) {
      const at = places.of(`steps[${index}].arcs[${position}]`);
      if (graph.handlers.has(index)) {
        const message = `next: ${show(step.name)} is in ${list(index)}, whose steps run one after another; put the next step there`;
        yield problem("invalid_value", at, message);
      } else if (graph.handlers.has(to)) {
        const message = `next: ${nameOf(playbook, to)} is in ${list(to)}, and is run at the end; no arc may lead to it`;
        yield problem("invalid_value", at, message);
      }
    }
  }
}

function nameOf(playbook: Playbook, step: number): string {
  return show((playbook.steps[step] as PlaybookStep).name);
}

/** A cycle of steps that end at once would go round until its limit of visits. */
function* checkInlineCycles(playbook: Playbook, places: Places): Generator<PlaybookProblem> {
  const isRoute = (step: number) => playbook.steps[step]?.action === null;
  if (!playbook.steps.some(({ action }) => action === null)) return;
  const steps = playbook.steps.map((step, index) => ({
    ...step,
    arcs: isRoute(index) ? step.arcs.filter(({ to }) => isRoute(to)) : [],
  }));
  for (const cycle of graphOf({ ...playbook, steps }).cycles) {
    const names = cycle.slice(0, SHOWN_STEPS).map((step) => nameOf(playbook, step));
    const shown = `${names.join(", ")}${cycle.length > SHOWN_STEPS ? ", …" : ""}`;
    const message = `a cycle of steps that only route: ${shown}; add a step with a type, such as a wait`;
    yield problem("inline_cycle", places.of(`steps[${cycle[0]}].name`), message);
  }
}

function* checkJoins(playbook: Playbook, graph: PlaybookGraph, places: Places): Generator<PlaybookProblem> {
  const into = incoming(playbook);
  const work = { left: JOIN_WORK };
  for (const [index, step] of playbook.steps.entries()) {
    const at = places.of(`steps[${index}].join`);
    const count = (into[index] as readonly Incoming[]).length;
    if (typeof step.join === "number" && step.join > count) {
      const message = `join: is ${step.join}, but ${count} ${count === 1 ? "arc leads" : "arcs lead"} to ${show(step.name)}`;
      yield problem("invalid_value", at, message);
    }
    if (step.join === "any" || step.join === 1 || !graph.isInCycle(index)) continue;
    if (typeof step.join === "number" || places.has(`steps[${index}].join`)) {
      const message = `join: ${show(step.name)} is in a cycle, where each arrival starts it again; write join: any`;
      yield problem("join_in_cycle", at, message);
    } else {
      const fork = forkBefore(playbook, graph, into, index, work);
      if (fork === null) continue;
      const message =
        `${show(step.name)} is in a cycle, and two branches from ${nameOf(playbook, fork)} can reach it at once; ` +
        `set mode: first there, join: any to start it for each of them, or move the branches into a sub-playbook`;
      yield problem("join_in_cycle", at, message);
    }
  }
}

interface Incoming {
  readonly from: number;
  readonly arc: PlaybookArc;
}

function incoming(playbook: Playbook): readonly (readonly Incoming[])[] {
  const into = playbook.steps.map((): Incoming[] => []);
  for (const [from, { arcs }] of playbook.steps.entries()) for (const arc of arcs) into[arc.to]?.push({ from, arc });
  return into;
}

/** A step of the same cycle with two arcs that can both be taken and that lead to `join` within one round of the cycle. Null also
 *  where the search would take too long. */
function forkBefore(
  playbook: Playbook,
  graph: PlaybookGraph,
  into: readonly (readonly Incoming[])[],
  join: number,
  work: { left: number },
): number | null {
  const within = (to: number) =>
    (into[to] as readonly Incoming[]).filter(({ from }) => graph.isSameCycle(from, to) && !graph.isBackArc(from, to));
  if (within(join).length < 2) return null;
  const leading = new Map<number, PlaybookArc[]>();
  const seen = new Set([join]);
  const open = [join];
  for (let to = open.pop(); to !== undefined; to = open.pop()) {
    const arcs = within(to);
    work.left -= (into[to] as readonly Incoming[]).length;
    if (work.left < 0) return null;
    for (const { from, arc } of arcs) {
      leading.set(from, [...(leading.get(from) ?? []), arc]);
      if (seen.has(from)) continue;
      seen.add(from);
      open.push(from);
    }
  }
  for (const [from, arcs] of leading) {
    if (canTakeTwo((playbook.steps[from] as PlaybookStep).mode, arcs)) return from;
  }
  return null;
}

/** Whether two of these arcs of one step can be taken at once. Conditions are not compared. */
export function canTakeTwo(mode: PlaybookStep["mode"], arcs: readonly PlaybookArc[]): boolean {
  if (mode === "first") return false;
  return (["success", "failure"] as const).some((end) => {
    const open = arcs.filter(({ on }) => on === end || on === "always");
    if (mode === "all") return open.length > 1;
    const others = open.filter(({ when }) => when === null).length;
    return others > 1 || open.length - others > 1;
  });
}
