/** Runs of playbooks on an engine in this process: a real store in memory, real workers, virtual time. */
import { describe, expect, it, onTestFinished } from "vitest";
import { type AnyTask, task } from "../index.ts";
import { openTestEngine, type TestEngine } from "../testing/index.ts";

const REPEAT = { maxAttempts: 3, backoff: { type: "fixed", delay: "10s" } };

async function open(tasks: readonly AnyTask[] = []): Promise<TestEngine> {
  const kit = await openTestEngine();
  onTestFinished(() => kit.close());
  if (tasks.length > 0) await kit.perdure.work(tasks, { concurrency: 20 });
  return kit;
}

function document(workflow: readonly object[], more: object = {}) {
  return { apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "orders" }, ...more, workflow };
}

const work = (step: string, kind: string, more: object = {}) => ({ step, type: "task", task: kind, ...more });

/** Names and states, in the order in which the steps were made. */
async function stepsOf(kit: TestEngine, id: string): Promise<string[]> {
  const steps = await kit.perdure.steps(id);
  return steps.map(({ step, item, state }) => `${step}${item === null ? "" : `[${item}]`} ${state}`);
}

describe("a run", () => {
  it("passes data from step to step, retries a step, and returns a result", async () => {
    const fetchOrders = task("fetch", (input: { city: string }, ctx) => {
      if (ctx.attempt < 3) throw new Error("not yet");
      return { orders: [1, 2, 3], city: input.city };
    });
    const count = task("count", ({ orders }: { orders: number[] }) => ({ total: orders.length }));
    const kit = await open([fetchOrders, count]);
    const playbook = document(
      [
        work("load", "fetch", { data: { city: "{{ workload.city }}" }, retry: REPEAT, next: "sum" }),
        work("sum", "count", { data: { orders: "{{ load.orders }}" } }),
      ],
      {
        inputs: { city: { type: "string", required: true } },
        result: { total: "{{ sum.total }}", in: "{{ load.city }}" },
      },
    );
    const run = await kit.perdure.run(playbook, { city: "Oslo" });
    const before = kit.clock.now();
    const info = await kit.runToEnd(run);
    expect(info).toMatchObject({ state: "succeeded", result: { total: 3, in: "Oslo" }, input: { city: "Oslo" } });
    expect(kit.clock.now() - before).toBeGreaterThanOrEqual(20_000);
    expect(await run.result()).toEqual({ total: 3, in: "Oslo" });
    expect(await run.steps()).toMatchObject([
      { n: 1, step: "load", type: "task", state: "succeeded", attempt: 3, jobState: "succeeded" },
      { n: 2, step: "sum", state: "succeeded", attempt: 1 },
    ]);
    expect(await run.steps({ outputs: true, step: "sum" })).toMatchObject([{ output: { total: 3 } }]);
  });

  it("starts branches at the same time, and runs the step where they meet once, after all of them", async () => {
    const seen: string[] = [];
    const note = task("note", async ({ name, ms }: { name: string; ms?: number }, ctx) => {
      if (ms !== undefined) await kit.clock.sleep(ms, ctx.signal);
      seen.push(name);
      return { name };
    });
    const kit = await open([note]);
    const playbook = document([
      { step: "start", next: ["a", "b"] },
      work("a", "note", { data: { name: "a", ms: 5_000 }, next: "end" }),
      work("b", "note", { data: { name: "b", ms: 1_000 }, next: "end" }),
      work("end", "note", { data: { name: "{{ a.name ~ b.name }}" } }),
    ]);
    const run = await kit.perdure.run(playbook);
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: { name: "ab" } });
    expect(seen).toEqual(["b", "a", "ab"]);
  });

  it("runs a loop with a few items at a time, and gives its results in order", async () => {
    let open_ = 0;
    let most = 0;
    const square = task("square", async ({ n }: { n: number }) => {
      open_ += 1;
      most = Math.max(most, open_);
      await kit.clock.sleep(1_000);
      open_ -= 1;
      return n * n;
    });
    const kit = await open([square]);
    const loop = { in: "{{ workload.numbers }}", iterator: "n", concurrency: 3 };
    const playbook = document([work("squares", "square", { loop, data: { n: "{{ n }}" } })], {
      workload: { numbers: [1, 2, 3, 4, 5, 6, 7] },
      result: "{{ squares }}",
    });
    const run = await kit.perdure.run(playbook);
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: [1, 4, 9, 16, 25, 36, 49] });
    expect(most).toBe(3);
    expect(await run.steps({ items: false })).toHaveLength(1);
    expect(await run.steps({ limit: 1_000 })).toHaveLength(8);
  });

  it("takes the arc after a failure, and fails without one", async () => {
    const fail = task("fail", { retry: 1 }, (): void => {
      throw new Error("no stock");
    });
    const mail = task("mail", ({ why }: { why: string }) => why);
    const kit = await open([fail, mail]);
    const handled = document([
      work("reserve", "fail", { next: [{ step: "tell", when: "{{ error != None }}" }, { step: "ship" }] }),
      work("tell", "mail", { data: { why: "{{ reserve.error }}" } }),
      work("ship", "mail", { data: { why: "shipped" } }),
    ]);
    const run = await kit.perdure.run(handled);
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: expect.stringContaining("no stock") });
    expect(await stepsOf(kit, run.id)).toEqual(["reserve handled", "tell succeeded"]);

    const unhandled = document([
      work("reserve", "fail", { next: "ship" }),
      work("ship", "mail", { data: { why: "" } }),
    ]);
    const other = await kit.perdure.run(unhandled);
    const info = await kit.runToEnd(other);
    expect(info).toMatchObject({
      state: "failed",
      reason: "step",
      failedStep: "reserve",
      failure: { message: expect.stringContaining("no stock") },
    });
    expect(await stepsOf(kit, other.id)).toEqual(["reserve failed"]);
    await expect(other.result()).rejects.toMatchObject({ code: "job_failed", reason: "step" });
    const { text, next } = await other.explain();
    expect(text).toContain("reserve");
    expect(text).toContain(`perdure redrive ${other.id}`);
    expect(next.kind).toBe("person");
    expect((await kit.perdure.explain(other.id)).text).toBe(text);
    await expect(other.result()).rejects.toThrow('failed (step): step "reserve": no stock');
  });

  it("waits for an hour without a job, to the millisecond", async () => {
    const kit = await open([task("note", () => "done")]);
    const playbook = document([{ step: "pause", type: "wait", for: "1h", next: "after" }, work("after", "note")]);
    const run = await kit.perdure.run(playbook);
    await kit.settled();
    const before = kit.clock.now();
    const [pause] = await run.steps();
    expect((await run.explain()).summary).toContain("pause");
    expect(pause).toMatchObject({ state: "waiting", job: null, waitsUntil: before + 3_600_000 });
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded" });
    expect(kit.clock.now() - before).toBe(3_600_000);
  });

  it("runs a sub-playbook with data of its own, and has its result", async () => {
    const add = task("add", ({ a, b }: { a: number; b: number }) => ({ sum: a + b }));
    const kit = await open([add]);
    const sub = document([work("one", "add", { data: { a: "{{ workload.a }}", b: 1 } })], {
      metadata: { name: "sub", path: "math/inc" },
      result: "{{ one.sum }}",
    });
    await kit.perdure.pushPlaybook(sub);
    const playbook = document([
      { step: "first", type: "playbook", path: "math/inc", data: { a: 1 }, next: "second" },
      { step: "second", type: "playbook", path: "math/inc", data: { a: "{{ first }}" } },
    ]);
    const run = await kit.perdure.run(playbook);
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: 3 });
    const { runs } = await kit.perdure.runs({ parent: run.id });
    expect(runs).toMatchObject([{ playbook: { path: "math/inc" } }, { playbook: { path: "math/inc" } }]);
    expect((await kit.perdure.runs()).runs.map(({ id }) => id)).toEqual([run.id]);
    const { jobs } = await kit.perdure.jobs();
    expect(jobs.map(({ id }) => id)).toEqual([run.id]);
  });

  it("stops its steps when it is cancelled, and runs the steps of `finally`", async () => {
    const seen: string[] = [];
    const long = task("long", async (_: unknown, { signal }) => {
      seen.push("long");
      await kit.clock.sleep("1h", signal).finally(() => seen.push("aborted"));
    });
    const clean = task("clean", () => void seen.push("clean"));
    const kit = await open([long, clean]);
    const playbook = document(
      [work("long", "long", { next: "after" }), work("after", "clean"), work("tidy", "clean")],
      {
        finally: "tidy",
      },
    );
    const run = await kit.perdure.run(playbook);
    await kit.settled();
    expect(await run.cancel()).toMatchObject({ state: "running", cancelRequestedAt: kit.clock.now() });
    expect(await kit.runToEnd(run)).toMatchObject({ state: "cancelled" });
    expect(seen).toEqual(["long", "aborted", "clean"]);
    expect(await stepsOf(kit, run.id)).toEqual(["long cancelled", "tidy succeeded"]);
    await expect(run.result()).rejects.toMatchObject({ code: "job_cancelled" });
  });

  it("repeats what failed after a redrive, and keeps what succeeded", async () => {
    let isBroken = true;
    const seen: number[] = [];
    const one = task("one", { retry: 1 }, ({ n }: { n: number }) => {
      seen.push(n);
      if (n === 2 && isBroken) throw new Error("broken");
      return n;
    });
    const kit = await open([one]);
    const playbook = document([
      work("a", "one", { data: { n: 1 }, next: "b" }),
      work("b", "one", { data: { n: 2 }, next: "c" }),
      work("c", "one", { data: { n: "{{ a + b }}" } }),
    ]);
    const run = await kit.perdure.run(playbook);
    expect(await kit.runToEnd(run)).toMatchObject({ state: "failed", failedStep: "b" });
    const [first] = await run.steps();
    isBroken = false;
    expect(await run.redrive()).toMatchObject({ state: "running", chapter: 2 });
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: 3 });
    expect(seen).toEqual([1, 2, 2, 3]);
    const steps = await run.steps();
    expect(steps.map(({ step, try: n, state }) => `${step} ${n} ${state}`)).toEqual([
      "a 1 succeeded",
      "b 1 failed",
      "b 2 succeeded",
      expect.stringMatching(/^c \d succeeded$/),
    ]);
    expect(steps[0]?.job).toBe(first?.job);
    await expect(run.redrive()).rejects.toMatchObject({ code: "wrong_state" });
  });

  it("of a key exists once, and another input is refused", async () => {
    const kit = await open();
    const playbook = document([{ step: "start" }]);
    const run = await kit.perdure.run(playbook, { a: 1 }, { key: "k" });
    const again = await kit.perdure.run(playbook, { a: 1 }, { key: "k" });
    expect(again).toMatchObject({ id: run.id, created: false });
    await expect(kit.perdure.run(playbook, { a: 2 }, { key: "k" })).rejects.toMatchObject({ code: "key_conflict" });
  });

  it("starts all that an engine finds, also without a hint", async () => {
    const kit = await open([task("note", () => 1)]);
    const ids = await Promise.all(
      Array.from({ length: 30 }, () =>
        kit.perdure.run(document([work("a", "note", { next: "b" }), work("b", "note")])),
      ),
    );
    for (const run of ids) expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded" });
    const { runs, next } = await kit.perdure.runs({ state: "succeeded", playbook: "ord*", limit: 10 });
    expect(runs).toHaveLength(10);
    expect(next).not.toBeNull();
  });
});

