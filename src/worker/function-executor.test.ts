import { describe, expect, it } from "vitest";
import { InvalidInputError, NonRetryableError, RetryAfterError, task } from "../index.ts";
import { openTestEngine } from "../testing/index.ts";

const RETRY = { maxAttempts: 3, backoff: { type: "fixed", delay: "10s" } } as const;

/** Runs a handler that does `work` once, and returns the job and its first attempt. */
async function outcomeOf(work: () => unknown, retry: object = { maxAttempts: 1 }) {
  await using kit = await openTestEngine();
  const odd = task("odd", { retry }, work);
  await kit.perdure.work([odd]);
  const job = await kit.perdure.submit(odd);
  await kit.settled();
  const [attempt] = await job.attempts();
  return { job: await job.get(), attempt, now: kit.clock.now(), explained: await job.explain() };
}

function thrower(value: unknown): () => never {
  return () => {
    throw value;
  };
}

describe("what a handler throws", () => {
  it("NonRetryableError ends the job now, as rejected, whatever is left of its budget", async () => {
    const { job, attempt } = await outcomeOf(thrower(new NonRetryableError("not like this")), RETRY);
    expect(job).toMatchObject({ state: "failed", reason: "rejected", failures: 1, attempt: 1 });
    expect(attempt?.failure).toMatchObject({ class: "logical", name: "NonRetryableError", message: "not like this" });
  });

  it("InvalidInputError ends the job now, as invalid", async () => {
    const { job, attempt } = await outcomeOf(thrower(new InvalidInputError("no url")), RETRY);
    expect(job).toMatchObject({ state: "failed", reason: "invalid", failures: 1 });
    expect(attempt?.failure).toMatchObject({ class: "invalid", message: "no url" });
  });

  it("RetryAfterError waits for its delay, or for the backoff if that is longer", async () => {
    const long = await outcomeOf(thrower(new RetryAfterError("busy", "1m")), RETRY);
    expect(long.job).toMatchObject({ state: "queued", failures: 1, runAt: long.now + 60_000 });
    const short = await outcomeOf(thrower(new RetryAfterError("busy", "1s")), RETRY);
    expect(short.job.runAt).toBe(short.now + 10_000);
    const endless = await outcomeOf(thrower(new RetryAfterError("busy", "10d")), RETRY);
    expect(endless.job.runAt).toBe(endless.now + 3_600_000);
  });

  it("is known by its mark and not by its class, so that two copies of the package agree", async () => {
    const copy = Object.assign(new Error("from the other copy"), { perdureFailure: "logical" });
    expect((await outcomeOf(thrower(copy), RETRY)).job.reason).toBe("rejected");
  });

  it("has the handler's frames in its stack, not those of the worker", async () => {
    async function deeper(): Promise<never> {
      await Promise.resolve();
      throw new Error("deep");
    }
    for (const handler of [thrower(new Error("made elsewhere")), deeper, () => deeper()]) {
      const { attempt } = await outcomeOf(handler);
      const stack = attempt?.failure?.stack ?? "";
      expect(stack).toContain("function-executor.test.ts");
      expect(stack).not.toMatch(/worker\.ts|function-executor\.ts|claimLoop/);
    }
  });

  const hostile = {
    get message(): string {
      throw new Error("no message for you");
    },
    get name(): string {
      throw new Error("nor a name");
    },
    get stack(): string {
      throw new Error("nor a stack");
    },
    toString(): string {
      throw new Error("nor a text");
    },
    toJSON(): string {
      throw new Error("nor JSON");
    },
  };
  const everyTrapThrows = new Proxy(
    {},
    {
      get: () => {
        throw new Error("trapped");
      },
      has: () => {
        throw new Error("trapped");
      },
      getPrototypeOf: () => {
        throw new Error("trapped");
      },
      ownKeys: () => {
        throw new Error("trapped");
      },
    },
  );
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();

  it.each<[string, unknown, RegExp]>([
    ["null", null, /threw object: null/],
    ["undefined", undefined, /threw undefined/],
    ["a string", "just a string", /threw string: just a string/],
    ["a number", 42, /42/],
    ["NaN", Number.NaN, /NaN/],
    ["a BigInt", 7n, /7/],
    ["a symbol", Symbol("why"), /Symbol\(why\)/],
    ["a function", () => 1, /function/],
    ["an empty object", {}, /\{\}/],
    ["a plain object", { message: "plain", code: 7 }, /^plain$/],
    ["an object without prototype", Object.assign(Object.create(null), { message: "bare" }), /^bare$/],
    ["an object with throwing getters", hostile, /cannot be shown/],
    ["a proxy whose traps throw", everyTrapThrows, /cannot be shown/],
    ["a revoked proxy", revoked.proxy, /cannot be shown/],
    ["a frozen error", Object.freeze(new Error("frozen")), /^frozen$/],
    ["an error without a message", new Error(), /^$/],
    ["an error with a cause", new Error("outer", { cause: new Error("inner") }), /^outer$/],
    ["an aggregate", new AggregateError([new Error("a")], "several"), /^several$/],
    ["an error of another realm's shape", { name: "Error", message: { not: "text" } }, /not/],
  ])("is recorded whatever it is: %s", async (_, value, message) => {
    const { job, attempt, explained } = await outcomeOf(thrower(value));
    expect(job).toMatchObject({ state: "failed", reason: "exhausted", failures: 1 });
    expect(attempt?.failure?.message).toMatch(message);
    expect(explained.text).toContain("Failed (exhausted)");
  });

  it("is stored well-formed and within its limits", async () => {
    const error = new Error(`\u0000 \ud800 ${"x".repeat(100_000)}`);
    Object.assign(error, { code: `E\u0000${"c".repeat(1_000)}`, name: `N\udfff${"n".repeat(1_000)}` });
    error.stack = "s".repeat(1_000_000);
    const { attempt } = await outcomeOf(thrower(error));
    const failure = attempt?.failure;
    expect(failure?.message).toMatch(/^\ufffd \ufffd x+…$/);
    expect(failure?.message).toHaveLength(2_048);
    expect(failure?.code).toHaveLength(200);
    expect(failure?.name).toMatch(/^N\ufffdn+…$/);
    expect(failure?.stack).toHaveLength(8_192);
  });

  it("may be thrown at once or later, and is the same", async () => {
    const later = await outcomeOf(async () => {
      await new Promise((resolve) => setImmediate(resolve));
      throw new TypeError("later");
    });
    expect(later.attempt?.failure).toMatchObject({ name: "TypeError", message: "later" });
    const rejected = await outcomeOf(() => Promise.reject(new TypeError("rejected")));
    expect(rejected.attempt?.failure).toMatchObject({ name: "TypeError", message: "rejected" });
  });

  it("with an HTTP status is an http failure: a 404 is not tried again, a 503 is", async () => {
    const gone = await outcomeOf(thrower(Object.assign(new Error("gone"), { status: 404 })), RETRY);
    expect(gone.job).toMatchObject({ state: "failed" });
    const busy = await outcomeOf(thrower(Object.assign(new Error("busy"), { statusCode: 503 })), RETRY);
    expect(busy.job).toMatchObject({ state: "queued" });
    expect(busy.attempt?.failure).toMatchObject({ kind: "http", status: 503 });
  });
});

