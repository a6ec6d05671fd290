import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HEADER } from "../../src/contract/wire.ts";
import { inFull } from "../tier.ts";
import { type StoreName, startServer, type TestServer } from "./kit.ts";
import { BROKE, DONE, openWorker, runOne } from "./worker-kit.ts";

const NOBODY = "job_01m7gekg9zevv9a6xvvwmt1v8g";

describe.each(inFull<StoreName>(["sqlite", "postgres"]))("jobs over %s", (store) => {
  let server: TestServer;
  const call: TestServer["call"] = (...args) => server.call(...args);
  const submit = async (body: unknown) => (await call("POST", "/v1/jobs", { body })).body.id as string;

  beforeAll(async () => {
    server = await startServer({ store });
  });
  afterAll(() => server.close());

  const WRITTEN = [
    ["a number beyond all bounds", "1e400"],
    ["a number with more digits than a double has", "0.10000000000000000555111512312578270"],
    ["doubled keys, and spaces", '{"a":1 ,  "a":2}'],
    ["escaped NUL and halves of pairs", '"\\u0000 \\ud800 \\uDC00"'],
    ["text beyond the basic plane", '"grüße 🎈 \u2028"'],
    ["a field named __proto__", '{"__proto__":{"x":1},"constructor":2}'],
    ["null", "null"],
    ["a depth of 64", "[".repeat(64) + "]".repeat(64)],
    ["a whole mebibyte", `"${"x".repeat(1_048_574)}"`],
  ] as const;

  it.each(WRITTEN)("keeps inputs byte for byte: %s", async (_, input) => {
    const sent = await call("POST", "/v1/jobs", { body: `{"input": ${input} ,"kind":"bytes","input":${input}}` });
    expect(sent.status).toBe(201);
    const { text } = await call("GET", `/v1/jobs/${sent.body.id}`);
    expect(text).toContain(`,"payload":${input}}`);
    const batch = await call("POST", "/v1/jobs/batch", { body: `{"jobs":[{"kind":"bytes","input":${input}}]}` });
    const again = await call("GET", `/v1/jobs/${batch.body.answers[0].id}`);
    expect(again.text).toContain(`,"payload":${input}}`);
  });

  it("distinguishes no input from null", async () => {
    const without = await call("GET", `/v1/jobs/${await submit({ kind: "x" })}`);
    expect("payload" in without.body).toBe(false);
    expect((await call("GET", `/v1/jobs/${await submit({ kind: "x", input: null })}`)).body.payload).toBeNull();
  });

  it("refuses an input that is too deep or too long, and names it", async () => {
    const deep = await call("POST", "/v1/jobs", { body: `{"kind":"x","input":${"[".repeat(65)}${"]".repeat(65)}}` });
    expect([deep.status, deep.body.code, deep.body.path]).toEqual([400, "invalid_payload", "input"]);
    const long = await call("POST", "/v1/jobs", { body: { kind: "x", input: "x".repeat(1_048_575) } });
    expect([long.status, long.body.code, long.body.path]).toEqual([400, "invalid_payload", "input"]);
    expect(long.body.message).toMatch(/^input: over the limit/);
  });

  it("answers each item of a list for itself, in order, with the place of each mistake", async () => {
    const jobs = [
      { kind: "batch", key: `first ${store}` },
      { kind: "batch", retry: { backoff: { max: "soon" } } },
      { kind: "batch", priorty: 3 },
      7,
      { kind: "exec", input: { comand: ["true"] } },
      { kind: "batch", delay: "1s", runAt: 5 },
      { kind: "batch", labels: { "a\u0000b": "c" } },
      { kind: "batch", client: {} },
      { kind: "batch", input: [".", 1], tags: ["t"] },
      { input: 1 },
      { kind: "nul \u0000" },
    ];
    const { status, body } = await call("POST", "/v1/jobs/batch", { body: { jobs } });
    expect(status).toBe(200);
    const { answers } = body;
    expect(answers[0]).toMatchObject({ created: true, chapter: 1, state: "queued" });
    expect(answers[1].error).toMatchObject({ code: "invalid_config", path: "jobs[1].retry.backoff.max" });
    expect(answers[1].error.message).toMatch(/^jobs\[1\]\.retry\.backoff\.max: must be .*; got "soon"\.$/);
    expect(answers[2].error).toMatchObject({ path: "jobs[2].priorty", message: expect.stringContaining("priority") });
    expect(answers[3].error).toMatchObject({ path: "jobs[3]" });
    expect(answers[4].error.path).toMatch(/^jobs\[4\]\.input/);
    expect(answers[5].error.path).toBe("jobs[5].delay");
    expect(answers[6].error.path).toBe("jobs[6].labels");
    expect(answers[7].error.path).toBe("jobs[7].client");
    expect((await call("GET", `/v1/jobs/${answers[8].id}`)).body).toMatchObject({ payload: [".", 1], tags: ["t"] });
    expect([answers[9].error.path, answers[10].error.path]).toEqual(["jobs[9].kind", "jobs[10].kind"]);
  });

  it("names the field of a single submit, and the principal in its first event", async () => {
    const wrong = await call("POST", "/v1/jobs", { body: { kind: "x", retry: { maxAttempts: 0 } } });
    expect([wrong.status, wrong.body.path]).toEqual([400, "retry.maxAttempts"]);
    const token = await server.token({ name: "build", scopes: ["submit"] });
    const { id } = (await call("POST", "/v1/jobs", { token, body: { kind: "x" } })).body;
    const { events } = (await call("GET", `/v1/jobs/${id}/events`)).body;
    expect(events[0]).toMatchObject({ name: "job.submitted", data: { by: "token:build" } });
  });

  it("finds a job by its key, and refuses the key for another body", async () => {
    const body = { kind: "keyed", key: "k1", input: { a: 1 } };
    const first = await call("POST", "/v1/jobs", { body });
    const again = await call("POST", "/v1/jobs", { body });
    expect([first.status, again.status]).toEqual([201, 200]);
    expect(again.body).toEqual({ ...first.body, created: false });
    const other = await call("POST", "/v1/jobs", { body: { ...body, input: { a: 2 } } });
    expect([other.status, other.body.code]).toEqual([409, "key_conflict"]);
  });

  it("lists by pages whose cursors hold with another limit, and refuses foreign cursors", async () => {
    const ids: string[] = [];
    for (let i = 0; i < 7; i++) ids.unshift(await submit({ kind: "paged", queue: `q${i % 2}` }));
    const list = async (query: string) => (await call("GET", `/v1/jobs?kind=paged${query}`)).body;
    const first = await list("&limit=2");
    const rest = await list(`&limit=100&cursor=${first.next}`);
    const seen = [...first.jobs, ...rest.jobs].map((job: { id: string }) => job.id);
    expect([seen, rest.next]).toEqual([ids, null]);
    expect((await list("&queue=q0&queue=q1&state=queued&order=oldest")).jobs).toHaveLength(7);
    const wrong = await call("GET", `/v1/jobs?kind=other&cursor=${first.next}`);
    expect([wrong.status, wrong.body.code]).toEqual([400, "invalid_cursor"]);
    const misspelt = await call("GET", "/v1/jobs?state=quewed");
    expect([misspelt.status, misspelt.body.code]).toEqual([400, "invalid_request"]);
  });

  it.skipIf(store === "postgres")("ends a page early when its rows are heavy", async () => {
    const input = "x".repeat(1_000_000);
    for (let i = 0; i < 24; i++) await submit({ kind: "heavy", input });
    const seen = new Set<string>();
    const pages: number[] = [];
    for (let next: string | null = ""; next !== null; ) {
      const { body, text } = await call("GET", `/v1/jobs?kind=heavy&limit=1000${next === "" ? "" : `&cursor=${next}`}`);
      expect(text.length).toBeLessThan(9_000_000);
      for (const { id } of body.jobs) seen.add(id);
      pages.push(body.jobs.length);
      next = body.next;
    }
    expect([seen.size, pages]).toEqual([24, [8, 8, 8]]);
  });

  it("carries out commands, repeated ones too, and refuses those that do not apply", async () => {
    const id = await submit({ kind: "nobody", delay: "1h" });
    const post = (verb: string, body?: unknown) => call("POST", `/v1/jobs/${id}/${verb}`, { body });
    expect((await post("reschedule", { runAt: 4_102_444_800_000 })).body).toMatchObject({ runAt: 4_102_444_800_000 });
    const early = await post("discard");
    expect([early.status, early.body.code]).toEqual([409, "wrong_state"]);
    expect((await post("cancel")).body.state).toBe("cancelled");
    expect((await post("cancel")).body.state).toBe("cancelled");
    expect((await post("redrive")).body).toMatchObject({ state: "queued", chapter: 2 });
    expect((await post("redrive")).status).toBe(409);
    expect((await post("retry")).body).toMatchObject({ state: "queued", chapter: 2 });
    expect((await call("GET", `/v1/jobs/${id}/explain`)).body).toMatchObject({ jobId: id, text: expect.any(String) });
    const { events } = (await call("GET", `/v1/jobs/${id}/events`)).body;
    const commanded = Array(3).fill(`token:admin (${server.admin.split("_")[1]})`);
    expect(events.map((event: { data: { by?: string } }) => event.data.by)).toEqual(["token:admin", ...commanded]);
    await post("cancel");
  });

  it("returns attempts, results and failures", async () => {
    const good = await runOne(server, { kind: "completed", result: '{"n": 1e400}' });
    expect((await call("GET", `/v1/jobs/${good}`)).text).toContain('"result":{"n": 1e400}');
    const bad = await runOne(server, BROKE, { retry: false });
    expect((await call("GET", `/v1/jobs/${bad}`)).body).toMatchObject({ state: "failed", reason: "exhausted" });
    const { attempts } = (await call("GET", `/v1/jobs/${bad}/attempts`)).body;
    expect(attempts).toMatchObject([
      { attempt: 1, outcome: "failed", failure: { message: "broke", class: "transient" } },
    ]);
  });

  it("redrives dead letters by filter, oldest first; a dry run only lists them", async () => {
    const ids = [];
    for (let i = 0; i < 3; i++) ids.push(await runOne(server, BROKE, { retry: false, queue: "dead" }));
    const discarded = ids.pop();
    await call("POST", `/v1/jobs/${discarded}/discard`);
    const redrive = async (body: object) => (await call("POST", "/v1/jobs/redrive", { body })).body;
    expect(await redrive({ filter: { queue: ["dead"] }, dryRun: true })).toEqual({
      jobs: ids,
      skipped: [],
      more: false,
    });
    expect(await redrive({ filter: { queue: ["dead"] }, limit: 1 })).toEqual({
      jobs: [ids[0]],
      skipped: [],
      more: true,
    });
    expect(await redrive({ filter: { queue: ["dead"] } })).toEqual({ jobs: [ids[1]], skipped: [], more: false });
    const { events } = (await call("GET", `/v1/jobs/${ids[0]}/events`)).body;
    expect(events.at(-1)).toMatchObject({
      name: "job.redriven",
      data: { by: `token:admin (${server.admin.split("_")[1]})` },
    });
    const wrong = await call("POST", "/v1/jobs/redrive", { body: { filter: { deadLetter: false } } });
    expect([wrong.status, wrong.body.path]).toEqual([400, "filter.deadLetter"]);
    for (const id of ids) await call("POST", `/v1/jobs/${id}/cancel`);
  });

  it("waits for the first of many jobs to end, and names those that are not there", async () => {
    const ids = [await submit({ kind: "k" }), await submit({ kind: "slow" })] as const;
    const wait = async (jobs: readonly string[], waitMs: number) => {
      const body = { jobs: jobs.map((id) => ({ id, chapter: 1 })), waitMs };
      return (await call("POST", "/v1/jobs/wait", { body })).body;
    };
    expect(await wait(ids, 0)).toEqual({ ended: [], missing: [] });
    const waiting = wait(ids, 20_000);
    const worker = await openWorker(server);
    await worker.report(await worker.take(), DONE);
    expect(await waiting).toEqual({ ended: [ids[0]], missing: [] });
    expect(await wait([NOBODY, "none", ids[1]], 20_000)).toEqual({ ended: [], missing: ["none", NOBODY] });
    // The job was redriven: the requested chapter is over.
    await call("POST", `/v1/jobs/${ids[1]}/cancel`);
    await call("POST", `/v1/jobs/${ids[1]}/redrive`);
    expect(await wait([ids[1]], 20_000)).toEqual({ ended: [ids[1]], missing: [] });
  });

  it("waits for a thousand jobs", async () => {
    const jobs = Array.from({ length: 1_000 }, () => ({ kind: "many" }));
    const { answers } = (await call("POST", "/v1/jobs/batch", { body: { jobs } })).body;
    const ids = answers.map(({ id }: { id: string }) => ({ id, chapter: 1 }));
    const waiting = call("POST", "/v1/jobs/wait", { body: { jobs: ids, waitMs: 20_000 } });
    await call("POST", `/v1/jobs/${ids[777].id}/cancel`);
    expect((await waiting).body).toEqual({ ended: [ids[777].id], missing: [] });
  });

  it("shows nothing of a job in another namespace, or to the wrong scope", async () => {
    const id = await submit({ kind: "hidden" });
    const token = await server.token({ namespace: "other" });
    const asked = (method: string, path: string, body?: unknown) => call(method, path, { token, body });
    const none = await asked("GET", `/v1/jobs/${NOBODY}`);
    for (const path of ["", "/explain", "/events", "/attempts", "/logs", "/outputs", "/attempts/1/files/stdout.log"]) {
      const found = await asked("GET", `/v1/jobs/${id}${path}`);
      expect([path, found.status, found.body.code]).toEqual([path, 404, "job_not_found"]);
      expect(found.body.message).toBe(none.body.message.replace(NOBODY, id));
    }
    for (const verb of ["cancel", "retry", "redrive", "discard"]) {
      expect((await asked("POST", `/v1/jobs/${id}/${verb}`)).status).toBe(404);
    }
    expect((await asked("GET", "/v1/jobs")).body.jobs).toEqual([]);
    const { events } = (await asked("GET", "/v1/events")).body;
    expect(events).toMatchObject([{ name: "token.created", data: { namespace: "other" } }]);
    const waited = await asked("POST", "/v1/jobs/wait", { jobs: [{ id, chapter: 1 }], waitMs: 20_000 });
    expect(waited.body).toEqual({ ended: [], missing: [id] });
    const reader = await server.token({ scopes: ["read"] });
    expect((await call("POST", `/v1/jobs/${id}/cancel`, { token: reader })).status).toBe(403);
    const header = { [HEADER.namespace]: "other" };
    expect((await call("GET", `/v1/jobs/${id}`, { headers: header })).status).toBe(404);
    expect((await call("GET", `/v1/jobs/%00${id}`)).status).toBe(404);
  });
});
