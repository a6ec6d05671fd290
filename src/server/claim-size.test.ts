import { describe, expect, it } from "vitest";
import type { ClaimedJob } from "../core/worker-protocol.ts";
import { ClaimSize } from "./claim-size.ts";

function jobs(count: number, size: number): ClaimedJob[] {
  return Array.from({ length: count }, () => ({ payload: "x".repeat(size), previous: null }) as unknown as ClaimedJob);
}

describe("the size of claims", () => {
  it("is small at first, large for small jobs, and never more than requested", () => {
    const room = new ClaimSize();
    expect([room.limit("a", 500), room.limit("a", 3)]).toEqual([16, 3]);
    expect(room.fitting("a", jobs(16, 10))).toBe(16);
    expect([room.limit("a", 100_000), room.limit("b", 500)]).toEqual([500, 16]);
    expect(room.fitting("a", [])).toBe(0);
    expect(room.limit("a", 500)).toBe(500);
    room.forget("a");
    expect(room.limit("a", 500)).toBe(16);
  });

  it("shrinks after heavy ones, and what would burst a reply is left out", () => {
    const room = new ClaimSize();
    expect(room.fitting("a", jobs(100, 1_000_000))).toBe(64);
    expect(room.limit("a", 500)).toBe(16);
    expect(room.fitting("a", jobs(2, 100_000_000))).toBe(1);
    expect(room.limit("a", 500)).toBe(1);
    expect(room.fitting("a", jobs(1, 100))).toBe(1);
    expect(room.limit("a", 500)).toBe(500);
  });

  it("is smaller where memory is short, and never too small for one job", () => {
    const room = new ClaimSize();
    expect([4_000_000, 0, -1].map((free) => room.limit("a", 500, free))).toEqual([4, 1, 1]);
    expect(room.fitting("a", jobs(10, 1_000_000), 4_000_000)).toBe(4);
    expect(room.fitting("a", jobs(10, 1_000_000), -1)).toBe(1);
    expect([room.limit("a", 500), room.limit("a", 500, 64_000_000)]).toEqual([16, 16]);
  });
});
