/** How many children a job may have, and that those it has are found all the same. */
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../src/engine/limits.ts";
import { openBench } from "../kit.ts";

describe("a child within a transaction of the caller's", () => {
  it("is refused: its parent would be locked for as long as that lasts", async () => {
    const bench = await openBench();
    const id = await bench.submit("parent");
    const { policy } = await bench.job(id);
    const client = { query: async () => ({ rows: [] }) };
    const child = { kind: "child", payload: "null", policy, parent: { id, attempt: null } };
    await expect(bench.engine.submit([child], client)).rejects.toMatchObject({ path: "submit.parent" });
  });
});

describe("a job with very many children", () => {
  it("is refused more than ten thousand, and finds those that it has", { timeout: 60_000 }, async () => {
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
});
