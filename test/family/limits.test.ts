/** How many children and labels a job may have, the scope of keys, and that existing children are still found. */
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../src/engine/limits.ts";
import { openBench } from "../kit.ts";
import { inFull } from "../tier.ts";
import { openWay } from "./kit.ts";

describe("a child within the caller's transaction", () => {
  it("is refused: its parent would be locked for the duration", async () => {
    const bench = await openBench();
    const id = await bench.submit("parent");
    const { policy } = await bench.job(id);
    const client = { query: async () => ({ rows: [] }) };
    const child = { kind: "child", payload: "null", policy, parent: { id, attempt: null } };
    await expect(bench.engine.submit([child], client)).rejects.toMatchObject({ path: "submit.parent" });
  });
});

describe("a job with very many children", () => {
  it("is refused more than ten thousand, and finds the existing ones", { timeout: 60_000 }, async () => {
    const bench = await openBench();
    const id = await bench.submit("parent");
    const policy = (await bench.job(id)).policy;
    const item = (i: number) => ({
      ...{ kind: "child", payload: "null", policy, key: `k${i}`, parent: { id, attempt: null } },
    });
    const many = await bench.engine.submit(Array.from({ length: LIMITS.children - 1 }, (_, i) => item(i)));
    expect(many.every(({ status }) => status === "ok")).toBe(true);
    const [last, over, known] = await bench.engine.submit([item(-1), item(-2), item(7)]);
    expect(last).toMatchObject({ status: "ok", created: true });
    expect(over).toMatchObject({ status: "refused", error: { path: "parent" } });
    expect(known).toMatchObject({ status: "ok", created: false });
    expect((await bench.engine.children(id)).length).toBe(LIMITS.children);
  });

  it.each(inFull(["sqlite", "postgres"] as const))("is refused more in one call too, on %s", async (way) => {
    const perdure = await openWay(way);
    const { id } = await perdure.submit("parent");
    const entry = { task: "child", options: { parent: id } };
    const answers = await perdure.submitMany(Array.from({ length: LIMITS.children + 500 }, () => entry));
    expect(answers.filter(({ ok }) => ok)).toHaveLength(LIMITS.children);
  });
});

describe("the key of a child", () => {
  it("can be used by no other job", async () => {
    const bench = await openBench();
    const id = await bench.submit("parent");
    const { policy } = await bench.job(id);
    const item = { kind: "child", payload: "null", policy };
    const [stranger, child] = await bench.engine.submit([
      { ...item, key: `${id}/a` },
      { ...item, key: "a", parent: { id, attempt: null } },
    ]);
    expect(stranger).toMatchObject({ status: "refused", error: { path: "submit.key" } });
    expect(child).toMatchObject({ status: "ok", created: true });
    const [plain] = await bench.engine.submit([{ ...item, key: "job_1/a" }]);
    expect(plain).toMatchObject({ status: "ok", created: true });
  });
});

it("resources do not count as labels", async () => {
  const bench = await openBench();
  const labels = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`l${i}`, "x"]));
  const needs = { "resource/cpu": "1000", "resource/memory": "1" };
  expect(await bench.submit("k", { labels: { ...labels(20), ...needs } })).toMatch(/^job_/);
  await expect(bench.submit("k", { labels: labels(21) })).rejects.toThrow(/at most 20 labels/);
});
