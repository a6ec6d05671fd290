import { describe, expect, it } from "vitest";
import { systemLoop } from "../lib/system-clock.ts";
import { ReplyBudget, type ReplyGrant } from "./reply-budget.ts";

function setUp(maxWaiting = 10) {
  const timers = new Set<() => void>();
  const clock = {
    ...systemLoop,
    now: () => 0,
    monotonic: () => 0,
    after(_ms: number, call: () => void) {
      timers.add(call);
      return () => void timers.delete(call);
    },
  };
  const budget = new ReplyBudget({ maxBytes: 100, maxWaiting, maxWaitMs: 1_000 }, clock);
  return {
    budget,
    timers,
    now: (who: string, guess: number) => budget.enter("reader", { who }, guess) as ReplyGrant,
    passWait() {
      for (const call of timers) call();
    },
  };
}

describe("the budget of replies", () => {
  it("counts a guess, then the reply, until it has been sent; admits waiting requests as soon as there is memory", async () => {
    const { budget, timers, now } = setUp();
    const first = now("a", 40);
    const second = budget.enter("reader", { who: "a" }, 20);
    expect([second instanceof Promise, budget.isPressed, budget.held("reader")]).toEqual([true, true, 40]);
    first.made(10);
    (await second).made(30);
    expect([budget.held("reader"), budget.isPressed, timers.size]).toEqual([40, false, 0]);
    first.release();
    first.release();
    first.made(70); // for a caller that has gone
    expect(budget.held("reader")).toBe(30);
  });

  it("limits a token to half, and counts at most that half against others", () => {
    const { budget, now } = setUp();
    now("a", 50).made(900);
    expect(budget.enter("reader", { who: "a" }, 0)).toBeInstanceOf(Promise);
    now("b", 50).made(50);
    expect(budget.enter("reader", { who: "c" }, 1)).toBeInstanceOf(Promise);
    expect(budget.enter("worker", { who: "a" }, 50)).not.toBeInstanceOf(Promise);
  });

  it("admits a session that reads its replies, whatever others with its token hold, and returns the free bytes", async () => {
    const { budget, timers } = setUp();
    const enter = (who: string, session: string) => budget.enter("waiting", { who, session }, 0);
    const slow = ["s1", "s2"].map((session) => enter("a", session) as ReplyGrant);
    for (const grant of slow) grant.made(30);
    expect(budget.isPressed).toBe(true); // 60 of 50: whoever takes nothing may be cut off
    const again = enter("a", "s1");
    expect(again).toBeInstanceOf(Promise);
    const [third, other] = [enter("a", "s3") as ReplyGrant, enter("b", "s1") as ReplyGrant];
    expect([third.freeBytes, other.freeBytes]).toEqual([-10, 50]);
    third.made(1);
    slow[0]?.release();
    expect([(await again).freeBytes, timers.size]).toEqual([19, 0]);
    other.made(10);
    expect(third.freeBytes).toBe(19);
  });

  it("refuses after a long wait, and at once if too many are waiting", async () => {
    const { budget, timers, now, passWait } = setUp(2);
    const held = now("a", 50);
    const waiting = [
      budget.enter("reader", { who: "a" }, 1),
      budget.enter("reader", { who: "a" }, 1),
    ] as Promise<ReplyGrant>[];
    expect(() => budget.enter("reader", { who: "a" }, 1)).toThrowError(expect.objectContaining({ code: "overloaded" }));
    const refused = Promise.allSettled(waiting);
    passWait();
    expect((await refused).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(budget.isPressed).toBe(true);
    timers.clear();
    held.release();
    now("a", 50);
  });
});
