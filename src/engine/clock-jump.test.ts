import { describe, expect, it } from "vitest";
import { engineEvents, gate, openBench, vanish } from "../../test/kit.ts";
import { task } from "../core/task/task.ts";

const DAY_MS = 86_400_000;

describe.each([
  ["a day ahead", DAY_MS],
  ["a day back", -DAY_MS],
])("a wall clock that jumps %s", (_, jump) => {
  it("loses no running job and no worker", async () => {
    const skew = { ms: 0 };
    const bench = await openBench({ skew });
    const end = gate<string>();
    await bench.work([task("long", () => end.passed)]);
    const id = await bench.submit("long");
    await bench.advance(7_000);
    skew.ms = jump;
    await bench.advance(120_000);
    expect(await bench.job(id)).toMatchObject({ state: "running", attempt: 1, losses: 0 });
    end.open("fine");
    await bench.settled();
    expect(await bench.job(id)).toMatchObject({ state: "succeeded" });
  });

  it("keeps no lease alive forever: a lost worker is noticed soon after", async () => {
    const skew = { ms: 0 };
    const bench = await openBench({ skew });
    const id = await bench.submit("k");
    await vanish(bench);
    await bench.advance(2_000);
    skew.ms = jump;
    await bench.advance(33_000); // one lease for the jump, one for the worker
    expect(await bench.job(id)).toMatchObject({ attempt: 1, losses: 1 });
    expect(await engineEvents(bench)).toContainEqual({
      name: "engine.reaping_held",
      data: expect.objectContaining({ why: "the clock jumped" }),
    });
  });

  it("starts what falls due by it once", async () => {
    const skew = { ms: 0 };
    const bench = await openBench({ skew });
    let runs = 0;
    await bench.work([task("note", () => void runs++)]);
    await bench.submit("note", { delayMs: 600_000 });
    await bench.advance(2_000);
    skew.ms = jump;
    await bench.advance(60_000);
    expect(runs).toBe(jump > 0 ? 1 : 0);
    skew.ms = 0;
    await bench.advance(600_000);
    expect(runs).toBe(1);
  });

  it("neither cuts short nor prolongs the wait for a result", async () => {
    const skew = { ms: 0 };
    const bench = await openBench({ skew });
    const id = await bench.submit("nobody");
    const over = gate<unknown>();
    void bench.engine.waitForEnd(id, 1, { timeoutMs: 10_000 }).then((job) => over.open(job));
    await bench.advance(2_000);
    skew.ms = jump;
    await bench.advance(7_999);
    expect(over.isOpen).toBe(false);
    await bench.advance(1);
    expect(await over.passed).toBeNull();
  });
});
