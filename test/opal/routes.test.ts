/** OPAL's routes over real HTTP: the formats that its clients use, and refusals. */
import { describe, expect, it } from "vitest";
import type { ReadEntry } from "../../src/dialects/dialect.ts";
import { opal } from "../../src/dialects/opal/dialect.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import { readContext } from "../dialects/kit.ts";
import { ENGINE, startOpal, TEN_KEYS } from "./kit.ts";

const HEX_ID = /^job_[0-9a-f]{12}$/;

describe("POST /api/jobs", () => {
  it("takes JSON, and answers 201 with id and status", async () => {
    const { call } = await startOpal();
    const { status, body } = await call("POST", "/api/jobs", { body: { prompt: "paint a boat" } });
    expect({ status, body }).toEqual({ status: 201, body: { id: expect.stringMatching(HEX_ID), status: "queued" } });
  });

  it("takes a form with a file, as curl and browsers send it", async () => {
    const { call, form, work, ended } = await startOpal();
    const file = new File(["\0binary\xff"], "../photo 1.png", { type: "image/png" });
    const fields = { prompt: "paint", metadata: '{"ui":"v2"}', job_id: "job_form", input_file: file };
    const reply = await form(fields);
    expect(reply.status).toBe(201);
    expect(await reply.json()).toEqual({ id: "job_form", status: "queued" });

    await work();
    await ended("job_form");
    const { body } = await call("GET", "/api/jobs/job_form");
    expect(body.outputs.map(({ name }: { name: string }) => name).sort()).toEqual([
      ...["photo_1.png", "prompt.txt", "report.json"],
    ]);
    const report = body.outputs.find(({ name }: { name: string }) => name === "report.json");
    expect(JSON.parse((await call("GET", report.href)).text)).toEqual({
      ...{ job_id: "job_form", attempt: 1, metadata: { ui: "v2" } },
    });
    const photo = body.outputs.find(({ name }: { name: string }) => name === "photo_1.png");
    expect((await call("GET", photo.href)).text).toBe(await file.text());
  });

  it("takes fields that a form left empty as not given", async () => {
    const { form } = await startOpal();
    const reply = await form({ prompt: "x", metadata: "", job_id: "", input_file: new File([], "") });
    expect(reply.status).toBe(201);
    expect(await reply.json()).toMatchObject({ id: expect.stringMatching(HEX_ID) });
  });

  it("takes a file in JSON too", async () => {
    const { call, store } = await startOpal();
    const body = { prompt: "x", job_id: "a", input_file: { name: "a.bin", base64: "AP8=" } };
    expect((await call("POST", "/api/jobs", { body })).status).toBe(201);
    const { jobs } = await store.find({ key: "opal:a" });
    expect(JSON.parse(jobs[0]?.payload as string)).toMatchObject({ files: { "a.bin": "AP8=" } });
  });

  it("sent again with its id is the same job, however often", async () => {
    const { call, form, store } = await startOpal();
    const body = { prompt: "x", job_id: "job_1", metadata: { a: 1 } };
    for (let i = 0; i < 3; i++) {
      const reply = await call("POST", "/api/jobs", { body });
      expect(reply).toMatchObject({ status: 201, body: { id: "job_1", status: "queued" } });
    }
    const asForm = await form({ prompt: "x", job_id: "job_1", metadata: '{"a":1}' });
    expect(asForm.status).toBe(201);
    expect((await store.find({})).jobs).toHaveLength(1);
  });

  it("with an id that belongs to another body is refused", async () => {
    const { call } = await startOpal();
    await call("POST", "/api/jobs", { body: { prompt: "x", job_id: "job_1" } });
    const { status, body } = await call("POST", "/api/jobs", { body: { prompt: "y", job_id: "job_1" } });
    expect({ status, ...body }).toEqual({ status: 409, detail: expect.stringMatching(/^job_id: job_1 belongs to/) });
  });

  it.each([
    ["no prompt", {}, /^prompt: /],
    ["an empty prompt", { prompt: " " }, /^prompt: /],
    ["an unknown field", { prompt: "x", promt: "y" }, /^promt: unknown field "promt".*Did you mean "prompt"\?/],
    ["a field of a prototype", '{"prompt":"x","__proto__":{}}', /^__proto__: unknown field/],
    ["a bad id", { prompt: "x", job_id: "a/b" }, /^job_id: /],
    ["a bad file", { prompt: "x", input_file: "a.png" }, /^input_file: /],
    [
      "a file with an unknown field",
      { prompt: "x", input_file: { name: "a", base64: "", mime: "" } },
      /^input_file\.mime: /,
    ],
    ["a file that is no base64", { prompt: "x", input_file: { name: "a", base64: "?" } }, /^input_file: /],
    ["long metadata", { prompt: "x", metadata: "m".repeat(70_000) }, /^metadata: /],
    ["a list", [], /^body: /],
    ["no body", undefined, /^body: /],
  ])("refuses %s, naming it", async (_, body, message) => {
    const { call, store } = await startOpal();
    const reply = await call("POST", "/api/jobs", { body });
    expect(reply).toMatchObject({ status: 400, body: { detail: expect.stringMatching(message) } });
    expect((await store.find({})).jobs).toEqual([]);
  });

  it.each([
    ["an unknown field", { prompt: "x", priority: "1" }, /^priority: unknown field/],
    ["metadata that is no JSON", { prompt: "x", metadata: "{" }, /^metadata: /],
    ["a file that is a text", { prompt: "x", input_file: "photo.png" }, /^input_file: .*a file/],
    ["a prompt that is a file", { prompt: new File(["x"], "x") }, /^prompt: /],
  ])("refuses in a form %s, naming it", async (_, fields, message) => {
    const { form } = await startOpal();
    const reply = await form(fields as Record<string, string | Blob>);
    expect(reply.status).toBe(400);
    expect(await reply.json()).toEqual({ detail: expect.stringMatching(message) });
  });

  it("refuses an invalid form, or one that has a field twice", async () => {
    const { url, admin } = await startOpal();
    const post = (body: string, boundary = "; boundary=B") => {
      const headers = { authorization: `Bearer ${admin}`, "content-type": `multipart/form-data${boundary}` };
      return fetch(`${url}/api/jobs`, { method: "POST", headers, body });
    };
    const part = '--B\r\ncontent-disposition: form-data; name="prompt"\r\n\r\nx\r\n';
    for (const [body, boundary] of [
      ["hello"],
      [""],
      [part],
      [`${part}--B--\r\n`, ""],
      [`${part}--B--\r\n`, "; boundary="],
    ]) {
      const reply = await post(body as string, boundary);
      expect([reply.status, reply.headers.get("perdure-error-code")]).toEqual([400, "invalid_request"]);
    }
    const twice = await post(`${part}${part}--B--\r\n`);
    expect(await twice.json()).toEqual({ detail: "prompt: is given more than once." });
    expect((await post(`${part}--B--\r\n`)).status).toBe(201);
  });

  it("refuses what is too large for a job, with what to do about it", async () => {
    const { call, form } = await startOpal();
    const base64 = "A".repeat(1_048_576);
    const asJson = await call("POST", "/api/jobs", { body: { prompt: "x", input_file: { name: "a", base64 } } });
    expect(asJson).toMatchObject({ status: 413, body: { detail: expect.stringContaining("send its address") } });
    // The first exceeds a job's limit only as base64, the second also before.
    for (const size of [900_000, 5_000_000]) {
      const asForm = await form({ prompt: "x", input_file: new File([new Uint8Array(size)], "a") });
      expect(asForm.status).toBe(413);
      expect(await asForm.json()).toEqual({ detail: expect.stringContaining("send its address") });
    }
    expect((await form({ prompt: "x", input_file: new File([new Uint8Array(700_000)], "a") })).status).toBe(201);
  });

  it("refuses bodies of other types, and compressed ones", async () => {
    const { call } = await startOpal();
    const other = { body: "prompt=x", headers: { "content-type": "application/x-www-form-urlencoded" } };
    expect((await call("POST", "/api/jobs", other)).status).toBe(415);
    const small = { body: { prompt: "x" }, headers: { "content-encoding": "gzip" } };
    expect((await call("POST", "/api/jobs", small)).status).toBe(415);
  });

  it("refuses without a configured engine; existing jobs can still be read", async () => {
    const { call } = await startOpal({ engine: null });
    const { status, headers, body } = await call("POST", "/api/jobs", { body: { prompt: "x" } });
    expect([status, headers.get("perdure-error-code")]).toEqual([409, "wrong_state"]);
    expect(body.detail).toContain("no opal.engine is configured");
    expect(await call("GET", "/api/jobs")).toMatchObject({ status: 200, body: {} });
  });
});

