import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { ConfigError } from "../errors.ts";
import type { Policy, PolicyFields, PolicyInput } from "./policy.ts";
import { PRESET_NAMES, presets } from "./presets.ts";
import { MAX_POLICY_BYTES, policyFromJson, resolvePolicy } from "./resolve-policy.ts";

/** As it comes from JavaScript, YAML or JSON: nothing promises its type. */
const anyInput = (value: unknown) => value as PolicyInput;

function refusal(value: unknown, path?: string): ConfigError {
  try {
    resolvePolicy(anyInput(value), path);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
function frozen(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(frozen);
}

/** Every field, as the design writes it. */
const full: PolicyFields = {
  preset: "default",
  maxAttempts: 5,
  backoff: { type: "exponential", initial: "2s", factor: 3, max: "2m", jitter: 0.1, min: "1s", clampAfterJitter: true },
  maxElapsed: "24h",
  maxDefers: 7,
  honourRetryAfter: false,
  retryAfterMax: "10m",
  retryOnExitCodes: [137, 139],
  noRetryOnExitCodes: [2],
  retryOn: ["Connection Reset", "timed out"],
  noRetryOn: ["validation", "permission denied"],
  retryWhen: "{{ status_code >= 500 or error != None }}",
  stopWhen: "{{ attempt >= 3 and status_code == 404 }}",
  rules: JSON.parse(`[
    { "if": { "kind": "oom" }, "then": "retry", "maxRetries": 2, "backoff": { "type": "fixed", "delay": "30s" } },
    { "if": { "status": 429 }, "then": "defer" },
    { "if": { "error": ["TypeError", "SyntaxError"] }, "then": "fail" }
  ]`),
  onTimeout: "fail",
  onUnknown: "fail",
  workerLost: { charge: "own", maxRetries: 9, backoff: { type: "none" }, poison: { losses: 4, within: "1m" } },
  budget: { tokens: 1_000, costUsd: 0.5 },
  atMostOnce: false,
};

describe("short forms", () => {
  it.each([[undefined], [{}], [{ preset: "default" as const }], [{ maxAttempts: undefined }]])(
    "%j is the default preset",
    (input) => expect(resolvePolicy(anyInput(input))).toStrictEqual(presets.default),
  );

  it("true is refused, since it does not set the number of attempts", () => {
    expect(refusal(true, "task.retry").message).toBe(
      "task.retry: true does not set the number of attempts; must be a number of attempts such as 5, false for one attempt, or an object " +
        "with a policy, such as { maxAttempts: 5 }.",
    );
  });

  it("a number is maxAttempts", () => {
    expect(resolvePolicy(3)).toStrictEqual({ ...presets.default, maxAttempts: 3 });
    expect(resolvePolicy(3)).toStrictEqual(resolvePolicy({ maxAttempts: 3 }));
    expect(resolvePolicy(1_000_000).maxAttempts).toBe(1_000_000);
  });

  it("false is one attempt", () => expect(resolvePolicy(false)).toStrictEqual({ ...presets.default, maxAttempts: 1 }));
});

describe("a policy in full", () => {
  const policy = resolvePolicy(full);

  it("resolves every field", () => {
    const common = { jitter: 0, minMs: 0, immediate: 0, clampAfterJitter: false };
    const nothing = presets.opal.fallback[0]?.if;
    expect(policy).toStrictEqual({
      preset: "default",
      maxAttempts: 5,
      backoff: {
        ...{ type: "exponential", initialMs: 2_000, factor: 3, maxMs: 120_000 },
        ...{ jitter: 0.1, minMs: 1_000, immediate: 0, clampAfterJitter: true },
      },
      maxElapsedMs: 86_400_000,
      maxDefers: 7,
      honourRetryAfter: false,
      retryAfterMaxMs: 600_000,
      retryOnExitCodes: [137, 139],
      noRetryOnExitCodes: [2],
      retryOn: ["connection reset", "timed out"],
      noRetryOn: ["validation", "permission denied"],
      retryWhen: "{{ status_code >= 500 or error != None }}",
      stopWhen: "{{ attempt >= 3 and status_code == 404 }}",
      rules: [
        ["oom", "retry", 2, { type: "fixed", delayMs: 30_000, maxMs: 30_000, ...common }],
        [null, "defer", null, null],
        [null, "fail", null, null],
      ].map(([kind, verdict, maxRetries, backoff], index) => ({
        if: {
          ...nothing,
          kind: kind === null ? null : [kind],
          status: index === 1 ? [[429, 429]] : null,
          error: index === 2 ? ["TypeError", "SyntaxError"] : null,
        },
        // biome-ignore lint/suspicious/noThenProperty: the policy language says "then".
        then: verdict,
        maxRetries,
        backoff,
      })),
      fallback: presets.default.fallback,
      onTimeout: "fail",
      onUnknown: "fail",
      workerLost: {
        ...{ charge: "own", maxRetries: 9, backoff: { type: "none" } },
        poison: { losses: 4, withinMs: 60_000 },
      },
      budget: { tokens: 1_000, costUsd: 0.5 },
    });
  });

  it("is frozen through and through, and shares nothing with its input", () => {
    expect(frozen(policy)).toBe(true);
    expect(Object.isFrozen(full.retryOnExitCodes)).toBe(false);
    expect(policy.retryOnExitCodes).not.toBe(full.retryOnExitCodes);
  });

  it("has the same text however it was written, since the hash of the text identifies a policy", () => {
    const reversed = Object.fromEntries(Object.entries(full).reverse());
    expect(JSON.stringify(resolvePolicy(anyInput(reversed)))).toBe(JSON.stringify(policy));
    expect(Object.keys(policy)).toEqual(Object.keys(presets.default));
    const backoffs = [resolvePolicy({ backoff: { jitter: 0.2, initial: "1s" } }), resolvePolicy()];
    expect(JSON.stringify(backoffs[0])).toBe(JSON.stringify(backoffs[1]));
  });

  it("comes back from the store as it was", () => {
    const again = policyFromJson(JSON.stringify(policy));
    expect(again).toStrictEqual(policy);
    expect(frozen(again)).toBe(true);
  });
});

describe("presets as a base", () => {
  it.each(PRESET_NAMES)("%s by itself is the preset, text and all", (preset) => {
    expect(JSON.stringify(resolvePolicy({ preset }))).toBe(JSON.stringify(presets[preset]));
  });

  it.each(PRESET_NAMES)("%s keeps its fallback beside rules of the user", (preset) => {
    const rules = JSON.parse('[{ "if": { "kind": "exit" }, "then": "fail" }]');
    const policy = resolvePolicy({ preset, rules });
    expect(policy.rules).toHaveLength(1);
    expect(policy.fallback).toStrictEqual(presets[preset].fallback);
  });

  it("give way field by field", () => {
    const policy = resolvePolicy({ preset: "attune", maxAttempts: 4, retryOn: [], onTimeout: "fail" });
    expect(policy).toStrictEqual({ ...presets.attune, maxAttempts: 4, retryOn: [], onTimeout: "fail" });
    expect(resolvePolicy({ budget: { costUsd: 2 } }).budget).toStrictEqual({ tokens: null, costUsd: 2 });
    expect(resolvePolicy({ budget: { costUsd: 2, estimate: { costUsd: 0.5 } } }).budget).toStrictEqual({
      ...{ tokens: null, costUsd: 2, estimate: { tokens: null, costUsd: 0.5 } },
    });
  });

  it.each([
    ["default", 0.2],
    ["opal", 0.2],
    ["fluster", 0.2],
    ["noetl", 0.5],
    ["attune", 0.2],
    ["agent", 0.25],
  ] as const)("%s reads jitter: true as %d, and false as none", (preset, jitter) => {
    expect(resolvePolicy({ preset, backoff: { jitter: true } }).backoff).toMatchObject({ jitter });
    expect(resolvePolicy({ preset, backoff: { jitter: false } }).backoff).toMatchObject({ jitter: 0 });
    expect(resolvePolicy({ preset, backoff: { type: "fixed", delay: 1, jitter: true } }).backoff).toMatchObject({
      jitter,
    });
  });

  it("lend their jitter to rules and to lost workers as well", () => {
    const rules = JSON.parse('[{ "if": { "kind": "oom" }, "then": "retry", "backoff": { "jitter": true } }]');
    const workerLost = { charge: "own" as const, backoff: { jitter: true } };
    const policy = resolvePolicy({ preset: "noetl", rules, workerLost });
    expect(policy.rules[0]?.backoff).toMatchObject({ jitter: 0.5 });
    expect(policy.workerLost.backoff).toMatchObject({ jitter: 0.5, immediate: 1 });
  });

  it("a rule's backoff starts from the policy's own", () => {
    const rules = JSON.parse('[{ "if": { "kind": "oom" }, "then": "retry", "backoff": { "initial": "9s" } }]');
    const policy = resolvePolicy({ backoff: { factor: 5, jitter: 0 }, rules });
    expect(policy.rules[0]?.backoff).toStrictEqual({ ...policy.backoff, initialMs: 9_000 });
  });
});

describe("atMostOnce", () => {
  it.each(PRESET_NAMES)("over %s is one attempt, and none after a lost worker", (preset) => {
    const policy = resolvePolicy({ preset, atMostOnce: true });
    expect(policy.maxAttempts).toBe(1);
    expect(policy.workerLost).toMatchObject({
      charge: "own",
      maxRetries: 0,
      poison: presets[preset].workerLost.poison,
    });
    expect(JSON.stringify({ ...policy, maxAttempts: 0, workerLost: 0 })).toBe(
      JSON.stringify({ ...presets[preset], maxAttempts: 0, workerLost: 0 }),
    );
  });

  it("accepts fields with the same meaning", () => {
    const rules = JSON.parse('[{ "if": { "kind": "oom" }, "then": "retry", "maxRetries": 0 }]');
    const workerLost = { charge: "own" as const, maxRetries: 0 };
    expect(resolvePolicy({ atMostOnce: true, maxAttempts: 1, workerLost, rules }).maxAttempts).toBe(1);
  });

  it.each<[unknown, string, string]>([
    [{ maxAttempts: 3 }, "maxAttempts", "1"],
    [{ workerLost: { charge: "shared" } }, "workerLost.charge", '"own"'],
    [{ workerLost: { maxRetries: 1 } }, "workerLost.maxRetries", "0"],
    [JSON.parse('{"rules":[{"if":{"status":429},"then":"defer"}]}'), "rules[0].then", '"retry" or "fail"'],
    [
      JSON.parse('{"rules":[{"if":{"status":429},"then":"retry","maxRetries":1}]}'),
      "rules[0].maxRetries",
      "0 or left out",
    ],
  ])("refuses %j", (others, path, allowed) => {
    const error = refusal({ atMostOnce: true, ...(others as object) });
    expect(error).toMatchObject({ path: `retry.${path}`, allowed: `${allowed} with atMostOnce` });
  });
});

describe("refusals", () => {
  const whole = /whole number from 0 to 1000000$/;
  it.each<[unknown, string, RegExp, string | null]>([
    [null, "", /^a number of attempts such as 5, false for one attempt, or an object with a policy$/, null],
    ["3", "", /^a number of attempts/, null],
    [[3], "", /^an object with preset, maxAttempts/, null],
    [new Map(), "", /^an object with preset/, null],
    [0, "", /whole number from 1 to 1000000$/, null],
    [1_000_001, "", /to 1000000$/, null],
    [2.5, "", /whole number/, null],
    [Number.NaN, "", /whole number/, null],
    [{ maxAttempts: 0 }, ".maxAttempts", /from 1 to 1000000$/, null],
    [{ maxAttempts: "5" }, ".maxAttempts", /whole number/, null],
    [{ maxAttempts: null }, ".maxAttempts", /whole number/, null],
    [{ maxAttemps: 5 }, ".maxAttemps", /^preset, maxAttempts, backoff/, "maxAttempts"],
    [{ max_attempts: 5 }, ".max_attempts", /^preset, maxAttempts/, "maxAttempts"],
    [JSON.parse('{"__proto__":{"maxAttempts":5}}'), ".__proto__", /^preset/, null],
    [{ constructor: 1 }, ".constructor", /^preset/, null],
    [{ fallback: [] }, ".fallback", /^preset/, null],
    [{ preset: "flutser" }, ".preset", /^one of "default", "opal", "fluster", "noetl", "attune", "agent"$/, "fluster"],
    [{ preset: "__proto__" }, ".preset", /^one of "default"/, null],
    [{ preset: "toString" }, ".preset", /^one of "default"/, null],
    [{ backoff: { inital: 1 } }, ".backoff.inital", /^type, initial/, "initial"],
    [{ maxElapsed: "1 day" }, ".maxElapsed", /milliseconds/, null],
    [{ maxElapsed: null }, ".maxElapsed", /milliseconds/, null],
    [{ maxDefers: -1 }, ".maxDefers", whole, null],
    [{ honourRetryAfter: "yes" }, ".honourRetryAfter", /^true or false$/, null],
    [{ honorRetryAfter: true }, ".honorRetryAfter", /^preset/, "honourRetryAfter"],
    [{ retryAfterMax: -1 }, ".retryAfterMax", /milliseconds/, null],
    [{ retryOnExitCodes: [256] }, ".retryOnExitCodes[0]", /from 0 to 255$/, null],
    [{ noRetryOnExitCodes: 2 }, ".noRetryOnExitCodes", /^a list of 0 to 100 items$/, null],
    [{ retryOn: ["a", ""] }, ".retryOn[1]", /^text of 1 to 200/, null],
    [{ noRetryOn: [7] }, ".noRetryOn[0]", /^text of 1 to 200/, null],
    [{ retryWhen: true }, ".retryWhen", /^a condition as text$/, null],
    [{ stopWhen: 1 }, ".stopWhen", /^a condition as text$/, null],
    [{ rules: {} }, ".rules", /^a list of 0 to 100 items$/, null],
    [{ rules: new Array(101).fill({}) }, ".rules", /^a list of 0 to 100 items$/, null],
    [{ onTimeout: "retyr" }, ".onTimeout", /^"retry" or "fail"$/, "retry"],
    [{ onUnknown: "defer" }, ".onUnknown", /^"retry" or "fail"$/, null],
    [{ workerLost: { charge: 1 } }, ".workerLost.charge", /^"own" or "shared"$/, null],
    [{ budget: { token: 1 } }, ".budget.token", /^tokens, costUsd, estimate$/, "tokens"],
    [{ budget: { estimate: { cost: 1 } } }, ".budget.estimate.cost", /^tokens, costUsd$/, null],
    [{ budget: { estimate: { tokens: -1 } } }, ".budget.estimate.tokens", /from 0 to/, null],
    [{ budget: { tokens: 0.5 } }, ".budget.tokens", /whole number/, null],
    [{ budget: { costUsd: -1 } }, ".budget.costUsd", /^a number from 0 to/, null],
    [{ atMostOnce: 1 }, ".atMostOnce", /^true or false$/, null],
  ])("of %j at %s", (value, path, allowed, near) => {
    const error = refusal(value);
    expect(error).toMatchObject({ name: "ConfigError", code: "invalid_config", path: `retry${path}`, nearest: near });
    expect(error.allowed).toMatch(allowed);
  });

  it("name a rule by its index", () => {
    const rules = JSON.parse('[{"if":{"kind":"oom"},"then":"fail"},{"if":{"status":"7xx"},"then":"fail"}]');
    const error = refusal({ rules });
    expect(error).toMatchObject({ path: "retry.rules[1].if.status", given: "7xx" });
    expect(error.message).toBe(
      'retry.rules[1].if.status: must be a status from 100 to 599, "5xx", or a range like "500-504"; got "7xx".',
    );
  });

  it.each(["retryWhen", "stopWhen"])("of a %s that cannot be parsed, with its path and position", (field) => {
    for (const source of ["{{ status_code >= }}", "", "{{ range(3) }}", `{{ ${"a ".repeat(600)} }}`]) {
      expect(refusal({ [field]: source }).path).toBe(`retry.${field}`);
    }
    expect(refusal({ [field]: "{{ 1 + open('x') }}" }).message).toMatch(/\d/);
  });

  it("start at the path they are given", () => {
    expect(refusal({ maxAttempts: 0 }, "tasks.resize.retry").path).toBe("tasks.resize.retry.maxAttempts");
    expect(refusal(0, "steps[1].retry").path).toBe("steps[1].retry");
    expect(refusal({ atMostOnce: true, maxAttempts: 2 }, "steps[1].retry").path).toBe("steps[1].retry.maxAttempts");
  });

  it("do not read what only a prototype has", () => {
    const polluted = Object.prototype as { maxAttempts?: number };
    polluted.maxAttempts = 99;
    try {
      expect(resolvePolicy({ onUnknown: "fail" }).maxAttempts).toBe(1);
    } finally {
      delete polluted.maxAttempts;
    }
  });
});

describe("for all inputs", () => {
  const duration = fc.oneof(fc.nat(), fc.constantFrom("1s", "5m", "0s"));
  const given = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
  const backoff = fc.record({
    initial: given(duration),
    factor: given(fc.double({ min: 1, max: 1_000, noNaN: true })),
    jitter: given(fc.oneof(fc.boolean(), fc.double({ min: 0, max: 0.99, noNaN: true }))),
    min: given(duration),
  });
  const good = fc.record({
    preset: given(fc.constantFrom(...PRESET_NAMES)),
    maxAttempts: given(fc.integer({ min: 1, max: 1_000_000 })),
    backoff: given(backoff),
    maxElapsed: given(duration),
    retryOnExitCodes: given(fc.array(fc.nat(255))),
    retryOn: given(fc.array(fc.string({ minLength: 1 }).filter((part) => part.trim() !== ""))),
    workerLost: given(
      fc.record({ charge: given(fc.constantFrom("own", "shared")), poison: given(fc.constant(false)) }),
    ),
  });

  it("a good one gives a frozen policy with every field, equal to itself after JSON", () => {
    fc.assert(
      fc.property(good, (input) => {
        const policy: Policy = resolvePolicy(anyInput(input));
        expect(frozen(policy)).toBe(true);
        expect(Object.keys(policy)).toEqual(Object.keys(presets.default));
        expect(JSON.parse(JSON.stringify(policy))).toStrictEqual(policy);
      }),
    );
  });

  it("a bad one is a ConfigError with a path, never anything else", () => {
    const key = fc.constantFrom(...Object.keys(full), "x");
    const value = fc.oneof(fc.anything(), fc.constantFrom(...Object.values(full)));
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.dictionary(key, value)), (input) => {
        try {
          expect(frozen(resolvePolicy(anyInput(input)))).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          expect((error as ConfigError).path).toMatch(/^retry/);
        }
      }),
      { numRuns: rounds(1_000) },
    );
  });
});