describe("an input", () => {
  const inputs = { city: { type: "string", required: true }, days: { type: "integer", default: 3 } };

  it("is checked at submit, with all mistakes in one error", async () => {
    const kit = await open();
    const playbook = document([{ step: "start" }], { inputs });
    const start = (input: Record<string, unknown>) => kit.perdure.run(playbook, input);
    await expect(start({ days: "x", town: "Oslo" })).rejects.toMatchObject({ code: "invalid_config", path: "input" });
    await expect(start({ days: "x", town: "Oslo" })).rejects.toThrow(/city.*days|days.*city/s);
    const run = await start({ city: "Oslo" });
    expect(await kit.runToEnd(run)).toMatchObject({ input: { city: "Oslo", days: 3 } });
    expect((await kit.perdure.runs()).runs).toHaveLength(1);
  });

  it("of the reserved kind is refused as a job", async () => {
    const kit = await open();
    await expect(kit.perdure.submit("playbook", {})).rejects.toMatchObject({ code: "invalid_config", path: "kind" });
  });
});

describe("the catalog", () => {
  const version = (text: string) =>
    document([work("a", "echo", { data: text })], { metadata: { name: "echo", path: "demo/echo" } });

  it("counts versions, and a run keeps the one that it was started with", async () => {
    const kit = await open([task("echo", { retry: 1 }, (text: string) => text)]);
    const { perdure } = kit;
    expect(await perdure.pushPlaybook(version("one"))).toMatchObject({ path: "demo/echo", version: 1 });
    expect(await perdure.pushPlaybook(version("one"))).toMatchObject({ version: 1 });
    const before = await perdure.run("demo/echo");
    expect(await perdure.pushPlaybook(version("two"))).toMatchObject({ version: 2 });
    const [after, pinned] = [await perdure.run("demo/echo"), await perdure.run("demo/echo@1")];
    expect(await kit.runToEnd(before)).toMatchObject({ result: "one", playbook: { version: 1 } });
    expect(await kit.runToEnd(after)).toMatchObject({ result: "two", playbook: { version: 2, path: "demo/echo" } });
    expect(await kit.runToEnd(pinned)).toMatchObject({ result: "one" });
    expect(await perdure.playbooks()).toMatchObject([{ path: "demo/echo", version: 2 }]);
    const info = await perdure.playbook("demo/echo");
    expect(info).toMatchObject({ version: 2, summary: { name: "echo", steps: [{ name: "a", type: "task" }] } });
    expect(info.versions.map((one) => one.version)).toEqual([2, 1]);
    expect(await perdure.deletePlaybook("demo/echo", 2)).toBe(1);
    expect(await perdure.deletePlaybook("demo/echo")).toBe(1);
    await expect(perdure.playbook("demo/echo")).rejects.toMatchObject({ code: "playbook_not_found" });
    await expect(perdure.run("demo/echo")).rejects.toMatchObject({ code: "playbook_not_found" });
  });

  it("repairs a run with its latest version, and refuses one that does not fit", async () => {
    const kit = await open([task("echo", { retry: 1 }, (text: string) => text)]);
    const { perdure } = kit;
    const broken = { metadata: { name: "echo", path: "demo/echo" } };
    const step = (kind: string, data: string) => work("a", kind, { data, next: "b" });
    const end = work("b", "echo", { data: "{{ a }}!" });
    await perdure.pushPlaybook(document([step("echo", "{{ workload.missing }}"), end], broken));
    const run = await perdure.run("demo/echo");
    expect(await kit.runToEnd(run)).toMatchObject({ state: "failed", failedStep: "a" });
    const other = document([work("c", "echo", { data: "c" })], broken);
    await expect(run.redrive({ playbook: other })).rejects.toMatchObject({ code: "playbook_incompatible" });
    await perdure.pushPlaybook(document([step("echo", "fixed"), end], broken));
    expect(await run.redrive({ latest: true })).toMatchObject({ state: "running", chapter: 2 });
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: "fixed!", playbook: { version: 2 } });
  });

  it("names every problem of a text with its line, and stores nothing", async () => {
    const kit = await open();
    const source =
      "apiVersion: perdure/v1\nkind: Playbook\nmetadata: { name: x }\nworkflow:\n  - step: a\n    next: b\n";
    const { ok, problems } = await kit.perdure.validatePlaybook({ source, file: "x.yaml" });
    expect(ok).toBe(false);
    expect(problems).toMatchObject([{ code: "unknown_step", line: 6 }]);
    const running = kit.perdure.run({ source, file: "x.yaml" });
    await expect(running).rejects.toMatchObject({ code: "invalid_playbook" });
    await expect(running).rejects.toThrow("x.yaml:6:");
    expect((await kit.perdure.runs()).runs).toEqual([]);
  });

  it("takes the files that steps refer to, relative to the file they are in", async () => {
    const kit = await open([task("echo", (text: string) => text)]);
    const sub = (path: string | null, text: string) =>
      JSON.stringify(
        document(path === null ? [work("a", "echo", { data: text })] : [{ step: "a", type: "playbook", path }]),
      );
    const source = sub("./parts/one.yaml", "");
    const files = { "./parts/one.yaml": sub("../two.yaml", ""), "two.yaml": sub(null, "two") };
    const run = await kit.perdure.run({ source, files });
    expect(await kit.runToEnd(run)).toMatchObject({ state: "succeeded", result: "two" });
    await expect(kit.perdure.run({ source })).rejects.toThrow(
      "./parts/one.yaml, which a step refers to, was not passed",
    );
  });
});

