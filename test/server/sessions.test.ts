import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { HEADER } from "../../src/contract/wire.ts";
import type { ClaimedJob } from "../../src/core/worker-protocol.ts";
import { inFull } from "../tier.ts";
import { type StoreName, startServer, type TestServer } from "./kit.ts";
import { BROKE, DONE, openWorker, runOne } from "./worker-kit.ts";

/** Only guards against hanging. */
const WAIT = { timeout: 60_000 };

const HEALTH = {
  ...{ consecutive_failures: 1, total: 5, failed: 2, average_ms: 12.5, in_hand: 1, slots: 4, load: 0.5 },
};

describe.each(inFull<StoreName>(["sqlite", "postgres"]))("the worker protocol over %s", (store) => {
  let server: TestServer;
  const call: TestServer["call"] = (...args) => server.call(...args);
  const submit = async (body: object = {}) =>
    (await call("POST", "/v1/jobs", { body: { kind: "k", ...body } })).body.id as string;
  const stateOf = async (id: string) => (await call("GET", `/v1/jobs/${id}`)).body;

  beforeAll(async () => {
    server = await startServer({ store });
  });
  afterEach(() => void vi.restoreAllMocks());
  afterAll(() => server.close());

  it("serves a whole life: open, claim, renew, report, close", async () => {
    const id = await submit({ input: { a: 1 }, tags: ["t"], timeout: "5s" });
    const request = { host: "h", pid: 7, labels: { "runtime/node": "20" }, queues: ["default"], leaseMs: 20_000 };
    const worker = await openWorker(server, request);
    expect(worker.leaseMs).toBe(20_000);
    const [job] = (await worker.claim({ waitMs: 5_000, claimId: "c1" })) as [ClaimedJob];
    expect(job).toMatchObject({ id, attempt: 1, chapter: 1, payload: '{"a":1}', timeoutMs: 5_000, tags: ["t"] });
    const again = await worker.claim({ claimId: "c1" });
    expect(again).toEqual([job]);

    const told = { jobId: id, attempt: 1, progress: '{"done":0.5}', log: "one\n", usage: null };
    const held = [told, { jobId: "job_01m7gekg9zevv9a6xvvwmt1v8g", attempt: 1 }];
    const renewed = (await worker.call("POST", "/renew", { body: { held, health: HEALTH } })).body;
    expect(renewed).toMatchObject({ alive: true, leaseMs: 20_000, drain: false, cancel: [] });
    expect(renewed.lost).toEqual([{ jobId: "job_01m7gekg9zevv9a6xvvwmt1v8g", attempt: 1 }]);
    expect(await stateOf(id)).toMatchObject({ state: "running", progress: { done: 0.5 }, worker: worker.session });
    const { workers } = (await call("GET", "/v1/workers")).body;
    expect(workers.find((row: { id: string }) => row.id === worker.session)).toMatchObject({ health: HEALTH });

    const report = { usage: { tokensIn: 1, tokensOut: 2, costUsd: 0.5 }, log: "two\n", reportId: "mine" };
    const answer = await worker.report(job, DONE, report);
    expect(answer).toMatchObject({ status: "accepted", repeated: false, state: "succeeded" });
    expect(await worker.report(job, DONE, report)).toEqual({ ...answer, repeated: true });
    expect(await worker.report(job, BROKE)).toEqual({ status: "stale", recorded: "completed" });
    expect(await stateOf(id)).toMatchObject({ result: "done", usage: { tokensIn: 1, tokensOut: 2, costUsd: 0.5 } });
    expect((await worker.call("DELETE", "")).status).toBe(204);
    expect((await worker.call("POST", "/claims", { body: { limit: 1, waitMs: 20_000 } })).body).toEqual({
      ...{ alive: false, drain: false, jobs: [] },
    });
    expect((await worker.call("POST", "/renew", { body: { held: [] } })).body.alive).toBe(false);
    expect((await worker.call("POST", "/notices", { body: { waitMs: 20_000 } })).body.alive).toBe(false);
  });

  it("fills in what a report of failure leaves out", async () => {
    const failure = { kind: "exit", message: "no", exitCode: 3, retryAfterMs: 1e15 };
    const id = await runOne(server, { kind: "failed", failure }, { retry: false });
    const { attempts } = (await call("GET", `/v1/jobs/${id}/attempts`)).body;
    expect(attempts[0].failure).toEqual({
      ...{ kind: "exit", class: "transient", message: "no", name: null, code: null, exitCode: 3, signal: null },
      ...{ status: null, retryAfterMs: 3_650 * 86_400_000, stack: null },
    });
  });

  it("answers each report for itself, and takes none for another session's attempt", async () => {
    await submit();
    await submit();
    const [mine, other] = [await openWorker(server), await openWorker(server)];
    const [job, foreign] = [await mine.take(), await other.take()];
    const report = (of: ClaimedJob, more: object = {}) => ({
      ...{ jobId: of.id, attempt: of.attempt, token: of.token, reportId: `x${of.id}`, outcome: DONE, ...more },
    });
    const reports = [
      report(foreign),
      report(job, { token: "nonsense" }),
      report(job, { jobId: "job_\u0000" }),
      report(job, { attempt: 2 }),
      report(job),
    ];
    const { answers } = (await mine.call("POST", "/reports", { body: { reports } })).body;
    expect(answers).toMatchObject([
      { status: "stale", recorded: null },
      { status: "stale", recorded: null },
      { status: "unknown_job" },
      { status: "stale", recorded: null },
      { status: "accepted", state: "succeeded" },
    ]);
    expect((await stateOf(foreign.id)).state).toBe("running");
    const queueTimeout = report(foreign, { outcome: { kind: "queue_timeout" } });
    expect((await other.call("POST", "/reports", { body: { reports: [queueTimeout] } })).status).toBe(400);
    await other.report(foreign, DONE);
  });

  it("refuses calls of a session without its key", async () => {
    const [one, two] = [await openWorker(server), await openWorker(server)];
    const elsewhere = await openWorker(server, {}, { headers: { [HEADER.namespace]: "elsewhere" } });
    const calls = [
      ["POST", "/renew", { held: [] }],
      ["POST", "/claims", { limit: 1 }],
      ["POST", "/reports", { reports: [{ jobId: "j", attempt: 1, token: "t", reportId: "r", outcome: DONE }] }],
      ["POST", "/notices", {}],
      ["DELETE", "", undefined],
    ] as const;
    for (const [method, path, body] of calls) {
      for (const key of [two.key, elsewhere.key, "", `${one.key.slice(0, -1)}!`]) {
        const asked = await call(method, `/v1/sessions/${one.session}${path}`, {
          ...{ body, headers: { [HEADER.sessionKey]: key } },
        });
        expect([path, asked.status, asked.body.code]).toEqual([path, 403, "forbidden"]);
      }
      expect((await call(method, `/v1/sessions/${one.session}${path}`, { body })).status).toBe(403);
      // The right key in the wrong namespace.
      const headers = { [HEADER.sessionKey]: one.key, [HEADER.namespace]: "elsewhere" };
      expect((await call(method, `/v1/sessions/${one.session}${path}`, { body, headers })).status).toBe(403);
    }
    expect((await one.call("POST", "/renew", { body: { held: [] } })).body.alive).toBe(true);
  });

  it("returns only jobs of the session's namespace", async () => {
    const id = await submit({ kind: "ours" });
    const headers = { [HEADER.namespace]: "elsewhere" };
    const worker = await openWorker(server, { kinds: ["ours"] }, { headers });
    expect(await worker.claim()).toEqual([]);
    const own = await openWorker(server, { kinds: ["ours"] });
    expect((await own.take()).id).toBe(id);
  });

  it("holds a claim until there is a job, and claims none for a client that has disconnected", async () => {
    const [gone, worker] = [
      await openWorker(server, { kinds: ["late"] }),
      await openWorker(server, { kinds: ["late"] }),
    ];
    const claims = vi.spyOn(server.engine, "claim");
    const leaving = new AbortController();
    const body = { limit: 1, waitMs: 20_000 };
    const left = gone.call("POST", "/claims", { body, signal: leaving.signal }).catch((error: Error) => error.name);
    const waiting = worker.claim(body);
    await vi.waitFor(() => expect(claims).toHaveBeenCalledTimes(2), WAIT);
    leaving.abort();
    expect(await left).toBe("AbortError");
    for (let i = 0; i < 3; i++) await call("GET", "/v1/version"); // until the server has seen it too
    const id = await submit({ kind: "late" });
    const [job] = (await waiting) as [ClaimedJob];
    expect([job.id, job.attempt]).toEqual([id, 1]);
  });

  it("reports each cancel at once, and once", async () => {
    const id = await submit({ kind: "told" });
    const worker = await openWorker(server, { kinds: ["told"] });
    const job = await worker.take();
    const notices = async (waitMs: number) => (await worker.call("POST", "/notices", { body: { waitMs } })).body;
    expect(await notices(0)).toEqual({ alive: true, drain: false, cancel: [] });
    const [first, second] = [notices(20_000), notices(20_000)];
    await call("POST", `/v1/jobs/${id}/cancel`);
    const cancel = [{ jobId: id, attempt: 1 }];
    expect(await first).toEqual({ alive: true, drain: false, cancel });
    expect(await second).toEqual({ alive: true, drain: false, cancel });
    const asked = performance.now();
    expect((await notices(300)).cancel).toEqual(cancel);
    expect(performance.now() - asked).toBeGreaterThan(250);
    const held = [{ jobId: id, attempt: 1 }];
    expect((await worker.call("POST", "/renew", { body: { held } })).body.cancel).toEqual(cancel);
    expect(await worker.report(job, BROKE)).toMatchObject({ status: "accepted", state: "cancelled" });
    // One that was requested while no call was waiting.
    const later = await submit({ kind: "told" });
    await worker.take();
    await call("POST", `/v1/jobs/${later}/cancel`);
    expect((await notices(20_000)).cancel).toEqual([{ jobId: later, attempt: 1 }]);
  });

  it("drains: a waiting claim and a waiting notice return, and no more jobs are claimed", async () => {
    const worker = await openWorker(server, { kinds: ["drained"] });
    const claiming = worker.call("POST", "/claims", { body: { limit: 1, waitMs: 20_000 } });
    const noticing = worker.call("POST", "/notices", { body: { waitMs: 20_000 } });
    expect((await call("POST", `/v1/workers/${worker.session}/drain`)).status).toBe(204);
    expect((await claiming).body).toEqual({ alive: true, drain: true, jobs: [] });
    expect((await noticing).body).toEqual({ alive: true, drain: true, cancel: [] });
    await submit({ kind: "drained" });
    expect(await worker.claim()).toEqual([]);
    expect((await worker.call("POST", "/renew", { body: { held: [] } })).body.drain).toBe(true);
  });

  it.skipIf(store === "postgres")("returns fewer large jobs than small ones per claim", async () => {
    const warnings: string[] = [];
    const onWarning = ({ name }: Error) => void warnings.push(name);
    process.on("warning", onWarning);
    // A busy server refuses large submits.
    const send = (input: string, jobs: number) =>
      vi.waitFor(
        async () => {
          const body = { jobs: Array(jobs).fill({ kind: "weighed", input }) };
          expect((await call("POST", "/v1/jobs/batch", { body })).status).toBe(200);
        },
        { timeout: 60_000, interval: 200 },
      );
    for (let i = 0; i < 4; i++) await send("x".repeat(1_000_000), 5);
    await send("light", 100);
    const worker = await openWorker(server, { kinds: ["weighed"] });
    const sizes: number[] = [];
    for (let got = 1; got > 0; ) {
      got = (await worker.claim()).length;
      sizes.push(got);
    }
    process.off("warning", onWarning);
    expect(sizes).toEqual([16, 15, 59, 30, 0]);
    // A large reply has many listeners for its end, but a bounded number.
    expect(warnings).not.toContain("MaxListenersExceededWarning");
  });

  it("refuses names that no job can have, and keeps others in a form that can be stored", async () => {
    const open = (body: object) =>
      call("POST", "/v1/sessions", { body: { name: "n", kinds: ["k"], slots: 1, ...body } });
    const cases = [
      [{ kinds: ["k", "a\u0000b"] }, "kinds[1]"],
      [{ queues: ["\ud800"] }, "queues[0]"],
      [{ labels: { a: "\n" } }, "labels.a"],
    ] as const;
    for (const [body, path] of cases) {
      const refused = await open(body);
      expect([refused.status, refused.body.path]).toEqual([400, path]);
    }
    const kept = await open({ name: "a\u0000b\ud800", host: "\u0000" });
    expect(kept.status).toBe(201);
    const { workers } = (await call("GET", "/v1/workers")).body;
    const row = workers.find(({ id }: { id: string }) => id === kept.body.session);
    expect([row.name, row.host]).toEqual(["a\ufffdb\ufffd", "\ufffd"]);
  });

  it("keeps progress only where it is JSON", async () => {
    const id = await submit({ kind: "progress" });
    const worker = await openWorker(server, { kinds: ["progress"] });
    const job = await worker.take();
    const held = [{ jobId: id, attempt: job.attempt, progress: '{"half":' }];
    expect((await worker.call("POST", "/renew", { body: { held } })).status).toBe(200);
    expect("progress" in (await stateOf(id))).toBe(false);
    const wrong = await worker.call("POST", "/renew", { body: { held: [{ jobId: "x\u0000", attempt: 1 }] } });
    expect([wrong.status, wrong.body.path]).toEqual([400, "held[0].jobId"]);
    await worker.report(job, { kind: "completed", result: "{not json" });
    expect(await stateOf(id)).toMatchObject({ state: "failed", reason: "rejected" });
  });

  it("answers held calls when it stops", async () => {
    const own = await startServer({ store });
    const [claims, notices] = [vi.spyOn(own.engine, "claim"), vi.spyOn(own.engine, "onCancel")];
    const worker = await openWorker(own);
    const body = { waitMs: 30_000 };
    const held = [worker.claim({ ...body, limit: 1 }), worker.call("POST", "/notices", { body })] as const;
    await vi.waitFor(() => expect(claims.mock.calls.length + notices.mock.calls.length).toBe(2), WAIT);
    await own.server.stop(5_000);
    expect(await held[0]).toEqual([]);
    expect((await held[1]).body.alive).toBe(true);
    await own.close();
  });
});
