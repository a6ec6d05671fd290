/** Which steps can start with the branches that have arrived. `join: all` waits while anything alive can still reach the step, so it
 *  cannot hang: a branch that was not taken is not alive. Pure, and without effects. */
import type { PlaybookGraph } from "../playbook/graph.ts";
import type { Playbook } from "../playbook/playbook.ts";
import type { RunDraft } from "./draft.ts";
import type { Arrival } from "./run.ts";

export interface JoinAnswer {
  /** Each starts the step once. */
  readonly starts: readonly (readonly Arrival[])[];
  /** They come too late: the step has started already. */
  readonly absorbed: readonly Arrival[];
  /** Fewer branches arrived than the step asks for. */
  readonly isShort: boolean;
}

const NOTHING: JoinAnswer = { starts: [], absorbed: [], isShort: false };

export function joinOf(
  draft: Pick<RunDraft, "alive" | "pending" | "visits">,
  playbook: Playbook,
  graph: PlaybookGraph,
  step: number,
): JoinAnswer {
  const arrived = draft.pending[step] ?? [];
  const { join } = playbook.steps[step] as Playbook["steps"][number];
  if (graph.isInCycle(step)) return inCycle(draft, graph, step, arrived, join !== "all");
  if (join === "all") {
    return canStillArrive(draft, graph, step) ? NOTHING : { starts: [arrived], absorbed: [], isShort: false };
  }
  const wanted = join === "any" ? 1 : join;
  if ((draft.visits[step] ?? 0) > 0) return { starts: [], absorbed: arrived, isShort: false };
  if (arrived.length >= wanted) {
    return { starts: [arrived.slice(0, wanted)], absorbed: arrived.slice(wanted), isShort: false };
  }
  return canStillArrive(draft, graph, step) ? NOTHING : { starts: [arrived], absorbed: [], isShort: true };
}

/** Each arrival from the cycle itself is a visit. Those from outside are joined as usual. */
function inCycle(
  draft: Pick<RunDraft, "alive" | "pending">,
  graph: PlaybookGraph,
  step: number,
  arrived: readonly Arrival[],
  isEach: boolean,
): JoinAnswer {
  const starts: (readonly Arrival[])[] = [];
  const outside: Arrival[] = [];
  for (const arrival of arrived) {
    const from = arrival[2];
    if (isEach || (from >= 0 && graph.isSameCycle(from, step))) starts.push([arrival]);
    else outside.push(arrival);
  }
  if (outside.length > 0 && !canStillArrive(draft, graph, step)) starts.unshift(outside);
  return { starts, absorbed: [], isShort: false };
}

/** Whether anything alive, or another step at which branches wait, can reach the step. */
function canStillArrive(
  { alive, pending }: Pick<RunDraft, "alive" | "pending">,
  graph: PlaybookGraph,
  step: number,
): boolean {
  for (const key in alive) if (comesBefore(graph, Number(key), step)) return true;
  for (const key in pending) if (comesBefore(graph, Number(key), step)) return true;
  return false;
}

function comesBefore(graph: PlaybookGraph, other: number, step: number): boolean {
  return other !== step && graph.canReach(other, step) && !graph.isSameCycle(other, step);
}
