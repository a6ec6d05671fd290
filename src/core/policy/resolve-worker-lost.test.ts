import { describe, expect, it } from "vitest";
import { ConfigError } from "../errors.ts";
import type { WorkerLostPolicy } from "./policy.ts";
import { presets, SHARED_LOSS } from "./presets.ts";
import { ownLoss, resolveWorkerLost } from "./resolve-policy.ts";

const own = presets.default.workerLost;
const shared = presets.opal.workerLost;

function resolve(value: unknown, base: WorkerLostPolicy = own): WorkerLostPolicy {
  return resolveWorkerLost(value, "retry.workerLost", base, 0.2);
}
function refusal(value: unknown, base?: WorkerLostPolicy): ConfigError {
  try {
    resolve(value, base);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("over a budget of its own", () => {
  it.each<[unknown, Partial<WorkerLostPolicy>]>([
    [{}, {}],
    [{ charge: "own" }, {}],
    [{ maxRetries: 0 }, { maxRetries: 0 }],
    [{ maxRetries: 1_000_000 }, { maxRetries: 1_000_000 }],
    [{ backoff: { type: "none" } }, { backoff: { type: "none" } }],
    [{ poison: false }, { poison: null }],
    [{ poison: {} }, {}],
    [{ poison: { losses: 5 } }, { poison: { losses: 5, withinMs: 30_000 } }],
    [{ poison: { within: "1m" } }, { poison: { losses: 3, withinMs: 60_000 } }],
  ])("%j keeps what is not given", (value, changed) => {
    expect(resolve(value)).toStrictEqual({ ...own, ...changed });
  });

  it("merges the backoff field by field", () => {
    expect(resolve({ backoff: { max: "10s" } }).backoff).toStrictEqual({ ...own.backoff, maxMs: 10_000 });
  });

  it("becomes shared without a trace of the budget, but with its guard", () => {
    expect(resolve({ charge: "shared" })).toStrictEqual({ ...SHARED_LOSS, poison: own.poison });
    expect(resolve({ charge: "shared", poison: false })).toStrictEqual(SHARED_LOSS);
  });
});

describe("over a shared budget", () => {
  it("stays shared", () => {
    expect(resolve({}, shared)).toStrictEqual(shared);
    expect(resolve({ poison: { losses: 2 } }, shared).poison).toStrictEqual({ losses: 2, withinMs: 30_000 });
  });

  it("takes limit and backoff from default when it gets one of its own, but no guard", () => {
    expect(resolve({ charge: "own" }, shared)).toStrictEqual({ ...own, poison: null });
    expect(resolve({ charge: "own", maxRetries: 3, backoff: { type: "none" } }, shared)).toStrictEqual({
      charge: "own",
      maxRetries: 3,
      backoff: { type: "none" },
      poison: null,
    });
    expect(ownLoss(own)).toBe(own);
  });
});

describe("refusals", () => {
  it.each<[unknown, string, RegExp, string | null]>([
    [true, "", /^an object with charge, maxRetries, backoff, poison$/, null],
    [{ max_retries: 3 }, ".max_retries", /^charge, maxRetries/, "maxRetries"],
    [{ charge: "share" }, ".charge", /^"own" or "shared"$/, "shared"],
    [{ maxRetries: -1 }, ".maxRetries", /from 0 to 1000000/, null],
    [{ backoff: { jitter: 1 } }, ".backoff.jitter", /below 1/, null],
    [{ poison: true }, ".poison", /^false, or an object with losses, within$/, null],
    [{ poison: null }, ".poison", /^false, or an object/, null],
    [{ poison: [] }, ".poison", /^an object with losses, within$/, null],
    [{ poison: { loses: 3 } }, ".poison.loses", /^losses, within$/, "losses"],
    [{ poison: { losses: 0 } }, ".poison.losses", /from 1 to 1000$/, null],
    [{ poison: { within: "x" } }, ".poison.within", /milliseconds/, null],
    [{ charge: "shared", maxRetries: 3 }, ".maxRetries", /remove it, or set charge to "own"/, null],
    [{ charge: "shared", backoff: {} }, ".backoff", /remove it, or set charge to "own"/, null],
  ])("of %j at %s", (value, path, allowed, near) => {
    const error = refusal(value);
    expect(error.path).toBe(`retry.workerLost${path}`);
    expect(error.allowed).toMatch(allowed);
    expect(error.nearest).toBe(near);
  });

  it("show that a limit requires charge own where the preset shares", () => {
    expect(refusal({ maxRetries: 3 }, shared)).toMatchObject({ path: "retry.workerLost.maxRetries", given: 3 });
  });
});
