/** "No per-job retry configuration (global MAX_RETRIES only)" and "Simple backoff schedule (no exponential backoff or jitter)" are
 *  limitations of OPAL; Perdure implements its "A2.3: Per-job backoff configuration". Workers are lost by closing their sessions,
 *  and a retry command makes each retry due at once, so that no test waits. */
import { describe, expect, it } from "vitest";
import type { OpalAttempts } from "../../src/dialects/opal/attempts.ts";
import { type OpalKit, startOpal, TEN_KEYS } from "./kit.ts";

const SESSION = { namespace: "default", name: "w", host: "h", pid: 1, kinds: ["exec"], queues: null, labels: {} };
const EXPONENTIAL = { initial: 1, factor: 2, max: 60, jitter: 0.2 };

async function start(options: OpalKit = {}) {
  const server = await startOpal(options);
  const { call, engine, store } = server;
  const attemptsOf = async (id: string): Promise<OpalAttempts> => {
    const { body } = await call("GET", `/api/jobs/${id}?include_attempts=true`);
    const { attempts, ...job } = body;
    expect(Object.keys(job).sort()).toEqual(TEN_KEYS);
    return attempts;
  };
  return {
    ...{ ...server, attemptsOf },
    submit: (id: string, retry: unknown) =>
      call("POST", "/api/jobs", { body: { prompt: "x", job_id: id, ...(retry === undefined ? {} : { retry }) } }),
    /** Loses the job's worker until the job fails; returns the backoff in seconds and the error after each attempt. */
    async lose(id: string) {
      const row = (await store.find({ key: `opal:${id}` })).jobs[0];
      if (row === undefined) throw new Error(`no job ${id}`);
      const backoffs: (number | null)[] = [];
      const errors: string[] = [];
      for (let attempt = 1; ; attempt++) {
        const session = await engine.openSession({ ...SESSION, slots: 1 });
        expect((await engine.claim(session, { limit: 1, waitMs: 0, claimId: null })).jobs).toMatchObject([{ attempt }]);
        await engine.closeSession(session);
        await engine.reap();
        const { body } = await call("GET", `/api/jobs/${id}`);
        backoffs.push((await attemptsOf(id)).backoff_secs_applied);
        errors.push(body.error);
        if (body.status === "failed") return { backoffs, errors };
        await engine.command(row.id, { kind: "retry", by: null });
      }
    },
  };
}