describe("what a handler returns", () => {
  it("undefined and null are distinguished", async () => {
    expect((await outcomeOf(() => undefined)).job).toMatchObject({ state: "succeeded", result: undefined });
    expect((await outcomeOf(() => null)).job).toMatchObject({ state: "succeeded", result: null });
  });

  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  it.each<[string, unknown]>([
    ["a function", () => 1],
    ["a symbol", Symbol("s")],
    ["a BigInt", 1n],
    ["a cycle", cycle],
    [
      "a value that throws an error as JSON",
      {
        toJSON: () => {
          throw new Error("no");
        },
      },
    ],
    [
      "a value that throws null as JSON",
      {
        toJSON: () => {
          throw null;
        },
      },
    ],
    ["a value that is undefined as JSON", { toJSON: () => undefined }],
    [
      "a proxy that refuses",
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error("no");
          },
        },
      ),
    ],
  ])("is refused if it is not JSON, and not tried again: %s", async (_, value) => {
    const { job, attempt } = await outcomeOf(() => [value].at(0), RETRY);
    expect(job).toMatchObject({ state: "failed", reason: "rejected", attempt: 1 });
    expect(attempt?.failure).toMatchObject({ kind: "result", class: "logical" });
    expect(attempt?.failure?.message).toContain("not JSON");
  });

  it("takes up to 1 MiB and refuses a byte more", async () => {
    const most = "x".repeat(1_048_576 - 2);
    expect((await outcomeOf(() => most)).job).toMatchObject({ state: "succeeded", result: most });
    const { job, attempt } = await outcomeOf(() => `${most}x`, RETRY);
    expect(job).toMatchObject({ state: "failed", reason: "rejected", attempt: 1 });
    expect(attempt?.failure).toMatchObject({ kind: "result", message: expect.stringContaining("1048576 bytes") });
    expect(attempt?.result).toBeNull();
  });

  it("may be a thenable, and one that throws is a failure", async () => {
    // biome-ignore lint/suspicious/noThenProperty: the odd value under test
    expect((await outcomeOf(() => ({ then: (done: (value: string) => void) => done("late") }))).job.result).toBe(
      "late",
    );
    const trap = {
      // biome-ignore lint/suspicious/noThenProperty: the odd value under test
      get then(): never {
        throw new Error("no then");
      },
    };
    expect((await outcomeOf(() => trap)).attempt?.failure?.message).toBe("no then");
  });
});

describe("polling with retryWhen", () => {
  it("runs again until the result satisfies the condition", async () => {
    await using kit = await openTestEngine();
    const retry = { maxAttempts: 5, backoff: { type: "fixed", delay: "1s" }, retryWhen: "{{ data.state == 'busy' }}" };
    const poll = task("poll", { retry: retry as never }, (_, ctx) => ({ state: ctx.attempt < 3 ? "busy" : "ready" }));
    await kit.perdure.work([poll]);
    const job = await kit.perdure.submit(poll);
    expect(await kit.runToEnd(job)).toMatchObject({ state: "succeeded", attempt: 3, result: { state: "ready" } });
    expect((await job.attempts()).map((attempt) => attempt.outcome)).toEqual(["completed", "completed", "completed"]);
  });
});
