/** Failing calls: what is repeated, what is not, and how each failure is reported. The network is a function here. */
import { describe, expect, it } from "vitest";
import { type ConnectOptions, Perdure, type PerdureClient, task } from "../../src/client/index.ts";

interface Sent {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: string | null;
}

type Step = (sent: Sent, signal: AbortSignal) => Response | Promise<Response>;

/** Answers the n-th request with the n-th step, and all further ones with the last. */
async function withNetwork(...steps: Step[]) {
  return withOptions({}, ...steps);
}

async function withOptions(options: Partial<ConnectOptions>, ...steps: Step[]) {
  const sent: Sent[] = [];
  const fake = async (input: unknown, init: RequestInit = {}) => {
    const { method = "GET", headers, body, signal } = init;
    const one = { url: String(input), method, headers: new Headers(headers), body: (body as string) ?? null };
    sent.push(one);
    const step = steps[Math.min(sent.length, steps.length) - 1] as Step;
    return step(one, signal as AbortSignal);
  };
  const fetch = fake as unknown as typeof globalThis.fetch;
  const perdure = await Perdure.connect("http://server:7070/", { token: "tok", fetch, ...options });
  return { perdure, sent };
}

const json = (value: unknown, status = 200, headers: Record<string, string> = {}): Step => {
  return () => new Response(JSON.stringify(value), { status, headers });
};
const text = (body: string, status: number): Step => {
  return () => new Response(body, { status });
};
const refused: Step = () => {
  throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED 127.0.0.1:7070") });
};
const later = (code: string, status: number) => {
  return json({ code, message: "later", path: null }, status, { "retry-after": "0.01" });
};
const SUBMITTED = { id: `job_${"0".repeat(26)}`, created: true, chapter: 1, state: "queued" };
const ID = SUBMITTED.id;

describe("a request", () => {
  it("has the token, the namespace and JSON, and its names are encoded", async () => {
    const { perdure, sent } = await withOptions({ namespace: "team a" }, json({}));
    await perdure.pause("a/b ?#");
    await perdure.admin.createToken({ name: "ci", scopes: ["submit"] });
    expect(sent[0]).toMatchObject({
      url: "http://server:7070/v1/queues/a%2Fb%20%3F%23/pause",
      method: "POST",
      body: null,
    });
    expect(sent[0]?.headers.get("content-type")).toBeNull();
    expect(sent[1]?.headers.get("content-type")).toBe("application/json");
    for (const { headers } of sent) {
      expect(headers.get("authorization")).toBe("Bearer tok");
      expect(headers.get("perdure-namespace")).toBe("team a");
    }
  });

  it("is never sent to another route by a name that means a folder", async () => {
    const { perdure, sent } = await withNetwork(json({ attempts: [] }));
    await expect(perdure.pause("..")).rejects.toMatchObject({ code: "invalid_config" });
    await expect(perdure.explain("../tokens")).rejects.toMatchObject({ code: "job_not_found" });
    const outputs = await perdure.outputs(ID);
    expect(await outputs.read(1, "artifacts/../../../../tokens")).toBeNull();
    expect(sent).toHaveLength(1);
  });

  it("has the options of the task if the submit has none, times in milliseconds, and the input unchanged", async () => {
    const { perdure, sent } = await withNetwork(json(SUBMITTED, 201));
    const options = { retry: { maxAttempts: 3 }, timeout: "2m", queue: "slow", priority: 7, expireIn: "1h" } as const;
    const resize = task("resize", options, (input: { url: string }) => input.url);
    const runAt = new Date(1_800_000_000_000);
    await perdure.submit(resize, { url: "a" }, { priority: 1, timeout: "5s", runAt, tags: ["t"] });
    expect(JSON.parse(sent[0]?.body ?? "")).toEqual({
      ...{ kind: "resize", input: { url: "a" }, priority: 1, timeout: "5s", runAt: 1_800_000_000_000, tags: ["t"] },
      ...{ retry: { maxAttempts: 3 }, queue: "slow", expireIn: "1h" },
      sources: { maxAttempts: "task", queue: "task", expireIn: "task" },
    });
    await perdure.submit("tick");
    expect(sent[1]?.body).toBe('{"kind":"tick"}');
  });

  it("is not sent if the library can detect the mistake itself", async () => {
    const { perdure, sent } = await withNetwork(json(SUBMITTED, 201));
    const wrong = async (options: object) => perdure.submit("k", 1, options as never);
    await expect(wrong({ priorty: 1 })).rejects.toMatchObject({ path: "submit.priorty", nearest: "priority" });
    await expect(wrong({ delay: "1s", runAt: 1 })).rejects.toMatchObject({ path: "submit.delay" });
    await expect(wrong({ timeout: "soon" })).rejects.toMatchObject({ path: "submit.timeout" });
    await expect(wrong({ client: { query() {} } })).rejects.toMatchObject({ path: "submit.client" });
    await expect(wrong({ retry: { maxAttempts: Infinity } })).rejects.toMatchObject({
      path: "submit.retry.maxAttempts",
    });
    await expect(wrong({ retry: { rules: [{ when: () => true }] } })).rejects.toMatchObject({
      path: "submit.retry.rules[0].when",
    });
    await expect(wrong({ labels: { gpu: 1n } })).rejects.toMatchObject({ path: "submit.labels.gpu" });
    await expect(perdure.submit("k", 1n)).rejects.toMatchObject({ code: "invalid_payload" });
    await expect(perdure.submit("k", () => {})).rejects.toMatchObject({ code: "invalid_payload" });
    await expect(perdure.jobs({ stat: "failed" } as never)).rejects.toMatchObject({ nearest: "state" });
    expect(() => perdure.events({ after: -1 })).toThrow(/events\.after/);
    expect(await perdure.jobs({ state: [] })).toEqual({ jobs: [], next: null });
    expect(sent).toEqual([]);
  });
});

