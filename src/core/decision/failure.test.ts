import { describe, expect, it } from "vitest";
import { MAX_DURATION_MS } from "../duration.ts";
import { failure, failureFrom, InvalidInputError, NonRetryableError, RetryAfterError } from "./failure.ts";

const NOTHING = {
  class: "transient",
  name: null,
  code: null,
  exitCode: null,
  signal: null,
  status: null,
  retryAfterMs: null,
  stack: null,
};

describe("failure", () => {
  it("is transient and empty but for the parts that are given", () => {
    expect(failure({ kind: "exit", message: "exit code 7" })).toEqual({
      ...NOTHING,
      kind: "exit",
      message: "exit code 7",
    });
    expect(failure({ kind: "exit", message: "no", class: "logical", exitCode: 7 })).toMatchObject({
      class: "logical",
      exitCode: 7,
    });
  });
});

describe("the errors a handler steers with", () => {
  it("carry their names, messages and causes", () => {
    const cause = new Error("the cause");
    for (const error of [
      new NonRetryableError("no url", { cause }),
      new RetryAfterError("busy", "30s", { cause }),
      new InvalidInputError("not a number", { cause }),
    ]) {
      expect(error).toBeInstanceOf(Error);
      expect(error.name).toBe(error.constructor.name);
      expect(error.cause).toBe(cause);
    }
  });

  it("become failures of their class", () => {
    expect(failureFrom(new NonRetryableError("no url"))).toMatchObject({
      kind: "error",
      class: "logical",
      name: "NonRetryableError",
      message: "no url",
    });
    expect(failureFrom(new InvalidInputError("not a number"))).toMatchObject({ class: "invalid" });
    expect(failureFrom(new RetryAfterError("busy", "30s"))).toMatchObject({ class: "transient", retryAfterMs: 30_000 });
    expect(failureFrom(new RetryAfterError("busy", 250))).toMatchObject({ retryAfterMs: 250 });
  });

  it("refuse a delay that is none", () => {
    expect(() => new RetryAfterError("busy", "soon" as never)).toThrow(/delay/);
    expect(() => new RetryAfterError("busy", -1)).toThrow(/delay/);
  });

  it("are known by their mark, so that a class from another copy of the package counts", () => {
    class FromAnotherCopy extends Error {
      readonly perdureFailure = "logical";
    }
    expect(failureFrom(new FromAnotherCopy("no")).class).toBe("logical");
    expect(failureFrom({ perdureFailure: "invalid", message: "no" }).class).toBe("invalid");
  });

  it("do not lend their class to an unknown mark", () => {
    expect(failureFrom({ perdureFailure: "permanent", message: "no" }).class).toBe("transient");
    expect(failureFrom({ perdureFailure: true, message: "no" }).class).toBe("transient");
  });
});

describe("failureFrom", () => {
  it("keeps name, message, code and stack of an error", () => {
    const error = Object.assign(new TypeError("read ECONNRESET"), { code: "ECONNRESET" });
    expect(failureFrom(error)).toEqual({
      ...NOTHING,
      kind: "error",
      name: "TypeError",
      message: "read ECONNRESET",
      code: "ECONNRESET",
      stack: error.stack,
    });
  });

  it.each([
    ["a string", "boom", "the handler threw string: boom"],
    ["undefined", undefined, "the handler threw undefined: undefined"],
    ["null", null, "the handler threw object: null"],
    ["a number", 7, "the handler threw number: 7"],
    ["a bigint", 7n, "the handler threw bigint: 7"],
    ["a symbol", Symbol("s"), "the handler threw symbol: Symbol(s)"],
  ])("shows that %s was thrown", (_, thrown, message) => {
    expect(failureFrom(thrown)).toEqual({ ...NOTHING, kind: "error", message });
  });

  it.each([
    ["an object without a message is shown as JSON", { reason: "full" }, '{"reason":"full"}'],
    ["a message that is no text is passed over", { message: { a: 1 } }, '{"message":{"a":1}}'],
    ["a number as message is text", { message: 42 }, "42"],
    ["an object that JSON leaves out is an object", { toJSON: () => undefined }, "an object"],
  ])("%s", (_, thrown, message) => {
    expect(failureFrom(thrown).message).toBe(message);
  });

  it("takes a numeric code as text", () => {
    expect(failureFrom({ message: "no", code: 1062 }).code).toBe("1062");
    expect(failureFrom({ message: "no", code: ["E1"] }).code).toBeNull();
  });

  it.each([
    ["status", { message: "no", status: 503 }, "http", 503],
    ["statusCode", { message: "no", statusCode: 404 }, "http", 404],
    ["status before statusCode", { message: "no", status: 500, statusCode: 404 }, "http", 500],
    ["the lowest status", { message: "no", status: 100 }, "http", 100],
    ["the highest status", { message: "no", status: 599 }, "http", 599],
    ["no status below 100", { message: "no", status: 99 }, "error", null],
    ["no status above 599", { message: "no", status: 600 }, "error", null],
    ["no broken status", { message: "no", status: 404.5 }, "error", null],
    ["no status as text", { message: "no", status: "404" }, "error", null],
  ])("reads %s", (_, thrown, kind, status) => {
    expect(failureFrom(thrown)).toMatchObject({ kind, status });
  });

  it.each([
    [0, 0],
    [1_500, 1_500],
    [0.4, 0],
    [1_500.5, 1_501],
    [Number.POSITIVE_INFINITY, MAX_DURATION_MS],
    [-1, null],
    [Number.NaN, null],
    ["30", null],
  ])("reads a retryAfterMs of %s as %s whole milliseconds", (given, expected) => {
    expect(failureFrom({ message: "busy", retryAfterMs: given }).retryAfterMs).toBe(expected);
  });

  it("never throws, whatever the value's getters do", () => {
    const hostile = new Proxy(
      {},
      {
        get() {
          throw new Error("gotcha");
        },
      },
    );
    const { proxy: revoked, revoke } = Proxy.revocable({}, {});
    revoke();
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    const silent = () => {};
    silent.toString = () => {
      throw new Error("gotcha");
    };
    for (const thrown of [hostile, revoked, circular, { n: 1n }]) {
      expect(failureFrom(thrown)).toEqual({ ...NOTHING, kind: "error", message: "a value that cannot be shown" });
    }
    expect(failureFrom(silent).message).toBe("the handler threw function: a value that cannot be shown");
  });

  it("survives a trip through JSON", () => {
    const made = failureFrom(Object.assign(new Error("busy"), { retryAfterMs: Infinity, status: 429 }));
    expect(JSON.parse(JSON.stringify(made))).toEqual(made);
  });
});
