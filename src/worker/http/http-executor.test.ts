import { describe, expect, it, vi } from "vitest";
import { decide } from "../../core/decision/decide.ts";
import type { HttpInput } from "../../core/input/http-input.ts";
import { MIDDLE, T0, testJob } from "../../core/job/testing-job.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { ClaimedJob, ReportedOutcome } from "../../core/worker-protocol.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { AttemptRun } from "../attempt-run.ts";
import { type HttpExecutorOptions, httpExecutor } from "./http-executor.ts";
import { freePort, serve, serveRaw } from "./testing-server.ts";

const JOB: ClaimedJob = {
  ...{ id: "job-1", namespace: "default", queue: "default", kind: "http", attempt: 1, chapter: 1, token: "t" },
  ...{ payload: "", timeoutMs: null, failures: 0, maxAttempts: 3, tags: [], previous: null },
};

function attempt(payload: string, parts: Partial<ClaimedJob> = {}): AttemptRun {
  return new AttemptRun({ ...JOB, ...parts, payload }, "ses", 0, { now: () => T0, touch: () => {}, ended: () => {} });
}

async function outcomeOf(
  input: HttpInput | string,
  options: Partial<HttpExecutorOptions> = {},
  parts: Partial<ClaimedJob> = {},
): Promise<ReportedOutcome> {
  const executor = httpExecutor({ allow: ["127.0.0.1", "::1"], clock: systemClock, ...options });
  const run = attempt(typeof input === "string" ? input : JSON.stringify(input), parts);
  return (await executor.run(run)).outcome;
}

async function resultOf(input: HttpInput): Promise<{ status_code: number; headers: object; body: unknown }> {
  const outcome = await outcomeOf(input);
  if (outcome.kind !== "completed") throw new Error(`it did not complete: ${JSON.stringify(outcome)}`);
  return JSON.parse(outcome.result ?? "null");
}

async function failureOf(...given: Parameters<typeof outcomeOf>) {
  const outcome = await outcomeOf(...given);
  if (outcome.kind !== "failed") throw new Error(`it did not fail: ${JSON.stringify(outcome)}`);
  return outcome.failure;
}

/** A server that answers with the status, header and body that the path requests. */
function echo(headers: Record<string, string> = {}, body: string | Buffer = "") {
  return serve((response, { url }) => response.writeHead(Number(url.slice(1, 4)), headers).end(body));
}