describe("GET /api/jobs", () => {
  it("answers an object keyed by id, each job with its ten keys", async () => {
    const { call, work, ended } = await startOpal();
    await call("POST", "/api/jobs", { body: { prompt: "x", job_id: "__proto__" } });
    await call("POST", "/api/jobs", { body: { prompt: "x", job_id: "job_b" } });
    const { text } = await call("GET", "/api/jobs");
    const waiting = JSON.parse(text) as Record<string, object>;
    expect(Object.keys(waiting).sort()).toEqual(["__proto__", "job_b"]);
    for (const id of Object.keys(waiting)) {
      expect(Object.keys(waiting[id] as object).sort()).toEqual(TEN_KEYS);
      expect(waiting[id]).toMatchObject({ id, status: "queued", error: null, outputs: [], worker_id: null });
    }

    await work();
    await ended("job_b");
    const { body } = await call("GET", "/api/jobs");
    expect(Object.keys(body.job_b).sort()).toEqual(TEN_KEYS);
    expect(body.job_b).toMatchObject({
      ...{ status: "succeeded", error: null, worker_id: expect.stringMatching(/-\d+$/) },
      run_provenance: { engine: "sh", attempt: 1, exit_code: 0, worker_id: body.job_b.worker_id },
    });
    expect((await call("GET", "/api/jobs/job_b")).body).toEqual(body.job_b);
  });

  it("has only OPAL's jobs, of the caller's namespace only", async () => {
    const { call, token } = await startOpal();
    await call("POST", "/v1/jobs", { body: { kind: "exec", input: { argv: ["true"] }, key: "opal:other" } });
    await call("POST", "/v1/jobs", { body: { kind: "exec", input: { argv: ["true"] }, tags: ["opal"] } });
    const theirs = await token({ namespace: "theirs", scopes: ["read", "submit"] });
    await call("POST", "/api/jobs", { body: { prompt: "x", job_id: "job_1" }, token: theirs });
    await call("POST", "/api/jobs", { body: { prompt: "mine", job_id: "job_1" } });
    await call("POST", "/api/jobs", { body: { prompt: "mine", job_id: "job_2" } });

    expect(Object.keys((await call("GET", "/api/jobs")).body)).toEqual(["job_2", "job_1"]);
    expect(Object.keys((await call("GET", "/api/jobs", { token: theirs })).body)).toEqual(["job_1"]);
    for (const id of ["other", "job_3", "..%2fjob_1", "job_1%00"]) {
      expect((await call("GET", `/api/jobs/${id}`)).body).toEqual({ detail: "Job not found" });
    }
    const foreign = await call("GET", "/api/jobs/job_2", { token: theirs });
    const unknown = await call("GET", "/api/jobs/job_9", { token: theirs });
    expect([foreign.status, foreign.body]).toEqual([404, unknown.body]);
  });

  it("has jobs of files that name no id, under their own", async () => {
    const { call, engine, work, token } = await startOpal();
    const settings = { ...DIALECT_DEFAULTS, opal: { ...DIALECT_DEFAULTS.opal, engine: ENGINE } };
    const [entry] = opal.read({ prompt: "x" }, readContext({ settings })).jobs;
    const { task: kind, input, options } = entry as ReadEntry;
    const { body: stored } = await call("POST", "/v1/jobs", { body: { kind, input, ...options } });
    const { id, chapter } = stored;
    expect(Object.keys((await call("GET", "/api/jobs")).body)).toEqual([id]);
    await work();
    await engine.waitForEnd(id, chapter, { timeoutMs: 20_000 });
    const { body: shown } = await call("GET", `/api/jobs/${id}`);
    expect(shown).toMatchObject({ id, status: "succeeded" });
    const report = shown.outputs.find(({ name }: { name: string }) => name === "report.json");
    expect(JSON.parse((await call("GET", report.href)).text)).toMatchObject({ job_id: id });
    const theirs = await token({ namespace: "theirs", scopes: ["read"] });
    expect((await call("GET", `/api/jobs/${id}`, { token: theirs })).status).toBe(404);
  });

  it("shows when a job was last changed, also by a redrive", async () => {
    const { call, engine, store } = await startOpal();
    await call("POST", "/api/jobs", { body: { prompt: "x", job_id: "job_1" } });
    const [{ id } = { id: "" }] = (await store.find({})).jobs;
    await engine.command(id, { kind: "cancel", by: null });
    const { body: before } = await call("GET", "/api/jobs/job_1");
    while (Date.now() <= Date.parse(before.updated_at)) await new Promise((resolve) => setImmediate(resolve));
    await engine.command(id, { kind: "redrive", by: null });
    const last = (await store.history(id))?.events.at(-1)?.at ?? 0;
    const { body: plain } = await call("GET", "/api/jobs/job_1");
    expect(plain).toMatchObject({ status: "queued", updated_at: new Date(last).toISOString() });
    expect(Date.parse(plain.updated_at)).toBeGreaterThan(Date.parse(before.updated_at));
    const { attempts, ...rest } = (await call("GET", "/api/jobs/job_1?include_attempts=1")).body;
    expect([rest, attempts.updated_at]).toEqual([plain, plain.updated_at]);
  });

  it("has the newest thousand", async () => {
    const { call, engine, store } = await startOpal();
    await call("POST", "/api/jobs", { body: { prompt: "x", job_id: "job_0" } });
    const [first] = (await store.find({})).jobs;
    if (first === undefined) throw new Error("not submitted");
    const { kind, payload, policy, tags } = first;
    const items = Array.from({ length: 1_050 }, (_, i) => ({ kind, payload, policy, tags, key: `opal:job_${i + 1}` }));
    await engine.submit(items);
    const ids = Object.keys((await call("GET", "/api/jobs")).body);
    expect([ids.length, ids[0], ids.at(-1)]).toEqual([1_000, "job_1050", "job_51"]);
  });

  it("shows the error of the table: for failures, losses and a cancel", async () => {
    const { call, work, ended, store } = await startOpal({ engine: ["sh", "-c", "echo no such model >&2; exit 7"] });
    await call("POST", "/api/jobs", { body: { prompt: "x", job_id: "bad" } });
    await work();
    await ended("bad");
    const { body } = await call("GET", "/api/jobs/bad");
    expect(body).toMatchObject({
      ...{ status: "failed", error: "exit code 7: no such model", run_provenance: { exit_code: 7, attempt: 1 } },
    });
    await call("POST", "/api/jobs", { body: { prompt: "SLEEP", job_id: "stopped" } });
    const [row] = (await store.find({ key: "opal:stopped" })).jobs;
    await call("POST", `/v1/jobs/${row?.id}/cancel`);
    await ended("stopped");
    expect((await call("GET", "/api/jobs/stopped")).body.status).toBe("failed");
  });
});

