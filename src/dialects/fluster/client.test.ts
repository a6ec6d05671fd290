import { describe, expect, it, onTestFinished } from "vitest";
import { task } from "../../core/task/task.ts";
import type { DialectSettingsInput } from "../../dialects/settings.ts";
import { openTestEngine } from "../../testing/index.ts";
import { Entrypoint, type FlusterCluster, type FlusterSubmit, fluster } from "./client.ts";

const resources = { cpu: 1, memory: "512m" };

async function open(dialects: DialectSettingsInput = {}) {
  const kit = await openTestEngine({ dialects });
  onTestFinished(() => kit.close());
  const notes: string[] = [];
  const client = fluster(kit.perdure, { onNote: (note) => void notes.push(note), now: kit.clock.now });
  return { ...kit, client, notes };
}

/** Fails when a draw is below 0.5, as in the document. */
function flakyJob(...draws: number[]) {
  return task("flaky-job", () => {
    if ((draws.shift() ?? 1) < 0.5) throw new Error("Random failure");
    return "success";
  });
}

describe("submit", () => {
  it("of a callable, with retries, and wait: the demo", async () => {
    const { client, perdure, runToEnd, clock } = await open();
    const flaky = flakyJob(0.1, 0.4, 0.7);
    await perdure.work([flaky], { name: "w1" });
    const start = clock.now();
    const id = await client.submit({
      entrypoint: Entrypoint.fromCallable(flaky),
      name: "flaky-job",
      resources,
      retry: { max_retries_failure: 5 },
    });
    await runToEnd(await perdure.job(id));
    const status = await client.wait(id, { timeout: 60 });
    expect(status).toMatchObject({
      ...{ job_id: id, name: "flaky-job", state: "SUCCEEDED", failure_count: 2, current_attempt_id: 2 },
      ...{ worker_id: "w1", max_retries_failure: 5, max_retries_preemption: 100, exit_code: 0 },
    });
    expect(status.attempts.map(({ state, error }) => [state, error])).toEqual([
      ["FAILED", "Random failure"],
      ["FAILED", "Random failure"],
      ["SUCCEEDED", null],
    ]);
    expect(clock.now() - start).toBe(3_000);
  });

  it("gives a callable its arguments, and keeps the options of its task", async () => {
    const { client, perdure, runToEnd } = await open();
    const add = task("add", { queue: "sums", timeout: "5s", retry: 9 }, ({ a, b }: { a: number; b: number }) => a + b);
    await perdure.work([add]);
    const id = await client.submit({ entrypoint: Entrypoint.fromCallable(add, { a: 1, b: 2 }), name: "sum" });
    expect(await runToEnd(await perdure.job(id))).toMatchObject({ result: 3, queue: "sums", timeoutMs: 5_000 });
    // What is retried is fluster's to say.
    expect(await client.status(id)).toMatchObject({ max_retries_failure: 0 });
  });

  it("of a command or a kind is a job that waits", async () => {
    const { client, perdure } = await open();
    const command = await client.submit({
      entrypoint: Entrypoint.fromCommand(["python", "train.py"]),
      name: "train",
      resources,
      environment: { env_vars: { BUCKET: "gs://b" } },
      ports: ["http"],
      scheduling_timeout_seconds: 30,
    });
    expect(await (await perdure.job(command)).get()).toMatchObject({
      ...{ kind: "exec", expireInMs: 30_000, labels: { "resource/cpu": "1000" } },
      payload: { argv: ["python", "train.py"], env: { BUCKET: "gs://b" }, ports: ["http"] },
    });
    const kind = await client.submit({ entrypoint: { task: "add", args: { a: 1 } }, name: "sum", retry: null });
    expect(await (await perdure.job(kind)).get()).toMatchObject({ kind: "add", payload: { a: 1 } });
    expect(await client.status(kind)).toMatchObject({ state: "PENDING", name: "sum" });
  });

  it("takes the cluster's defaults for missing fields", async () => {
    const { client } = await open({ fluster: { defaultMaxRetriesFailure: 2 } });
    const job = { entrypoint: ["true"], name: "x" };
    expect(await client.status(await client.submit(job))).toMatchObject({
      ...{ max_retries_failure: 2, max_retries_preemption: 100 },
    });
    const own = await client.submit({ ...job, retry: { max_retries_failure: 1, max_retries_preemption: 3 } });
    expect(await client.status(own)).toMatchObject({ max_retries_failure: 1, max_retries_preemption: 3 });
  });

  it("reports what is not supported", async () => {
    const { client, notes } = await open();
    await client.submit({ entrypoint: ["true"], name: "x", resources: { cpu: 1, disk: "1g" } });
    expect(notes).toEqual([expect.stringMatching(/^resources\.disk is ignored: /)]);
  });

  it("reports variables that most workers refuse", async () => {
    const { client, notes } = await open();
    const env_vars = { BUCKET: "gs://b", PATH: "/opt/bin", LD_PRELOAD: "x.so" };
    await client.submit({ entrypoint: ["true"], name: "x", environment: { env_vars } });
    expect(notes).toEqual([
      "PATH: a worker runs this command only if its worker.allowEnv has this variable",
      "LD_PRELOAD: a worker runs this command only if its worker.allowEnv has this variable",
    ]);
  });

  it.each<[string, unknown, string]>([
    ["nothing", undefined, "job"],
    ["null", null, "job"],
    ["a function", { entrypoint: { task: () => 1 }, name: "x" }, "entrypoint.task"],
    ["a text", { entrypoint: "ls", name: "x" }, "entrypoint"],
    ["no name", { entrypoint: ["ls"] }, "name"],
    [
      "a wrong number",
      { entrypoint: ["ls"], name: "x", retry: { max_retries_failure: -1 } },
      "retry.max_retries_failure",
    ],
    ["an unknown field", { entrypoint: ["ls"], name: "x", retries: 3 }, "retries"],
  ])("with %s is refused, and nothing is stored", async (_, job, path) => {
    const { client, perdure } = await open();
    await expect(client.submit(job as FlusterSubmit)).rejects.toMatchObject({ code: "invalid_config", path });
    expect((await perdure.jobs()).jobs).toEqual([]);
  });

  it("of a child names its parent, with which it is terminated", async () => {
    const { client, advance } = await open();
    const parent = await client.submit({ entrypoint: ["true"], name: "parent" });
    const child = await client.submit({ entrypoint: ["true"], name: "child", parent_job_id: parent });
    expect(await client.status(child)).toMatchObject({ parent_job_id: parent });
    await client.terminate(parent);
    await advance("10s");
    expect(await client.status(child)).toMatchObject({ state: "KILLED" });
    const late = client.submit({ entrypoint: ["true"], name: "late", parent_job_id: parent });
    await expect(late).rejects.toMatchObject({ code: "parent_ended" });
  });
});