describe("an expected status", () => {
  it("completes the job with status, headers and body", async () => {
    await using server = await echo({ "content-type": "text/plain", "x-a": "1" }, "hello\n");
    const result = await resultOf({ url: `${server.url}/201` });
    expect(result).toMatchObject({ status_code: 201, headers: { "x-a": "1" }, body: "hello\n" });
    expect(Object.keys(result)).toEqual(["status_code", "headers", "body"]);
  });

  it.each<[number, HttpInput["expect"], boolean]>([
    [204, undefined, true],
    [299, undefined, true],
    [304, undefined, false],
    [404, undefined, false],
    [404, 404, true],
    [200, 404, false],
    [404, [200, "4xx"], true],
    [500, [200, "4xx"], false],
  ])("%d is one under %j: %j", async (status, expected, completes) => {
    await using server = await echo();
    const input = { url: `${server.url}/${status}`, ...(expected === undefined ? {} : { expect: expected }) };
    expect((await outcomeOf(input)).kind).toBe(completes ? "completed" : "failed");
  });

  it("may be that of a redirect that is not followed", async () => {
    await using server = await echo({ location: "http://10.0.0.1/" });
    const input = { url: `${server.url}/302`, redirects: 0 };
    expect(await resultOf({ ...input, expect: 302 })).toMatchObject({ status_code: 302 });
    expect(await failureOf(input)).toMatchObject({ kind: "http", status: 302 });
  });

  it.each<[string, string | Buffer, unknown]>([
    ["application/json", '{"a":[1,null]}', { a: [1, null] }],
    ["application/json; charset=utf-8", '\ufeff{"a":"é"}', { a: "é" }],
    ["application/problem+json", "[]", []],
    ["APPLICATION/JSON", " 7 ", 7],
    ["application/json", "{broken", "{broken"],
    ["application/json", "", ""],
    ["application/json", "[".repeat(100_000), "[".repeat(100_000)],
    ["application/json", `${"[".repeat(70)}${"]".repeat(70)}`, `${"[".repeat(70)}${"]".repeat(70)}`],
    ["application/jsonx", "{}", "{}"],
    ["text/plain", '{"a":1}', '{"a":1}'],
    ["text/plain", 'a\0b "c"\u2028', 'a\0b "c"\u2028'],
    ["application/json", Buffer.from([0x22, 0xff, 0x22]), { base64: "Iv8i" }],
    ["image/png", Buffer.from([0x89, 0x50, 0x4e, 0x47]), { base64: "iVBORw==" }],
    ["text/plain", Buffer.from([0xed, 0xa0, 0x80]), { base64: "7aCA" }],
  ])("with a body of %s is parsed by its type: %#", async (type, body, expected) => {
    await using server = await echo({ "content-type": type }, body);
    expect((await resultOf({ url: `${server.url}/200` })).body).toEqual(expected);
  });

  it("keeps digits that JavaScript would lose", async () => {
    await using server = await echo({ "content-type": "application/json" }, '{"id":12345678901234567890}');
    const outcome = await outcomeOf({ url: `${server.url}/200` });
    expect(outcome).toMatchObject({ result: expect.stringContaining('"body":{"id":12345678901234567890}}') });
  });

  it("changes no prototype", async () => {
    await using server = await echo({ "content-type": "application/json" }, '{"__proto__":{"polluted":1}}');
    await resultOf({ url: `${server.url}/200` });
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it("with too large a body fails permanently, without quoting the body", async () => {
    await using server = await echo({}, "s3cret".repeat(1_000));
    const url = `${server.url}/200`;
    const logical = { kind: "error", class: "logical", code: "body_too_large" };
    const failure = await failureOf({ url: `${url}?q=s3cret`, maxBytes: 100 });
    expect(failure).toMatchObject({ ...logical, message: `HTTP 200 from ${url}: the body is over 100 bytes` });
  });

  it("with a result that cannot be kept is too large as well", async () => {
    await using server = await echo({}, "\n".repeat(1_000_000));
    const message = expect.stringContaining("the result is over 1048576 bytes");
    expect(await failureOf({ url: `${server.url}/200` })).toMatchObject({ code: "body_too_large", message });
  });
});

describe("another status", () => {
  it("fails with the body in one line, without the query", async () => {
    await using server = await echo({}, `<h1>\r\n\tSorry\0</h1>${"é".repeat(300)}`);
    const { message, ...rest } = await failureOf({ url: `${server.url}/503?token=s3cret` });
    expect(rest).toMatchObject({ kind: "http", class: "transient", status: 503, retryAfterMs: null, stack: null });
    const prefix = `HTTP 503 from ${server.url}/503: `;
    expect(message.startsWith(`${prefix}<h1> Sorry </h1>éé`)).toBe(true);
    expect(message.length - prefix.length).toBe(200);
  });

  it("counts also when the body is too large, or not text", async () => {
    await using server = await echo({}, Buffer.alloc(5_000, 0xff));
    expect(await failureOf({ url: `${server.url}/502`, maxBytes: 10 })).toMatchObject({ kind: "http", status: 502 });
  });

  it("may have no body", async () => {
    await using server = await echo();
    expect((await failureOf({ url: `${server.url}/500` })).message).toBe(`HTTP 500 from ${server.url}/500`);
  });

  const date = "Sun, 06 Nov 1994 08:49:37 GMT";
  it.each<[string, string | null, number | null]>([
    ["120", null, 120_000],
    ["0", null, 0],
    ["99999999999999999999", null, 3_650 * 86_400_000],
    ["Sun, 06 Nov 1994 08:50:07 GMT", date, 30_000],
    ["Sunday, 06-Nov-94 08:50:07 GMT", date, 30_000],
    ["Sun Nov  6 08:50:07 1994", date, 30_000],
    ["Sun, 06 Nov 1994 08:49:07 GMT", date, 0],
    ["Tue, 01 Jan 2030 00:01:00 GMT", "nonsense", 60_000], // by our own clock
    ["-1", null, null],
    ["1.5", null, null],
    ["soon", null, null],
    ["Sun, 99 Nov 1994 99:99:99 GMT", null, null],
  ])("sets the delay of the retry: %j at %j is %j", async (after, now, expected) => {
    const lines = [`Retry-After: ${after}`, ...(now === null ? [] : [`Date: ${now}`]), "Content-Length: 0"];
    await using server = await serveRaw((socket) => socket.end(`HTTP/1.1 429 No\r\n${lines.join("\r\n")}\r\n\r\n`));
    expect(await failureOf({ url: server.url }, { clock: new VirtualClock() })).toMatchObject({
      retryAfterMs: expected,
    });
  });
});

describe("a request", () => {
  it("names us, and the job where it changes something; the same for all attempts", async () => {
    await using server = await echo();
    const url = `${server.url}/200`;
    for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]) await outcomeOf({ url, method });
    await outcomeOf({ url, method: "POST" }, {}, { attempt: 2 });
    expect(server.requests.map(({ headers }) => headers["user-agent"])).toEqual(Array(7).fill("perdure"));
    const keys = server.requests.map(({ headers }) => headers["idempotency-key"] ?? null);
    expect(keys).toEqual([null, null, "job-1", "job-1", "job-1", "job-1", "job-1"]);
  });

  it("keeps what the job gave", async () => {
    await using server = await echo();
    const headers = { "USER-agent": "mine", "IDEMPOTENCY-key": "k" };
    await outcomeOf({ url: `${server.url}/200`, method: "POST", headers });
    expect(server.requests[0]?.headers).toMatchObject({ "user-agent": "mine", "idempotency-key": "k" });
  });

  it.each([
    "",
    "{",
    "null",
    '"http://127.0.0.1/?s3cret"',
    '{"url":"ftp://127.0.0.1/s3cret"}',
    '{"url":"http://u:s3cret@127.0.0.1/"}',
    '{"url":"http://127.0.0.1/","headers":{"x":"s3cret\\r\\nHost: a"}}',
    '{"url":"http://127.0.0.1/","headers":{"x\\r\\nHost":"s3cret"}}',
    '{"url":"http://127.0.0.1/","method":"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"}',
    '{"url":"http://127.0.0.1/","heders":{}}',
    '{"__proto__":{"url":"http://127.0.0.1/"}}',
  ])("that cannot be one is invalid: %s", async (payload) => {
    const failure = await failureOf(payload);
    expect(failure).toMatchObject({ kind: "error", class: "invalid", name: "ConfigError", code: "invalid_config" });
    expect(failure.message).toMatch(/^payload/);
    expect(failure.message).not.toContain("s3cret");
  });

  it("to a blocked address is invalid; the log has more details than the job", async () => {
    await using server = await echo({}, "inside");
    const log = vi.fn();
    const lookup = async () => [{ address: "127.0.0.1", family: 4 }];
    const input = { url: `http://inside.test:${server.port}/200?token=s3cret` };
    const failure = await failureOf(input, { allow: [], log, lookup });
    expect(failure).toMatchObject({ kind: "error", class: "invalid", code: "blocked_address" });
    expect(failure.message).toMatch(/^inside\.test is a .* the worker's allowAddresses/);
    expect(failure.message).not.toMatch(/inside$|s3cret|127\.0\.0\.1/);
    expect(log).toHaveBeenCalledExactlyOnceWith("warn", "request blocked by allowAddresses", {
      ...{ jobId: expect.any(String), host: "inside.test", address: "127.0.0.1" },
    });
    expect(server.connections).toBe(0);
  });

  it("that is stopped ends, and so does its connection", async () => {
    let run: AttemptRun | null = null;
    await using server = await serve(() => run?.stop("cancel"));
    run = attempt(JSON.stringify({ url: server.url }));
    const { outcome } = await httpExecutor({ allow: ["127.0.0.1"], clock: systemClock }).run(run);
    expect(outcome).toMatchObject({ kind: "failed", failure: { kind: "error", name: "AbortError" } });
    await vi.waitFor(() => expect(server.open.size).toBe(0), { timeout: 60_000 });
  });

  it("is not made for a run that was stopped before", async () => {
    await using server = await echo();
    const run = attempt(JSON.stringify({ url: `${server.url}/200` }));
    run.stop("shutdown");
    const { outcome } = await httpExecutor({ allow: ["private"], clock: systemClock }).run(run);
    expect(outcome.kind).toBe("failed");
    expect(server.connections).toBe(0);
  });
});

describe("whatever goes wrong", () => {
  it("it never throws", async () => {
    const broken = (thrown: unknown) => () => {
      throw thrown;
    };
    for (const thrown of [new TypeError("odd"), null, "text", { code: 7 }]) {
      const lookup = broken(thrown) as never;
      const failure = await failureOf({ url: "http://a.test/?s3cret" }, { lookup });
      expect(failure).toMatchObject({ kind: "error", class: "transient", code: null });
      expect(failure.message).toMatch(/^GET http:\/\/a\.test\/: /);
    }
  });

  it("a mistake in the operator's list is reported at once", () => {
    expect(() => httpExecutor({ allow: ["10.0.0.0/99"], clock: systemClock })).toThrow(/work\.allowAddresses\[0\]/);
  });
});

describe("under the default preset with three attempts", () => {
  const verdict = (outcome: ReportedOutcome) => {
    const job = testJob({ policy: resolvePolicy({ maxAttempts: 3 }) });
    return decide(job, outcome as never, T0, MIDDLE);
  };

  it.each<[number, string]>([
    [408, "retry"],
    [425, "retry"],
    [429, "retry"],
    [500, "retry"],
    [502, "retry"],
    [503, "retry"],
    [400, "fail"],
    [401, "fail"],
    [404, "fail"],
    [422, "fail"],
  ])("%d means %s", async (status, kind) => {
    await using server = await echo();
    const outcome = await outcomeOf({ url: `${server.url}/${status}` });
    expect(outcome).toMatchObject({ kind: "failed", failure: { kind: "http", status } });
    expect(verdict(outcome).kind).toBe(kind);
  });

  it("a timeout is retried", async () => {
    const clock = new VirtualClock();
    await using server = await serve(() => clock.moveTo(clock.now() + 30_000));
    const outcome = await outcomeOf({ url: server.url }, { clock });
    const failure = { kind: "error", class: "transient", name: "TimeoutError", code: "ETIMEDOUT" };
    expect(outcome).toMatchObject({ kind: "failed", failure });
    expect(verdict(outcome).kind).toBe("retry");
  });

  it("ECONNREFUSED and ECONNRESET are retried", async () => {
    const refused = await outcomeOf({ url: `http://127.0.0.1:${await freePort()}/?s3cret` });
    expect(refused).toMatchObject({ failure: { kind: "error", code: "ECONNREFUSED" } });
    expect(JSON.stringify(refused)).not.toContain("s3cret");
    await using server = await serveRaw((socket) => socket.resetAndDestroy());
    const reset = await outcomeOf({ url: server.url });
    expect(reset).toMatchObject({ failure: { kind: "error", code: "ECONNRESET" } });
    expect([verdict(refused).kind, verdict(reset).kind]).toEqual(["retry", "retry"]);
  });

  it("Retry-After is heeded", async () => {
    await using server = await echo({ "retry-after": "120" });
    expect(verdict(await outcomeOf({ url: `${server.url}/429` }))).toMatchObject({ runAt: T0 + 120_000 });
  });

  it("what can never work is not retried", async () => {
    await using loop = await serve((response) => response.writeHead(302, { location: "/" }).end());
    await using large = await echo({}, "large");
    const outcomes = [
      await outcomeOf("nonsense"),
      await outcomeOf({ url: "http://10.0.0.1/" }),
      await outcomeOf({ url: loop.url }),
      await outcomeOf({ url: `${large.url}/200`, maxBytes: 1 }),
    ];
    expect(outcomes.map((outcome) => verdict(outcome).kind)).toEqual(["fail", "fail", "fail", "fail"]);
  });
});
