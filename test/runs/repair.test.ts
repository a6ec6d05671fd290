/** Repairing and changing runs, on a real store in virtual time: what a redrive repeats and what stays, also after weeks, and which
 *  text of a playbook a run follows. */
import { describe, expect, it, onTestFinished } from "vitest";
import { type AnyTask, task } from "../../src/index.ts";
import { openTestEngine, type TestEngine } from "../../src/testing/index.ts";
import { playbook, work } from "./points.ts";

async function open(tasks: readonly AnyTask[]): Promise<TestEngine> {
  const kit = await openTestEngine();
  onTestFinished(() => kit.close());
  await kit.perdure.work(tasks, { concurrency: 20 });
  return kit;
}

describe("a redrive", () => {
  it("at step 7 of 10 keeps the jobs of the first six, also after a month", async () => {
    const broken = new Set([7]);
    const step = task("work", ({ value }: { value: number }) => {
      if (broken.has(value)) throw new Error("broken");
      return value;
    });
    const kit = await open([step]);
    const retry = { maxAttempts: 3, retryOn: ["all"], backoff: { type: "fixed", delay: "1s" } };
    const names = Array.from({ length: 10 }, (_, i) => `s${i + 1}`);
    const chain = names.map((name, i) =>
      work(name, { value: i + 1 }, { retry, ...(i < 9 ? { next: names[i + 1] } : {}) }),
    );
    const run = await kit.perdure.run(playbook(chain));
    expect(await kit.runToEnd(run)).toMatchObject({ state: "failed", failedStep: "s7", madeSteps: 7 });
    const before = await run.steps();
    expect(before[6]).toMatchObject({ attempt: 3, try: 1 });

    // The retention of what has succeeded is a week: its steps belong to a run that has failed.
    await kit.advance("30d");
    await kit.perdure.prune();
    broken.clear();
    await run.redrive();
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: 10, chapter: 2 });
    const after = await run.steps();
    expect(after.slice(0, 7)).toEqual(before);
    expect(after.slice(7).map((one) => [one.step, one.try, one.attempt, one.state])).toEqual([
      ["s7", 2, 1, "succeeded"],
      ...["s8", "s9", "s10"].map((name) => [name, expect.any(Number), 1, "succeeded"]),
    ]);
    expect(new Set(after.map(({ job }) => job)).size).toBe(11);
  });

  it("of a loop of 100 with 3 failures makes exactly 3 new jobs", async () => {
    const broken = new Set([3, 50, 99]);
    const step = task("work", ({ value }: { value: number }) => {
      if (broken.has(value)) throw new Error("broken");
      return value;
    });
    const kit = await open([step]);
    const loop = {
      in: Array.from({ length: 100 }, (_, i) => i),
      ...{ iterator: "n", concurrency: 10, onItemFailure: "continue", maxFailures: 0 },
    };
    const run = await kit.perdure.run(
      playbook([work("each", { value: "{{ n }}" }, { loop, next: "sum" }), work("sum", { value: "{{ each | sum }}" })]),
    );
    expect(await kit.runToEnd(run)).toMatchObject({ state: "failed", failedStep: "each", madeSteps: 101 });
    broken.clear();
    await run.redrive();
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: 4_950, madeSteps: 105 });
    const again = (await run.steps({ after: 101 })).map(({ step: name, item, try: times }) => [name, item, times]);
    expect(again.slice(0, 3)).toEqual([...[3, 50, 99].map((item) => ["each", item, 2])]);
    expect(again[3]?.[0]).toBe("sum");
  });

  it("of a step's own job is refused, with the command that repairs the run", async () => {
    const fail = task("work", (): void => {
      throw new Error("broken");
    });
    const kit = await open([fail]);
    const run = await kit.perdure.run(playbook([work("one")]));
    await kit.runToEnd(run);
    const [one] = await run.steps();
    await expect(kit.perdure.redrive(one?.job as string)).rejects.toThrow(`perdure redrive ${run.id}`);
    // Nor by a filter over dead letters.
    await kit.perdure.redriveMany({ state: "failed" });
    await kit.settled();
    const steps = await run.steps();
    expect(steps.filter(({ job }) => job === one?.job)).toEqual([one]);
  });
});

