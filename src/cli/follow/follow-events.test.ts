import { describe, expect, it } from "vitest";
import type { PerdureEvent } from "../../core/job/event.ts";
import { lastEvents } from "./follow-events.ts";

/** A feed of events with these numbers, which counts what is taken from it. */
function feed(seqs: readonly number[]) {
  const taken = { count: 0, reads: 0 };
  async function* read(after: number) {
    taken.reads += 1;
    for (const seq of seqs) {
      if (seq <= after) continue;
      taken.count += 1;
      yield { seq } as PerdureEvent;
    }
  }
  return { read, taken };
}

const upTo = (count: number, step = 1) => Array.from({ length: count }, (_, i) => (i + 1) * step);

describe("the last events", () => {
  it.each([
    ["none", [], 3],
    ["fewer than wanted", [4, 9], 3],
    ["just as many", [1, 2, 3], 3],
    ["one far away", [1_000_000_007], 2],
    ["gaps", [1, 2, 3, 5_000, 9_000_000, 9_000_001], 4],
    ["many", upTo(100_000), 20],
    ["many with gaps", upTo(20_000, 4_096), 20],
    ["more wanted than lie near the end", upTo(5_000), 2_000],
  ])("are found: %s", async (_, seqs, count) => {
    const found = await lastEvents(feed(seqs).read, count);
    expect(found.map(({ seq }) => seq)).toEqual(seqs.slice(-count));
  });

  it("are found without reading all others", async () => {
    const { read, taken } = feed(upTo(100_000));
    await lastEvents(read, 20);
    expect(taken.count).toBeLessThan(2_000);
    expect(taken.reads).toBeLessThan(60);
  });

  it("are all, where as many are wanted", async () => {
    expect(await lastEvents(feed(upTo(700)).read, Number.POSITIVE_INFINITY)).toHaveLength(700);
  });
});
