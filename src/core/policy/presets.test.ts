import { describe, expect, it } from "vitest";
import { backoffMs } from "../decision/backoff.ts";
import type { Policy, PresetName } from "./policy.ts";
import { ANY, PRESET_NAMES, presets } from "./presets.ts";

/** Delays in seconds of the first retries, for one draw. */
function seconds(backoff: Policy["backoff"], upTo: number, random = 0.5): number[] {
  return Array.from({ length: upTo }, (_, index) => backoffMs(backoff, index + 1, random).delayMs / 1_000);
}
/** The lowest and the highest delay of each retry. */
function ranges(backoff: Policy["backoff"], upTo: number): [number, number][] {
  const [low, high] = [seconds(backoff, upTo, 0), seconds(backoff, upTo, 1)];
  return low.map((least, index) => [least, high[index] as number]);
}
function frozen(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(frozen);
}

describe("every preset", () => {
  it.each(PRESET_NAMES)("%s is frozen, in full, and survives JSON", (name) => {
    const policy = presets[name];
    expect(policy.preset).toBe(name);
    expect(frozen(policy)).toBe(true);
    expect(Object.keys(policy)).toEqual(Object.keys(presets.default));
    expect(JSON.parse(JSON.stringify(policy))).toStrictEqual(policy);
  });

  it("cannot be changed", () => {
    expect(() => Object.assign(presets.opal.backoff, { offset: 0 })).toThrow(TypeError);
    expect(() => (presets.attune.retryOn as string[]).push("x")).toThrow(TypeError);
    expect(() => Object.assign(presets, { mine: presets.default })).toThrow(TypeError);
  });

  it("has the numbers of the table in the design", () => {
    const rows = PRESET_NAMES.map((name) => {
      const { maxAttempts, workerLost, onUnknown, onTimeout, honourRetryAfter } = presets[name];
      const poison = workerLost.poison !== null;
      return [
        name,
        maxAttempts,
        workerLost.charge,
        workerLost.maxRetries,
        poison,
        onUnknown,
        onTimeout,
        honourRetryAfter,
      ];
    });
    expect(rows).toEqual([
      ["default", 1, "own", 100, true, "retry", "retry", true],
      ["opal", 2, "shared", 0, false, "fail", "fail", false],
      ["fluster", 1, "own", 100, false, "retry", "retry", false],
      ["noetl", 3, "shared", 0, false, "retry", "retry", false],
      ["attune", 1, "shared", 0, false, "fail", "retry", false],
      ["agent", 1, "shared", 0, false, "retry", "retry", false],
    ]);
  });

  it("limits neither time nor money, defers a thousand times and has no rules but its fallback", () => {
    for (const name of PRESET_NAMES) {
      expect(presets[name]).toMatchObject({
        maxElapsedMs: null,
        maxDefers: 1_000,
        retryAfterMaxMs: 3_600_000,
        retryOnExitCodes: [],
        noRetryOnExitCodes: [],
        retryWhen: null,
        stopWhen: null,
        rules: [],
        budget: { tokens: null, costUsd: null },
      });
    }
  });
});

describe("default", () => {
  it("waits 1 s, doubled up to 1 min, ±20 %", () => {
    expect(seconds(presets.default.backoff, 8)).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
    expect(ranges(presets.default.backoff, 2)).toEqual([
      [0.8, 1.2],
      [1.6, 2.4],
    ]);
  });

  it("comes back at once after the first lost worker, then 1 s doubled up to 30 s, ±20 %", () => {
    const { backoff, poison } = presets.default.workerLost;
    expect(seconds(backoff, 8)).toEqual([0, 1, 2, 4, 8, 16, 30, 30]);
    expect(ranges(backoff, 2)).toEqual([
      [0, 0],
      [0.8, 1.2],
    ]);
    expect(poison).toEqual({ losses: 3, withinMs: 30_000 });
  });

  it("fails on every 4xx but 408, 425 and 429", () => {
    const [rule, ...others] = presets.default.fallback;
    expect(others).toEqual([]);
    expect([rule?.then, rule?.maxRetries, rule?.backoff]).toEqual(["fail", null, null]);
    expect(rule?.if).toMatchObject({ kind: ["http"], exitCode: null, signal: null, error: null, message: null });
    const fails = (status: number) => rule?.if.status?.some(([low, high]) => status >= low && status <= high);
    const spared = Array.from({ length: 500 }, (_, index) => 100 + index).filter((status) => !fails(status));
    expect(spared.filter((status) => status >= 400 && status < 500)).toEqual([408, 425, 429]);
    expect(spared).toHaveLength(403);
  });
});