describe("a scripted run", () => {
  it("ends its steps as the test says, without anything that would run them", async () => {
    const kit = await open();
    const playbook = document([
      {
        ...{ step: "fetch_data", type: "http", url: "http://example.com", retry: { ...REPEAT, maxAttempts: 5 } },
        next: [{ step: "rescue", when: "{{ failure }}" }, { step: "process" }],
      },
      {
        step: "process",
        type: "python",
        code: "def main(total):\n    return total",
        data: { total: "{{ fetch_data.data.total }}" },
      },
      work("rescue", "mail"),
    ]);
    const good = await kit.perdure.run(playbook);
    const outcomes = { fetch_data: [503, 503, { ok: { total: 3 } }], process: { ok: "done" } };
    expect(await kit.runToEnd(good, { outcomes })).toMatchObject({ state: "succeeded", result: "done" });
    expect(await good.steps()).toMatchObject([
      { step: "fetch_data", attempt: 3 },
      { step: "process", state: "succeeded" },
    ]);
    const bad = await kit.perdure.run(playbook);
    const fails = { fetch_data: { error: "gone", retryable: false } };
    expect(await kit.runToEnd(bad, { outcomes: fails })).toMatchObject({ state: "succeeded" });
    expect(await stepsOf(kit, bad.id)).toEqual(["fetch_data handled", "rescue succeeded"]);
  });
});