describe("?include_attempts=true", () => {
  it("adds the attempt document, and nothing else changes", async () => {
    const { call, work, ended } = await startOpal();
    await call("POST", "/api/jobs", { body: { prompt: "x", job_id: "job_1" } });
    await work();
    await ended("job_1");
    const { body: plain } = await call("GET", "/api/jobs/job_1");
    const { attempts, ...rest } = (await call("GET", "/api/jobs/job_1?include_attempts=true")).body;
    expect(rest).toEqual(plain);
    expect(Object.keys(attempts)).toEqual([
      ...["job_id", "attempts", "updated_at", "not_before", "backoff_secs_applied", "reclaim", "history"],
    ]);
    expect(attempts).toMatchObject({
      ...{ job_id: "job_1", attempts: 1, not_before: null, reclaim: null },
      history: [{ attempt: 1, outcome: "succeeded", error: null, worker_id: plain.worker_id, backoff_secs: null }],
    });
    const { body: all } = await call("GET", "/api/jobs?include_attempts=1");
    expect(all).toEqual({ job_1: { ...plain, attempts } });
    for (const no of ["false", "0", "", "no"]) {
      expect((await call("GET", `/api/jobs/job_1?include_attempts=${no}&_=17`)).body).toEqual(plain);
    }
    const wrong = await call("GET", "/api/jobs?include_attempts=maybe");
    expect(wrong).toMatchObject({ status: 400, body: { detail: expect.stringMatching(/^include_attempts: /) } });
  });
});

