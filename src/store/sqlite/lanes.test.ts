import { describe, expect, it } from "vitest";
import { Perdure, task } from "../../index.ts";

describe("a session with very many lanes", () => {
  it("gets the jobs of all of them, window by window", async () => {
    await using perdure = await Perdure.open(":memory:");
    const ran = new Set<string>();
    const tenant = task("tenant", (_: undefined, ctx) => {
      ran.add(ctx.queue);
    });
    const queues = Array.from({ length: 900 }, (_, i) => `tenant-${i}`);
    const answers = await perdure.submitMany(queues.map((queue) => ({ task: tenant, options: { queue } })));
    await perdure.work([tenant], { concurrency: 50 });
    await Promise.all(answers.map((answer) => (answer.ok ? answer.job.result() : Promise.reject(answer.error))));
    expect(ran.size).toBe(900);
    // All lanes are empty now: one that gets a job is found among them.
    await (await perdure.submit(tenant, undefined, { queue: "tenant-777" })).result({ timeout: "20s" });
  });

  it("starts the more urgent job first if both are in the window, and skips paused queues", async () => {
    await using perdure = await Perdure.open(":memory:");
    const order: string[] = [];
    const note = task("note", (_: undefined, ctx) => {
      order.push(ctx.queue);
    });
    const submitted = [];
    for (let i = 0; i < 30; i++) {
      submitted.push(await perdure.submit(note, undefined, { queue: `q${i}`, priority: i === 23 ? 0 : 5 }));
    }
    await perdure.pause("q7");
    await perdure.work([note], { concurrency: 1 });
    await Promise.all(submitted.filter((_, i) => i !== 7).map((job) => job.result()));
    expect(order[0]).toBe("q23");
    expect(order).toHaveLength(29);
    expect(order).not.toContain("q7");
    await perdure.resume("q7");
    await submitted[7]?.result({ timeout: "20s" });
  });

  it("finds a due job behind more lanes than a window has, though none of those has due jobs", async () => {
    await using perdure = await Perdure.open(":memory:");
    const behind = task("behind", () => "found");
    const queues = Array.from({ length: 100 }, (_, i) => `later-${i}`);
    await perdure.submitMany(queues.map((queue) => ({ task: behind, options: { queue, delay: "1h" } })));
    await perdure.work([behind], { concurrency: 1 });
    const job = await perdure.submit(behind, undefined, { queue: "now" });
    expect(await job.result({ timeout: "10s" })).toBe("found");
  });
});
