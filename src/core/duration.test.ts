import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_DURATION_MS, showMs, toMs } from "./duration.ts";

describe("toMs", () => {
  it.each([
    ["0s", 0],
    ["1500ms", 1_500],
    ["30s", 30_000],
    ["5m", 300_000],
    ["2h", 7_200_000],
    ["1d", 86_400_000],
    ["1.5s", 1_500],
    ["0.25h", 900_000],
    ["0.4ms", 0],
    [" 10 s ", 10_000],
    ["3650d", MAX_DURATION_MS],
    [0, 0],
    [1_500, 1_500],
    [1.6, 2],
    [MAX_DURATION_MS, MAX_DURATION_MS],
  ])("of %j is %d", (value, ms) => expect(toMs(value, "x")).toBe(ms));

  it.each([
    "",
    "30",
    "s",
    "-1s",
    "+1s",
    "1 sec",
    "1S",
    "1e3s",
    ".5s",
    "1.s",
    "1,5s",
    "1m30s",
    "0x10s",
    "3651d",
    "999999999999999d",
    "Infinity",
    -1,
    -0.6,
    MAX_DURATION_MS + 1,
    Number.NaN,
    Infinity,
    -Infinity,
    null,
    undefined,
    true,
    5n,
    {},
    ["1s"],
  ])("refuses %s with its path", (value) => {
    expect(() => toMs(value, "retry.backoff.max")).toThrow(
      expect.objectContaining({ code: "invalid_config", path: "retry.backoff.max", given: value }),
    );
    expect(() => toMs(value, "x")).toThrow(/must be a number of milliseconds, or text like/);
  });

  it("takes hostile text in no time", () => {
    const before = process.cpuUsage();
    for (const text of ["9".repeat(1_000_000), " ".repeat(1_000_000), `1${" ".repeat(1_000_000)}x`]) {
      expect(() => toMs(text, "x")).toThrow();
    }
    expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
  });

  it("gives whole milliseconds within bounds for every number it accepts", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: MAX_DURATION_MS, noNaN: true }), (value) => {
        const ms = toMs(value, "x");
        expect(Number.isSafeInteger(ms) && ms >= 0 && ms <= MAX_DURATION_MS).toBe(true);
      }),
    );
  });

  it("reads text and number alike", () => {
    fc.assert(
      fc.property(fc.nat(), (ms) => {
        expect(toMs(`${ms}ms`, "x")).toBe(toMs(ms, "x"));
      }),
    );
  });
});

describe("showMs", () => {
  it.each([
    [0, "0 ms"],
    [850, "850 ms"],
    [999.4, "999 ms"],
    [999.6, "1 s"],
    [1_500, "1.5 s"],
    [59_949, "59.9 s"],
    [60_000, "1 min"],
    [90_000, "1.5 min"],
    [3_600_000, "1 h"],
    [10_800_000, "3 h"],
    [345_600_000, "4 d"],
  ])("of %d is %s", (ms, text) => expect(showMs(ms)).toBe(text));
});
