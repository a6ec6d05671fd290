import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { WriteProgress } from "./connections.ts";

/** Checked at these times; the kernel has accepted `taken` of ten megabytes then. */
function verdicts(steps: readonly { at: number; taken: number }[], isPressed: boolean): boolean[] {
  const progress = new WriteProgress();
  const [bytesWritten, writeMs] = [10_000_000, 30_000];
  return steps.map(({ at, taken }) =>
    progress.isStuck({ bytesWritten, writableLength: bytesWritten - taken } as Socket, at, isPressed, writeMs),
  );
}

describe("a peer is stuck", () => {
  it("when it has taken nothing for the whole time, counted from what it took last", () => {
    const steps = [
      { at: 0, taken: 0 },
      { at: 20_000, taken: 1 },
      { at: 49_999, taken: 1 },
      { at: 50_000, taken: 1 },
    ];
    expect(verdicts(steps, false)).toEqual([false, false, false, true]);
  });

  it("when it takes less than 16 KB a second for two seconds, while memory is short", () => {
    const slow = [
      { at: 0, taken: 0 },
      { at: 1_999, taken: 1 },
      { at: 2_000, taken: 31_999 },
    ];
    expect(verdicts(slow, true)).toEqual([false, false, true]);
    expect(verdicts(slow, false)).toEqual([false, false, false]);
    const fast = [
      { at: 0, taken: 0 },
      { at: 2_000, taken: 32_000 },
      { at: 4_000, taken: 10_000_000 }, // all of it
      { at: 60_000, taken: 0 },
    ];
    expect(verdicts(fast, true)).toEqual([false, false, false, false]);
  });
});
