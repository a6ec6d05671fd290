import { describe, expect, it } from "vitest";
import { ConfigError } from "../errors.ts";
import type { RuleCondition } from "./policy.ts";
import { ANY, presets } from "./presets.ts";
import { asExitCodes, asMessageParts, resolveRule } from "./resolve-policy.ts";

const context = { base: presets.default.backoff, fullJitter: 0.2 };
const path = "retry.rules[2]";

function refusal(run: () => unknown): ConfigError {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("a rule", () => {
  it("has every field, null where nothing was given", () => {
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then".
    expect(resolveRule({ if: { kind: "oom" }, then: "retry" }, path, context)).toStrictEqual({
      if: { ...ANY, kind: ["oom"] },
      // biome-ignore lint/suspicious/noThenProperty: the policy language says "then".
      then: "retry",
      maxRetries: null,
      backoff: null,
    });
  });

  it("may have a limit and a backoff of its own, over the policy's", () => {
    const rule = JSON.parse('{"if":{"kind":"oom"},"then":"retry","maxRetries":2,"backoff":{"initial":"30s"}}');
    const { maxRetries, backoff } = resolveRule(rule, path, context);
    expect(maxRetries).toBe(2);
    expect(backoff).toStrictEqual({ ...presets.default.backoff, initialMs: 30_000 });
  });

  it("that defers may have them too", () => {
    const rule = JSON.parse('{"if":{"status":429},"then":"defer","maxRetries":0,"backoff":{"type":"none"}}');
    expect(resolveRule(rule, path, context)).toMatchObject({ maxRetries: 0, backoff: { type: "none" } });
  });
});

describe("a condition", () => {
  it.each<[Record<string, unknown>, Partial<RuleCondition>]>([
    [{ kind: ["exit", "queue_timeout"] }, { kind: ["exit", "queue_timeout"] }],
    [{ exitCode: 0 }, { exitCode: [0] }],
    [{ exitCode: [137, 255] }, { exitCode: [137, 255] }],
    [{ signal: ["KILL", "sigterm", " SigSegv "] }, { signal: ["SIGKILL", "SIGTERM", "SIGSEGV"] }],
    [{ error: ["TypeError", "SyntaxError"] }, { error: ["TypeError", "SyntaxError"] }],
    [{ message: "Connection RESET" }, { message: ["connection reset"] }],
    [{ status: 503 }, { status: [[503, 503]] }],
    [{ status: "503" }, { status: [[503, 503]] }],
    [
      { status: ["5xx", "4XX"] },
      {
        status: [
          [500, 599],
          [400, 499],
        ],
      },
    ],
    [
      { status: ["500-504", "100 - 599", "404-404"] },
      {
        status: [
          [500, 504],
          [100, 599],
          [404, 404],
        ],
      },
    ],
    [{ attempt: [1, 1_000_000] }, { attempt: [1, 1_000_000] }],
    [
      { status: 503, attempt: 1, kind: undefined },
      { status: [[503, 503]], attempt: [1] },
    ],
  ])("of %j", (given, expected) => {
    const rule = { if: given, ...JSON.parse('{"then":"fail"}') };
    expect(resolveRule(rule, path, context).if).toStrictEqual({ ...ANY, ...expected });
  });

  it.each<[Record<string, unknown> | null, string, RegExp, string | null]>([
    [null, "", /^an object with kind, exitCode/, null],
    [{}, "", /^an object with at least one of kind, exitCode, signal, error, message, status, attempt$/, null],
    [{ kind: undefined }, "", /^an object with at least one of/, null],
    [{ exit_code: 1 }, ".exit_code", /^kind, exitCode/, "exitCode"],
    [{ kind: "ooom" }, ".kind", /^one of "exit", "signal", "oom"/, "oom"],
    [{ kind: "lost" }, ".kind", /"result"$/, null],
    [{ kind: [] }, ".kind", /a list of 1 to 100 items/, null],
    [{ kind: ["oom", 3] }, ".kind[1]", /"oom"/, null],
    [{ exitCode: 256 }, ".exitCode", /whole number from 0 to 255/, null],
    [{ exitCode: [-1] }, ".exitCode[0]", /from 0/, null],
    [{ exitCode: "1" }, ".exitCode", /whole number/, null],
    [{ signal: "SIGKIL" }, ".signal", /a signal such as SIGKILL/, "SIGKILL"],
    [{ signal: "trem" }, ".signal", /a signal such as/, "SIGTERM"],
    [{ signal: "" }, ".signal", /a signal such as/, null],
    [{ signal: 9 }, ".signal", /a signal such as/, null],
    [{ error: "" }, ".error", /text of 1 to 200/, null],
    [{ message: ["ok", " "] }, ".message[1]", /text of 1 to 200/, null],
    [{ message: "x".repeat(201) }, ".message", /text of 1 to 200/, null],
    [{ message: new Array(101).fill("a") }, ".message", /a list of 1 to 100/, null],
    [{ status: 99 }, ".status", /100 to 599, "5xx", or a range like "500-504"/, null],
    [{ status: 600 }, ".status", /100 to 599/, null],
    [{ status: 500.5 }, ".status", /100 to 599/, null],
    [{ status: "6xx" }, ".status", /100 to 599/, null],
    [{ status: "50x" }, ".status", /100 to 599/, null],
    [{ status: "504-500" }, ".status", /100 to 599/, null],
    [{ status: "500-" }, ".status", /100 to 599/, null],
    [{ status: ["5xx", null] }, ".status[1]", /100 to 599/, null],
    [{ attempt: 0 }, ".attempt", /from 1 to 1000000/, null],
  ])("refuses %j", (given, at, allowed, near) => {
    const rule = { if: given, ...JSON.parse('{"then":"fail"}') };
    const error = refusal(() => resolveRule(rule, path, context));
    expect(error.path).toBe(`retry.rules[2].if${at}`);
    expect(error.allowed).toMatch(allowed);
    expect(error.nearest).toBe(near);
  });
});

describe("refusals of a rule", () => {
  it.each<[string, string, RegExp, string | null]>([
    ["7", "", /^an object with if, then, maxRetries, backoff$/, null],
    ['{"then":"fail"}', ".if", /^an object with kind/, null],
    ['{"if":{"kind":"oom"}}', ".then", /^one of "retry", "fail", "defer"$/, null],
    ['{"if":{"kind":"oom"},"then":"retyr"}', ".then", /^one of "retry"/, "retry"],
    ['{"if":{"kind":"oom"},"the":"retry"}', ".the", /^if, then/, "then"],
    ['{"if":{"kind":"oom"},"then":"retry","maxRetries":-1}', ".maxRetries", /from 0 to 1000000/, null],
    ['{"if":{"kind":"oom"},"then":"retry","backoff":{"maxx":1}}', ".backoff.maxx", /^type, initial/, "max"],
    ['{"if":{"kind":"oom"},"then":"fail","maxRetries":1}', ".maxRetries", /remove it/, null],
    ['{"if":{"kind":"oom"},"then":"fail","backoff":{}}', ".backoff", /remove it/, null],
  ])("%s", (json, at, allowed, near) => {
    const error = refusal(() => resolveRule(JSON.parse(json), path, context));
    expect(error.path).toBe(`${path}${at}`);
    expect(error.allowed).toMatch(allowed);
    expect(error.nearest).toBe(near);
  });
});

describe("the lists beside the rules", () => {
  it("may be empty", () => {
    expect(asExitCodes([], "x")).toEqual([]);
    expect(asMessageParts([], "x")).toEqual([]);
  });

  it("are checked item by item", () => {
    expect(asExitCodes([0, 255], "x")).toEqual([0, 255]);
    expect(asMessageParts(["Timed OUT"], "x")).toEqual(["timed out"]);
    expect(refusal(() => asExitCodes([1, 300], "retry.retryOnExitCodes")).path).toBe("retry.retryOnExitCodes[1]");
    expect(refusal(() => asExitCodes(1, "x")).allowed).toBe("a list of 0 to 100 items");
    expect(refusal(() => asMessageParts([""], "retry.retryOn")).path).toBe("retry.retryOn[0]");
    expect(refusal(() => asMessageParts(new Array(101).fill("a"), "x")).message).toContain("got a list of 101");
  });
});
