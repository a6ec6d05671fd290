/** The graph of a playbook's arcs: which step can reach which, and where its cycles are. Conditions are not considered: an arc
 *  that is never taken counts. It is computed once per playbook object, in time and memory of steps × arcs / 32. */
import type { Playbook } from "./playbook.ts";

export interface PlaybookGraph {
  /** By one or more arcs. A step reaches itself only in a cycle. */
  canReach(from: number, to: number): boolean;
  isInCycle(step: number): boolean;
  /** Each can reach the other; also of one step in a cycle. */
  isSameCycle(a: number, b: number): boolean;
  /** An arc between two steps of one cycle that leads back to where the cycle is entered first. */
  isBackArc(from: number, to: number): boolean;
  /** The groups of steps that can all reach each other, each in ascending order. */
  readonly cycles: readonly (readonly number[])[];
  /** What the entry or a handler can reach, with these. */
  readonly reachable: ReadonlySet<number>;
  readonly handlers: ReadonlySet<number>;
  indexOf(name: string): number | undefined;
}

const graphs = new WeakMap<Playbook, PlaybookGraph>();

/** The graph of a playbook, from a cache. */
export function graphOf(playbook: Playbook): PlaybookGraph {
  let graph = graphs.get(playbook);
  if (graph === undefined) {
    graph = makeGraph(playbook);
    graphs.set(playbook, graph);
  }
  return graph;
}

function makeGraph(playbook: Playbook): PlaybookGraph {
  const next = playbook.steps.map(({ arcs }) => [...new Set(arcs.map(({ to }) => to))]);
  const handlers = new Set([...playbook.onFailure, ...playbook.finally]);
  const { groupOf, groups, back } = walk(next, [playbook.entry, ...handlers]);
  const reach = reachSets(next, groupOf, groups);
  const has = (group: number, step: number) =>
    (((reach[group] as Uint32Array)[step >> 5] as number) & (1 << (step & 31))) !== 0;
  const canReach = (from: number, to: number) => has(groupOf[from] as number, to);
  const isInCycle = (step: number) => canReach(step, step);
  const reachable = new Set<number>();
  for (const from of [playbook.entry, ...handlers]) {
    reachable.add(from);
    for (let to = 0; to < next.length; to++) if (canReach(from, to)) reachable.add(to);
  }
  const names = new Map(playbook.steps.map(({ name }, index) => [name, index]));
  return {
    canReach,
    isInCycle,
    isSameCycle: (a, b) => groupOf[a] === groupOf[b] && isInCycle(a),
    isBackArc: (from, to) => back.has(from * next.length + to),
    cycles: groups.filter(([step]) => isInCycle(step as number)).map((group) => group.toSorted((a, b) => a - b)),
    reachable,
    handlers,
    indexOf: (name) => names.get(name),
  };
}

interface Walk {
  readonly groupOf: readonly number[];
  /** Strongly connected components; what a group can reach is before it. */
  readonly groups: readonly (readonly number[])[];
  /** `from * steps + to`, of arcs to a step that the walk is still in. */
  readonly back: ReadonlySet<number>;
}

/** Tarjan's algorithm without recursion, as a chain may have a thousand steps. It begins at `first`, so that a cycle is entered
 *  where a run enters it. */
function walk(next: readonly (readonly number[])[], first: readonly number[]): Walk {
  const count = next.length;
  const order = new Int32Array(count).fill(-1);
  const low = new Int32Array(count);
  const groupOf = new Array<number>(count).fill(-1);
  const groups: number[][] = [];
  const back = new Set<number>();
  const open: number[] = []; // visited, and not yet in a group
  const isEntered = new Uint8Array(count); // on the path of the walk
  let visited = 0;

  const visit = (root: number) => {
    const path: { readonly step: number; arc: number }[] = [];
    const enter = (step: number) => {
      order[step] = low[step] = visited++;
      isEntered[step] = 1;
      open.push(step);
      path.push({ step, arc: 0 });
    };
    const lower = (step: number, to: number) => {
      low[step] = Math.min(low[step] as number, to);
    };
    enter(root);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const { step } = top;
      const to = next[step]?.[top.arc++];
      if (to === undefined) {
        path.pop();
        isEntered[step] = 0;
        const parent = path.at(-1);
        if (parent !== undefined) lower(parent.step, low[step] as number);
        if (low[step] !== order[step]) continue;
        const group = open.splice(open.lastIndexOf(step));
        for (const member of group) groupOf[member] = groups.length;
        groups.push(group);
      } else if (order[to] === -1) {
        enter(to);
      } else if (groupOf[to] === -1) {
        lower(step, order[to] as number);
        if (isEntered[to] === 1) back.add(step * count + to);
      }
    }
  };
  for (const step of first) if (order[step] === -1) visit(step);
  for (let step = 0; step < count; step++) if (order[step] === -1) visit(step);
  return { groupOf, groups, back };
}

/** For each group the steps that it can reach, as bits. */
function reachSets(
  next: readonly (readonly number[])[],
  groupOf: readonly number[],
  groups: Walk["groups"],
): readonly Uint32Array[] {
  const reach: Uint32Array[] = [];
  const mark = (set: Uint32Array, step: number) => {
    set[step >> 5] = (set[step >> 5] as number) | (1 << (step & 31));
  };
  for (const [index, group] of groups.entries()) {
    const set = new Uint32Array((next.length + 31) >> 5);
    const below = new Set<number>();
    for (const from of group) {
      for (const to of next[from] as readonly number[]) {
        mark(set, to);
        if (groupOf[to] !== index) below.add(groupOf[to] as number);
        else for (const member of group) mark(set, member);
      }
    }
    for (const other of below) {
      const bits = reach[other] as Uint32Array;
      for (let word = 0; word < bits.length; word++) set[word] = (set[word] as number) | (bits[word] as number);
    }
    reach.push(set);
  }
  return reach;
}
