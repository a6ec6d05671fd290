import { describe, expect, it } from "vitest";
import { backoffMs } from "../../core/decision/backoff.ts";
import { presets } from "../../core/policy/presets.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { DIALECT_DEFAULTS } from "../settings.ts";
import { type FlusterRetryConfig, flusterEcho, flusterPolicy } from "./retry.ts";

const { fluster: DEFAULTS } = DIALECT_DEFAULTS;
const read = (config: unknown, settings = DEFAULTS) => flusterPolicy(config, "retry", settings);
const resolved = (config: unknown, settings = DEFAULTS) => resolvePolicy(read(config, settings));
const seconds = (config: FlusterRetryConfig, upTo: number) => {
  const { backoff } = resolved(config);
  return Array.from({ length: upTo }, (_, index) => backoffMs(backoff, index + 1, 0.9).delayMs / 1_000);
};

describe("a config in which nothing is given", () => {
  it.each([undefined, null, {}])("is the preset: %j", (config) => {
    expect(resolved(config)).toEqual(presets.fluster);
  });

  it("has a default for each field, also when the others are given", () => {
    expect(flusterEcho(resolved({ max_retries_failure: 3 }))).toEqual({
      max_retries_failure: 3,
      max_retries_preemption: 100,
    });
    expect(flusterEcho(resolved({ max_retries_preemption: 5 }))).toEqual({
      max_retries_failure: 0,
      max_retries_preemption: 5,
    });
    expect(resolved({ initial_delay: 5 }).backoff).toMatchObject({ initialMs: 5_000, factor: 2, maxMs: 60_000 });
    expect(resolved({ max_delay: 5 }).backoff).toMatchObject({ initialMs: 1_000, factor: 2, maxMs: 5_000 });
    expect(resolved({ backoff_multiplier: 3 }).backoff).toMatchObject({ initialMs: 1_000, factor: 3, maxMs: 60_000 });
  });

  it("takes the cluster's defaults", () => {
    const settings = { defaultMaxRetriesFailure: 2, defaultMaxRetriesPreemption: 7, defaultRetryDelayMs: 250 };
    const policy = resolved({}, settings);
    expect(policy).toMatchObject({ maxAttempts: 3, workerLost: { maxRetries: 7 }, backoff: { initialMs: 250 } });
    const own = resolved({ max_retries_failure: 0, max_retries_preemption: 0, initial_retry_delay_ms: 0 }, settings);
    expect(own).toMatchObject({ maxAttempts: 1, workerLost: { maxRetries: 0 }, backoff: { initialMs: 0 } });
  });
});

