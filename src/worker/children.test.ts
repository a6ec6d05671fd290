import { describe, expect, it, onTestFinished } from "vitest";
import { aborted, gate } from "../../test/kit.ts";
import { type Child, type ChildOptions, task } from "../core/task/task.ts";
import type { ReportedOutcome } from "../core/worker-protocol.ts";
import { type TaskContext, task as userTask, WaitingError } from "../index.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { startWorker, TestChildren, TestLink } from "./testing-link.ts";

const settled = async () => {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
};

async function openBench(handler: (ctx: TaskContext) => unknown, { hasFamily = true } = {}) {
  const link = new TestLink();
  const family = new TestChildren();
  if (hasFamily) link.family = family;
  const clock = new VirtualClock();
  const worker = await startWorker(link, clock, [task("parent", (_: unknown, ctx) => handler(ctx))]);
  onTestFinished(() => worker.stop(0));
  return {
    ...{ link, family, clock, worker },
    /** Runs the handler again, and returns the outcome. */
    async run(parts: { timeoutMs?: number } = {}): Promise<{ outcome: ReportedOutcome; log: string }> {
      const id = link.give("parent", parts);
      await settled();
      const report = link.reportOf(id);
      return { outcome: report?.outcome as ReportedOutcome, log: report?.log ?? "" };
    },
  };
}

const keys = ({ submitted }: TestChildren) => submitted.map(({ entry }) => entry.options?.key);
const failed = (outcome: ReportedOutcome) => (outcome.kind === "failed" ? outcome.failure : null);

describe("submitting a child", () => {
  it("names it by its key, or by the number of the call among those without one, in the order of the calls", async () => {
    const bench = await openBench(async ({ submit }) => {
      // Started together: the order of the calls counts, not that of the answers.
      await Promise.all([submit("a"), submit("b", { n: 1 }, { key: "mine", priority: 2 }), submit("c")]);
      return submit(userTask("d", () => 1));
    });
    expect((await bench.run()).outcome).toEqual({ kind: "completed", result: '{"id":"child_#3","created":true}' });
    expect(keys(bench.family)).toEqual(["#1", "mine", "#2", "#3"]);
    const [first, second] = bench.family.submitted;
    expect(first?.parent).toEqual({
      ...{ jobId: "job_1", attempt: 1, namespace: "default", session: "ses_1", token: "t1" },
    });
    expect(second?.entry).toEqual({ task: "b", input: { n: 1 }, options: { key: "mine", priority: 2 } });
    // The next attempt starts counting from 1.
    expect((await bench.run()).outcome).toEqual({ kind: "completed", result: '{"id":"child_#3","created":false}' });
  });

  it.each<[string, unknown]>([
    ["a key of our own kind", { key: "#1" }],
    ["a parent option", { parent: "job_7" }],
    ["options that are not an object", "high"],
    ["a list for options", []],
  ])("refuses %s", async (_, options) => {
    const bench = await openBench(({ submit }) => submit("a", undefined, options as ChildOptions));
    const { outcome } = await bench.run();
    expect(failed(outcome)).toMatchObject({ name: "NonRetryableError", message: expect.stringMatching(/^submit/) });
    expect(bench.family.submitted).toEqual([]);
  });

  it("fails if the link does not support child jobs", async () => {
    for (const verb of ["submit", "children"] as const) {
      const bench = await openBench((ctx) => ctx[verb]("a"), { hasFamily: false });
      expect(failed((await bench.run()).outcome)).toMatchObject({ name: "PerdureError", code: "wrong_state" });
    }
  });

  it("does not keep a handler that is to stop: its call ends with the signal", async () => {
    const asked = gate();
    const bench = await openBench(({ submit }) => submit("a"));
    bench.family.submit = () => {
      asked.open();
      return new Promise(() => {});
    };
    const running = bench.run({ timeoutMs: 1_000 });
    await asked.passed;
    await running;
    bench.clock.moveTo(bench.clock.now() + 1_000);
    await settled();
    expect(bench.link.reports[0]?.outcome).toMatchObject({ kind: "timeout" });
    // Afterwards no calls are made.
    expect(bench.family.submitted).toEqual([]);
  });
});

