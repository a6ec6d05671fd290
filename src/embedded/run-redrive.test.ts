/** Redrives of runs on an engine in this process: what is repeated, what stays, and what is refused. */
import { describe, expect, it, onTestFinished } from "vitest";
import { type AnyTask, task } from "../index.ts";
import { openTestEngine, type TestEngine } from "../testing/index.ts";

async function open(tasks: readonly AnyTask[]): Promise<TestEngine> {
  const kit = await openTestEngine();
  onTestFinished(() => kit.close());
  await kit.perdure.work(tasks, { concurrency: 20 });
  return kit;
}

const document = (workflow: readonly object[], more: object = {}) => ({
  ...{ apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "orders" }, ...more, workflow },
});
const work = (step: string, data: object, more: object = {}) => ({ step, type: "task", task: "one", data, ...more });

/** Returns `n`, unless it is one of those that fail now. */
function failing(...numbers: readonly number[]) {
  const bad = new Set(numbers);
  const one = task("one", { retry: 1 }, ({ n, to }: { n: number; to?: unknown }) => {
    if (bad.has(n)) throw new Error(`${n} is broken`);
    return to ?? n;
  });
  return { bad, one };
}

const CHAIN = document(Array.from({ length: 10 }, (_, n) => work(`s${n}`, { n }, n < 9 ? { next: `s${n + 1}` } : {})));

async function rows(kit: TestEngine, id: string): Promise<{ name: string; job: string | null }[]> {
  const steps = await kit.perdure.steps(id, { limit: 1_000 });
  return steps.map(({ step, item, try: n, state, job }) => ({
    name: `${step}${item === null ? "" : `[${item}]`}~${n} ${state}`,
    job: job ?? null,
  }));
}

describe("a redrive", () => {
  it("repeats step 7 of 10 with a new job and keeps the others, also after 30 days", async () => {
    const { bad, one } = failing(6);
    const kit = await open([one]);
    const run = await kit.perdure.run(CHAIN);
    expect(await kit.runToEnd(run)).toMatchObject({ state: "failed", failedStep: "s6" });
    const before = await rows(kit, run.id);
    bad.clear();
    await kit.advance("30d");
    await run.redrive();
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: 9 });
    const after = await rows(kit, run.id);
    expect(after.slice(0, 7)).toEqual(before);
    expect(after.slice(7).map(({ name }) => name)).toEqual([
      ...["s6~2 succeeded", "s7~1 succeeded", "s8~1 succeeded", "s9~1 succeeded"],
    ]);
    const repeated = await kit.perdure.job(after[7]?.job as string);
    expect(await repeated.get()).toMatchObject({ attempt: 1, failures: 0 });
  });

  it("of a loop of 100 items with 3 failures makes exactly 3 new jobs", async () => {
    const { bad, one } = failing(3, 50, 99);
    const kit = await open([one]);
    const loop = {
      in: Array.from({ length: 100 }, (_, n) => n),
      iterator: "n",
      concurrency: 20,
      onItemFailure: "continue",
      maxFailures: 0,
    };
    const run = await kit.perdure.run(
      document([
        work("each", { n: "{{ n }}" }, { loop, next: "sum" }),
        work("sum", { n: 1_000, to: "{{ each.results | sum }}" }),
      ]),
    );
    expect(await kit.runToEnd(run)).toMatchObject({ state: "failed" });
    expect(await rows(kit, run.id)).toHaveLength(101);
    bad.clear();
    await run.redrive();
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: 4_950 });
    const after = await rows(kit, run.id);
    expect(after.slice(101).map(({ name }) => name)).toEqual([
      ...["each[3]~2 succeeded", "each[50]~2 succeeded", "each[99]~2 succeeded", "sum~1 succeeded"],
    ]);
  });

  it("from a step repeats it with all that follows, and others may be taken as done, or changed", async () => {
    const { bad, one } = failing(2);
    const kit = await open([one]);
    const playbook = document(
      [
        work("a", { n: 1, to: "{{ base }}" }, { next: "b" }),
        work("b", { n: 2 }, { next: "c" }),
        work("c", { n: 3, to: "{{ a }} {{ b }}" }),
      ],
      { workload: { base: "old" } },
    );
    const run = await kit.perdure.run(playbook);
    await kit.runToEnd(run);
    await run.redrive({ from: "a", workload: { base: "new" } });
    expect(await kit.runToEnd(run)).toMatchObject({ state: "failed", failedStep: "b" });
    await run.redrive({ set: [{ step: "b", path: "data.n", value: 2.5 }] });
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: "new 2.5" });

    const other = await kit.perdure.run(playbook);
    await kit.runToEnd(other);
    await other.redrive({ skip: { b: "given" } });
    expect(await kit.runToEnd(other)).toMatchObject({ state: "succeeded", result: "old given" });
    expect(bad.size).toBe(1);
  });

  it("with another definition continues by that, or is refused and changes nothing", async () => {
    const { one } = failing(2);
    const kit = await open([one]);
    const first = document([work("a", { n: 1 }, { next: "b" }), work("b", { n: 2 })]);
    const run = await kit.perdure.run(first);
    await kit.runToEnd(run);
    const reads = document([
      work("a", { n: 1 }, { next: "b" }),
      work("b", { n: 5, to: "{{ z }}" }),
      work("z", { n: 1 }),
    ]);
    const chapter = async () => (await run.get()).chapter;
    const before = await chapter();
    await expect(run.redrive({ playbook: reads })).rejects.toMatchObject({ code: "playbook_incompatible" });
    const lacks = document([work("a", { n: 1 })]);
    await expect(run.redrive({ playbook: lacks })).rejects.toMatchObject({ code: "playbook_incompatible" });
    expect(await chapter()).toBe(before);
    const fixed = document(
      [work("new", { n: 7 }), work("b", { n: 5 }, { next: "new" }), work("a", { n: 1 }, { next: "b" })].reverse(),
    );
    await run.redrive({ playbook: fixed });
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: 7 });
    expect((await rows(kit, run.id)).map(({ name }) => name)).toEqual([
      ...["a~1 succeeded", "b~1 failed", "b~2 succeeded", "new~1 succeeded"],
    ]);
  });
});

describe("a second cancel", () => {
  it("ends the steps of finally too", async () => {
    const seen: string[] = [];
    const one = task("one", async ({ n }: { n: number }, { signal }) => {
      seen.push(`start ${n}`);
      await kit.clock.sleep("1h", signal).finally(() => seen.push(`end ${n}`));
    });
    const kit = await open([one]);
    const run = await kit.perdure.run(document([work("a", { n: 1 }), work("tidy", { n: 2 })], { finally: "tidy" }));
    await kit.settled();
    await run.cancel();
    await kit.settled();
    for (let i = 0; i < 5 && !seen.includes("start 2"); i++) await kit.advance("1s");
    expect(seen).toEqual(["start 1", "end 1", "start 2"]);
    await run.cancel();
    expect(await kit.runToEnd(run)).toMatchObject({ state: "cancelled" });
    expect(seen).toEqual(["start 1", "end 1", "start 2", "end 2"]);
  });
});
