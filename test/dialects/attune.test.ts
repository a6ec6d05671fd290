/** Attune's document "Phase 3 - Intelligent Retry & Worker Health", retry part, promise by promise, through the real engine.
 *  Quotes are from the document; where docs/internals/dialects.md departs from it, the test's name has the note's number. Worker health
 *  (states, selection, alerts) is not here. */
import { describe, expect, it } from "vitest";
import { matchText } from "../../src/core/decision/match.ts";
import { attune } from "../../src/dialects/attune/dialect.ts";
import type { ReadContext } from "../../src/dialects/dialect.ts";
import { retryReason } from "../../src/dialects/registry.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import { openStage, type Play, readContext, STORES } from "./kit.ts";

const START = Date.UTC(2030, 0, 1);

/** `packs/mypack/actions/api-call.yaml`, as in "Per-Action Configuration". */
const API_CALL = `
name: external_api_call
runtime: python
entrypoint: actions/api.py
timeout_seconds: 120 # 2 minutes (overrides global 5 min TTL)
max_retries: 3 # Retry up to 3 times on failure
`;

const SOURCE = "print('hello')\n";
const MYPACK = { ref: "mypack", version: "1.0.0", description: "of the document" };

/** The folder `packs/mypack` as an action in its `actions` sees it. */
function pack(manifest: object | null = MYPACK, more: Partial<ReadContext> = {}): Partial<ReadContext> {
  return {
    yaml: (path) => (path === "../pack.yaml" ? manifest : null),
    bytes: (path) => (path === "../actions/api.py" ? Buffer.from(SOURCE) : null),
    file: "packs/mypack/actions/api-call.yaml",
    ...more,
  };
}

function action(words: object = {}): object {
  return { name: "call", runtime: "python", entrypoint: "actions/api.py", ...words };
}