it("a run that has succeeded goes with its steps, after a week", async () => {
  const kit = await open([task("work", () => 1)]);
  const { perdure } = kit;
  const run = await perdure.run(playbook([work("one", {}, { next: "two" }), work("two")]));
  await kit.runToEnd(run);
  const [one] = await run.steps();
  await kit.advance("6d");
  await perdure.prune();
  expect(await run.steps()).toHaveLength(2);
  await kit.advance("2d");
  await perdure.prune();
  expect((await perdure.runs()).runs).toEqual([]);
  await expect(perdure.job(one?.job as string)).rejects.toMatchObject({ code: "job_not_found" });
});

describe("the definition of a run", () => {
  const version = (text: string) => ({
    ...playbook([{ step: "pause", type: "wait", for: "1h", next: "say" }, work("say", { value: text })]),
    metadata: { name: "say", path: "demo/say" },
  });
  const echo = () =>
    task("work", ({ value, fail }: { value: string; fail?: boolean }) => {
      if (fail) throw new Error("as asked");
      return value;
    });

  it("stays while the file is edited and pushed again", async () => {
    const kit = await open([echo()]);
    await kit.perdure.pushPlaybook(version("old"));
    const run = await kit.perdure.run("demo/say");
    await kit.advance("10m");
    await kit.perdure.pushPlaybook(version("new"));
    await kit.perdure.deletePlaybook("demo/say", 1);
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: "old" });
  });

  it("of a run below stays, too, as it was when the run above was started", async () => {
    const kit = await open([echo()]);
    await kit.perdure.pushPlaybook(version("old"));
    const above = playbook([
      { step: "pause", type: "wait", for: "1h", next: "below" },
      { step: "below", type: "playbook", path: "demo/say" },
    ]);
    const run = await kit.perdure.run(above);
    await kit.advance("10m");
    await kit.perdure.pushPlaybook(version("new"));
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: "old" });
  });

  it("is another one after a redrive that asks for it; one that does not fit is refused, and changes nothing", async () => {
    const path = { metadata: { name: "two", path: "demo/two" } };
    const first = { ...playbook([work("one", { value: "1" }, { next: "two" }), work("two", { fail: true })]), ...path };
    const fits = {
      ...playbook([work("one", { value: "1" }, { next: "two" }), work("two", { value: "{{ one }} and 2" })]),
      ...path,
    };
    const misfit = {
      ...playbook([
        work("zero", { value: "0" }, { next: "one" }),
        work("one", { value: "1" }, { next: "two" }),
        work("two", { value: "{{ zero }}" }),
      ]),
      ...path,
    };
    const kit = await open([echo()]);
    await kit.perdure.pushPlaybook(first);
    const run = await kit.perdure.run("demo/two");
    expect(await kit.runToEnd(run)).toMatchObject({ state: "failed", failedStep: "two" });
    const before = [await run.get(), await run.steps()];

    await kit.perdure.pushPlaybook(misfit);
    await expect(run.redrive({ latest: true })).rejects.toMatchObject({ code: "playbook_incompatible" });
    await kit.settled();
    expect([await run.get(), await run.steps()]).toEqual(before);

    await kit.perdure.pushPlaybook(fits);
    await run.redrive({ latest: true });
    expect(await kit.runToEnd(run)).toMatchObject({
      ...{ state: "succeeded", result: "1 and 2" },
      playbook: { path: "demo/two", hash: (await kit.perdure.playbook("demo/two")).hash },
    });
    expect((await run.steps())[0]).toEqual((before[1] as readonly unknown[])[0]);
  });
});
