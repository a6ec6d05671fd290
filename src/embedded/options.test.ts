import { describe, expect, it } from "vitest";
import { dialectSettingsFrom } from "../dialects/settings.ts";
import { InvalidInputError, Perdure, PerdureError, task } from "../index.ts";
import { openTestEngine } from "../testing/index.ts";

/** The error of a call that must reject its promise and must not throw. */
async function refusal(call: () => Promise<unknown>): Promise<PerdureError> {
  const error = await call().then(
    () => new Error("it was accepted"),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(PerdureError);
  return error as PerdureError;
}

describe("options of submit", () => {
  it.each<[string, object, string | null]>([
    ["submit.prioritty", { prioritty: 1 }, "priority"],
    ["submit.dealy", { dealy: "1s" }, "delay"],
    ["submit.Key", { Key: "a" }, "key"],
    ["submit.maxAttempts", { maxAttempts: 3 }, null],
    ["submit.timeouts", { timeouts: 3 }, "timeout"],
    ["submit.run_at", { run_at: 3 }, "runAt"],
  ])("refuses the unknown %s and names the nearest", async (path, options, nearest) => {
    await using kit = await openTestEngine();
    const error = await refusal(() => kit.perdure.submit("k", null, options as never));
    expect(error).toMatchObject({ code: "invalid_config", path, nearest });
    expect(error.message).toContain("unknown field");
    if (nearest !== null) expect(error.message).toContain(`Did you mean "${nearest}"?`);
  });

  it.each<[string, Record<string, unknown>]>([
    ["submit.key", { key: 42 }],
    ["submit.key", { key: "" }],
    ["submit.key", { key: null }],
    ["submit.key", { key: "k".repeat(501) }],
    ["submit.queue", { queue: null }],
    ["submit.queue", { queue: "  " }],
    ["submit.queue", { queue: "q".repeat(201) }],
    ["submit.priority", { priority: "1" }],
    ["submit.priority", { priority: null }],
    ["submit.priority", { priority: -1 }],
    ["submit.priority", { priority: 10 }],
    ["submit.priority", { priority: 1.5 }],
    ["submit.delay", { delay: "soon" }],
    ["submit.delay", { delay: -1 }],
    ["submit.delay", { delay: Number.NaN }],
    ["submit.delay", { delay: "3651d" }],
    ["submit.delay", { delay: null }],
    ["submit.delay", { delay: "1s", runAt: 5 }],
    ["submit.runAt", { runAt: "2030-01-01" }],
    ["submit.runAt", { runAt: new Date("never") }],
    ["submit.runAt", { runAt: -1 }],
    ["submit.runAt", { runAt: Number.POSITIVE_INFINITY }],
    ["submit.deadline", { deadline: "tomorrow" }],
    ["submit.timeout", { timeout: {} }],
    ["submit.expireIn", { expireIn: true }],
    ["submit.tags", { tags: "red" }],
    ["submit.tags", { tags: Array.from({ length: 21 }, (_, i) => `t${i}`) }],
    ["submit.tags[1]", { tags: ["a", 7] }],
    ["submit.tags[0]", { tags: [""] }],
    ["submit.labels", { labels: ["gpu"] }],
    ["labels.gpu", { labels: { gpu: true } }],
    ["submit.retry", { retry: "often" }],
    ["submit.retry.maxAttempts", { retry: { maxAttempts: 0 } }],
    ["submit.retry.backoff.intial", { retry: { backoff: { intial: "1s" } } }],
  ])("refuses a wrong %s: %o", async (path, options) => {
    await using kit = await openTestEngine();
    const error = await refusal(() => kit.perdure.submit("k", null, options as never));
    expect(error).toMatchObject({ code: "invalid_config", path });
    expect(error.message).toContain(path);
    expect((await kit.perdure.jobs()).jobs).toEqual([]);
  });

  it.each([null, "fast", 7, [], new Date(0), new Map([["key", "a"]])])("refuses %o in their place", async (options) => {
    await using kit = await openTestEngine();
    const error = await refusal(() => kit.perdure.submit("k", null, options as never));
    expect(error).toMatchObject({ code: "invalid_config" });
  });

  it.each([undefined, null, 7, {}, () => 1, { kind: "k" }])("refuses %o in place of a task", async (given) => {
    await using kit = await openTestEngine();
    const error = await refusal(() => kit.perdure.submit(given as string));
    expect(error).toMatchObject({ code: "invalid_config", path: "submit.task" });
  });

  it("refuses a misspelt option of a task, at submit and at work, whatever options the submit has", async () => {
    await using kit = await openTestEngine();
    const bad = task("bad", { timout: "1m" } as never, () => 1);
    const calls = [
      () => kit.perdure.submit(bad),
      () => kit.perdure.submit(bad, undefined, { retry: 2, timeout: "1m" }),
      () => kit.perdure.work([bad]),
    ];
    for (const call of calls) {
      expect((await refusal(call)).message).toMatch(/timout.*Did you mean "timeout"/);
    }
  });
});

describe("names", () => {
  it.each(["nul\u0000", "line\nfeed", "tab\t", "\u007f", "half \ud800 pair", "\udc00", ""])(
    "refuses a kind, queue, key, tag or label with %j",
    async (name) => {
      await using kit = await openTestEngine();
      const calls = [
        () => kit.perdure.submit(name),
        () => kit.perdure.submit("k", null, { queue: name }),
        () => kit.perdure.submit("k", null, { key: name }),
        () => kit.perdure.submit("k", null, { tags: [name] }),
        () => kit.perdure.submit("k", null, { labels: { [name]: "x" } }),
        () => kit.perdure.submit("k", null, { labels: { x: name } }),
      ];
      for (const call of calls) expect(await refusal(call)).toMatchObject({ code: "invalid_config" });
    },
  );

  it("accepts any other text up to its limit, in any script", async () => {
    await using kit = await openTestEngine();
    const name = `größe 図 🦊 ${"x".repeat(188)}`;
    const options = { queue: name, key: "k".repeat(500), tags: [name], labels: { [name]: name } };
    const job = await (await kit.perdure.submit(name, null, options)).get();
    expect(job).toMatchObject({ kind: name, queue: name, tags: [name], labels: { [name]: name } });
    await expect(kit.perdure.submit("x".repeat(201))).rejects.toMatchObject({ path: "kind" });
  });

  it("refuses a task without a name or without a handler", () => {
    expect(() => task("", () => 1)).toThrow(/task/);
    expect(() => task("k", {} as never)).toThrow(/has no handler; pass a function as the last argument/);
    expect(() => task("k", {}, "run" as never)).toThrow(/has no handler; pass a function as the last argument/);
    const turned = task as (...given: unknown[]) => unknown;
    expect(() => turned("k", () => 1, { retry: 5 })).toThrow(/put options before it, as in task\("k", \{ retry: 3 \}/);
  });
});

describe("payloads", () => {
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  it.each<[string, unknown]>([
    ["a function", () => 1],
    ["a symbol", Symbol("s")],
    ["a BigInt", 1n],
    ["a BigInt inside", { deep: [1n] }],
    ["a cycle", cycle],
    [
      "a value that refuses",
      {
        toJSON: () => {
          throw new InvalidInputError("no\nnever");
        },
      },
    ],
    [
      "a value that throws null",
      {
        toJSON: () => {
          throw null;
        },
      },
    ],
    ["a value that turns into nothing", { toJSON: () => undefined }],
  ])("refuses %s as not JSON", async (_, payload) => {
    await using kit = await openTestEngine();
    const error = await refusal(() => kit.perdure.submit("k", payload));
    expect(error).toMatchObject({ code: "invalid_payload", path: "payload" });
    expect(error.message).toContain("must be JSON");
    expect(error.message).not.toContain("\n");
  });

  it.each([
    ["ASCII", "x"],
    ["two bytes a character", "é"],
    ["three bytes", "図"],
    ["four bytes", "🦊"],
  ])("takes up to 1 MiB of UTF-8 and not a byte more: %s", async (_, character) => {
    await using kit = await openTestEngine();
    const length = 1_048_576 - 2; // two quotes
    const bytes = new TextEncoder().encode(character).length;
    const most = character.repeat(Math.floor(length / bytes)) + "x".repeat(length % bytes);
    const job = await kit.perdure.submit("k", most);
    expect((await job.get()).payload).toBe(most);
    const error = await refusal(() => kit.perdure.submit("k", `${most}x`));
    expect(error).toMatchObject({ code: "invalid_payload" });
    expect(error.message).toContain("1048576 bytes");
  });

  it("takes 64 levels of nesting and refuses 65, of lists and objects alike", async () => {
    await using kit = await openTestEngine();
    const lists = (depth: number) => JSON.parse("[".repeat(depth) + "]".repeat(depth)) as unknown;
    const objects = (depth: number) => JSON.parse(`${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`) as unknown;
    for (const nested of [lists, objects]) {
      const job = await kit.perdure.submit("k", nested(64));
      expect((await job.get()).payload).toEqual(nested(64));
      const error = await refusal(() => kit.perdure.submit("k", nested(65)));
      expect(error).toMatchObject({ code: "invalid_payload" });
      expect(error.message).toContain("64 levels");
    }
    expect(await refusal(() => kit.perdure.submit("k", lists(20_000)))).toMatchObject({ code: "invalid_payload" });
    const brackets = "[{".repeat(500);
    expect((await (await kit.perdure.submit("k", { brackets })).get()).payload).toEqual({ brackets });
  });

  it("keeps NUL and half surrogate pairs in payload strings as they are", async () => {
    await using kit = await openTestEngine();
    const echo = task("echo", (input: unknown) => input);
    await kit.perdure.work([echo]);
    const input = { "key\u0000": "a\u0000b", half: "\ud83d", other: "\udd8a", whole: "🦊", lines: "\u2028\r\n" };
    const job = await kit.perdure.submit(echo, input);
    expect(await job.result()).toEqual(input);
    expect((await job.get()).payload).toEqual(input);
  });
});

describe("options of open", () => {
  it.each<[string, unknown]>([
    ["open.ur", { ur: "x" }],
    ["open.lease", { url: ":memory:", lease: "299ms" }],
    ["open.lease", { url: ":memory:", lease: "fast" }],
    ["open.namespace", { url: ":memory:", namespace: "" }],
    ["open.keyWindow", { url: ":memory:", keyWindow: -1 }],
    ["open.retention", { url: ":memory:", retention: null }],
    ["open.retention.completed", { url: ":memory:", retention: { completed: "1d" } }],
    ["open.retention.failed", { url: ":memory:", retention: { failed: true } }],
    ["open.logger", { url: ":memory:", logger: "loud" }],
    ["open.url", { url: 42 }],
    ["open.url", { url: "" }],
    ["open.url", "mysql://somewhere/db"],
    ["open.url", "mysql://somewhere/db"],
    ["open", null],
    ["open", 42],
    ["open", new URL("file:///tmp/jobs.db")],
  ])("refuses a wrong %s: %o", async (path, options) => {
    const error = await refusal(() => Perdure.open(options as never));
    expect(error).toMatchObject({ code: "invalid_config", path });
  });

  it("does not show the password of an unsupported address", async () => {
    const error = await refusal(() => Perdure.open("postgres://me:secret@host/db"));
    expect(error.message).not.toContain("secret");
  });
});

describe("options of the other calls", () => {
  it("refuses unknown options with the nearest name, always as a rejected promise", async () => {
    await using kit = await openTestEngine();
    const { perdure } = kit;
    const job = await perdure.submit("k");
    const worker = await perdure.work([task("other", () => 1)]);
    const calls: [() => Promise<unknown>, RegExp][] = [
      [() => perdure.jobs({ stat: "queued" } as never), /"state"/],
      [() => perdure.jobs({ state: "que" } as never), /"queued"/],
      [() => perdure.jobs({ limit: 0 }), /limit/],
      [() => perdure.jobs({ limit: 1_001 }), /limit/],
      [() => perdure.jobs({ order: "random" } as never), /order/],
      [() => perdure.jobs({ submittedAfter: "today" } as never), /submittedAfter/],
      [() => perdure.work([task("k", () => 1)], { concurency: 1 } as never), /"concurrency"/],
      [() => perdure.work([task("k", () => 1)], { concurrency: 0 }), /concurrency/],
      [() => perdure.work([task("k", () => 1)], { queues: [] }), /queues/],
      [() => perdure.work([task("k", () => 1)], { labels: { a: 1 } } as never), /labels\.a/],
      [() => perdure.work([]), /list of tasks/],
      [() => perdure.work(task("k", () => 1) as never), /list of tasks/],
      [() => perdure.work([null] as never), /list of tasks/],
      [() => perdure.work([() => 1] as never), /list of tasks/],
      [() => perdure.work([task("k", () => 1), task("k", () => 2)]), /has the kind "k" twice/],
      [() => job.result({ timout: 5 } as never), /"timeout"/],
      [() => job.result({ timeout: "soon" as never }), /timeout/],
      [async () => perdure.events({ folow: true } as never).next(), /"follow"/],
      [async () => perdure.events("5" as never).next(), /events/],
      [async () => perdure.events({ after: -1 }).next(), /after/],
      [async () => job.events({ aftr: 1 } as never).next(), /"after"/],
      [() => perdure.pause(""), /pause\.queue/],
      [() => perdure.resume(5 as never), /resume\.queue/],
      [() => perdure.reschedule(job.id, "later" as never), /reschedule\.runAt/],
      [() => worker.stop({ grase: 1 } as never), /"grace"/],
      [() => worker.stop({ grace: "long" as never }), /grace/],
      [() => perdure.close({ grase: 1 } as never), /"grace"/],
      [() => perdure.close({ grace: "long" as never }), /grace/],
    ];
    for (const [call, message] of calls) {
      const error = await refusal(call);
      expect(error).toMatchObject({ code: "invalid_config", message: expect.stringMatching(message) });
    }
    expect((await job.get()).state).toBe("queued"); // no refused call closed anything
  });

  it.each(["job_", "", "job_01hzz", "ses_0000000000000000000000000a", 7n, null, {}])(
    "answers job_not_found for %o, which is not an id",
    async (id) => {
      await using kit = await openTestEngine();
      const { perdure } = kit;
      for (const verb of ["job", "cancel", "retry", "redrive", "discard", "explain"] as const) {
        expect(await refusal(() => perdure[verb](id as never))).toMatchObject({ code: "job_not_found" });
      }
    },
  );
});

describe("settings of the dialects", () => {
  it("are returned, with the defaults of their documents", async () => {
    await using kit = await openTestEngine({ dialects: { fluster: { defaultMaxRetriesFailure: 4 } } });
    const { fluster, attune } = await dialectSettingsFrom(kit.perdure);
    expect(fluster).toEqual({
      defaultMaxRetriesFailure: 4,
      defaultMaxRetriesPreemption: 100,
      defaultRetryDelayMs: 1_000,
    });
    expect(attune.ttlSecs).toBe(300);
  });

  it("are refused if they are misspelt", async () => {
    const error = await refusal(() => Perdure.open({ url: ":memory:", dialects: { flustr: {} } as never }));
    expect(error).toMatchObject({ path: "open.dialects.flustr", nearest: "fluster" });
    const deeper = await refusal(() => Perdure.open({ url: ":memory:", dialects: { attune: { ttl: 1 } } as never }));
    expect(deeper.path).toBe("open.dialects.attune.ttl");
  });
});
