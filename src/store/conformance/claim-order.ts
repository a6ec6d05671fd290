/** The order of claims: lowest priority number first, then the longest due, across all lanes of a session. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import type { Bench } from "./bench.ts";
import { SECOND, T0 } from "./kit.ts";

export function claimOrderTests(bench: Bench): void {
  test("goes by priority, then by time, whatever the lane", async () => {
    const ids = new Map<string, string>();
    const put = async (name: string, priority: number, dueAgo: number, queue = "default") =>
      ids.set(await bench.submit({ priority, runAt: T0 - dueAgo, queue, at: T0 - 2 * SECOND }), name);
    await put("5 old", 5, 90);
    await put("5 older, other lane", 5, 100, "b");
    await put("0 new", 0, 1, "c");
    await put("9 oldest", 9, 1_000);
    await put("4", 4, 5);
    await put("0 newer, other lane", 0, 0, "b");
    const claimed = await bench.claim(await bench.open(), 10);
    expect(claimed.map((job) => ids.get(job.id))).toEqual([
      ...["0 new", "0 newer, other lane", "4", "5 older, other lane", "5 old", "9 oldest"],
    ]);
  });

  test("a retry is ordered by its own due time", async () => {
    const { job, session } = await bench.running({
      retry: { maxAttempts: 2, backoff: { type: "fixed", delay: "5s", jitter: 0 } },
    });
    await bench.report(job, { kind: "interrupted" }, T0 + 500);
    const later = await bench.submit({ at: T0 + 600 });
    expect((await bench.claim(session, 2, T0 + SECOND)).map((found) => found.id)).toEqual([job.id, later]);
  });

  test("any jobs, in claims of any size, are claimed in that order", async () => {
    let round = 0;
    const spec = fc.record({
      priority: fc.integer({ min: 0, max: 9 }),
      lane: fc.constantFrom("a", "b", "c"),
      late: fc.boolean(),
    });
    const property = fc.asyncProperty(
      fc.array(spec, { minLength: 1, maxLength: 40 }),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }),
      async (specs, limits) => {
        round += 1;
        const namespace = `space-${round}`;
        // Each job is due at a different time; those marked late are not due yet.
        const jobs = specs.map(({ priority, lane, late }, i) => ({
          ...{ namespace, priority, queue: lane, runAt: late ? T0 + 1 + i : T0 - 1_000 + ((i * 379) % 1_000) },
        }));
        const answers = await bench.insert(jobs);
        const waiting = jobs
          .map((job, i) => ({ ...job, id: (answers[i] as { id: string }).id }))
          .filter((job) => job.runAt <= T0)
          .sort((a, b) => a.priority - b.priority || a.runAt - b.runAt)
          .map((job) => job.id);
        const session = await bench.open({ namespace });
        const claimed: string[] = [];
        for (let k = 0; claimed.length < waiting.length; k++) {
          const found = await bench.claim(session, limits[k % limits.length]);
          expect(found.length).toBeGreaterThan(0);
          claimed.push(...found.map((job) => job.id));
        }
        expect(claimed).toEqual(waiting);
        expect(await bench.claim(session, 10)).toEqual([]);
      },
    );
    await fc.assert(property, { numRuns: IS_FULL ? 25 : 5 });
  });
}