describe("fromCallable", () => {
  it("takes tasks, with what their handlers take", () => {
    const add = task("add", (input: { a: number }) => input.a);
    expect(Entrypoint.fromCallable(add, { a: 1 })).toEqual({ task: add, args: { a: 1 } });
    // @ts-expect-error: no such argument
    Entrypoint.fromCallable(add, { b: 1 });
    // @ts-expect-error: an argument is missing
    Entrypoint.fromCallable(add);
    // @ts-expect-error: a function is no task
    expect(() => Entrypoint.fromCallable(() => 1)).toThrow(/^entrypoint: .*a task made with task\(\)/);
  });
});

describe("status", () => {
  it("has the time of the next retry, and 0 when it is ready", async () => {
    const { client, perdure, advance, clock } = await open();
    const flaky = flakyJob(0, 0);
    const worker = await perdure.work([flaky]);
    const retry = { max_retries_failure: 5 };
    const id = await client.submit({ entrypoint: Entrypoint.fromCallable(flaky), name: "x", retry });
    await advance(10);
    const stopping = worker.stop();
    await advance(10);
    await stopping;
    const { finished_at_ms: end = 0 } = (await client.status(id)).attempts[0] ?? {};
    expect(await client.status(id)).toMatchObject({ next_retry_delay_ms: 1_000, retry_available_at_ms: end + 1_000 });
    await advance(end + 999 - clock.now());
    expect(await client.status(id)).toMatchObject({ retry_available_at_ms: end + 1_000 });
    await advance(1);
    expect(await client.status(id)).toMatchObject({ state: "PENDING", retry_available_at_ms: 0 });
  });

  it("goes by the clock of this process where none is given", async () => {
    // It began long ago for whoever asks now.
    const kit = await openTestEngine({ startAt: 1_000 });
    onTestFinished(() => kit.close());
    const handle = await kit.perdure.submit("nobody", null, { delay: "1h" });
    expect(await fluster(kit.perdure).status(handle.id)).toMatchObject({ retry_available_at_ms: 0 });
    expect(await fluster(kit.perdure, { now: kit.clock.now }).status(handle.id)).toMatchObject({
      retry_available_at_ms: 3_601_000,
    });
  });

  it("shows one state, even if the job changes while it is read", async () => {
    const { perdure, advance, clock } = await open();
    const flaky = flakyJob(...Array(1_000).fill(0));
    await perdure.work([flaky]);
    const retry = { max_retries_failure: 1_000, initial_delay: 0.001, max_delay: 0.001 };
    const id = await fluster(perdure).submit({ entrypoint: Entrypoint.fromCallable(flaky), name: "x", retry });
    // Each answer comes late, and the job has gone on by then.
    const late = async <T>(answer: Promise<T>): Promise<T> => {
      const value = await answer;
      await advance(7);
      return value;
    };
    const cluster: FlusterCluster = {
      submitMany: (entries) => perdure.submitMany(entries),
      cancel: (each) => perdure.cancel(each),
      dialectSettings: () => perdure.dialectSettings(),
      async job(each) {
        const handle = await perdure.job<never>(each);
        const attempts = async () => {
          await advance(7);
          return handle.attempts();
        };
        return { get: () => late(handle.get()), attempts, events: () => handle.events() } as typeof handle;
      },
    };
    const slow = fluster(cluster, { now: clock.now });
    for (let n = 0; n < 5; n++) {
      const { state, failure_count, attempts, current_attempt_id } = await slow.status(id);
      expect(attempts).toHaveLength(failure_count);
      expect(current_attempt_id).toBe(attempts.length);
      expect(["PENDING", "RUNNING"]).toContain(state);
    }
    expect((await slow.status(id)).failure_count).toBeGreaterThan(10);
  });
});

