import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  asBoolean,
  asInteger,
  asList,
  asNumber,
  asObject,
  asOneOf,
  asText,
  checkKeys,
  fieldPath,
  nearest,
  reader,
} from "./check.ts";
import { ConfigError } from "./errors.ts";

function refusal(run: () => unknown): ConfigError {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("nearest", () => {
  const known = ["maxAttempts", "backoff", "retryOnExitCodes", "noRetryOnExitCodes", "if", "min", "max"];

  it.each([
    ["maxAttemps", "maxAttempts"],
    ["MAXATTEMPTS", "maxAttempts"],
    ["max_attempts", "maxAttempts"],
    ["maxTries", null],
    ["bakcoff", "backoff"],
    ["backof", "backoff"],
    ["retry_on_exit_codes", "retryOnExitCodes"],
    ["mix", "min"], // as near to "max": the first known name wins
    ["fi", "if"], // a swap is one edit
    ["xy", null], // two edits leave nothing of two letters
    ["of", "if"],
    ["", null],
    ["__proto__", null],
    ["x".repeat(100_000), null],
  ])("of %j is %j", (given, expected) => {
    expect(nearest(given, known)).toBe(expected);
  });

  it("finds nothing in an empty list", () => expect(nearest("a", [])).toBeNull());

  it("prefers the closest of several", () =>
    expect(nearest("sigint", ["SIGKILL", "SIGINFO", "SIGINT"])).toBe("SIGINT"));

  it("finds every known name with one letter changed, or one that is as near", () => {
    fc.assert(
      fc.property(fc.constantFrom(...known.filter((name) => name.length > 3)), fc.nat(), (name, n) => {
        const at = n % name.length;
        expect(nearest(`${name.slice(0, at)}#${name.slice(at + 1)}`, known)).toBe(name);
      }),
    );
  });
});

describe("fieldPath", () => {
  it.each([
    ["retry", "backoff", "retry.backoff"],
    ["", "backoff", "backoff"],
    ["retry", "a b", 'retry["a b"]'],
    ["", "1st", '["1st"]'],
  ])("of %j and %j is %s", (path, key, expected) => expect(fieldPath(path, key)).toBe(expected));
});

describe("checkKeys", () => {
  it("accepts known fields, in any number", () => {
    expect(() => checkKeys({}, ["a"], "x")).not.toThrow();
    expect(() => checkKeys({ a: 1 }, ["a", "b"], "x")).not.toThrow();
  });

  it("refuses an unknown field with its path, the allowed ones and the nearest", () => {
    const error = refusal(() => checkKeys({ concurency: 1 }, ["concurrency", "queues"], "worker"));
    expect(error).toMatchObject({ code: "invalid_config", path: "worker.concurency", given: "concurency" });
    expect(error).toMatchObject({ allowed: "concurrency, queues", nearest: "concurrency" });
    expect(error.message).toBe(
      'worker.concurency: unknown field "concurency"; known fields: concurrency, queues. Did you mean "concurrency"?',
    );
  });

  it.each(['{"__proto__": {"a": 1}}', '{"constructor": 1}', '{"toString": 1}', '{"hasOwnProperty": 1}'])(
    "refuses %s as unknown",
    (json) => expect(refusal(() => checkKeys(JSON.parse(json), ["a"], "x")).nearest).toBeNull(),
  );

  it("looks at own enumerable fields only", () => {
    const value = Object.create({ inherited: 1 });
    Object.defineProperty(value, "hidden", { value: 1, enumerable: false });
    expect(() => checkKeys(value, ["a"], "x")).not.toThrow();
  });
});

describe("asObject", () => {
  it("copies own fields without a prototype", () => {
    const copy = asObject({ a: 1 }, "x", ["a", "b"]);
    expect({ ...copy }).toEqual({ a: 1 });
    expect(Object.getPrototypeOf(copy)).toBeNull();
  });

  it("accepts objects without a prototype, and any field where none are named", () => {
    expect({ ...asObject(Object.assign(Object.create(null), { a: 1 }), "x", ["a"]) }).toEqual({ a: 1 });
    expect({ ...asObject<string>({ whatever: 1 }, "x") }).toEqual({ whatever: 1 });
  });

  it.each([null, undefined, 1, "text", [], new Map([["a", 1]]), new Date(0), new (class A {})(), () => 0])(
    "refuses %s",
    (value) => {
      expect(refusal(() => asObject(value, "x", ["a", "b"]))).toMatchObject({ path: "x", given: value });
      expect(refusal(() => asObject(value, "x", ["a", "b"])).allowed).toBe("an object with a, b");
      expect(refusal(() => asObject(value, "x")).allowed).toBe("an object");
    },
  );

  it("refuses unknown fields", () => expect(refusal(() => asObject({ c: 1 }, "x", ["a"])).path).toBe("x.c"));
});

describe("reader", () => {
  const read = reader(asObject({ a: "7", b: undefined }, "x", ["a", "b", "c"]), "x");

  it("checks a field that was given, under its path", () => {
    expect(read("a", (value, path) => [value, path], null)).toEqual(["7", "x.a"]);
  });

  it("takes the fallback for one that was not, or as undefined", () => {
    expect(read("b", asBoolean, "none")).toBe("none");
    expect(read("c", asBoolean, "none")).toBe("none");
  });
});

describe("numbers", () => {
  it("returns what is within bounds", () => {
    expect(asNumber(0.5, "x")).toBe(0.5);
    expect(asNumber(1, "x", { min: 1, max: 1 })).toBe(1);
    expect(asInteger(-3, "x")).toBe(-3);
    expect(asInteger(10, "x", { min: 1, max: 10 })).toBe(10);
  });

  it("turns -0 into 0, as JSON would", () => {
    expect(Object.is(asNumber(-0, "x"), 0)).toBe(true);
    expect(Object.is(asInteger(-0, "x"), 0)).toBe(true);
  });

  it.each([Number.NaN, Infinity, -Infinity, "1", null, undefined, true, 1n, {}])("refuses %s", (value) => {
    expect(refusal(() => asNumber(value, "x"))).toMatchObject({ path: "x", given: value, allowed: "a number" });
    expect(refusal(() => asInteger(value, "x")).allowed).toBe("a whole number");
  });

  it("refuses fractions and numbers that are not exact as integers", () => {
    expect(() => asInteger(1.5, "x")).toThrow(ConfigError);
    expect(() => asInteger(2 ** 53, "x")).toThrow(ConfigError);
  });

  it.each([
    [{ min: 1, max: 10 }, [0, 11], " from 1 to 10"],
    [{ min: 1 }, [0], " of at least 1"],
    [{ max: 10 }, [11], " of at most 10"],
    [{ min: 0, below: 1 }, [-1, 1], " from 0 to below 1"],
    [{ below: 1 }, [1], " below 1"],
  ])("checks the bounds %j and names them", (bounds, outside, words) => {
    for (const value of outside) {
      expect(refusal(() => asNumber(value, "x", bounds)).allowed).toBe(`a number${words}`);
      expect(refusal(() => asInteger(value, "x", bounds)).allowed).toBe(`a whole number${words}`);
    }
  });
});

describe("asBoolean", () => {
  it("accepts only true and false", () => {
    expect([asBoolean(true, "x"), asBoolean(false, "x")]).toEqual([true, false]);
    for (const value of [0, 1, "true", null, undefined]) {
      expect(refusal(() => asBoolean(value, "x"))).toMatchObject({ path: "x", given: value, allowed: "true or false" });
    }
  });
});

describe("asText", () => {
  it("accepts text up to its length", () => expect(asText("abc", "x", 3)).toBe("abc"));

  it.each(["", "  ", "abcd", 3, null, undefined, ["a"]])("refuses %j", (value) => {
    expect(refusal(() => asText(value, "x", 3))).toMatchObject({
      path: "x",
      given: value,
      allowed: "text of 1 to 3 characters, not only spaces, without NUL",
    });
  });
});

describe("asOneOf", () => {
  it("accepts a member", () => expect(asOneOf("fail", ["retry", "fail"], "x")).toBe("fail"));

  it("refuses others with the nearest", () => {
    const error = refusal(() => asOneOf("Retry", ["retry", "fail"], "x.then"));
    expect(error).toMatchObject({ path: "x.then", given: "Retry", allowed: '"retry" or "fail"', nearest: "retry" });
    expect(refusal(() => asOneOf(7, ["retry"], "x")).nearest).toBeNull();
  });
});

describe("asList", () => {
  it("checks each item under its own path", () => {
    expect(asList([1, 2], "x", (value, path) => `${path}=${value}`, 2)).toEqual(["x[0]=1", "x[1]=2"]);
    expect(asList([], "x", asBoolean, 2)).toEqual([]);
    expect(refusal(() => asList([true, 1], "x", asBoolean, 2)).path).toBe("x[1]");
  });

  it("visits holes", () => {
    expect(refusal(() => asList(new Array(1), "x", asBoolean, 2)).path).toBe("x[0]");
  });

  it("refuses what is not a list, too long or too short, without printing all of it", () => {
    expect(refusal(() => asList("ab", "x", asBoolean, 2)).message).toBe('x: must be a list of 0 to 2 items; got "ab".');
    expect(refusal(() => asList([1, 2, 3], "x", asBoolean, 2)).message).toContain("got a list of 3");
    expect(refusal(() => asList([], "x", asBoolean, 2, 1)).allowed).toBe("a list of 1 to 2 items");
  });
});