describe("opal", () => {
  it("waits 8 s after attempt 1 and 15 s after attempt 2; the slot of 3 s is never used", () => {
    const BACKOFF = [3, 8, 15];
    const documented = [1, 2, 3, 4].map((attempt) => BACKOFF[Math.min(attempt, BACKOFF.length - 1)]);
    expect(documented).toEqual([8, 15, 15, 15]);
    expect(seconds(presets.opal.backoff, 4)).toEqual(documented);
    expect(ranges(presets.opal.backoff, 1)).toEqual([[8, 8]]);
  });

  it("retries out of memory, also where a command reports worker_oom, and nothing else it does not know", () => {
    expect(presets.opal.fallback.map(({ if: { kind, words }, then }) => [kind?.join(), words?.join(), then])).toEqual([
      ["oom", undefined, "retry"],
      ["result,exit,signal", "invalid_input", "fail"],
      ["result,exit,signal", "worker_oom", "retry"],
    ]);
  });

  it("alone has a rule that retries what a command reports as failed", () => {
    const lifting = PRESET_NAMES.filter((name) =>
      presets[name].fallback.some(({ if: { kind }, then }) => then === "retry" && kind?.includes("result")),
    );
    expect(lifting).toEqual(["opal"]);
  });
});

describe("fluster", () => {
  it("waits 1, 2, 4, 8, 16 s, capped at 60 s, exactly", () => {
    expect(seconds(presets.fluster.backoff, 8)).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
    expect(ranges(presets.fluster.backoff, 1)).toEqual([[1, 1]]);
  });

  it("waits 1, 2, 4, 8, 16, 30 s with its example's cap of 30 s", () => {
    const backoff = { ...presets.fluster.backoff, maxMs: 30_000 };
    expect(seconds(backoff, 7)).toEqual([1, 2, 4, 8, 16, 30, 30]);
  });

  it("brings preempted jobs back without delay, a hundred times", () => {
    expect(presets.fluster.workerLost).toEqual({
      charge: "own",
      maxRetries: 100,
      backoff: { type: "none" },
      poison: null,
    });
  });

  it("ends a job after a queue timeout, whatever its limits", () => {
    const [atQueue, ...others] = presets.fluster.fallback;
    expect([atQueue?.if, atQueue?.then, others]).toEqual([{ ...ANY, kind: ["queue_timeout"] }, "fail", []]);
  });
});

describe("noetl", () => {
  it("waits 1.0 s, then 2.0 s, and gives up after the third attempt", () => {
    expect(seconds(presets.noetl.backoff, presets.noetl.maxAttempts - 1)).toEqual([1, 2]);
    expect(seconds(presets.noetl.backoff, 8).at(-1)).toBe(60);
    expect(ranges(presets.noetl.backoff, 1)).toEqual([[1, 1]]);
    expect(presets.noetl.fallback).toEqual([]);
  });
});

describe("attune", () => {
  it("waits 1 s doubled with ±20 %, the cap of 300 s included", () => {
    expect(ranges(presets.attune.backoff, 4)).toEqual([
      [0.8, 1.2],
      [1.6, 2.4],
      [3.2, 4.8],
      [6.4, 9.6],
    ]);
    expect(seconds(presets.attune.backoff, 10).slice(7)).toEqual([128, 256, 300]);
    expect(ranges(presets.attune.backoff, 10).at(-1)).toEqual([240, 360]);
  });

  it("names what is retriable and what is not, in lower case", () => {
    const { retryOn, noRetryOn, fallback } = presets.attune;
    expect(retryOn).toHaveLength(14);
    expect([...retryOn, ...noRetryOn].every((part) => part === part.toLowerCase())).toBe(true);
    const says = (message: string, parts: readonly string[]) => parts.some((part) => message.includes(part));
    for (const message of ["worker queue ttl expired", "connection reset by peer", "econnrefused 10.0.0.1"]) {
      expect([says(message, retryOn), says(message, noRetryOn)]).toEqual([true, false]);
    }
    for (const message of ["validation error: timeout must be positive", "action not found", "invalid parameters"]) {
      expect(says(message, noRetryOn)).toBe(true);
    }
    expect(fallback).toEqual([]);
  });
});

describe("agent", () => {
  it("waits 30, 60, 120, 240, then 300 s, ±25 %, and never less than 1 s", () => {
    expect(seconds(presets.agent.backoff, 6)).toEqual([30, 60, 120, 240, 300, 300]);
    expect(ranges(presets.agent.backoff, 5)).toEqual([
      [22.5, 37.5],
      [45, 75],
      [90, 150],
      [180, 300],
      [225, 375],
    ]);
    expect(seconds({ ...presets.agent.backoff, initialMs: 100 } as Policy["backoff"], 1)).toEqual([1]);
  });

  it("fails on authentication errors, by status or by message", () => {
    const [byStatus, byMessage] = presets.agent.fallback;
    expect(byStatus?.if).toMatchObject({ kind: ["http"], message: null });
    expect(byStatus?.if.status?.flat()).toEqual([401, 401, 403, 403]);
    expect(byMessage?.if).toMatchObject({ kind: ["exit", "error", "http"], message: null, status: null });
    expect([byStatus?.then, byMessage?.then]).toEqual(["fail", "fail"]);
    // Stored with every policy, which has a limit: the name, and not the list.
    expect(byMessage?.if.lines).toBe("authentication-failed-1");
    expect(JSON.stringify(presets.agent).length).toBeLessThan(2_048);
  });
});

describe("the list of names", () => {
  it("is that of the type", () => {
    const names: Record<PresetName, true> = {
      default: true,
      opal: true,
      fluster: true,
      noetl: true,
      attune: true,
      agent: true,
    };
    expect(PRESET_NAMES).toEqual(Object.keys(names));
  });
});