describe('"Per-job backoff configuration"', () => {
  it("a maximum and a schedule hold for the job that has them, and the server's for all others", async () => {
    const { submit, lose, attemptsOf } = await start();
    await submit("own", { max_retries: 4, backoff: [1, 20, 30] });
    expect(await lose("own")).toEqual({
      backoffs: [20, 30, 30, null], // as with OPAL_RETRY_BACKOFFS "min(attempt_index, len(BACKOFF_SCHEDULE) - 1)"
      errors: [1, 2, 3].map((n) => `lease_expired_retry_${n}`).concat("max_retries_exceeded_a2"),
    });
    const { attempts, history } = await attemptsOf("own");
    expect([attempts, history.map((each) => each.backoff_secs)]).toEqual([4, [20, 30, 30, null]]);
    await submit("plain", undefined);
    expect((await lose("plain")).backoffs).toEqual([8, null]);
  });

  it("what is left out is the server's", async () => {
    const { submit, lose } = await start({ env: { OPAL_MAX_RETRIES: "3", OPAL_RETRY_BACKOFFS: "1,2,4" } });
    const given = [
      ...[{ max_retries: 2 }, { backoff: [7], max_retries: null }, {}, null],
      { max_retries: 0 }, // "total attempts = MAX_RETRIES": 0 and 1 both mean one attempt
    ];
    const backoffs = [];
    for (const [i, retry] of given.entries()) {
      await submit(`job_${i}`, retry);
      backoffs.push((await lose(`job_${i}`)).backoffs);
    }
    expect(backoffs).toEqual([[2, null], [7, 7, null], [2, 4, null], [2, 4, null], [null]]);
  });

  it('"Exponential backoff with jitter"', async () => {
    const { submit, lose, store } = await start();
    await submit("even", { max_retries: 5, backoff: { initial: 1.5, factor: 2, max: 5 } });
    expect((await lose("even")).backoffs).toEqual([1.5, 3, 5, 5, null]);
    await submit("job", { max_retries: 40, backoff: { ...EXPONENTIAL, factor: 1, initial: 10 } });
    const drawn = (await lose("job")).backoffs.slice(0, -1) as number[];
    expect(new Set(drawn).size).toBeGreaterThan(10);
    expect(drawn.filter((secs) => secs < 8 || secs > 12)).toEqual([]);
    await submit("few", { backoff: {} });
    expect((await store.find({ key: "opal:few" })).jobs[0]?.policy).toMatchObject({
      ...{ preset: "opal", maxAttempts: 2, onUnknown: "fail", workerLost: { charge: "shared" } },
      backoff: { type: "exponential", initialMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0 },
    });
  });

  it("a form takes the same, as JSON in its field", async () => {
    const { form, store, submit, lose } = await start();
    const fields = { prompt: "x", job_id: "job", retry: '{"backoff": [3, 8, 15], "max_retries": 3}' };
    expect((await form(fields)).status).toBe(201);
    expect((await submit("job", { max_retries: 3, backoff: [3, 8, 15] })).status).toBe(201);
    expect((await store.find({})).jobs).toHaveLength(1);
    expect((await lose("job")).backoffs).toEqual([8, 15, null]);
    expect((await form({ prompt: "x", retry: "" })).status).toBe(201);
  });

  it("the engine finds it in OPAL_RETRY", async () => {
    const { submit, work, ended, call } = await start({
      engine: ["sh", "-c", 'echo "$OPAL_RETRY" > artifacts/retry'],
    });
    await submit("own", { max_retries: 3, backoff: { jitter: 0.5 } });
    await submit("plain", undefined);
    await work();
    const read = async (id: string) => {
      await ended(id);
      return (await call("GET", `/api/artifacts/${id}/attempt_1/retry`)).text;
    };
    const filled = { initial: 1, factor: 2, max: 60, jitter: 0.5 };
    expect(JSON.parse(await read("own"))).toEqual({ max_retries: 3, backoff: filled });
    expect(await read("plain")).toBe("\n");
  });
});

describe("one id", () => {
  it("with the same retry is the same job, however it is written, and with another one is refused", async () => {
    const { submit, store } = await start();
    const retry = { max_retries: 3, backoff: EXPONENTIAL };
    const same = [
      retry,
      { backoff: EXPONENTIAL, max_retries: 3 },
      { ...retry, backoff: { max: 60, jitter: 0.2, initial: null } },
    ];
    for (const each of same) {
      expect(await submit("job", each)).toMatchObject({ status: 201, body: { id: "job", status: "queued" } });
    }
    for (const other of [undefined, { ...retry, max_retries: 4 }, { max_retries: 3 }, { ...retry, backoff: [1] }]) {
      const { status, headers, body } = await submit("job", other);
      expect([status, headers.get("perdure-error-code")]).toEqual([409, "key_conflict"]);
      expect(body.detail).toMatch(/^job_id: job belongs to a job with another prompt, metadata, file, retry or engine/);
    }
    await submit("plain", undefined);
    expect((await submit("plain", {})).status).toBe(201);
    expect((await submit("plain", { max_retries: 2 })).status).toBe(409);
    expect((await store.find({})).jobs).toHaveLength(2);
  });
});