describe("waiting for children", () => {
  it("ends the run while one has not ended, and gives their ends when all have", async () => {
    const bench = await openBench(async ({ submit, waitFor, children }) => {
      const made = [await submit("a"), await submit("b", 1, { key: "b" })];
      const ends = await waitFor(made);
      return { ends: ends.map(({ id, state, result }) => [id, state, result]), all: (await children()).length };
    });
    const waiting = { kind: "waiting", children: ["child_#1", "child_b"] };
    expect((await bench.run()).outcome).toEqual(waiting);
    bench.family.set("b", { state: "succeeded", result: 5 });
    expect(await bench.run()).toEqual({ outcome: waiting, log: "" });
    bench.family.set("#1", { state: "failed", reason: "rejected" });
    const done = {
      ends: [
        ["child_#1", "failed", undefined],
        ["child_b", "succeeded", 5],
      ],
      all: 2,
    };
    expect((await bench.run()).outcome).toEqual({ kind: "completed", result: JSON.stringify(done) });
  });

  it("with an empty list returns at once; with the same child twice returns its end twice", async () => {
    const bench = await openBench(async ({ waitFor }) => {
      const none = await waitFor([]);
      const twice = await waitFor([{ id: "child_a" }, { id: "child_a" }] as Child<number>[]);
      return [none.length, ...twice.map(({ result }) => result)];
    });
    bench.family.set("a", { state: "succeeded", result: 7 });
    expect((await bench.run()).outcome).toEqual({ kind: "completed", result: "[0,7,7]" });
  });

  it("ends the attempt even if the handler catches the error; its own result or error is discarded", async () => {
    const say: { how: (error: unknown) => unknown } = { how: () => undefined };
    const bench = await openBench(async ({ waitFor }) => {
      try {
        return await waitFor([{ id: "child_a" } as Child<number>]);
      } catch (error) {
        expect(error).toBeInstanceOf(WaitingError);
        expect(error).toMatchObject({
          ...{
            name: "WaitingError",
            message: "this attempt ends here; the job runs again when its children have ended",
          },
        });
        return say.how(error);
      }
    });
    bench.family.set("a", { state: "running" });
    const outcome = { kind: "waiting", children: ["child_a"] };
    expect(await bench.run()).toEqual({ outcome, log: "" });
    say.how = () => "a result";
    const returned = await bench.run();
    expect(returned.outcome).toEqual(outcome);
    expect(returned.log).toContain("outcome is discarded (result)");
    say.how = () => {
      throw new TypeError("something else");
    };
    const threw = await bench.run();
    expect(threw.outcome).toEqual(outcome);
    expect(threw.log).toContain("outcome is discarded (error: something else)");
  });

  it("for several at once remembers them all", async () => {
    const bench = await openBench(({ waitFor }) =>
      Promise.allSettled([waitFor([{ id: "child_a" } as Child<1>]), waitFor([{ id: "child_b" } as Child<2>])]),
    );
    bench.family.set("a", {});
    bench.family.set("b", {});
    expect((await bench.run()).outcome).toEqual({ kind: "waiting", children: ["child_a", "child_b"] });
  });

  it.each<[string, unknown]>([
    ["no list", { id: "child_a" }],
    ["a child without an id", [{}]],
    ["an id for a child", ["child_a"]],
    ["more than a thousand", Array.from({ length: 1_001 }, (_, i) => ({ id: `child_${i}` }))],
  ])("refuses %s", async (_, children) => {
    const bench = await openBench(({ waitFor }) => waitFor(children as Child<unknown>[]));
    expect(failed((await bench.run()).outcome)).toMatchObject({
      ...{ name: "NonRetryableError", message: expect.stringMatching(/^waitFor/) },
    });
  });

  it("fails as the link does, and then does not wait", async () => {
    const bench = await openBench(({ waitFor }) => waitFor([{ id: "child_a" } as Child<1>]));
    bench.family.look = () => Promise.reject(new Error("no such child"));
    expect(failed((await bench.run()).outcome)).toMatchObject({ message: "no such child" });
  });

  it("does not undo a timeout or a loss that came before its end", async () => {
    const bench = await openBench(async ({ waitFor, signal }) => {
      await waitFor([{ id: "child_a" } as Child<1>]).catch(() => {});
      await aborted(signal);
    });
    bench.family.set("a", {});
    await bench.run({ timeoutMs: 1_000 });
    bench.clock.moveTo(bench.clock.now() + 1_000);
    await settled();
    expect(bench.link.reports[0]?.outcome.kind).toBe("timeout");
    await bench.run();
    bench.link.answer = { lost: [{ jobId: "job_2", attempt: 1 }] };
    bench.clock.moveTo(bench.clock.now() + 5_000);
    await settled();
    expect(bench.link.reports[1]?.outcome.kind).toBe("lost");
  });
});
