import { describe, expect, it } from "vitest";
import { systemLoop } from "../lib/system-clock.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { ADMISSION, Admission, type AdmissionLimits } from "./admission.ts";
import { EventLoopDelay } from "./event-loop-delay.ts";
import { ReadGate } from "./read-gate.ts";
import { WriteConcurrency } from "./write-concurrency.ts";

const limits = { ...ADMISSION, maxRequests: 2, maxHeld: 2, maxWaiting: 2, maxBytes: 100 };

function admissionOf(given: AdmissionLimits, lagMs = 0): Admission {
  return new Admission(given, () => lagMs, new VirtualClock());
}

describe("admission", () => {
  it("gives workers that wait a share that readers cannot use up", () => {
    const admission = admissionOf(limits);
    const streams = [admission.enter("held", 0), admission.enter("held", 0)];
    expect(() => admission.enter("held", 0)).toThrow("too many waiting requests");
    admission.enter("waiting", 0);
    admission.enter("worker", 0);
    admission.enter("caller", 0);
    streams[0]?.leave();
    admission.enter("held", 0);
  });

  it("refuses what would take too much memory, but a single body never", () => {
    const admission = admissionOf(limits);
    const first = admission.enter("caller", 1_000);
    expect(() => admission.enter("caller", 1)).toThrow("too many bytes of request bodies in progress");
    first.read(50);
    const second = admission.enter("caller", 50);
    second.leave();
    second.read(1); // of a caller that has gone
    expect(() => admission.enter("caller", 51)).toThrow("too many bytes of request bodies in progress");
    admission.enter("caller", 50);
    admission.enter("operator", 1_000);
  });

  it("while the event loop is behind refuses readers, then those who submit, and never workers", () => {
    const late = admissionOf(limits, 300);
    expect(() => late.enter("reader", 0)).toThrow("event loop delay over the limit");
    late.enter("caller", 0);
    const later = admissionOf(limits, 5_000);
    expect(() => later.enter("caller", 0)).toThrow("event loop delay over the limit");
    later.enter("worker", 0);
    later.enter("waiting", 0);
    later.enter("operator", 0);
  });

  it("refuses submits that would have to wait, and lets workers and readers in", () => {
    const admission = admissionOf({ ...ADMISSION, pace: { targetMs: 400, least: 1, most: 2 } });
    const tickets = [1, 2].map(() => admission.enter("caller", 0));
    for (const ticket of tickets) ticket.begin();
    expect(() => admission.enter("caller", 0)).toThrowError(expect.objectContaining({ code: "overloaded" }));
    admission.enter("worker", 0).begin();
    admission.enter("reader", 0).begin();
    // What a slow client takes to read its reply is not counted, and nothing is counted twice.
    tickets[0]?.done();
    const third = admission.enter("caller", 0);
    third.begin();
    tickets[0]?.leave();
    expect(() => admission.enter("caller", 0)).toThrowError(expect.objectContaining({ code: "overloaded" }));
    // A caller that goes before its work is done.
    third.leave();
    admission.enter("caller", 0);
  });
});

describe("the lag of the event loop", () => {
  /** A clock whose timers fire only when the loop gets to them: after `turn` it fires those that are due. */
  function blocked() {
    const clock = new VirtualClock();
    const lag = new EventLoopDelay(clock);
    lag.start();
    const turn = (ms: number) => clock.moveTo(clock.now() + ms);
    return { lag, turn };
  }

  it("is known right after one long turn, and passes", () => {
    const { lag, turn } = blocked();
    expect(lag.ms).toBe(0);
    turn(4_000);
    expect(lag.ms).toBeGreaterThan(1_000);
    for (let i = 0; i < 100; i++) turn(50);
    expect(lag.ms).toBeLessThan(20);
  });

  it("is small after a hiccup, and large while turns are long", () => {
    const { lag, turn } = blocked();
    for (let i = 0; i < 20; i++) turn(50);
    turn(300);
    expect(lag.ms).toBeLessThan(100);
    for (let i = 0; i < 10; i++) turn(1_000);
    expect(lag.ms).toBeGreaterThan(400);
  });

  it("counts a turn that is not over", () => {
    let now = 0;
    const lag = new EventLoopDelay({ ...systemLoop, now: () => now, monotonic: () => now, after: () => () => {} });
    lag.start();
    now = 2_000;
    expect(lag.ms).toBeGreaterThan(500);
    lag.stop();
    expect(lag.ms).toBe(0);
  });
});

