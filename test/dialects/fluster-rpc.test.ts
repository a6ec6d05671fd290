/** fluster's controller calls over the Connect protocol: raw requests, because no client for it is installed. */
import { spawnSync } from "node:child_process";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import type { KitOptions } from "../server/kit.ts";
import { type FlusterServer, pickled, SERVICE, startFluster } from "./fluster-rpc-kit.ts";

const HAS_PYTHON = spawnSync("python3", ["--version"]).status === 0;
const HAS_CLOUDPICKLE = HAS_PYTHON && spawnSync("python3", ["-c", "import cloudpickle"]).status === 0;
const TRUE = { entrypoint: ["true"] };

describe("LaunchJob", () => {
  it("returns the name as the job id, which GetJobStatus accepts, like Perdure's own id", async () => {
    const { rpc, status, store } = await startFluster();
    const name = "my-experiment/worker-0/task-1";
    const launched = await rpc("LaunchJob", { name, ...TRUE });
    expect(launched).toMatchObject({ status: 200, body: { jobId: name } });
    expect(launched.headers.get("content-type")).toMatch(/^application\/json/);
    const shown = { jobId: name, state: "JOB_STATE_PENDING", maxRetriesPreemption: 100 };
    expect(await status(name)).toEqual(shown); // fields with their default are left out
    const [row] = (await store.find({ key: `fluster:${name}` })).jobs;
    expect(await status(row?.id as string)).toEqual(shown);
  });

  it("of a name that exists is already_exists, also after a lost reply", async () => {
    const { rpc, store } = await startFluster();
    expect((await rpc("LaunchJob", { name: "a", ...TRUE })).status).toBe(200);
    for (const body of [
      { name: "a", ...TRUE },
      { name: "a", entrypoint: ["false"] },
    ]) {
      const again = await rpc("LaunchJob", body);
      expect([again.status, again.body]).toEqual([409, { code: "already_exists", message: "Job a already exists" }]);
    }
    expect((await store.find({})).jobs).toHaveLength(1);
    const atOnce = await Promise.all(Array.from({ length: 5 }, () => rpc("LaunchJob", { name: "b", ...TRUE })));
    expect(atOnce.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409]);
  });

  it.each(["sqlite", "postgres"] as const)(
    "launches one job of a name at once under several parents: %s",
    async (store) => {
      let held: Promise<void> | null = null;
      let release = () => {};
      let searches = 0;
      const options: KitOptions = {
        store,
        wrapStore: (wrapped) =>
          new Proxy(wrapped, {
            get: (target, name) => {
              const value = Reflect.get(target, name) as unknown;
              if (name !== "find") return typeof value === "function" ? value.bind(target) : value;
              return async (filter: { readonly tag?: string }) => {
                const found = await target.find(filter as never);
                if (held !== null && filter.tag === "fluster:x") {
                  searches += 1;
                  if (searches === 6) release();
                  await held; // each search has found no job
                }
                return found;
              };
            },
          }),
      };
      const first = await startFluster(options);
      // With SQLite there is only one server.
      const second = store === "sqlite" ? first : await startFluster({ ...options, url: first.storeUrl });
      for (const name of ["p", "q"]) await first.rpc("LaunchJob", { name, ...TRUE });
      held = new Promise((resolve) => {
        release = resolve;
      });
      const launch = ({ rpc }: FlusterServer, parentJobId: string, n: number) =>
        rpc("LaunchJob", { name: "x", parentJobId, entrypoint: { command: ["echo", `${n % 2}`] } });
      const replies = await Promise.all(
        ["p", "q", "", "p", "q", ""].map((parent, i) => launch(i < 3 ? first : second, parent, i)),
      );
      expect(replies.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409]);
      expect((await first.store.find({ tag: "fluster:x" })).jobs).toMatchObject([{ key: "fluster:x" }]);
      held = null;
      await first.rpc("TerminateJob", { jobId: "x" });
      expect(await first.status("x")).toMatchObject({ state: "JOB_STATE_KILLED" });
    },
  );

  it("parses RetryConfig from request, in either naming, and echoes it", async () => {
    const { rpc, status, store } = await startFluster();
    const retry = {
      ...{ maxRetriesFailure: 3, max_retries_preemption: "7", initialRetryDelayMs: "500", maxRetryDelayMs: 30_000 },
      ...{ backoff_multiplier: "1.5", retryOnExitCodes: [137, "139"], no_retry_on_exit_codes: [1] },
    };
    const body = { name: "a", ...TRUE, retry, schedulingTimeoutSeconds: 60, resources: { cpu: 1, memory: "512m" } };
    expect((await rpc("LaunchJob", body)).status).toBe(200);
    expect(await status("a")).toMatchObject({ maxRetriesFailure: 3, maxRetriesPreemption: 7 });
    const [row] = (await store.find({})).jobs;
    expect(row).toMatchObject({
      policy: {
        ...{ maxAttempts: 4, retryOnExitCodes: [137, 139], noRetryOnExitCodes: [1] },
        ...{ backoff: { initialMs: 500, maxMs: 30_000, factor: 1.5 }, workerLost: { maxRetries: 7 } },
      },
      ...{ expireInMs: 60_000, tags: ["fluster", "fluster:a"] },
    });
  });

  it("leaves out what holds its default, as clients send it, and keeps a 0 of a retry config", async () => {
    const { rpc, status } = await startFluster();
    const empty = { bundleBlob: "", bundleHash: "", bundleGcsPath: "", parentJobId: "", ports: [], environment: null };
    const body = { name: "a", ...TRUE, ...empty, schedulingTimeoutSeconds: 0, aFieldOfTomorrow: false, more: { x: 0 } };
    expect((await rpc("LaunchJob", { ...body, retry: { maxRetriesPreemption: 0 } })).status).toBe(200);
    expect(await status("a")).toEqual({ jobId: "a", state: "JOB_STATE_PENDING" });
  });

  it("shows what it asks for and does not get as statusMessage", async () => {
    const { rpc, status } = await startFluster();
    const environment = { workspace: "/app", pipPackages: ["numpy"] };
    await rpc("LaunchJob", { name: "a", ...TRUE, environment, bundleHash: "abc" });
    const { statusMessage } = await status("a");
    expect(statusMessage).toMatch(/environment\.workspace is ignored.*pip_packages.*bundle_hash is not used/);
  });

  it("takes a task of a worker, too", async () => {
    const { rpc, store } = await startFluster();
    await rpc("LaunchJob", { name: "a", entrypoint: { task: "resize", args: { url: "x" } } });
    expect((await store.find({})).jobs[0]).toMatchObject({ kind: "resize", payload: '{"url":"x"}' });
  });
});

