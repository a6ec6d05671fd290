import { describe, expect, it } from "vitest";
import { ConfigError } from "../../core/errors.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { noetlPolicy, RETRY_DEFAULTS, readNoetlRetry, retryOfPolicy } from "./retry.ts";

function policyOf(retry: unknown, step = "fetch_data") {
  return resolvePolicy(noetlPolicy(readNoetlRetry(retry, "retry"), step, "retry"));
}

function mistakeIn(retry: unknown, step?: string): ConfigError {
  try {
    policyOf(retry, step);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error(`accepted: ${JSON.stringify(retry)}`);
}

const DEFAULT_BACKOFF = { type: "exponential", initialMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.5, minMs: 0 };

describe("retry of a NoETL task", () => {
  it("true means the documented defaults", () => {
    expect(readNoetlRetry(true, "retry")).toBe(RETRY_DEFAULTS);
    expect(policyOf(true)).toMatchObject({
      ...{ preset: "noetl", maxAttempts: 3, retryWhen: null, stopWhen: null, backoff: DEFAULT_BACKOFF },
      workerLost: { charge: "shared" },
    });
    expect(policyOf({})).toEqual(policyOf(true));
  });

  it("a number is the number of runs", () => {
    expect(policyOf(5)).toMatchObject({ maxAttempts: 5, backoff: DEFAULT_BACKOFF });
    expect(policyOf(1)).toMatchObject({ maxAttempts: 1 });
  });

  it.each([[false], [undefined], [null]])("%s means one run", (retry) => {
    expect(policyOf(retry)).toMatchObject({ preset: "noetl", maxAttempts: 1 });
  });

  it("each field has its default", () => {
    expect(policyOf({ max_attempts: 5 })).toMatchObject({ maxAttempts: 5, backoff: DEFAULT_BACKOFF });
    expect(policyOf({ initial_delay: 0.25 }).backoff).toMatchObject({ ...DEFAULT_BACKOFF, initialMs: 250 });
    expect(policyOf({ backoff_multiplier: 1.5 }).backoff).toMatchObject({ ...DEFAULT_BACKOFF, factor: 1.5 });
    expect(policyOf({ max_delay: 10 }).backoff).toMatchObject({ ...DEFAULT_BACKOFF, maxMs: 10_000 });
    expect(policyOf({ jitter: false }).backoff).toMatchObject({ ...DEFAULT_BACKOFF, jitter: 0 });
    // The cap holds although it is only the default.
    expect(policyOf({ initial_delay: 120 }).backoff).toMatchObject({ initialMs: 120_000, maxMs: 60_000 });
  });

  it.each<[string, unknown, string, RegExp]>([
    ["text", "yes", "retry", /true, a number of attempts, or an object with max_attempts/],
    ["a list", [3], "retry", /an object with/],
    ["no run at all", 0, "retry", /from 1 to/],
    ["a negative number", -1, "retry", /from 1 to/],
    ["half a run", 2.5, "retry", /a whole number/],
    ["an absurd number", 1e9, "retry", /to 1000000/],
    ["max_attempts as text", { max_attempts: "5" }, "retry.max_attempts", /a whole number/],
    ["no max_attempts", { max_attempts: 0 }, "retry.max_attempts", /from 1 to/],
    ["a negative delay", { initial_delay: -1 }, "retry.initial_delay", /from 0 to/],
    ["a delay with a unit", { initial_delay: "1s" }, "retry.initial_delay", /a number/],
    ["an endless delay", { max_delay: Number.POSITIVE_INFINITY }, "retry.max_delay", /a number/],
    ["a century", { max_delay: 3.2e9 }, "retry.max_delay", /to 315360000/],
    ["a shrinking backoff", { backoff_multiplier: 0.5 }, "retry.backoff_multiplier", /from 1 to/],
    ["jitter as a number", { jitter: 0.5 }, "retry.jitter", /true or false/],
    ["a condition that is no text", { retry_when: true }, "retry.retry_when", /a condition as text/],
  ])("refuses %s", (_, retry, path, allowed) => {
    expect(mistakeIn(retry)).toMatchObject({ path, allowed: expect.stringMatching(allowed) });
  });

  it.each([
    ["max_attempt", "max_attempts"],
    ["maxAttempts", "max_attempts"],
    ["inital_delay", "initial_delay"],
    ["backoff_multipler", "backoff_multiplier"],
    ["retryWhen", "retry_when"],
  ])("names the field that %s was meant to be", (field, nearest) => {
    expect(mistakeIn({ [field]: 1 })).toMatchObject({ path: `retry.${field}`, nearest });
  });

  it.each(["retry_when", "stop_when"])("refuses a bad %s with its position", (field) => {
    const { path, message } = mistakeIn({ [field]: "{{ status_code >= 500 or }}" });
    expect(path).toBe(`retry.${field}`);
    expect(message).toContain("unexpected end at character 26");
    expect(mistakeIn({ [field]: "{{ range(9) }}" }).message).toContain("calls are not allowed at character 4");
    expect(mistakeIn({ [field]: "{{ stauts_code > 1 }}" })).toMatchObject({ nearest: "status_code" });
  });
});

describe("node_id in a condition", () => {
  it.each([
    ["{{ node_id == 'x' }}", "{{ 'fetch_data' == 'x' }}"],
    ["node_id in ['a', node_id]", "'fetch_data' in ['a', 'fetch_data']"],
    ["data.node_id == 'node_id' and data . node_id == \"it's node_id\"", null],
    ["data['node_id'] == 1", null],
    ["data[node_id] == 1", "data['fetch_data'] == 1"],
  ])("%s knows the step", (written, bound) => {
    expect(policyOf({ retry_when: written }).retryWhen).toBe(bound ?? written);
  });

  it("takes any name for a step", () => {
    const step = 'it\'s a \\ "step" $& }}';
    const { retryWhen } = policyOf({ retry_when: "{{ node_id == error }}" }, step);
    expect(retryWhen).toBe("{{ 'it\\'s a \\\\ \"step\" $& }}' == error }}");
  });

  it("is refused if the name makes the condition too long", () => {
    const condition = Array(20).fill("node_id == 'a'").join(" or ");
    expect(mistakeIn({ stop_when: condition }, "x".repeat(200))).toMatchObject({ path: "retry.stop_when" });
  });
});

describe("a policy in NoETL's words", () => {
  it("shows what was written", () => {
    const retry = { max_attempts: 5, initial_delay: 0.5, backoff_multiplier: 3, max_delay: 10, jitter: true };
    expect(retryOfPolicy(policyOf(retry))).toEqual({ ...retry, retry_when: null, stop_when: null });
    expect(retryOfPolicy(policyOf(false))).toBeNull();
  });

  it("leaves out delays that it has no words for", () => {
    const policy = resolvePolicy({ maxAttempts: 4, backoff: { type: "fixed", delay: "1s" } });
    expect(retryOfPolicy(policy)).toEqual({ max_attempts: 4, retry_when: null, stop_when: null });
  });
});