describe("artifacts", () => {
  it("are where their links point, and name the attempt", async () => {
    const script =
      'echo "of $PERDURE_ATTEMPT" > "artifacts/a&b %41.txt"; mkdir artifacts/sub; echo s > artifacts/sub/ü.txt';
    const { call, work, ended, token } = await startOpal({ engine: ["sh", "-c", script] });
    await call("POST", "/api/jobs", { body: { prompt: "x", job_id: "job_1" } });
    await work();
    await ended("job_1");
    const { outputs } = (await call("GET", "/api/jobs/job_1")).body;
    const texts: Record<string, string> = {};
    for (const { name, href, size } of outputs) {
      const reply = await call("GET", href);
      expect(href).toMatch(/^\/api\/artifacts\/job_1\/attempt_1\//);
      expect(reply.status).toBe(200);
      expect(reply.headers.get("content-disposition")).toMatch(/^attachment/);
      expect(reply.headers.get("content-security-policy")).toContain("sandbox");
      expect(Buffer.byteLength(reply.text)).toBe(size);
      texts[name] = reply.text;
    }
    expect(texts).toEqual({ "a&b %41.txt": "of 1\n", "sub/ü.txt": "s\n" });

    const base = "/api/artifacts/job_1";
    for (const path of [
      ...[
        `${base}/attempt_2/sub/ü.txt`,
        `${base}/1/sub/ü.txt`,
        `${base}/attempt_01/sub/ü.txt`,
        `${base}/attempt_1/none`,
      ],
      ...[`${base}/attempt_1/sub`, `${base}/attempt_1/`, "/api/artifacts/job_2/attempt_1/sub/ü.txt"],
    ]) {
      expect([path, (await call("GET", path)).status]).toEqual([path, 404]);
    }
    const other = await token({ namespace: "other" });
    expect((await call("GET", outputs[0].href, { token: other })).status).toBe(404);
  });
});

describe("attempt_N/result.json", () => {
  it('always exists ("attempt_1/ … result.json"): a made one, or the engine\'s own byte for byte', async () => {
    const own = '{ "status":"completed",\n"summary": "\\u00e4 boat" }';
    const script = `case "$OPAL_PROMPT" in own) printf %s "$OWN" > result.json;; output) echo hi > artifacts/result.json;; *) exit 7; esac`;
    const { call, engine, work, ended, token } = await startOpal({
      engine: ["env", `OWN=${own}`, "sh", "-c", script],
      env: { OPAL_RETRY_BACKOFFS: "[0, 0]" },
    });
    const result = async (id: string, attempt: number) =>
      call("GET", `/api/artifacts/${id}/attempt_${attempt}/result.json`);
    await call("POST", "/api/jobs", { body: { prompt: "fail", job_id: "job_1" } });
    expect((await result("job_1", 1)).status).toBe(404); // no attempt, no folder
    const session = await engine.openSession({
      ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: ["exec"], queues: null, labels: {}, slots: 1 },
    });
    await engine.claim(session, { limit: 1, waitMs: 0, claimId: null });
    const running = await result("job_1", 1);
    expect(running.headers.get("content-disposition")).toMatch(/^attachment/);
    expect(JSON.parse(running.text)).toMatchObject({ job_id: "job_1", attempt: 1, status: "running", worker_id: "w" });
    await engine.closeSession(session);
    await engine.reap();
    expect(JSON.parse((await result("job_1", 1)).text)).toMatchObject({
      ...{ status: "failed", outcome: "lease_expired", error: "lease_expired_retry_1", exit_code: null },
    });

    for (const prompt of ["own", "output"]) await call("POST", "/api/jobs", { body: { prompt, job_id: prompt } });
    await work();
    for (const id of ["job_1", "own", "output"]) await ended(id);
    expect(JSON.parse((await result("job_1", 2)).text)).toMatchObject({
      ...{ attempt: 2, status: "failed", error: "exit code 7", exit_code: 7, completed_at: expect.any(String) },
    });
    expect((await result("own", 1)).text).toBe(own);
    // This is also the address of an output with that name.
    const [output] = (await call("GET", "/api/jobs/output")).body.outputs;
    expect([output.href, (await call("GET", output.href)).text]).toEqual([
      ...["/api/artifacts/output/attempt_1/result.json", "hi\n"],
    ]);
    for (const attempt of [0, 3, 999_999_999]) expect((await result("job_1", attempt)).status).toBe(404);
    const other = await token({ namespace: "other", scopes: ["read"] });
    const foreign = await call("GET", "/api/artifacts/own/attempt_1/result.json", { token: other });
    expect(foreign.status).toBe(404);
  });
});