describe("bad input", () => {
  const ARGUMENT = "invalid_argument";

  it.each<[string, unknown, RegExp]>([
    ["an empty body", "", /body is empty/],
    ["no JSON", "{", /not JSON/],
    ["a list", [], /^body: must be .*; got \[\]/],
    ["no name", TRUE, /Job name is required/],
    ["an empty name", { name: "", ...TRUE }, /Job name is required/],
    ["a name of spaces", { name: "  ", ...TRUE }, /^name: /],
    ["a name with NUL", { name: "a\0b", ...TRUE }, /^name: /],
    ["a name that is too long", { name: "n".repeat(193), ...TRUE }, /^name: .*1 to 192 characters/],
    ["a name like an id of ours", { name: "job_01m7gekg9zevv9a6xvvwmt1v8g", ...TRUE }, /read as the id/],
    ["a name of another type", { name: 7, ...TRUE }, /^name: must be a text; got 7/],
    ["no entrypoint", { name: "a" }, /^serialized_entrypoint: no entrypoint/],
    ["two entrypoints", { name: "a", ...TRUE, serializedEntrypoint: "gASVAA==" }, /both serialized_entrypoint and/],
    ["bytes that are not base64", { name: "a", serializedEntrypoint: "?!" }, /^serializedEntrypoint: .*not base64/],
    ["a field under two names", { name: "a", ...TRUE, parentJobId: "x", parent_job_id: "x" }, /two names of one field/],
    ["an unknown field", { name: "a", ...TRUE, portz: ["a"] }, /unknown field "portz".*Did you mean "ports"\?/],
    [
      "an unknown field within",
      { name: "a", ...TRUE, retry: { maxRetryFailure: 3 } },
      /^retry\.maxRetryFailure: .*"maxRetriesFailure"\?/,
    ],
    [
      "a negative number",
      { name: "a", ...TRUE, retry: { maxRetriesFailure: -1 } },
      /^retry\.max_retries_failure: must be .*; got -1/,
    ],
    ["a part of an int32", { name: "a", ...TRUE, retry: { maxRetriesFailure: 1.5 } }, /a whole number of 32 bits/],
    ["an int32 that overflows", { name: "a", ...TRUE, schedulingTimeoutSeconds: 2 ** 31 }, /a whole number of 32 bits/],
    ["an int64 that overflows", { name: "a", ...TRUE, retry: { maxRetryDelayMs: "9223372036854775808" } }, /64 bits/],
    [
      "an int64 beyond our limit",
      { name: "a", ...TRUE, retry: { maxRetryDelayMs: "9223372036854774784" } },
      /^retry\.max_retry_delay_ms: /,
    ],
    ["a number that is invalid", { name: "a", ...TRUE, retry: { backoffMultiplier: "NaN" } }, /a finite number/],
    ["a list that is text", { name: "a", ...TRUE, ports: "http" }, /^ports: /],
    [
      "variables that are not text",
      { name: "a", ...TRUE, environment: { envVars: { A: 1 } } },
      /^environment\.envVars\.A: /,
    ],
    [
      "a message that is not an object",
      { name: "a", ...TRUE, resources: "1g" },
      /^resources: must be a JSON object, such as .*; got "1g"/,
    ],
    ["memory that is not an amount", { name: "a", ...TRUE, resources: { memory: "lots" } }, /^resources\.memory: /],
    [
      "a bundle elsewhere",
      { name: "a", serializedEntrypoint: "gASVAA==", bundleGcsPath: "gs://b/x.zip" },
      /must be left out: .*; use bundle_blob/,
    ],
    ["a bundle of a command", { name: "a", ...TRUE, bundleBlob: "UEsF" }, /^bundle_blob: .*for serialized_entrypoint/],
  ])("of LaunchJob: %s is invalid_argument, and nothing is stored", async (_, body, message) => {
    const { rpc, store } = await startFluster();
    const reply = await rpc("LaunchJob", body);
    expect(reply).toMatchObject({ status: 400, body: { code: ARGUMENT, message: expect.stringMatching(message) } });
    expect(Object.keys(reply.body)).toEqual(["code", "message"]);
    expect((await store.find({})).jobs).toEqual([]);
  });

  it("of the others: a job_id that is missing, of another type, twice, or wants a result", async () => {
    const { rpc } = await startFluster();
    for (const name of ["GetJobStatus", "TerminateJob"]) {
      for (const body of [{}, { jobId: 7 }, { jobId: "a", job_id: "a" }, { jobId: "" }, [], "nonsense"]) {
        expect(await rpc(name, body)).toMatchObject({ status: 400, body: { code: ARGUMENT } });
      }
    }
    expect((await rpc("GetJobStatus", { jobId: "a", includeResult: true })).body.message).toMatch(
      /is not kept.*`perdure artifacts NAME FILE`/,
    );
    expect(await rpc("ListJobs", { namespace: "elsewhere" })).toMatchObject({ status: 400, body: { code: ARGUMENT } });
    expect(await rpc("ListJobs", { namespace: "default" })).toMatchObject({ status: 200, body: {} });
  });

  it("of a payload that is too large is resource_exhausted, with what to do", async () => {
    const { rpc } = await startFluster();
    const body = { name: "a", serializedEntrypoint: "A".repeat(1_048_576) };
    const reply = await rpc("LaunchJob", body);
    expect(reply).toMatchObject({ status: 429, body: { code: "resource_exhausted" } });
    expect(reply.body.message).toMatch(/1048576 bytes in base64; put large values into bundle_blob/);
    expect(await rpc("LaunchJob", "x".repeat(11_000_000))).toMatchObject({ body: { code: "resource_exhausted" } });
  });
});