describe("a config", () => {
  it("reads the proto's form and the client's form to the same policy", () => {
    const same = { max_retries_failure: 5, max_retries_preemption: 9, backoff_multiplier: 1.5 };
    const proto = { ...same, initial_retry_delay_ms: 1_500, max_retry_delay_ms: 30_000 };
    const client = { ...same, initial_delay: 1.5, max_delay: 30 };
    expect(read(proto)).toEqual(read(client));
    expect(read(proto)).toEqual({
      preset: "fluster",
      maxAttempts: 6,
      backoff: { type: "exponential", initial: 1_500, factor: 1.5, max: 30_000, jitter: 0 },
      workerLost: { charge: "own", maxRetries: 9, backoff: { type: "none" } },
    });
    expect(read({ initial_delay: 1, max_retry_delay_ms: 2_000 })).toMatchObject({
      backoff: { initial: 1_000, max: 2_000 },
    });
  });

  it.each([
    [{ initial_delay: 1, initial_retry_delay_ms: 1_000 }, "retry.initial_delay"],
    [{ max_delay: 1, max_retry_delay_ms: 1_000 }, "retry.max_delay"],
  ])("may not say one value in both: %j", (config, path) => {
    expect(() => read(config)).toThrow(
      expect.objectContaining({ path, message: expect.stringContaining("two forms") }),
    );
  });

  it("doubles its delays up to the cap, without jitter", () => {
    expect(seconds({}, 8)).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
    expect(seconds({ initial_delay: 1, max_delay: 30, backoff_multiplier: 2 }, 6)).toEqual([1, 2, 4, 8, 16, 30]);
    expect(seconds({ initial_delay: 0.5, backoff_multiplier: 1 }, 3)).toEqual([0.5, 0.5, 0.5]);
    // The cap is a promise, also of the first delay.
    expect(seconds({ initial_delay: 300 }, 2)).toEqual([60, 60]);
    expect(seconds({ initial_delay: 300, max_delay: 10 }, 2)).toEqual([10, 10]);
  });

  it("has lists of exit codes; empty ones have no effect", () => {
    expect(resolved({ retry_on_exit_codes: [137, 139] }).retryOnExitCodes).toEqual([137, 139]);
    expect(resolved({ no_retry_on_exit_codes: [1] }).noRetryOnExitCodes).toEqual([1]);
    expect(resolved({ retry_on_exit_codes: [], no_retry_on_exit_codes: [] })).toEqual(presets.fluster);
  });

  it.each([
    [7, "retry"],
    [[], "retry"],
    [{ max_retries_failure: -1 }, "retry.max_retries_failure"],
    [{ max_retries_failure: 1.5 }, "retry.max_retries_failure"],
    [{ max_retries_failure: "3" }, "retry.max_retries_failure"],
    [{ max_retries_failure: null }, "retry.max_retries_failure"],
    [{ max_retries_failure: 1_000_000 }, "retry.max_retries_failure"],
    [{ max_retries_preemption: 1_000_001 }, "retry.max_retries_preemption"],
    [{ max_retries_preemption: -1 }, "retry.max_retries_preemption"],
    [{ initial_retry_delay_ms: 0.5 }, "retry.initial_retry_delay_ms"],
    [{ initial_retry_delay_ms: "1s" }, "retry.initial_retry_delay_ms"],
    [{ initial_delay: -0.1 }, "retry.initial_delay"],
    [{ initial_delay: Number.NaN }, "retry.initial_delay"],
    [{ max_delay: 1e12 }, "retry.max_delay"],
    [{ max_retry_delay_ms: 1e15 }, "retry.max_retry_delay_ms"],
    [{ backoff_multiplier: 0 }, "retry.backoff_multiplier"],
    [{ backoff_multiplier: 1e9 }, "retry.backoff_multiplier"],
    [{ retry_on_exit_codes: 137 }, "retry.retry_on_exit_codes"],
    [{ retry_on_exit_codes: [137, 256] }, "retry.retry_on_exit_codes[1]"],
    [{ no_retry_on_exit_codes: [-9] }, "retry.no_retry_on_exit_codes[0]"],
    [{ retry_on_exit_codes: Array(101).fill(1) }, "retry.retry_on_exit_codes"],
  ])("with a mistake is refused, by its place: %j", (config, path) => {
    expect(() => read(config)).toThrow(expect.objectContaining({ code: "invalid_config", path }));
  });

  it("with an unknown field is refused with the nearest known", () => {
    expect(() => read({ max_retry_failure: 1 })).toThrow(
      expect.objectContaining({ path: "retry.max_retry_failure", nearest: "max_retries_failure" }),
    );
  });

  it("is, at its limits, a policy", () => {
    const config = { max_retries_failure: 999_999, max_retries_preemption: 1_000_000, max_delay: 315_360_000 };
    expect(flusterEcho(resolved(config))).toEqual({
      max_retries_failure: 999_999,
      max_retries_preemption: 1_000_000,
    });
    expect(resolved({ retry_on_exit_codes: Array.from({ length: 100 }, (_, code) => code) })).toBeDefined();
  });
});

describe("the echo", () => {
  it("of another preset is what it amounts to", () => {
    expect(flusterEcho(presets.default)).toEqual({ max_retries_failure: 0, max_retries_preemption: 100 });
    // Shared: two runs in all, whatever ends the first.
    expect(flusterEcho(presets.opal)).toEqual({ max_retries_failure: 1, max_retries_preemption: 1 });
  });
});
