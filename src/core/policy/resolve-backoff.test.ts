import { describe, expect, it } from "vitest";
import { ConfigError } from "../errors.ts";
import type { Backoff } from "./policy.ts";
import { presets } from "./presets.ts";
import { resolveBackoff } from "./resolve-backoff.ts";

const none: Backoff = { type: "none" };
const plain = { jitter: 0, minMs: 0, immediate: 0, clampAfterJitter: false };
const fixed: Backoff = { type: "fixed", delayMs: 5_000, maxMs: 5_000, ...plain, jitter: 0.1 };

function resolve(value: unknown, base: Backoff = presets.default.backoff): Backoff {
  return resolveBackoff(value, "retry.backoff", { base, fullJitter: 0.2 });
}
function refusal(value: unknown, base?: Backoff): ConfigError {
  try {
    resolve(value, base);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("over a base of the same type", () => {
  it.each<[unknown, Partial<Extract<Backoff, { type: "exponential" }>>]>([
    [{}, {}],
    [{ initial: "5s" }, { initialMs: 5_000 }],
    [{ factor: 3 }, { factor: 3 }],
    [{ max: "10s" }, { maxMs: 10_000 }],
    [{ jitter: 0.5 }, { jitter: 0.5 }],
    [{ jitter: false }, { jitter: 0 }],
    [{ jitter: true }, { jitter: 0.2 }],
    [{ min: 250 }, { minMs: 250 }],
    [{ immediate: 2 }, { immediate: 2 }],
    [{ clampAfterJitter: true }, { clampAfterJitter: true }],
    [{ type: "exponential", initial: 1 }, { initialMs: 1 }],
    [{ initial: undefined }, {}],
  ])("%j keeps what is not given", (value, changed) => {
    expect(resolve(value)).toStrictEqual({ ...presets.default.backoff, ...changed });
  });

  it("keeps a schedule's delays and offset", () => {
    const { opal } = presets;
    expect(resolve({ jitter: 0.1 }, opal.backoff)).toStrictEqual({ ...opal.backoff, jitter: 0.1 });
    expect(resolve({ type: "schedule", offset: 0 }, opal.backoff)).toStrictEqual({ ...opal.backoff, offset: 0 });
    expect(resolve({ delays: ["1m"] }, opal.backoff)).toStrictEqual({
      ...opal.backoff,
      delaysMs: [60_000],
      maxMs: 60_000,
    });
  });

  it("keeps a fixed delay", () => {
    expect(resolve({ min: "1s" }, fixed)).toStrictEqual({ ...fixed, minMs: 1_000 });
    expect(resolve({ delay: "7s" }, fixed)).toStrictEqual({ ...fixed, delayMs: 7_000, maxMs: 7_000 });
  });

  it("keeps a cap that was given to a schedule or a fixed delay, until there are new delays", () => {
    const schedule = { ...presets.opal.backoff, maxMs: 5_000 } as Backoff;
    expect(resolve({ jitter: 0.1 }, schedule)).toMatchObject({ maxMs: 5_000 });
    expect(resolve({ delays: ["9s"] }, schedule)).toMatchObject({ maxMs: 9_000 });
    expect(resolve({ jitter: 0.1 }, { ...fixed, maxMs: 2_000 })).toMatchObject({ delayMs: 5_000, maxMs: 2_000 });
  });

  it("keeps none", () => expect(resolve({}, none)).toStrictEqual(none));
});

describe("over a base of another type", () => {
  it("starts afresh, without jitter, floor and immediate retries", () => {
    const base: Backoff = { ...presets.agent.backoff, immediate: 2, clampAfterJitter: true } as Backoff;
    expect(resolve({ type: "fixed", delay: "30s" }, base)).toStrictEqual({
      type: "fixed",
      delayMs: 30_000,
      maxMs: 30_000,
      ...plain,
    });
    expect(resolve({ type: "schedule", delays: ["1s", 5_000, "2s"] }, base)).toStrictEqual({
      type: "schedule",
      delaysMs: [1_000, 5_000, 2_000],
      offset: 0,
      maxMs: 5_000,
      ...plain,
    });
    expect(resolve({ type: "none" }, base)).toStrictEqual(none);
  });

  it.each([
    ["schedule", presets.opal.backoff],
    ["fixed", fixed],
    ["none", none],
  ])("takes exponential from %s when a field asks for it, with the numbers of default", (_, base) => {
    expect(resolve({ initial: "2s" }, base)).toStrictEqual({
      type: "exponential",
      initialMs: 2_000,
      factor: 2,
      maxMs: 60_000,
      ...plain,
    });
  });

  it("takes exponential from none for a field that many types have", () => {
    expect(resolve({ jitter: true }, none)).toMatchObject({ type: "exponential", initialMs: 1_000, jitter: 0.2 });
  });
});

describe("max", () => {
  it("that is given holds, even below initial", () => {
    expect(resolve({ initial: "30s", max: "10s" })).toMatchObject({ initialMs: 30_000, maxMs: 10_000 });
    expect(resolve({ type: "fixed", delay: "30s", max: "10s" })).toMatchObject({ delayMs: 30_000, maxMs: 10_000 });
    expect(resolve({ max: "10ms" })).toMatchObject({ initialMs: 1_000, maxMs: 10 });
  });

  it("that is not given makes way for an initial or a floor that is", () => {
    expect(resolve({ initial: "5m" })).toMatchObject({ initialMs: 300_000, maxMs: 300_000 });
    expect(resolve({ min: "5m" })).toMatchObject({ minMs: 300_000, maxMs: 300_000 });
    expect(resolve({ type: "fixed", delay: 0, min: "1s" })).toMatchObject({ delayMs: 0, minMs: 1_000, maxMs: 1_000 });
  });

  it("that is not given stays below an initial that is not given either", () => {
    const base = { ...presets.default.backoff, initialMs: 30_000, maxMs: 10_000 } as Backoff;
    expect(resolve({ factor: 3 }, base)).toMatchObject({ initialMs: 30_000, maxMs: 10_000 });
  });

  it("below min is refused", () => {
    expect(refusal({ min: "2s", max: "1s" })).toMatchObject({
      path: "retry.backoff.max",
      given: "1s",
      allowed: "at least min, which is 2 s",
    });
    expect(refusal({ max: "500ms" }, presets.agent.backoff).allowed).toBe("at least min, which is 1 s");
    expect(resolve({ max: "1s" }, presets.agent.backoff)).toMatchObject({ minMs: 1_000, maxMs: 1_000 });
  });
});

describe("refusals", () => {
  it.each<[unknown, string, RegExp, string | null]>([
    [null, "", /^an object with type, initial/, null],
    ["1s", "", /^an object with/, null],
    [{ intial: "1s" }, ".intial", /^type, initial, factor, max/, "initial"],
    [{ base: "1s" }, ".base", /^type, initial/, null],
    [{ type: "exponental" }, ".type", /^one of "exponential", "schedule", "fixed", "none"$/, "exponential"],
    [{ type: null }, ".type", /exponential/, null],
    [{ initial: "1x" }, ".initial", /milliseconds/, null],
    [{ initial: null }, ".initial", /milliseconds/, null],
    [{ initial: -1 }, ".initial", /milliseconds/, null],
    [{ max: "11y" }, ".max", /milliseconds/, null],
    [{ min: Infinity }, ".min", /milliseconds/, null],
    [{ factor: 0.5 }, ".factor", /from 1 to 1000/, null],
    [{ factor: 1_001 }, ".factor", /to 1000/, null],
    [{ factor: "2" }, ".factor", /a number/, null],
    [{ jitter: 1 }, ".jitter", /from 0 to below 1, true or false/, null],
    [{ jitter: -0.1 }, ".jitter", /below 1/, null],
    [{ jitter: Number.NaN }, ".jitter", /below 1/, null],
    [{ jitter: "0.2" }, ".jitter", /below 1/, null],
    [{ immediate: -1 }, ".immediate", /from 0 to 1000000/, null],
    [{ immediate: 1.5 }, ".immediate", /whole number/, null],
    [{ clampAfterJitter: 1 }, ".clampAfterJitter", /true or false/, null],
    [{ type: "schedule" }, ".delays", /a list of 1 to 100 items/, null],
    [{ type: "schedule", delays: [] }, ".delays", /a list of 1 to 100 items/, null],
    [{ type: "schedule", delays: "1s" }, ".delays", /a list of 1 to 100 items/, null],
    [{ type: "schedule", delays: new Array(101).fill(1) }, ".delays", /a list of 1 to 100 items/, null],
    [{ type: "schedule", delays: ["1s", "x"] }, ".delays[1]", /milliseconds/, null],
    [{ type: "schedule", delays: [1], offset: -1 }, ".offset", /from 0 to 100$/, null],
    [{ type: "fixed" }, ".delay", /milliseconds/, null],
    [{ type: "fixed", delay: "soon" }, ".delay", /milliseconds/, null],
    [{ type: "fixed", delay: 1, factor: 2 }, ".factor", /type "fixed" has only type, delay, max/, null],
    [{ type: "none", jitter: 0 }, ".jitter", /type "none" has only type$/, null],
    [{ delays: ["1s"] }, ".delays", /type "exponential" has only type, initial/, null],
  ])("of %j at %s", (value, path, allowed, near) => {
    const error = refusal(value);
    expect(error.path).toBe(`retry.backoff${path}`);
    expect(error.allowed).toMatch(allowed);
    expect(error.nearest).toBe(near);
  });

  it("name the type of a stray field", () => {
    expect(refusal({ delays: ["1s"] }).message).toContain('delays: requires type "schedule"');
    expect(refusal({ type: "none", max: 1 }).message).toContain(
      'max: requires type "exponential" or "schedule" or "fixed"',
    );
  });

  it("accept the largest counts", () => {
    expect(resolve({ factor: 1_000, immediate: 1_000_000, jitter: 0.999 })).toMatchObject({ immediate: 1_000_000 });
    const many = { type: "schedule", delays: new Array(100).fill("1s"), offset: 100 };
    expect(resolve(many)).toMatchObject({ offset: 100, maxMs: 1_000 });
  });
});