describe("a call that fails", () => {
  const look = (perdure: PerdureClient) => perdure.queues();

  it("has the server's code, message and field", async () => {
    const reply = { code: "invalid_config", message: "retry.maxAttempts: got 0", path: "retry.maxAttempts" };
    const { perdure, sent } = await withNetwork(json(reply, 400));
    await expect(perdure.submit("k", 1, { key: "a" })).rejects.toMatchObject({ name: "PerdureError", ...reply });
    expect(sent).toHaveLength(1);
  });

  it("is made again if it is a look: refused, broken off, answered by a proxy, or later", async () => {
    const broken: Step = () =>
      new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode('{"queues":['));
            controller.error(new Error("reset"));
          },
        }),
      );
    const { perdure, sent } = await withNetwork(
      ...[refused, broken, text("<h1>Bad gateway</h1>", 502), later("overloaded", 503), json({ queues: [] })],
    );
    expect(await look(perdure)).toEqual([]);
    expect(sent).toHaveLength(5);
  });

  it("fails after its time limit, with the cause", async () => {
    const { perdure, sent } = await withOptions({ patience: "1s" }, refused);
    await expect(look(perdure)).rejects.toMatchObject({
      code: "server_unreachable",
      message: expect.stringMatching(
        /^the server at http:\/\/server:7070 cannot be reached: connect ECONNREFUSED [\d.:]+$/,
      ),
    });
    expect(sent.length).toBeGreaterThan(1);
    const hasty = await withOptions({ patience: 0 }, refused);
    await expect(look(hasty.perdure)).rejects.toMatchObject({ code: "server_unreachable" });
    expect(hasty.sent).toHaveLength(1);
  });

  it("that a busy server refuses is repeated once, even if Retry-After exceeds the time limit", async () => {
    const busy = json({ code: "overloaded", message: "later", path: null }, 503, { "retry-after": "0.05" });
    const { perdure, sent } = await withOptions({ patience: "10ms" }, busy, json({ queues: [] }));
    expect(await look(perdure)).toEqual([]);
    expect(sent).toHaveLength(2);
    const still = await withOptions({ patience: "10ms" }, busy);
    await expect(look(still.perdure)).rejects.toMatchObject({ code: "overloaded" });
    expect(still.sent).toHaveLength(2);
    const hasty = await withOptions({ patience: 0 }, busy);
    await expect(look(hasty.perdure)).rejects.toMatchObject({ code: "overloaded" });
    expect(hasty.sent).toHaveLength(1);
  });

  it("is given up when the reply takes too long", async () => {
    const silent: Step = (_, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const { perdure } = await withOptions({ timeout: "20ms", patience: 0 }, silent);
    await expect(look(perdure)).rejects.toThrow(/no answer within 20 ms/);
  });

  it("is a submit with a key: made again, whatever happened to the reply", async () => {
    const { perdure, sent } = await withNetwork(refused, text("", 500), later("store_full", 507), json(SUBMITTED));
    expect((await perdure.submit("k", 1, { key: "a" })).id).toBe(ID);
    expect(new Set(sent.map(({ body }) => body)).size).toBe(1);
    expect(sent).toHaveLength(4);
  });

  it("is a submit without a key: repeated only if the server reports that nothing was done", async () => {
    const first = await withNetwork(later("overloaded", 503), later("too_many_requests", 429), json(SUBMITTED, 201));
    expect((await first.perdure.submit("k", 1)).id).toBe(ID);
    expect(first.sent).toHaveLength(3);
    for (const step of [refused, text("oops", 500), text("unavailable", 503)]) {
      const { perdure, sent } = await withNetwork(step, json(SUBMITTED, 201));
      await expect(perdure.submit("k", 1)).rejects.toMatchObject({
        code: "server_unreachable",
        message: expect.stringContaining("whether the call was done is unknown"),
      });
      expect(sent).toHaveLength(1);
    }
  });

  it("is a list: made again if all of it has keys", async () => {
    const answers = { answers: [SUBMITTED, SUBMITTED] };
    const keyed = await withNetwork(refused, json(answers));
    const entry = (key?: string) => ({ task: "k", ...(key === undefined ? {} : { options: { key } }) });
    expect(await keyed.perdure.submitMany([entry("a"), entry("b")])).toMatchObject([{ ok: true }, { ok: true }]);
    const mixed = await withNetwork(refused, json(answers));
    await expect(mixed.perdure.submitMany([entry("a"), entry()])).rejects.toMatchObject({ code: "server_unreachable" });
    expect(mixed.sent).toHaveLength(1);
  });

  it("is a command: a cancel is made again, a redrive is not", async () => {
    const { perdure, sent } = await withNetwork(refused, json({ id: ID }));
    await perdure.cancel(ID);
    expect(sent).toHaveLength(2);
    const other = await withNetwork(refused, json({ id: ID }));
    await expect(other.perdure.redrive(ID)).rejects.toMatchObject({ code: "server_unreachable" });
    expect(other.sent).toHaveLength(1);
  });

  it("is reported at once if another kind of server answers", async () => {
    const redirect: Step = () => new Response(null, { status: 302, headers: { location: "https://elsewhere/" } });
    for (const step of [text("<html>", 200), text("<html>", 404), redirect]) {
      const { perdure, sent } = await withNetwork(step);
      await expect(look(perdure)).rejects.toMatchObject({
        code: "not_found",
        message: expect.stringContaining("is the address right?"),
      });
      expect(sent).toHaveLength(1);
    }
    const page = await withNetwork(text("<html>", 200));
    await expect(page.perdure.events({ follow: true }).next()).rejects.toMatchObject({ code: "not_found" });
    const { perdure } = await withNetwork(text("who are you?", 401));
    await expect(look(perdure)).rejects.toMatchObject({ code: "unauthorized" });
  });

  it("ends with the client", async () => {
    const silent: Step = (_, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const { perdure } = await withNetwork(silent);
    const pending = expect(look(perdure)).rejects.toMatchObject({ code: "closed" });
    await perdure.close();
    await pending;
    await expect(look(perdure)).rejects.toMatchObject({ code: "closed" });
  });
});