describe("an invalid retry", () => {
  const WRONG: readonly [retry: unknown, detail: RegExp][] = [
    [3, /^retry: must be an object with max_retries, backoff; got 3\./],
    [true, /^retry: must be .*; got true\./],
    [[], /^retry: must be .*; got \[\]\./],
    ["3", /^retry: /],
    [{ max_retry: 3 }, /^retry\.max_retry: unknown field "max_retry".*Did you mean "max_retries"\?/],
    [{ maxRetries: 3 }, /^retry\.maxRetries: unknown field .*Did you mean "max_retries"\?/],
    [{ max_retries: -1 }, /^retry\.max_retries: must be a whole number from 0 to 1000000; got -1\./],
    [{ max_retries: 1.5 }, /^retry\.max_retries: must be .*; got 1\.5\./],
    [{ max_retries: 1e12 }, /^retry\.max_retries: must be .*; got 1000000000000\./],
    [{ max_retries: "3" }, /^retry\.max_retries: must be .*; got "3"\./],
    [{ max_retries: true }, /^retry\.max_retries: must be .*; got true\./],
    [
      { backoff: 5 },
      /^retry\.backoff: must be a list of seconds such as \[3, 8, 15\], or an object with initial.*; got 5/,
    ],
    [{ backoff: "3,8" }, /^retry\.backoff: must be .*; got "3,8"\./],
    [{ backoff: [] }, /^retry\.backoff: .*a list of 1 to 100 items/],
    [{ backoff: Array(101).fill(1) }, /^retry\.backoff: must be .*; got a list of 101\./],
    [{ backoff: [3, -8] }, /^retry\.backoff\[1\]: must be a number from 0 to 86400; got -8\./],
    [{ backoff: [3, "8"] }, /^retry\.backoff\[1\]: must be .*; got "8"\./],
    [{ backoff: [86_401] }, /^retry\.backoff\[0\]: must be .*; got 86401\./],
    ['{"backoff": [1e999]}', /^retry\.backoff\[0\]: must be .*; got Infinity\./],
    [{ backoff: { inital: 1 } }, /^retry\.backoff\.inital: .*Did you mean "initial"\?/],
    [{ backoff: { delays: [1], initial: 1 } }, /^retry\.backoff\.delays: unknown field/],
    [{ backoff: { initial: -1 } }, /^retry\.backoff\.initial: must be .*; got -1\./],
    [{ backoff: { factor: 0.5 } }, /^retry\.backoff\.factor: must be a number from 1 to 1000; got 0\.5\./],
    [{ backoff: { initial: 9, max: 3 } }, /^retry\.backoff\.max: must be at least initial; got 3, and initial is 9\./],
    [{ backoff: { jitter: 1 } }, /^retry\.backoff\.jitter: must be a number from 0 to below 1; got 1\./],
    [{ backoff: { jitter: true } }, /^retry\.backoff\.jitter: must be .*; got true\./],
    ['{"__proto__": {"max_retries": 9}}', /^retry\.__proto__: unknown field/],
  ];

  it("is refused by name, with what was given and what is allowed, in JSON and in a form", async () => {
    const { call, form, store } = await start();
    for (const [retry, detail] of WRONG) {
      const isText = typeof retry === "string" && retry.startsWith("{");
      const text = isText ? retry : JSON.stringify(retry);
      const asJson = await call("POST", "/api/jobs", { body: `{"prompt": "x", "retry": ${text}}` });
      const asForm = await form({ prompt: "x", retry: text });
      for (const [status, body] of [
        [asJson.status, asJson.body],
        [asForm.status, await asForm.json()],
      ]) {
        expect([text, status, body]).toEqual([text, 400, { detail: expect.stringMatching(detail) }]);
      }
    }
    for (const text of ["NaN", "{", "3 times"]) {
      const reply = await form({ prompt: "x", retry: text });
      expect(reply.status).toBe(400);
      expect(await reply.json()).toEqual({
        detail: expect.stringMatching(/^retry: must be JSON, such as \{.*; got ".*"/),
      });
    }
    expect((await store.find({})).jobs).toEqual([]);
  });
});
