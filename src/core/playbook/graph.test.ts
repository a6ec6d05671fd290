import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds, SEED } from "../../../test/tier.ts";
import { graphOf } from "./graph.ts";
import { PLAYBOOK_LIMITS } from "./playbook.ts";
import { testGraph } from "./testing-playbook.ts";

describe("the graph of a playbook", () => {
  it("has the cycle of a pagination, and what is outside of it", () => {
    const graph = graphOf(testGraph([[1], [2], [1, 3], [], [3]]));
    expect(graph.cycles).toEqual([[1, 2]]);
    expect([0, 1, 2, 3, 4].map(graph.isInCycle)).toEqual([false, true, true, false, false]);
    expect(graph.isBackArc(2, 1)).toBe(true);
    expect(graph.isBackArc(1, 2)).toBe(false);
    expect(graph.isSameCycle(1, 2)).toBe(true);
    expect(graph.isSameCycle(0, 0)).toBe(false);
    expect([...graph.reachable].sort()).toEqual([0, 1, 2, 3]);
    expect(graph.indexOf("s2")).toBe(2);
    expect(graph.indexOf("toString")).toBeUndefined();
  });

  it("counts an arc of a step to itself as a cycle", () => {
    const graph = graphOf(testGraph([[0, 1], [2], []]));
    expect(graph.cycles).toEqual([[0]]);
    expect(graph.isBackArc(0, 0)).toBe(true);
    expect(graph.canReach(0, 0)).toBe(true);
    expect(graph.canReach(1, 1)).toBe(false);
  });

  it("reaches what its handlers reach", () => {
    const graph = graphOf(testGraph([[], [2], [], []], { onFailure: [1], finally: [3] }));
    expect([...graph.reachable].sort()).toEqual([0, 1, 2, 3]);
    expect([...graph.handlers].sort()).toEqual([1, 3]);
  });

  it("is made once per playbook", () => {
    const playbook = testGraph([[]]);
    expect(graphOf(playbook)).toBe(graphOf(playbook));
  });

  it("agrees with a plain search in random graphs", () => {
    const graphs = fc
      .integer({ min: 1, max: 25 })
      .chain((size) => fc.array(fc.array(fc.nat(size - 1), { maxLength: 3 }), { minLength: size, maxLength: size }));
    fc.assert(
      fc.property(graphs, (next) => {
        const graph = graphOf(testGraph(next));
        for (const from of next.keys()) {
          const found = search(next, from);
          for (const to of next.keys()) {
            expect(graph.canReach(from, to)).toBe(found.has(to));
            expect(graph.isSameCycle(from, to)).toBe(found.has(to) && search(next, to).has(from));
          }
        }
        expect(graph.cycles.flat().sort()).toEqual([...next.keys()].filter(graph.isInCycle).sort());
        // Without its back arcs it has no cycle.
        const forward = next.map((to, from) => to.filter((each) => !graph.isBackArc(from, each)));
        expect(graphOf(testGraph(forward)).cycles).toEqual([]);
      }),
      { numRuns: rounds(1_000), seed: SEED },
    );
  });

  it("is made of the largest playbook, a chain or with all arcs, within its bounds", () => {
    const { steps, arcs } = PLAYBOOK_LIMITS;
    const chain = Array.from({ length: steps }, (_, i) => (i + 1 < steps ? [i + 1] : [0]));
    expect(graphOf(testGraph(chain)).cycles).toEqual([[...chain.keys()]]);
    const dense = Array.from({ length: steps }, (_, i) =>
      Array.from({ length: arcs }, (_, k) => i + 1 + k).filter((to) => to < steps),
    );
    const graph = graphOf(testGraph(dense));
    expect(graph.canReach(0, steps - 1)).toBe(true);
    expect(graph.canReach(steps - 1, 0)).toBe(false);
    expect(graph.cycles).toEqual([]);
  });
});

function search(next: readonly (readonly number[])[], from: number): Set<number> {
  const found = new Set<number>();
  const open = [...(next[from] ?? [])];
  for (let step = open.pop(); step !== undefined; step = open.pop()) {
    if (found.has(step)) continue;
    found.add(step);
    open.push(...(next[step] ?? []));
  }
  return found;
}