describe("GET /api/workers", () => {
  it("lists who works, and who did a while ago", async () => {
    const { call, work, engine } = await startOpal();
    expect((await call("GET", "/api/workers")).body).toEqual([]);
    await work();
    const { body } = await call("GET", "/api/workers");
    expect(body).toEqual([
      {
        ...{ id: expect.stringMatching(/-\d+$/), name: body[0].id, host: expect.any(String), pid: process.pid },
        ...{ status: "online", last_seen: expect.stringMatching(/^\d{4}-.*Z$/), current_jobs: 0 },
      },
    ]);
    const session = {
      namespace: "default",
      name: "old",
      host: "h",
      pid: 1,
      kinds: ["exec"],
      queues: null,
      labels: {},
      slots: 1,
    };
    await engine.closeSession(await engine.openSession(session));
    await engine.openSession({ ...session, namespace: "other" });
    const after = (await call("GET", "/api/workers")).body as { name: string; status: string }[];
    expect(after.filter(({ status }) => status === "offline").map(({ name }) => name)).toEqual(["old"]);
    expect(after).toHaveLength(2);
  });

  it("shows a worker behind 2,000 that have ended, and its name with its job", async () => {
    const { call, work, engine, ended } = await startOpal();
    const session = { namespace: "default", host: "h", pid: 1, kinds: ["other"], queues: null, labels: {}, slots: 1 };
    const ids = await Promise.all(
      Array.from({ length: 2_001 }, (_, n) => engine.openSession({ ...session, name: `${n}` })),
    );
    await Promise.all(ids.map((id) => engine.closeSession(id)));
    await work();
    const workers = (await call("GET", "/api/workers")).body as { name: string; status: string }[];
    const online = workers.filter(({ status }) => status === "online").map(({ name }) => name);
    expect(online).toHaveLength(1);
    const { body } = await call("POST", "/api/jobs", { body: { prompt: "paint a boat" } });
    await ended(body.id);
    expect((await call("GET", `/api/jobs/${body.id}`)).body.worker_id).toBe(online[0]);
  });
});