describe("a file that breaks off", () => {
  it("resumes after an interruption", async () => {
    const whole = "0123456789";
    let cut = 4;
    const file: Step = ({ url }) => {
      const from = Number(new URL(url).searchParams.get("offset") ?? 0);
      const part = whole.slice(from, from + cut);
      cut = 100;
      return new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode(part));
          },
          pull(controller) {
            if (from + part.length < whole.length) controller.error(new Error("reset"));
            else controller.close();
          },
        }),
      );
    };
    const { perdure, sent } = await withNetwork(json({ attempts: [] }), file);
    const bytes = await (await perdure.outputs(ID)).read(1, "stdout.log", 1);
    let read = "";
    for await (const chunk of bytes ?? []) read += new TextDecoder().decode(chunk);
    expect(read).toBe(whole.slice(1));
    expect(sent.slice(1).map(({ url }) => url.slice(url.indexOf("/attempts")))).toEqual([
      "/attempts/1/files/stdout.log?offset=1",
      "/attempts/1/files/stdout.log?offset=5",
    ]);
  });
});

describe("an address, a token or a namespace that cannot be one", () => {
  it.each([
    ["connect.url", "server:7070", {}],
    ["connect.url", "ftp://server", {}],
    ["connect.url", "http://user:secret@server", {}],
    ["connect.url", "http://server/?a=1", {}],
    ["connect.token", "http://server", { token: undefined }],
    ["connect.token", "http://server", { token: "secret\nX-A: b" }],
    ["connect.namespace", "http://server", { namespace: "名" }],
    ["connect.timeout", "http://server", { timeout: 0 }],
    ["connect.tokn", "http://server", { tokn: "x" }],
  ])("%s of %s", async (path, url, options) => {
    const connecting = Perdure.connect(url, { token: "t", ...options } as never);
    await expect(connecting).rejects.toMatchObject({ code: "invalid_config", path });
    await expect(connecting).rejects.not.toThrow(/secret/);
  });
});