describe.each(STORES)("Attune on %s", (store) => {
  const open = async (manifest: object | null = MYPACK, random?: () => number) => {
    const stage = await openStage(store, { startAt: START, ...(random === undefined ? {} : { random }) });
    const apply = async (document: string | object, more: Partial<ReadContext> = {}) => {
      const [id] = await stage.apply(attune, document, pack(manifest, more));
      return id as string;
    };
    return { stage, apply };
  };
  const failing = (stderr: string): Play => ({ exit: 1, stderr });

  describe("Per-Action Configuration", () => {
    it("timeout_seconds: 120 is queue TTL and execution timeout; max_retries: 3 are four runs (A1)", async () => {
      const { stage, apply } = await open();
      const job = await stage.job(await apply(API_CALL));
      expect(job).toMatchObject({ kind: "exec", timeoutMs: 120_000, expireInMs: 120_000 });
      expect(job.policy).toMatchObject({ preset: "attune", maxAttempts: 4 });
      expect(job.labels).toEqual({ "runtime/python": "yes" });
      expect(job.annotations).toEqual({
        "attune/action": "mypack.external_api_call",
        "attune/pack": "mypack",
      });
    });

    it('"NULL = use global TTL", 5 minutes, and "max_retries (default: 0)": one run', async () => {
      const { stage, apply } = await open();
      for (const words of [{}, { timeout_seconds: null, max_retries: null }]) {
        const id = await apply(action(words));
        expect(await stage.job(id)).toMatchObject({ timeoutMs: 300_000, expireInMs: 300_000 });
        expect((await stage.job(id)).policy.maxAttempts).toBe(1);
        expect(await stage.run(id, failing("connection refused"))).toMatchObject({ state: "failed", attempt: 1 });
      }
    });

    it("runs a snapshot of what was submitted, with its parameters as JSON on standard input", async () => {
      const { stage, apply } = await open();
      let source = SOURCE;
      const bytes = () => Buffer.from(source);
      const id = await apply(API_CALL, { parameters: { url: "https://example.org" }, bytes });
      source = "print('changed')\n";
      await stage.run(id, failing("connection reset by peer"));
      const { payload, state } = await stage.job(id);
      expect(state).toBe("queued");
      expect(payload).toEqual({
        argv: ["python3", "inputs/api.py"],
        files: { "api.py": Buffer.from(SOURCE).toString("base64") },
        input: { url: "https://example.org" },
      });
    });
  });

  describe("Retriable Failure Patterns", () => {
    it.each([
      ["Worker queue TTL expired", "queue_timeout"],
      ["Worker unavailable", "worker_unavailable"],
      ["request timeout", "transient_error"],
      ["the call timed out", "transient_error"],
      ["connect ETIMEDOUT 10.0.0.1:443", "transient_error"],
      ["Heartbeat stale", "worker_heartbeat_stale"],
      ["Worker heartbeat is stale", "worker_heartbeat_stale"],
      ["HEARTBEAT of worker w-3 went Stale", "worker_heartbeat_stale"],
      ["Execution timeout: worker heartbeat is stale", "worker_heartbeat_stale"],
      ["lost contact\n  Worker heartbeat\tis   STALE\nexecution abandoned", "worker_heartbeat_stale"], // in the lines around
      ["poll failed: worker did not pick up task\nexecution abandoned", "queue_timeout"],
      ["Worker did not pick up task", "queue_timeout"],
      ["Execution timeout: worker did not pick up task within 300 seconds", "queue_timeout"],
      ["Transient error", "transient_error"],
      ["Temporary failure in name resolution", "transient_error"],
      ["503 Service Temporarily Unavailable", "transient_error"],
      ["Connection refused", "transient_error"],
      ["Connection reset by peer", "transient_error"],
      ["connect ECONNREFUSED 127.0.0.1:80", "transient_error"],
      ["read ECONNRESET", "transient_error"],
    ])("%s: retried as %s", async (message, reason) => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      expect(await stage.run(id, failing(message))).toMatchObject({ state: "queued", failures: 1 });
      expect(await stage.view(attune, id)).toMatchObject({ status: "requested", retry_count: 1, retry_reason: reason });
    });
  });

  describe("a Node action with an uncaught error", () => {
    const uncaught = (error: string) =>
      failing(`/packs/call.js:1\nthrow e;\n^\n\n${error}\n    at main (/packs/call.js:1:7)\n\nNode.js v20.20.2\n`);

    it("is classified by its error, and not by the version below it", async () => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      expect(await stage.run(id, uncaught("Error: upstream: Connection refused"))).toMatchObject({ state: "queued" });
      expect(await stage.view(attune, id)).toMatchObject({ retry_count: 1, retry_reason: "transient_error" });
      expect(await stage.run(id, uncaught("Error: Permission denied"))).toMatchObject({ state: "failed" });
      expect(await stage.view(attune, id)).toMatchObject({ error: "exit code 1: Error: Permission denied" });
    });
  });

  describe("a program that explains itself in several lines", () => {
    it.each([
      [
        'psql: error: connection to server at "db", port 5432 failed: Connection refused\n\tIs the server running on that host?',
        "queued",
      ],
      [
        "ssh: connect to host a port 22: Connection refused\nfatal: Could not read\n\nand the repository exists.",
        "queued",
      ],
      [
        'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: Validation failed:\n  request timeout must be > 0',
        "failed",
      ],
      ["Error: permission denied\nretry: connection refused\ngiving up", "failed"], // E1, also among several lines
      ["looking up the host\ngiving up", "failed"],
    ])("%j: %s", async (stderr, state) => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      expect(await stage.run(id, failing(stderr))).toMatchObject({ state });
      const reason = state === "queued" ? "transient_error" : null;
      expect(await stage.view(attune, id)).toMatchObject({ retry_reason: reason });
    });
  });

  describe("Non-Retriable Failures", () => {
    it.each([
      ["Validation error: url is missing"],
      ["Permission denied"],
      ["Action not found: mypack.gone"],
      ["Invalid parameters: url"],
      ["Validation error: timeout must be positive"], // E1: the deny list comes first, though "timeout" would be retried
      ["connection closed by foreign host"], // E2: refused and reset only
      ["Heartbeat ok. The cache is stale"], // the words are in different sentences
      ["something else went wrong"], // "Unknown/unclassified errors (conservative approach)"
      [""],
    ])("%j: not retried", async (message) => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      expect(await stage.run(id, failing(message))).toMatchObject({ state: "failed", reason: "rejected", attempt: 1 });
      expect(await stage.view(attune, id)).toMatchObject({ status: "failed", retry_count: 0, retry_reason: null });
    });

    it("lack of memory is none of the patterns, and so is final (A11)", async () => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      expect(await stage.run(id, "oom")).toMatchObject({
        state: "failed",
        reason: "rejected",
        attempt: 1,
        failures: 1,
      });
      const [attempt] = (await stage.parts(id)).attempts;
      expect(attempt?.failure).toMatchObject({ kind: "oom", exitCode: 137 });
      expect(await stage.view(attune, id)).toMatchObject({ status: "failed", retry_count: 0, retry_reason: null });
    });
  });

  describe("Backoff Calculation", () => {
    // "Attempt 0: ~1s (0.8-1.2s with 20% jitter)" … and "Attempt N: min(base * 2^N, 300s) with jitter": cap first (A6).
    const TABLE = [
      { attempt: 0, low: 800, exact: 1_000, high: 1_200 },
      { attempt: 1, low: 1_600, exact: 2_000, high: 2_400 },
      { attempt: 2, low: 3_200, exact: 4_000, high: 4_800 },
      { attempt: 3, low: 6_400, exact: 8_000, high: 9_600 },
      { attempt: 8, low: 204_800, exact: 256_000, high: 307_200 },
      { attempt: 9, low: 240_000, exact: 300_000, high: 360_000 },
      { attempt: 10, low: 240_000, exact: 300_000, high: 360_000 },
    ];
    it.each([
      ["low", 0],
      ["exact", 0.5],
      ["high", 1 - 1e-12],
    ] as const)("the %s end of the table, by a draw of %f, in milliseconds (A7)", async (end, draw) => {
      const { stage, apply } = await open(MYPACK, () => draw);
      const id = await apply(action({ max_retries: 20 }));
      const delays: number[] = [];
      for (let attempt = 0; attempt <= 10; attempt += 1) {
        const { runAt } = await stage.run(id, failing("Connection refused"));
        delays.push(runAt - stage.clock.now());
      }
      for (const row of TABLE) expect(delays[row.attempt]).toBe(row[end]);
    });

    it("retry_at is when it may run, not when it was made (E4), and no worker gets it before", async () => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      await stage.run(id, failing("timeout"), { tookMs: 5_000 });
      const view = await stage.view(attune, id);
      expect(view).toMatchObject({ created: "2030-01-01T00:00:05.000Z", retry_at: "2030-01-01T00:00:06.000Z" });
      await stage.advance(999);
      expect(await stage.isGiven(id)).toBe(false);
      await stage.run(id, "ok");
      expect(stage.clock.now()).toBe(START + 6_000);
    });
  });

  describe("Retry Flow", () => {
    it("Success: the chain has the original and its retries, newest last (A14)", async () => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL, { parameters: { url: "u" } });
      await stage.run(id, failing("Connection refused"), { worker: "w1", tookMs: 1_000 });
      await stage.run(id, failing("temporary outage"), { worker: "w2", tookMs: 1_000 });
      await stage.run(id, { ok: { exitCode: 0, output: { n: 1 } } }, { worker: "w3", tookMs: 1_000 });
      const { chain, ...newest } = await stage.view(attune, id);
      expect(newest).toEqual({
        id: `${id}.r2`,
        action_ref: "mypack.external_api_call",
        status: "completed",
        retry_count: 2,
        max_retries: 3,
        retry_reason: "transient_error",
        retry_at: "2030-01-01T00:00:05.000Z",
        original_execution: id,
        retry_of: `${id}.r1`,
        parent: null,
        config: { url: "u" },
        result: { exitCode: 0, output: { n: 1 } },
        error: null,
        worker: "w3",
        created: "2030-01-01T00:00:03.000Z",
        updated: "2030-01-01T00:00:06.000Z",
      });
      expect(chain).toHaveLength(3);
      expect(chain[2]).toEqual(newest);
      expect(chain[0]).toMatchObject({
        ...{ id, status: "failed", retry_count: 0, retry_reason: null, retry_at: null, original_execution: null },
        ...{ error: "exit code 1: Connection refused", result: null, worker: "w1" },
        ...{ created: "2030-01-01T00:00:00.000Z", updated: "2030-01-01T00:00:01.000Z" },
      });
      expect(chain[1]).toMatchObject({ id: `${id}.r1`, status: "failed", original_execution: id, worker: "w2" });
    });

    it('"Links retries to original execution": each has retry_of, the one before it, and its parent', async () => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      await stage.start(id);
      const child = await stage.submit({
        task: "step",
        options: { parent: id, retry: { preset: "attune", maxAttempts: 3 } },
      });
      await stage.run(child, { error: "request timeout" });
      await stage.run(child, { error: "Worker unavailable" });
      const links = (of: { chain: Record<string, unknown>[] }) =>
        of.chain.map(({ id, original_execution, retry_of, parent }) => [id, original_execution, retry_of, parent]);
      const view = await stage.view(attune, child);
      expect(links(view)).toEqual([
        [child, null, null, id],
        [`${child}.r1`, child, child, id],
        [`${child}.r2`, child, `${child}.r1`, id],
      ]);
      expect(view).toMatchObject({ id: `${child}.r2`, retry_of: `${child}.r1`, parent: id });
      expect(links(await stage.view(attune, id))).toEqual([[id, null, null, null]]);
    });

    it('Exhaustion: "Stops retrying when max_retries reached"', async () => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      for (let run = 1; run <= 3; run += 1) {
        expect(await stage.run(id, failing("timeout"))).toMatchObject({ state: "queued", attempt: run });
      }
      expect(await stage.run(id, failing("timeout"))).toMatchObject({
        state: "failed",
        reason: "exhausted",
        attempt: 4,
      });
      const view = await stage.view(attune, id);
      expect(view).toMatchObject({ status: "failed", retry_count: 3, max_retries: 3, error: "exit code 1: timeout" });
      expect(view.chain.map(({ retry_count }: { retry_count: number }) => retry_count)).toEqual([0, 1, 2, 3]);
    });

    it("RetryAnalysis: explain names the retry reason and the pattern that matched", async () => {
      const { stage, apply } = await open();
      const id = await apply(action({ max_retries: 4 }));
      await stage.run(id, failing("Worker heartbeat is stale"));
      await stage.run(id, failing("connect: Connection refused\ngiving up"));
      await stage.run(id, "lost");
      await stage.advance(310_000);
      await stage.run(id, failing("Permission denied: /etc/shadow"));
      await stage.engine.command(id, { kind: "redrive" });
      const { text, retries, preset } = await stage.engine.explain(id);
      expect(
        retries.map((retry) => [retry.attempt, retry.match && matchText(retry.match), retryReason(preset, retry)]),
      ).toEqual([
        [1, 'retryOn "heartbeat ... stale"', "worker_heartbeat_stale"],
        [2, 'retryOn "connection refused"', "transient_error"],
        [3, "lease_expired", "worker_heartbeat_stale"],
        [null, "queue timeout", "queue_timeout"],
        [null, null, "manual_retry"],
      ]);
      expect(text).toContain('retry: retryOn "heartbeat ... stale" matched "exit code 1: Worker heartbeat is stale".');
      expect(text).toContain('retry: retryOn "connection refused" matched "connect: Connection refused".');
      expect(text).toContain(': noRetryOn "permission denied" matched "exit code 1: Permission denied: /etc/shadow".');
    });

    it("an execution that runs too long is retried, within the same budget (A9)", async () => {
      const { stage, apply } = await open();
      const id = await apply(action({ timeout_seconds: 120, max_retries: 1 }));
      expect(await stage.run(id, "timeout")).toMatchObject({ state: "queued" });
      expect(stage.clock.now()).toBe(START + 120_000);
      expect(await stage.view(attune, id)).toMatchObject({ status: "requested", retry_reason: "transient_error" });
      expect(await stage.run(id, "timeout")).toMatchObject({ state: "failed", reason: "timeout" });
      const { chain } = await stage.view(attune, id);
      expect(chain.map(({ status }: { status: string }) => status)).toEqual(["timeout", "timeout"]);
    });

    it("a failure that the action reports is final, whatever its message", async () => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      expect(await stage.run(id, { logical: "upstream timeout" })).toMatchObject({ state: "failed", attempt: 1 });
    });

    it("never retries what a person cancelled (A10)", async () => {
      const { stage, apply } = await open();
      const id = await apply(API_CALL);
      const run = await stage.start(id);
      await stage.engine.command(id, { kind: "cancel" });
      expect(await stage.view(attune, id)).toMatchObject({ status: "canceling" });
      await run.end(failing("timeout"));
      expect(await stage.view(attune, id)).toMatchObject({ status: "cancelled", retry_count: 0 });
    });
  });

  describe("Failure Flow Integration", () => {
    it("message expires (5 min), fails, is retried with backoff; the retry succeeds", async () => {
      const { stage, apply } = await open();
      const id = await apply(action({ max_retries: 1 }));
      await stage.advance(300_001);
      expect(await stage.job(id)).toMatchObject({ state: "queued", attempt: 0, failures: 1, runAt: START + 301_001 });
      expect(await stage.view(attune, id)).toMatchObject({
        ...{ id: `${id}.r1`, status: "requested", retry_count: 1, retry_reason: "queue_timeout" },
        chain: [{ id, status: "failed", error: "Worker queue TTL expired", worker: null }, {}],
      });
      expect(await stage.run(id, "ok")).toMatchObject({ state: "succeeded", attempt: 1 });
      expect(await stage.view(attune, id)).toMatchObject({ status: "completed", retry_count: 1 });
    });

    it("timeout_seconds is the TTL of its own queue message too, and retries run out in the queue as well", async () => {
      const { stage, apply } = await open();
      const id = await apply(action({ timeout_seconds: 120, max_retries: 2 }));
      // 120 s, then 1 s and 120 s, then 2 s and 120 s; each expires 1 ms later.
      await stage.advance(363_002);
      expect(await stage.job(id)).toMatchObject({ state: "queued" });
      await stage.advance(1);
      expect(await stage.job(id)).toMatchObject({ state: "failed", reason: "unschedulable", failures: 3, attempt: 0 });
      const { status, retry_count, chain } = await stage.view(attune, id);
      expect({ status, retry_count, executions: chain.length }).toEqual({
        status: "failed",
        retry_count: 2,
        executions: 3,
      });
    });

    it.each([
      ["lost", "worker_heartbeat_stale", "Worker heartbeat stale"],
      ["gone", "worker_unavailable", "Worker unavailable"],
    ] as const)("a worker that is %s: %s, charged as any retry", async (play, reason, error) => {
      const { stage, apply } = await open();
      const id = await apply(action({ max_retries: 1 }));
      expect(await stage.run(id, play)).toMatchObject({ state: "queued", losses: 1 });
      const view = await stage.view(attune, id);
      expect(view).toMatchObject({ status: "requested", retry_reason: reason });
      expect(view.chain[0]).toMatchObject({ status: "abandoned", error });
      expect(await stage.run(id, play)).toMatchObject({ state: "failed", reason: "lost" });
      expect(await stage.view(attune, id)).toMatchObject({ status: "abandoned", retry_count: 1 });
    });

    it("another try that a person asks for is manual_retry, in the same chain", async () => {
      const { stage, apply } = await open();
      const id = await apply(action());
      await stage.run(id, failing("Permission denied"));
      await stage.advance(60_000);
      await stage.engine.command(id, { kind: "retry" });
      expect(await stage.view(attune, id)).toMatchObject({
        ...{ id: `${id}.r1`, status: "requested", retry_count: 1, max_retries: 0, retry_reason: "manual_retry" },
        ...{ retry_at: "2030-01-01T00:01:00.000Z", original_execution: id },
      });
      await stage.run(id, "ok");
      expect(await stage.view(attune, id)).toMatchObject({ status: "completed", chain: [{ status: "failed" }, {}] });
    });
  });

  describe("RetryConfig", () => {
    const policyOf = async (words: object, manifest: object, settings = DIALECT_DEFAULTS) => {
      const { stage, apply } = await open(manifest);
      return (await stage.job(await apply(action(words), { settings }))).policy;
    };

    it("defaults: enabled, 1 s, 300 s, 2.0, 0.2", async () => {
      const policy = await policyOf({ max_retries: 1 }, MYPACK);
      const backoff = { type: "exponential", initialMs: 1_000, maxMs: 300_000, factor: 2, jitter: 0.2 };
      expect(policy.backoff).toMatchObject({ ...backoff, clampAfterJitter: false });
      expect(policy).toMatchObject({ workerLost: { charge: "shared" }, onUnknown: "fail", onTimeout: "retry" });
    });

    it("action over pack over global, field by field", async () => {
      const global = { enabled: true, baseBackoffSecs: 3, maxBackoffSecs: 30, backoffMultiplier: 3, jitterFactor: 0.3 };
      const settings = { ...DIALECT_DEFAULTS, attune: { ttlSecs: 60, retry: global } };
      const manifest = { ...MYPACK, retry: { max_retries: 4, base_backoff_secs: 0.5, jitter_factor: 0 } };
      const byPack = await policyOf({}, manifest, settings);
      expect(byPack.maxAttempts).toBe(5);
      expect(byPack.backoff).toMatchObject({ initialMs: 500, maxMs: 30_000, factor: 3, jitter: 0 });
      const byAction = await policyOf({ max_retries: 1, retry: { base_backoff_secs: 7 } }, manifest, settings);
      expect(byAction.maxAttempts).toBe(2);
      expect(byAction.backoff).toMatchObject({ initialMs: 7_000, maxMs: 30_000, factor: 3, jitter: 0 });
    });

    it("the global TTL is attune.ttl", async () => {
      const { stage, apply } = await open();
      const settings = { ...DIALECT_DEFAULTS, attune: { ...DIALECT_DEFAULTS.attune, ttlSecs: 60 } };
      expect(await stage.job(await apply(action(), { settings }))).toMatchObject({
        timeoutMs: 60_000,
        expireInMs: 60_000,
      });
      expect(await stage.job(await apply(API_CALL, { settings }))).toMatchObject({ timeoutMs: 120_000 });
    });

    it.each(["lost", "timeout", { exit: 1, stderr: "Connection refused" }] as const)(
      "enabled: false: no automatic retry, not after %j either",
      async (play) => {
        const { stage, apply } = await open({ ...MYPACK, retry: { enabled: false } });
        const id = await apply(API_CALL);
        expect(await stage.run(id, play)).toMatchObject({ state: "failed", attempt: 1 });
        expect(await stage.view(attune, id)).toMatchObject({ retry_count: 0, max_retries: 0 });
      },
    );
  });

  it("shows any job, also one that is not from Attune", async () => {
    const { stage } = await open();
    const id = await stage.submit({ task: "mail", input: { to: "x" }, options: { retry: 3 } });
    expect(await stage.view(attune, id)).toMatchObject({
      ...{ id, action_ref: "mail", status: "requested", retry_count: 0, max_retries: 2, config: { to: "x" } },
      chain: [{ id, original_execution: null }],
    });
    const bare = await stage.submit({ task: "bare" });
    expect(await stage.view(attune, bare)).toMatchObject({ action_ref: "bare", config: null, max_retries: 0 });
  });
});

describe("the example of the document", () => {
  it("is recognised, and so are the newer names (E11)", () => {
    expect(attune.recognises({ runtime: "python", entrypoint: "a.py" })).toBe(true);
    expect(attune.recognises({ ref: "a.b", runner_type: "python", entry_point: "a.py" })).toBe(true);
    expect(attune.recognises({ entrypoint: ["a"] })).toBe(false);
    const newer = { ref: "mypack.external_api_call", label: "Call", runner_type: "python", entry_point: "api.py" };
    const words = { ...newer, timeout: 120, max_retries: 3, enabled: true, description: "of an API" };
    const bytes = (path: string) => (path === "api.py" ? Buffer.from(SOURCE) : null);
    const old = attune.read(
      {
        name: "external_api_call",
        runtime: "python",
        entrypoint: "actions/api.py",
        timeout_seconds: 120,
        max_retries: 3,
      },
      readContext(pack()),
    );
    expect(attune.read(words, readContext(pack(MYPACK, { bytes })))).toEqual(old);
  });
});