describe("the size of a policy", () => {
  const bytesOf = (policy: Policy) => Buffer.byteLength(JSON.stringify(policy));
  /** Of ASCII, but for `wide` characters of three bytes. */
  const withBytes = (bytes: number, wide: number): PolicyFields => {
    // biome-ignore lint/suspicious/noThenProperty: this is what a rule is called
    const rule = (message: string[]) => ({ if: { message }, then: "fail" }) as const;
    const full = Array.from({ length: 6 }, () => rule(Array.from({ length: 100 }, () => "x".repeat(100))));
    const rules = (more: number, last: number) => [
      ...full,
      rule([...Array.from({ length: more }, () => "x".repeat(100)), "x".repeat(last) + "\u20ac".repeat(wide)]),
    ];
    const missing = bytes - bytesOf(resolvePolicy({ rules: rules(0, 1) }));
    const each = 100 + `"",`.length;
    return { rules: rules(Math.floor(missing / each), 1 + (missing % each)) };
  };

  it.each([0, 1, 60])("is counted in bytes, with %i characters of three bytes", (wide) => {
    expect(bytesOf(resolvePolicy(withBytes(MAX_POLICY_BYTES, wide)))).toBe(MAX_POLICY_BYTES);
    const { message, path } = refusal(withBytes(MAX_POLICY_BYTES + 1, wide));
    expect(path).toBe("retry");
    expect(message).toContain("must be a policy of at most 65536 bytes as JSON; got 65537 bytes");
  });
});