describe("wait", () => {
  it("answers a failed and a killed job as a status", async () => {
    const { client, perdure, runToEnd } = await open();
    const flaky = flakyJob(0, 0);
    await perdure.work([flaky]);
    const failed = await client.submit({ entrypoint: Entrypoint.fromCallable(flaky), name: "x" });
    await runToEnd(await perdure.job(failed));
    expect(await client.wait(failed)).toMatchObject({ state: "FAILED", error: "Random failure", exit_code: null });
    const killed = await client.submit({ entrypoint: ["true"], name: "x" });
    const waiting = client.wait(killed);
    await client.terminate(killed);
    await client.terminate(killed);
    expect(await waiting).toMatchObject({ state: "KILLED", error: "Terminated by user" });
  });

  it("throws after its timeout in seconds; the job continues", async () => {
    const { client, advance, settled } = await open();
    const id = await client.submit({ entrypoint: ["true"], name: "x" });
    let over = false;
    const waiting = client.wait(id, { timeout: 1.5 }).finally(() => {
      over = true;
    });
    const caught = waiting.catch((error: unknown) => error);
    await advance(1_499);
    await settled();
    expect(over).toBe(false);
    await advance(1);
    expect(await caught).toMatchObject({ code: "result_timeout" });
    expect(await client.status(id)).toMatchObject({ state: "PENDING" });
  });

  it.each([-1, Number.NaN, "60"])("refuses a timeout of %s", async (timeout) => {
    const { client } = await open();
    const id = await client.submit({ entrypoint: ["true"], name: "x" });
    await expect(client.wait(id, { timeout: timeout as number })).rejects.toMatchObject({ path: "timeout" });
  });

  it("reports a job that does not exist", async () => {
    const { client } = await open();
    await expect(client.wait("job_00000000000000000000000000")).rejects.toMatchObject({ code: "job_not_found" });
  });
});
