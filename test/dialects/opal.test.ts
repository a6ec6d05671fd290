/** OPAL, Track A2.1: its document as tests, through the real engine on both stores. The formats of its routes and log lines
 *  are tested in test/opal and src/dialects/opal/format.test.ts. */
import { describe, expect, it } from "vitest";
import { ConfigError } from "../../src/core/errors.ts";
import { opal, opalAttemptsView } from "../../src/dialects/opal/dialect.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import { VIRTUAL_START } from "../../src/testing/virtual-clock.ts";
import { openStage, readContext, STORES, type Stage } from "./kit.ts";

const settings = { ...DIALECT_DEFAULTS, opal: { ...DIALECT_DEFAULTS.opal, engine: ["/opt/opal/engine"] } };
const at = (seconds: number) => new Date(VIRTUAL_START + Math.round(seconds * 1_000)).toISOString();
/** A lease of 15 s has expired one millisecond after its end. */
const LEASE = 15.001;

async function apply(stage: Stage, document: string): Promise<string> {
  const [id] = await stage.apply(opal, document, { settings });
  return id as string;
}

const KEYS = [
  ...["completed_at", "created_at", "error", "id", "outputs", "run_provenance", "started_at", "status"],
  ...["updated_at", "worker_id"],
];

describe.each(STORES)("OPAL on %s", (store) => {
  it('Test #1: "Job succeeded on attempt 2", "Backoff applied: 8s (from schedule index 1)"', async () => {
    const stage = await openStage(store);
    const id = await apply(stage, "prompt: SLEEP_TEST_20s_RETRY\njob_id: job_92e725aa5034");
    expect(await stage.view(opal, id)).toEqual({
      ...{ completed_at: null, created_at: at(0), error: null, id: "job_92e725aa5034", outputs: [] },
      ...{ run_provenance: null, started_at: null, status: "queued", updated_at: at(0), worker_id: null },
    });
    const first = await stage.start(id, { worker: "host-worker-1" });
    expect(await stage.view(opal, id)).toMatchObject({ status: "running", worker_id: "host-worker-1", error: null });
    await first.end("lost");
    expect(await stage.view(opal, id)).toMatchObject({
      ...{ status: "queued", error: "lease_expired_retry_1", worker_id: null, updated_at: at(LEASE) },
    });
    expect(opalAttemptsView(await stage.parts(id))).toMatchObject({
      ...{ job_id: "job_92e725aa5034", attempts: 1, not_before: at(LEASE + 8), backoff_secs_applied: 8 },
      reclaim: { reclaimed_by: "stage", reclaimed_at: at(LEASE), reason: "lease_expired" },
    });
    const second = await stage.start(id, { worker: "host-worker-2" });
    expect(await stage.view(opal, id)).toMatchObject({ status: "running", error: null, started_at: at(LEASE + 8) });
    // The sample of the attempt store: two attempts, the backoff and the reclaim of the first.
    expect(opalAttemptsView(await stage.parts(id))).toMatchObject({ attempts: 2, backoff_secs_applied: 8 });
    const file = { name: "out.txt", size: 3, mime: "text/plain", sha256: "0".repeat(64) };
    await second.end({ ok: { exitCode: 0, output: null, outputs: [file] } }, { tookMs: 20_000 });
    const done = await stage.view(opal, id);
    expect(done).toMatchObject({
      ...{ status: "succeeded", error: null, completed_at: at(LEASE + 28), worker_id: "host-worker-2" },
      outputs: [{ ...file, href: "/api/artifacts/job_92e725aa5034/attempt_2/out.txt" }],
      run_provenance: { engine: "/opt/opal/engine", attempt: 2, exit_code: 0, worker_id: "host-worker-2" },
    });
    expect(Object.keys(done).sort()).toEqual(KEYS);
  });

  it('Test #2: "Job failed after 2 attempts", with max_retries_exceeded_a2', async () => {
    const stage = await openStage(store);
    const id = await apply(stage, "prompt: SLEEP_TEST_30s_FAIL_MAX\njob_id: job_b853289fff4d");
    await stage.run(id, "lost");
    await stage.run(id, "lost");
    expect(await stage.view(opal, id)).toMatchObject({
      ...{ status: "failed", error: "max_retries_exceeded_a2", completed_at: at(LEASE + 8 + LEASE) },
    });
    expect(opalAttemptsView(await stage.parts(id))).toMatchObject({
      ...{ job_id: "job_b853289fff4d", attempts: 2, not_before: null, backoff_secs_applied: null },
      reclaim: { reclaimed_at: at(LEASE + 8 + LEASE), reason: "lease_expired" },
      history: [
        { attempt: 1, outcome: "lease_expired", error: "lease_expired_retry_1", backoff_secs: 8 },
        { attempt: 2, outcome: "lease_expired", error: "max_retries_exceeded_a2", backoff_secs: null },
      ],
    });
  });

  it('Test #3: "only one worker reclaims each expired lease"', async () => {
    const stage = await openStage(store);
    const reclaimed: string[] = [];
    const rivals = ["a", "b", "c"].map((name) =>
      stage.rival({
        observer: { reaped: (all) => void reclaimed.push(...all.map(({ attempt }) => `${name}${attempt}`)) },
      }),
    );
    const id = await apply(stage, "prompt: x\nenv: { OPAL_MAX_RETRIES: 3 }");
    const losses = async () => (await stage.parts(id)).events.filter(({ name }) => name === "attempt.lost").length;
    for (const attempt of [1, 2]) {
      const { runAt } = await stage.job(id);
      await stage.advance(Math.max(0, runAt - stage.clock.now()));
      const { kind, queue } = await stage.job(id);
      const session = await stage.engine.openSession({
        ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: [kind], queues: [queue], labels: {}, slots: 1 },
      });
      expect((await stage.engine.claim(session, { limit: 1 })).jobs).toMatchObject([{ id, attempt }]);
      // The lease is not renewed. Every engine reaps once a second, and until the last instant of the lease it finds nothing.
      for (let second = 1; second <= 15; second++) {
        stage.clock.moveTo(stage.clock.now() + 1_000);
        for (const rival of rivals) await rival.reap();
      }
      expect([await losses(), reclaimed.length]).toEqual([attempt - 1, attempt - 1]);
      stage.clock.moveTo(stage.clock.now() + 1);
      expect(await stage.job(id)).toMatchObject({ state: "running", attempt });
      await Promise.all(rivals.map((rival) => rival.reap()));
      expect(await stage.job(id)).toMatchObject({ state: "queued", attempt, losses: attempt });
      expect(await losses()).toBe(attempt);
      expect(reclaimed.map((entry) => entry.slice(1))).toEqual(["1", "2"].slice(0, attempt));
    }
  });

  it('increment_attempt "Atomically bumps attempt counter": of workers that claim at once, one has the next number', async () => {
    const stage = await openStage(store);
    const id = await apply(stage, "prompt: x\nenv: { OPAL_MAX_RETRIES: 5 }");
    for (const attempt of [1, 2, 3, 4]) {
      const { kind, queue, runAt } = await stage.job(id);
      await stage.advance(Math.max(0, runAt - stage.clock.now()));
      const engines = [stage.engine, stage.rival(), stage.rival(), stage.rival(), stage.rival()];
      const open = { namespace: "default", name: "w", host: "h", pid: 1, kinds: [kind], queues: [queue], labels: {} };
      const sessions = await Promise.all(engines.map((engine) => engine.openSession({ ...open, slots: 1 })));
      const claims = await Promise.all(
        engines.map(async (engine, i) => (await engine.claim(sessions[i] as string, { limit: 1 })).jobs),
      );
      expect(claims.flat()).toMatchObject([{ id, attempt }]);
      expect(opalAttemptsView(await stage.parts(id))).toMatchObject({ attempts: attempt });
      await stage.store.sessions.close(
        sessions[claims.findIndex((jobs) => jobs.length > 0)] as string,
        stage.clock.now(),
        "gone",
      );
      await stage.engine.reap();
    }
    const { history } = opalAttemptsView(await stage.parts(id));
    expect(history.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4]);
  });

  it("a redrive restarts counting: (Attempt 1/2) and lease_expired_retry_1, in a folder of its own number", async () => {
    const stage = await openStage(store);
    const id = await apply(stage, "prompt: x\njob_id: again");
    for (const chapter of [1, 2]) {
      await stage.run(id, "interrupted"); // a shutdown of a worker, which does not count towards the limit
      const { runAt } = await stage.run(id, "lost");
      expect(runAt - stage.clock.now()).toBe(8_000);
      expect(await stage.view(opal, id)).toMatchObject({ status: "queued", error: "lease_expired_retry_1" });
      await stage.run(id, "lost");
      expect(await stage.view(opal, id)).toMatchObject({ status: "failed", error: "max_retries_exceeded_a2" });
      expect(await stage.job(id)).toMatchObject({ chapter, attempt: 3 * chapter, losses: 2 });
      if (chapter === 1) await stage.engine.command(id, { kind: "redrive", by: null });
    }
    const view = opalAttemptsView(await stage.parts(id));
    expect(view.attempts).toBe(6);
    const [, retried, spent] = view.history;
    expect(view.history.slice(3)).toMatchObject([
      { attempt: 4, outcome: "interrupted" },
      { attempt: 5, outcome: "lease_expired", error: "lease_expired_retry_1", backoff_secs: 8 },
      { attempt: 6, outcome: "lease_expired", error: "max_retries_exceeded_a2" },
    ]);
    expect([retried?.error, spent?.error]).toEqual(["lease_expired_retry_1", "max_retries_exceeded_a2"]);
  });

  it('Test #4: "Jobs remained in queued state for ~8 seconds before being claimed"', async () => {
    const stage = await openStage(store);
    const id = await apply(stage, "prompt: x");
    const { kind, queue } = await stage.run(id, "lost");
    const session = await stage.engine.openSession({
      ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: [kind], queues: [queue], labels: {}, slots: 1 },
    });
    await stage.advance(7_999);
    expect((await stage.engine.claim(session, { limit: 1 })).jobs).toEqual([]);
    expect(await stage.view(opal, id)).toMatchObject({ status: "queued" });
    await stage.advance(1);
    expect((await stage.engine.claim(session, { limit: 1 })).jobs).toMatchObject([{ id, attempt: 2 }]);
  });

  it('Test #5: "100% key parity", in every state of a job', async () => {
    const stage = await openStage(store);
    const [lost, failed, cancelled] = [
      ...[await apply(stage, "prompt: a"), await apply(stage, "prompt: b"), await apply(stage, "prompt: c")],
    ] as [string, string, string];
    await stage.run(lost, "lost");
    await stage.run(failed, { exit: 3, stderr: "no model" });
    await stage.engine.command(cancelled, { kind: "cancel" });
    for (const id of [lost, failed, cancelled]) expect(Object.keys(await stage.view(opal, id)).sort()).toEqual(KEYS);
    expect(await stage.view(opal, failed)).toMatchObject({ status: "failed", error: "exit code 3: no model" });
    expect(await stage.view(opal, cancelled)).toMatchObject({ status: "failed", error: "cancelled" });
  });

  it('"Attempt 1 fails → 8s", "Attempt 2 fails → 15s", with OPAL_MAX_RETRIES=3; lease_expired_retry_2', async () => {
    const stage = await openStage(store);
    const id = await apply(stage, "prompt: x\nenv: { OPAL_MAX_RETRIES: 3 }");
    const delays: number[] = [];
    for (const n of [1, 2]) {
      const { runAt } = await stage.run(id, "lost");
      delays.push((runAt - stage.clock.now()) / 1_000);
      expect(await stage.view(opal, id)).toMatchObject({ error: `lease_expired_retry_${n}` });
    }
    expect(delays).toEqual([8, 15]);
    await stage.run(id, "lost");
    expect(await stage.view(opal, id)).toMatchObject({ status: "failed", error: "max_retries_exceeded_a2" });
    expect(await stage.job(id)).toMatchObject({ attempt: 3 });
  });

  it('"Backoff index: min(attempt_index, len(BACKOFF_SCHEDULE) - 1)": the last one holds from then on', async () => {
    const stage = await openStage(store);
    const id = await apply(stage, "prompt: x\nenv: { OPAL_MAX_RETRIES: '6', OPAL_RETRY_BACKOFFS: [3, 8, 15] }");
    const delays: number[] = [];
    for (let n = 1; n < 6; n++) delays.push(((await stage.run(id, "gone")).runAt - stage.clock.now()) / 1_000);
    expect(delays).toEqual([8, 15, 15, 15, 15]);
  });

  it('"Per-job backoff configuration" of a file, exponential, up to its own maximum; one id has one retry', async () => {
    const stage = await openStage(store);
    const document = (retry: string) => `prompt: x\njob_id: mine\nretry: ${retry}`;
    const id = await apply(stage, document("{ max_retries: 3, backoff: { initial: 4, factor: 3, max: 10 } }"));
    expect(await apply(stage, document("{ backoff: { max: 10, initial: 4, factor: 3 }, max_retries: 3 }"))).toBe(id);
    await expect(apply(stage, document("{ max_retries: 3 }"))).rejects.toThrow("another kind, queue or payload");
    const delays: number[] = [];
    for (const n of [1, 2]) {
      delays.push(((await stage.run(id, "lost")).runAt - stage.clock.now()) / 1_000);
      expect(await stage.view(opal, id)).toMatchObject({ error: `lease_expired_retry_${n}` });
    }
    expect(delays).toEqual([4, 10]);
    expect(await stage.run(id, "lost")).toMatchObject({ state: "failed", attempt: 3 });
    expect(await stage.view(opal, id)).toMatchObject({ error: "max_retries_exceeded_a2" });
  });

  it("what an engine itself reports is never tried again: only lost leases are; memory is the exception", async () => {
    const stage = await openStage(store);
    const id = await apply(stage, "prompt: x");
    expect(await stage.run(id, { exit: 1 })).toMatchObject({ state: "failed", attempt: 1 });
    const other = await apply(stage, "prompt: y");
    expect(await stage.run(other, "oom")).toMatchObject({ state: "queued", runAt: stage.clock.now() + 8_000 });
    const many = await apply(stage, "prompt: z\nenv: { OPAL_MAX_RETRIES: 4 }");
    for (const losses of [1, 2, 3]) {
      expect(await stage.run(many, "lost")).toMatchObject({ state: "queued", attempt: losses, losses });
    }
    expect(await stage.run(many, "ok")).toMatchObject({ state: "succeeded", attempt: 4 });
  });

  it("no id is a new job each time, under its own id", async () => {
    const stage = await openStage(store);
    const [one, two] = [await apply(stage, "prompt: x"), await apply(stage, "prompt: x")];
    expect(one).not.toBe(two);
    expect(await stage.view(opal, one)).toMatchObject({ id: one, status: "queued" });
  });

  it("one id is one job, and a late word of a worker that was given up changes nothing", async () => {
    const stage = await openStage(store);
    const id = await apply(stage, "prompt: x\njob_id: mine");
    expect(await apply(stage, "prompt: x\njob_id: mine")).toBe(id);
    await expect(apply(stage, "prompt: another\njob_id: mine")).rejects.toThrow("another kind, queue or payload");
    const first = await stage.start(id);
    await first.end("lost");
    await expect(first.end("ok")).rejects.toThrow("stale");
    expect(await stage.view(opal, id)).toMatchObject({ status: "queued", error: "lease_expired_retry_1" });
  });
});

