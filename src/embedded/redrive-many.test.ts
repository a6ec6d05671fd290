import { describe, expect, it } from "vitest";
import { NonRetryableError } from "../core/decision/failure.ts";
import { task } from "../core/task/task.ts";
import { openTestEngine } from "../testing/test-engine.ts";

const failing = task("failing", (_: unknown): never => {
  throw new NonRetryableError("no");
});

async function withDeadLetters(count: number, queues: readonly string[] = ["default"]) {
  const kit = await openTestEngine();
  await using _worker = await kit.perdure.work([failing]);
  const ids: string[] = [];
  for (let i = 0; i < count; i++) {
    const job = await kit.perdure.submit(failing, i, { queue: queues[i % queues.length] as string });
    await kit.runToEnd(job);
    ids.push(job.id);
  }
  return { kit, ids };
}

describe("redriveMany", () => {
  it("redrives the matching dead letters, oldest first, and reports whether there are more", async () => {
    const { kit, ids } = await withDeadLetters(5);
    await using _ = kit;
    expect(await kit.perdure.redriveMany({}, { limit: 3 })).toEqual({ jobs: ids.slice(0, 3), skipped: [], more: true });
    expect((await kit.perdure.jobs({ state: "queued", order: "oldest" })).jobs.map(({ id }) => id)).toEqual(
      ids.slice(0, 3),
    );
    expect(await kit.perdure.redriveMany({})).toEqual({ jobs: ids.slice(3), skipped: [], more: false });
    expect(await kit.perdure.redriveMany({})).toEqual({ jobs: [], skipped: [], more: false });
    const { jobs } = await kit.perdure.jobs();
    expect(jobs.map(({ chapter }) => chapter)).toEqual([2, 2, 2, 2, 2]);
  });

  it("only lists them on a dry run", async () => {
    const { kit, ids } = await withDeadLetters(2);
    await using _ = kit;
    expect(await kit.perdure.redriveMany({}, { dryRun: true })).toEqual({ jobs: ids, skipped: [], more: false });
    expect((await kit.perdure.jobs({ deadLetter: true })).jobs).toHaveLength(2);
  });

  it("does not change other jobs: other queues, cancelled and discarded jobs", async () => {
    const { kit, ids } = await withDeadLetters(4, ["a", "b"]);
    await using _ = kit;
    const cancelled = await kit.perdure.submit("nobody", null, { queue: "a" });
    await cancelled.cancel();
    await kit.perdure.discard(ids[0] as string);
    expect(await kit.perdure.redriveMany({ queue: "a" })).toEqual({ jobs: [ids[2]], skipped: [], more: false });
    expect(await kit.perdure.redriveMany({ state: "cancelled" })).toEqual({ jobs: [], skipped: [], more: false });
  });

  it("lists skipped jobs with the reason, also on a dry run", async () => {
    await using kit = await openTestEngine();
    const spending = task("spending", (_: unknown, ctx): never => {
      ctx.usage({ costUsd: 2 });
      throw new NonRetryableError("no");
    });
    await kit.perdure.work([failing, spending]);
    const plain = await kit.perdure.submit(failing, 1);
    const spent = await kit.perdure.submit(spending, 1, { retry: { budget: { costUsd: 1 } } });
    for (const job of [plain, spent]) await kit.runToEnd(job);
    const skipped = (id: string, code: string, message: string) => ({
      ...{ id, code, message: expect.stringContaining(`${id}: cannot ${message}`) },
    });
    const short = skipped(
      spent.id,
      "budget_spent",
      `redrive: the budget of ${spent.id} (1 USD, 2 spent) has nothing left`,
    );
    for (const dryRun of [true, false]) {
      const answer = await kit.perdure.redriveMany({}, { dryRun });
      expect(answer).toEqual({ jobs: [plain.id], skipped: [short], more: false });
    }
    await kit.runToEnd(plain);
    const changes = { budget: { costUsd: 5 } };
    for (const dryRun of [true, false]) {
      const { jobs, skipped: others } = await kit.perdure.redriveMany({}, { dryRun, changes });
      expect({ jobs, others }).toEqual({
        ...{ jobs: [spent.id], others: [skipped(plain.id, "wrong_state", "grant more budget")] },
      });
    }
  });

  it("redrives each job once when two calls run at the same time", async () => {
    const { kit, ids } = await withDeadLetters(6);
    await using _ = kit;
    const answers = await Promise.all([kit.perdure.redriveMany({}), kit.perdure.redriveMany({})]);
    expect(answers.flatMap(({ jobs }) => jobs).sort()).toEqual([...ids].sort());
  });

  it.each([
    [{ limit: 5 }, {}],
    [{ order: "newest" }, {}],
    [{ cursor: "x" }, {}],
    [{ deadLetter: false }, {}],
    [{ quue: "a" }, {}],
    [{}, { limit: 0 }],
    [{}, { limit: 1_001 }],
    [{}, { dryrun: true }],
    [{}, { dryRun: "yes" }],
    [{ state: "dead" }, {}],
  ])("refuses the filter %j with the options %j", async (filter, options) => {
    await using kit = await openTestEngine();
    const asked = kit.perdure.redriveMany(filter as never, options as never);
    await expect(asked).rejects.toMatchObject({ code: "invalid_config" });
  });
});