describe("the Connect protocol", () => {
  it("takes gzip, as fluster's client sends by default, and never more than the limit once it is unpacked", async () => {
    const { rpc } = await startFluster();
    const headers = { "content-encoding": "gzip" };
    const launched = await rpc("LaunchJob", gzipSync(JSON.stringify({ name: "a", ...TRUE })), { headers });
    expect(launched).toMatchObject({ status: 200, body: { jobId: "a" } });
    const bomb = await rpc("LaunchJob", gzipSync(" ".repeat(50_000_000)), { headers });
    expect(bomb).toMatchObject({ status: 429, body: { code: "resource_exhausted" } });
    const plain = await rpc("LaunchJob", "{}", { headers });
    expect(plain).toMatchObject({ status: 400, body: { code: "invalid_argument" } });
    expect(plain.body.message).toContain("not gzip");
  });

  it("supports no other codec: 415 with Accept-Post; no other compression: unimplemented", async () => {
    const { rpc } = await startFluster();
    const proto = await rpc("ListJobs", "\n\0", { headers: { "content-type": "application/proto" } });
    expect([proto.status, proto.headers.get("accept-post")]).toEqual([415, "application/json"]);
    // A message with only default values is empty on the wire.
    for (const type of ["application/proto", "application/grpc", "application/connect+proto", "text/plain"]) {
      const empty = await rpc("ListJobs", "", { headers: { "content-type": type } });
      expect([type, empty.status, empty.headers.get("accept-post")]).toEqual([type, 415, "application/json"]);
    }
    const zstd = await rpc("ListJobs", "{}", { headers: { "content-encoding": "zstd" } });
    expect(zstd).toMatchObject({ status: 501, body: { code: "unimplemented" } });
    expect(zstd.body.message).toContain("supported encodings are gzip and identity");
  });

  it("supports only POST, and answers the service's other calls as unimplemented", async () => {
    const { call, rpc } = await startFluster();
    for (const method of ["GET", "PUT", "DELETE"]) {
      const reply = await call(method, `${SERVICE}/ListJobs?encoding=json&message=%7B%7D`);
      expect([reply.status, reply.headers.get("allow")]).toEqual([405, "POST"]);
    }
    for (const name of ["RegisterWorker", "Heartbeat", "ListWorkers", "LookupEndpoint", "NoSuchCall"]) {
      const message = `${name} is not implemented`;
      expect(await rpc(name, {})).toMatchObject({ status: 501, body: { code: "unimplemented", message } });
    }
  });

  it("has version 1, or none", async () => {
    const { call } = await startFluster();
    const list = (headers: Record<string, string>) => call("POST", `${SERVICE}/ListJobs`, { body: {}, headers });
    expect((await list({})).status).toBe(200);
    expect((await list({ "content-type": "application/json; charset=utf-8" })).status).toBe(200);
    expect(await list({ "connect-protocol-version": "2" })).toMatchObject({
      ...{
        status: 400,
        body: { code: "invalid_argument", message: expect.stringMatching(/^connect-protocol-version|^\["connect/) },
      },
    });
  });

  it("takes a deadline, and ends the call when it is over", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { call, rpc, store } = await startFluster({
      wrapStore: (store) =>
        new Proxy(store, {
          get: (target, name) => {
            const value = Reflect.get(target, name) as unknown;
            if (name === "find") return (filter: never) => held.then(() => target.find(filter));
            return typeof value === "function" ? value.bind(target) : value;
          },
        }),
    });
    const list = (timeout: string) =>
      call("POST", `${SERVICE}/ListJobs`, { body: {}, headers: { "connect-timeout-ms": timeout } });
    expect(await list("1")).toMatchObject({ status: 504, body: { code: "deadline_exceeded" } });
    release();
    expect((await list("9999999999")).status).toBe(200);
    const late = { headers: { "connect-timeout-ms": "0" } };
    const launched = await rpc("LaunchJob", { name: "a", ...TRUE }, late);
    expect(launched).toMatchObject({ status: 504, body: { code: "deadline_exceeded" } });
    expect((await store.find({})).jobs).toEqual([]);
    for (const wrong of ["soon", "-1", "1.5", "99999999999"]) {
      expect(await list(wrong)).toMatchObject({ status: 400, body: { code: "invalid_argument" } });
    }
  });

  it("refuses callers without a token, with a wrong one, or without the scope, in its own form", async () => {
    const { rpc, token } = await startFluster();
    const [read, submit] = [await token({ scopes: ["read"] }), await token({ scopes: ["submit"] })];
    for (const name of ["LaunchJob", "GetJobStatus", "TerminateJob", "ListJobs", "RegisterWorker"]) {
      for (const wrong of [null, "wrong"]) {
        expect(await rpc(name, {}, { token: wrong })).toMatchObject({ status: 401, body: { code: "unauthenticated" } });
      }
      const reads = name === "GetJobStatus" || name === "ListJobs";
      if (name === "RegisterWorker") continue;
      const denied = await rpc(name, {}, { token: reads ? submit : read });
      expect(denied).toMatchObject({ status: 403, body: { code: "permission_denied" } });
      expect((await rpc(name, {}, { token: reads ? read : submit })).status).not.toBe(403);
    }
  });

  it("shows and ends nothing of another namespace", async () => {
    const { rpc, token } = await startFluster();
    await rpc("LaunchJob", { name: "a", ...TRUE });
    const other = await token({ scopes: ["read", "submit"], namespace: "other" });
    for (const name of ["GetJobStatus", "TerminateJob"]) {
      const reply = await rpc(name, { jobId: "a" }, { token: other });
      expect([reply.status, reply.body]).toEqual([404, { code: "not_found", message: "Job a not found" }]);
    }
    expect((await rpc("ListJobs", {}, { token: other })).body).toEqual({});
    expect((await rpc("LaunchJob", { name: "a", ...TRUE }, { token: other })).status).toBe(200);
  });
});

describe("TerminateJob", () => {
  it("kills a job that waits, leaves one that has ended, and reports which do not exist", async () => {
    const { rpc, status } = await startFluster();
    await rpc("LaunchJob", { name: "a", ...TRUE });
    for (let i = 0; i < 2; i++)
      expect(await rpc("TerminateJob", { jobId: "a" })).toMatchObject({ status: 200, body: {} });
    expect(await status("a")).toMatchObject({ state: "JOB_STATE_KILLED", error: "Terminated by user" });
    for (const jobId of ["b", "b\0", "x".repeat(10_000), "job_01m7gekg9zevv9a6xvvwmt1v8g"]) {
      for (const name of ["GetJobStatus", "TerminateJob"]) {
        expect(await rpc(name, { jobId })).toMatchObject({ status: 404, body: { code: "not_found" } });
      }
    }
  });

  it("of a parent terminates its children, and theirs, also where the parent has ended", async () => {
    const { rpc, status, work, ended, engine, store } = await startFluster();
    const launch = (name: string, parentJobId = "", more: object = TRUE) =>
      rpc("LaunchJob", { name, parentJobId, ...more });
    await launch("exp");
    expect(await launch("exp/w0", "exp")).toMatchObject({ body: { jobId: "exp/w0" } });
    const [w0] = (await store.find({ tag: "fluster:exp/w0" })).jobs;
    await launch("exp/w0/t1", w0?.id);
    expect(await status("exp/w0/t1")).toMatchObject({ jobId: "exp/w0/t1", parentJobId: "exp/w0" });
    expect(await launch("exp/w0/t1", "exp/w0")).toMatchObject({ body: { code: "already_exists" } });
    expect(await launch("exp/w0", "")).toMatchObject({ body: { code: "already_exists" } });
    expect(await launch("x", "nobody")).toMatchObject({ status: 404, body: { code: "not_found" } });
    await rpc("TerminateJob", { jobId: "exp" });
    for (const name of ["exp", "exp/w0", "exp/w0/t1"]) {
      expect(await ended(name)).toMatchObject({ state: "JOB_STATE_KILLED" });
    }
    expect(await launch("late", "exp")).toMatchObject({ status: 400, body: { code: "failed_precondition" } });

    // A parent that has ended, with a child that no worker runs.
    await launch("done");
    await launch("done/left", "done", { entrypoint: { task: "nobody" } });
    await work();
    expect(await ended("done")).toMatchObject({ state: "JOB_STATE_SUCCEEDED" });
    await rpc("TerminateJob", { jobId: "done" });
    await engine.sweepChildren();
    expect(await status("done")).toMatchObject({ state: "JOB_STATE_SUCCEEDED" });
    expect(await ended("done/left")).toMatchObject({ state: "JOB_STATE_KILLED" });
  });
});

describe("a job that is run", () => {
  it("shows its attempts, counters and instants in GetJobStatus, and its environment has its name", async () => {
    const { rpc, work, ended } = await startFluster();
    await work();
    const shell =
      '[ "$FLUSTER_JOB_ID,$FLUSTER_ATTEMPT_ID,$WHO" = "exp/flaky,1,ada" ] || { echo Random failure >&2; exit 3; }';
    const retry = { maxRetriesFailure: 2, initialRetryDelayMs: "1" };
    const environment = { envVars: { WHO: "ada" } };
    await rpc("LaunchJob", { name: "exp/flaky", entrypoint: { shell }, retry, environment });
    const instant = expect.stringMatching(/^\d{13}$/);
    const times = { workerId: "worker-1", startedAtMs: instant, finishedAtMs: instant };
    const failed = { ...times, state: "JOB_STATE_FAILED", exitCode: 3, error: "exit code 3: Random failure" };
    expect(await ended("exp/flaky")).toEqual({
      ...{ jobId: "exp/flaky", state: "JOB_STATE_SUCCEEDED", ...times, failureCount: 1, currentAttemptId: 1 },
      ...{ maxRetriesFailure: 2, maxRetriesPreemption: 100 },
      attempts: [failed, { ...times, attemptId: 1, state: "JOB_STATE_SUCCEEDED" }],
    });
  });

  it("is in ListJobs, newest first, with how it ended; jobs of others are not", async () => {
    const { rpc, work, ended, call } = await startFluster();
    await call("POST", "/v1/jobs", { body: { kind: "exec", input: { argv: ["true"] } } });
    await call("POST", "/v1/jobs", { body: { kind: "exec", input: { argv: ["true"] }, tags: ["fluster:bad"] } });
    await work();
    const resources = { cpu: 0.1, memory: "64m" };
    const jobs: [string, object][] = [
      ["good", TRUE],
      ["bad", { entrypoint: { shell: "exit 7" } }],
      ["hungry", { entrypoint: { shell: `exec perl -e 'my $x = "a" x 100_000_000; sleep 1000'` }, resources }],
      ["killed", { entrypoint: { task: "nobody" } }],
      ["waiting", { entrypoint: { task: "nobody" } }],
    ];
    for (const [name, more] of jobs) await rpc("LaunchJob", { name, ...more });
    await rpc("TerminateJob", { jobId: "killed" });
    for (const [name] of jobs.slice(0, 4)) await ended(name);
    const { body } = await rpc("ListJobs", {});
    const ran = { workerId: "worker-1" };
    expect(body.jobs).toMatchObject([
      { jobId: "waiting", state: "JOB_STATE_PENDING" },
      { jobId: "killed", state: "JOB_STATE_KILLED", error: "Terminated by user" },
      { jobId: "hungry", state: "JOB_STATE_FAILED", exitCode: 137, failureCount: 1, ...ran },
      { jobId: "bad", state: "JOB_STATE_FAILED", exitCode: 7, error: "exit code 7", failureCount: 1, ...ran },
      { jobId: "good", state: "JOB_STATE_SUCCEEDED", ...ran },
    ]);
    for (const job of body.jobs) expect(job).not.toHaveProperty("attempts");
    // A job submitted in another format has the same tag, but is not the job "bad".
    expect(await ended("bad")).toMatchObject({ jobId: "bad", exitCode: 7 });
  });
});

describe.runIf(HAS_PYTHON)("serializedEntrypoint", () => {
  const PRINT = '(print, ("hello", "fluster"), {"sep": ", "})';
  /** Like fluster's own class, in a module that the worker does not have. */
  const FLUSTER = `
import sys, types
class Entrypoint: pass
module = types.ModuleType("fluster.cluster.types")
Entrypoint.__module__ = module.__name__
module.Entrypoint = Entrypoint
sys.modules.update({"fluster": types.ModuleType("fluster"), "fluster.cluster": types.ModuleType("fluster.cluster"), module.__name__: module})
entrypoint = Entrypoint()
entrypoint.__dict__.update(callable=print, args=("hello", "fluster"), kwargs={"sep": ", "})`;

  async function run(serializedEntrypoint: string, more: object = {}) {
    const { rpc, work, ended, store, call } = await startFluster();
    await work();
    const launched = await rpc("LaunchJob", { name: "py", serializedEntrypoint, ...more });
    expect(launched).toMatchObject({ status: 200, body: { jobId: "py" } });
    const status = await ended("py");
    const [row] = (await store.find({})).jobs;
    const { text } = await call("GET", `/v1/jobs/${row?.id}/attempts/1/files/stdout.log`);
    return { status, text, row };
  }

  it.each([
    ["a tuple of a callable, its args and its kwargs", pickledOrNone(PRINT)],
    ["fluster's Entrypoint, where fluster is not installed", pickledOrNone("entrypoint", FLUSTER)],
  ])("of %s is called on a worker that has python", async (_, pickle) => {
    const { status, text, row } = await run(pickle);
    expect(status).toMatchObject({ state: "JOB_STATE_SUCCEEDED" });
    expect(text).toBe("hello, fluster\n");
    expect(row?.labels).toEqual({ "runtime/python": "yes" });
  });

  it.runIf(HAS_CLOUDPICKLE)(
    "of cloudpickle may hold a function of its own, which may fail and be retried",
    async () => {
      const source = `
import cloudpickle
def job(words, *, end):
    import os
    attempt = int(os.environ["FLUSTER_ATTEMPT_ID"])
    print(os.environ["FLUSTER_JOB_ID"], attempt, words, end=end)
    if attempt == 0:
        raise RuntimeError("Random failure")
entrypoint = (job, (["a", "b"],), {"end": "!"})
import pickle
pickle.dumps = cloudpickle.dumps`;
      const retry = { maxRetriesFailure: 5, initialRetryDelayMs: 1 };
      const { status, text } = await run(pickled("entrypoint", source), { retry, resources: { memory: "512m" } });
      expect(status).toMatchObject({ state: "JOB_STATE_SUCCEEDED", failureCount: 1, currentAttemptId: 1 });
      expect(status.attempts[0]).toMatchObject({ exitCode: 1, error: "exit code 1: RuntimeError: Random failure" });
      expect(text).toBe("py 0 ['a', 'b']!");
    },
  );

  it("finds the modules and files of its bundle", async () => {
    const zip = `
import base64, io, sys, types, zipfile
bytes = io.BytesIO()
with zipfile.ZipFile(bytes, "w") as bundle:
    bundle.writestr("src/my_jobs/__init__.py", "def show(name):\\n    print(open(name).read())\\n")
    bundle.writestr("data.txt", "from the bundle")
sys.stdout.write(base64.b64encode(bytes.getvalue()).decode() + " ")
module = types.ModuleType("my_jobs")
def show(name): pass
show.__module__ = "my_jobs"
module.show = show
sys.modules["my_jobs"] = module`;
    const [bundleBlob, pickle = ""] = pickled('(show, ("data.txt",), {})', zip).split(" ");
    const { status, text } = await run(pickle, { bundleBlob });
    expect(status).toMatchObject({ state: "JOB_STATE_SUCCEEDED" });
    expect(status.statusMessage).toMatch(/^bundle_blob is unpacked .* are not installed\.$/);
    expect(text).toBe("from the bundle\n");
  });

  it.each([
    [
      "without a module that it needs",
      "Y25vX3N1Y2hfbW9kCnJ1bgou",
      /no module 'no_such_mod'; pip install no_such_mod, or send it in bundle_blob/,
    ],
    ["that is not a pickle", "AAAA", /cannot load the entrypoint: UnpicklingError/],
    ["that holds something else", "SwcuCg==", /TypeError: it holds a int, and not a callable/],
  ])("%s fails with what to do", async (_, pickle, message) => {
    const { status } = await run(pickle);
    expect(status).toMatchObject({ state: "JOB_STATE_FAILED", exitCode: 1, failureCount: 1 });
    expect(status.error).toMatch(message);
  });

  function pickledOrNone(expression: string, before = ""): string {
    return HAS_PYTHON ? pickled(expression, before) : "";
  }
});