describe("the pace of writes", () => {
  /** Rounds of writes at a cost each; returns how many were admitted. */
  function rounds(pace: WriteConcurrency, clock: VirtualClock, { wanting, costMs, count }: Round): number {
    let done = 0;
    for (let round = 0; round < count; round++) {
      const ends: (() => void)[] = [];
      while (ends.length < wanting && !pace.isFull) ends.push(pace.begin());
      clock.moveTo(clock.now() + costMs(ends.length));
      for (const end of ends) end();
      done = ends.length;
    }
    return done;
  }
  interface Round {
    readonly wanting: number;
    readonly costMs: (writes: number) => number;
    readonly count: number;
  }
  const PACE = ADMISSION.pace;
  const make = () => {
    const clock = new VirtualClock();
    return { clock, pace: new WriteConcurrency(PACE, clock.monotonic) };
  };

  it("lets in what can be done in time, from the second round on", () => {
    const { clock, pace } = make();
    const costMs = (writes: number) => writes * 2;
    expect(rounds(pace, clock, { wanting: 1_500, costMs, count: 1 })).toBe(400);
    const settled = rounds(pace, clock, { wanting: 1_500, costMs, count: 20 });
    expect(settled * 2).toBeGreaterThan(150);
    expect(settled * 2).toBeLessThanOrEqual(600);
  });

  it("lets more in when that is fast enough, and again after a slow time", () => {
    const { clock, pace } = make();
    rounds(pace, clock, { wanting: 1_500, costMs: (writes) => writes * 10, count: 20 });
    expect(pace.limit).toBeLessThan(100);
    rounds(pace, clock, { wanting: 1_500, costMs: (writes) => writes * 0.1, count: 100 });
    expect(pace.limit).toBeGreaterThan(1_500);
  });

  it("does not starve a store that is slow whatever it is given", () => {
    const { clock, pace } = make();
    expect(rounds(pace, clock, { wanting: 1_500, costMs: () => 2_000, count: 60 })).toBe(1_500);
  });

  it("forgets that a store was slow when it no longer is", () => {
    const { clock, pace } = make();
    rounds(pace, clock, { wanting: 1_500, costMs: () => 2_000, count: 60 });
    const costMs = (writes: number) => writes * 2;
    rounds(pace, clock, { wanting: 10, costMs, count: 60 });
    expect(rounds(pace, clock, { wanting: 1_500, costMs, count: 20 }) * 2).toBeLessThanOrEqual(600);
  });

  it("lets none in while none is done for long, as in the middle of a long turn", () => {
    const { clock, pace } = make();
    const ends = Array.from({ length: 20 }, () => pace.begin());
    expect(pace.isFull).toBe(false);
    clock.moveTo(clock.now() + 401);
    expect(pace.isFull).toBe(true);
    ends[0]?.();
    expect(pace.isFull).toBe(false);
  });

  it("ignores pauses", () => {
    const { clock, pace } = make();
    rounds(pace, clock, { wanting: 1, costMs: () => 500, count: 1 });
    clock.moveTo(clock.now() + 60_000);
    expect(rounds(pace, clock, { wanting: 400, costMs: () => 100, count: 1 })).toBe(400);
  });

  it("counts the time from when writes begin, not from when they were let in", () => {
    const { clock, pace } = make();
    expect(pace.isFull).toBe(false);
    clock.moveTo(clock.now() + 10_000); // bodies that came slowly
    const ends = Array.from({ length: 200 }, () => pace.begin());
    clock.moveTo(clock.now() + 500);
    for (const end of ends) end();
    expect(pace.isFull).toBe(false);
    expect(pace.limit).toBe(160); // of 200 in half a second, those of 0.4 s
  });
});

describe("the gate of reads", () => {
  const LIMITS = { atOnce: 1, maxWaitingOfOne: 2, maxWaiting: 3, maxWaitMs: 1_000 };

  it("gives callers their turns one after the other, however many reads one has", async () => {
    const gate = new ReadGate(LIMITS, new VirtualClock());
    const order: string[] = [];
    const read = async (caller: string, name: string) => {
      const leave = await gate.enter(caller);
      order.push(name);
      await Promise.resolve();
      leave();
      leave(); // a second time it changes nothing
    };
    await Promise.all([read("a", "a1"), read("a", "a2"), read("a", "a3"), read("b", "b1")]);
    expect(order).toEqual(["a1", "a2", "b1", "a3"]);
    await read("c", "c1");
    expect(order.at(-1)).toBe("c1");
    const leave = await gate.enter("c");
    const next = gate.enter("d");
    expect(await Promise.race([next, Promise.resolve("waits")])).toBe("waits");
    leave();
    (await next)();
  });

  it("limits waiting reads per caller and in total, and the time of a wait", async () => {
    const clock = new VirtualClock();
    const gate = new ReadGate(LIMITS, clock);
    const leave = await gate.enter("a");
    const waiting = ["a", "a"].map((caller) => gate.enter(caller));
    await expect(gate.enter("a")).rejects.toMatchObject({ code: "overloaded" });
    waiting.push(gate.enter("b"));
    await expect(gate.enter("c")).rejects.toMatchObject({ code: "overloaded" });
    const outcomes = Promise.allSettled(waiting);
    clock.moveTo(clock.now() + 1_000);
    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    leave();
    (await gate.enter("c"))();
  });
});