describe("an OPAL file", () => {
  const read = (document: object, more = {}) => opal.read(document, readContext({ settings, ...more }));

  it("has the policy defaults of the document, or those that are configured", () => {
    expect(read({ prompt: "x", job_id: "j1" }).jobs[0]?.options).toMatchObject({
      ...{ tags: ["opal"], key: "opal:j1" },
      retry: {
        preset: "opal",
        maxAttempts: 2,
        backoff: { type: "schedule", delays: [3_000, 8_000, 15_000], offset: 1 },
      },
    });
    const own = { ...settings, opal: { ...settings.opal, maxRetries: 7, backoffs: [1, 2] } };
    expect(read({ prompt: "x" }, { settings: own }).jobs[0]?.options?.retry).toMatchObject({
      ...{ maxAttempts: 7, backoff: { delays: [1_000, 2_000] } },
    });
    expect(read({ prompt: "x", env: { OPAL_MAX_RETRIES: 0 } }).jobs[0]?.options?.retry).toMatchObject({
      maxAttempts: 1,
    });
  });

  it('"Per-job backoff configuration": retry in place of what is configured, and for the engine to read', () => {
    const retryOf = (retry: unknown, more = {}) => read({ prompt: "x", retry, ...more }).jobs[0];
    expect(retryOf({ max_retries: 4, backoff: [1, 20] })).toMatchObject({
      input: { env: { OPAL_RETRY: '{"max_retries":4,"backoff":[1,20]}' } },
      options: { retry: { maxAttempts: 4, backoff: { type: "schedule", delays: [1_000, 20_000], offset: 1 } } },
    });
    expect(
      retryOf({ backoff: { initial: 0.5, jitter: 0.2 } }, { env: { OPAL_MAX_RETRIES: 7 } })?.options,
    ).toMatchObject({
      retry: { maxAttempts: 7, backoff: { type: "exponential", initial: 500, factor: 2, max: 60_000, jitter: 0.2 } },
    });
    for (const none of [null, {}, { max_retries: null }]) expect(retryOf(none)).toEqual(retryOf(undefined));
  });

  it.each([{ prompt: "x" }, { prompt: "x", job_id: null }])("without an id has the job's own: %j", (document) => {
    const [entry] = read(document).jobs;
    expect(read(document).jobs).toEqual([entry]); // no value in it is random
    expect(entry?.options?.key).toBe(undefined);
    expect(entry?.input).toMatchObject({ fill: { OPAL_JOB_ID: "jobId" } });
  });

  it("becomes a command with the prompt, the metadata and the file beside it", () => {
    const bytes = (path: string) => (path === "in/fox.png" ? Buffer.from("png") : null);
    const { jobs } = read({ prompt: "Draw", metadata: { a: 1 }, job_id: "j1", input_file: "in/fox.png" }, { bytes });
    expect(jobs).toMatchObject([
      {
        task: "exec",
        input: {
          argv: ["/opt/opal/engine"],
          env: { OPAL_JOB_ID: "j1", OPAL_PROMPT: "Draw", OPAL_METADATA: '{"a":1}', OPAL_INPUT_FILE: "inputs/fox.png" },
          files: { "fox.png": Buffer.from("png").toString("base64") },
        },
      },
    ]);
  });

  it.each([15, 3])("notes a variable that only the server uses: OPAL_LEASE_TTL_SECS %d", (OPAL_LEASE_TTL_SECS) => {
    expect(read({ prompt: "x", env: { OPAL_LEASE_TTL_SECS } }).notes).toEqual([
      "env.OPAL_LEASE_TTL_SECS is a setting of the server and its workers, and is ignored here; set it there",
    ]);
  });

  it("takes a key without a value for none", () => {
    const { jobs, notes } = read({ prompt: "x", metadata: null, job_id: null, input_file: null, env: null });
    expect({ jobs, notes }).toEqual(read({ prompt: "x" }));
  });

  it.each([
    [{}, "prompt", "a text, not empty"],
    [{ prompt: 5 }, "prompt", "a text, not empty"],
    [{ prompt: "x", promt: 1 }, "promt", 'Did you mean "prompt"?'],
    [{ prompt: "x", job_id: "a/b" }, "job_id", "1 to 100 letters"],
    [{ prompt: "x", input_file: "nowhere" }, "input_file", "a file in the folder of this one"],
    [{ prompt: "x", env: { OPAL_MAX_RETRY: 2 } }, "env.OPAL_MAX_RETRY", 'Did you mean "OPAL_MAX_RETRIES"?'],
    [{ prompt: "x", env: { OPAL_MAX_RETRIES: -1 } }, "env.OPAL_MAX_RETRIES", "a whole number"],
    [{ prompt: "x", env: { OPAL_MAX_RETRIES: 1e12 } }, "env.OPAL_MAX_RETRIES", "from 0 to"],
    [{ prompt: "x", env: { OPAL_RETRY_BACKOFFS: [3, -8] } }, "env.OPAL_RETRY_BACKOFFS[1]", "from 0 to"],
    [{ prompt: "x", env: { OPAL_MAX_RETRIES: { a: 1 } } }, "env.OPAL_MAX_RETRIES", "a number"],
    [{ prompt: "x", env: { OPAL_MAX_RETRIES: -1 } }, "env.OPAL_MAX_RETRIES", "got -1"],
    [
      { prompt: "x", retry: { max_retries: -1 } },
      "retry.max_retries",
      "must be a whole number from 0 to 1000000; got -1",
    ],
    [{ prompt: "x", retry: { max_retries: Number.NaN } }, "retry.max_retries", "got NaN"],
    [{ prompt: "x", retry: { backof: [1] } }, "retry.backof", 'Did you mean "backoff"?'],
    [{ prompt: "x", retry: { max_retries: 2 }, env: { OPAL_MAX_RETRIES: 3 } }, "retry.max_retries", "one of the two"],
    [{ prompt: "x", retry: { backoff: [1] }, env: { OPAL_RETRY_BACKOFFS: "1" } }, "retry.backoff", "sets the same"],
    [{ prompt: "x", env: { OPAL_RETRY_BACKOFFS: "3, -8" } }, "env.OPAL_RETRY_BACKOFFS[1]", "got -8"],
  ])("refuses %j", (document, path, message) => {
    const error = thrown(() => read(document));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ path, message: expect.stringContaining(message) });
  });

  it("cannot be read where no engine is set", () => {
    const error = thrown(() => opal.read({ prompt: "x" }, readContext()));
    expect(error.message).toContain("opal.engine");
  });
});

function thrown(call: () => unknown): Error {
  try {
    call();
  } catch (error) {
    return error as Error;
  }
  throw new Error("it was accepted");
}
