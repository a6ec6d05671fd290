import { describe, expect, it } from "vitest";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { Hub, Signal } from "./hub.ts";

/** Whether a promise has been fulfilled by now. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol("pending");
  await new Promise((resolve) => setImmediate(resolve));
  return (await Promise.race([promise, Promise.resolve(pending)])) !== pending;
}

describe("a signal", () => {
  it("wakes all waiting callers, and not later ones", async () => {
    const [signal, clock] = [new Signal(), new VirtualClock()];
    const waiting = [0, 1, 2].map(() => signal.wait(clock, signal.version, 1_000));
    signal.fire();
    await Promise.all(waiting);
    expect(await isDone(signal.wait(clock, signal.version, 1_000))).toBe(false);
  });

  it("is not missed by a caller that read before it and waits after it", async () => {
    const [signal, clock] = [new Signal(), new VirtualClock()];
    const seen = signal.version;
    signal.fire();
    await signal.wait(clock, seen, 1_000);
  });

  it("ends a wait after the given time", async () => {
    const [signal, clock] = [new Signal(), new VirtualClock()];
    const waiting = signal.wait(clock, signal.version, 1_000);
    clock.moveTo(clock.now() + 999);
    expect(await isDone(waiting)).toBe(false);
    clock.moveTo(clock.now() + 1);
    expect(await isDone(waiting)).toBe(true);
    expect(await isDone(signal.wait(clock, signal.version, 0))).toBe(true);
  });

  it("leaves no timer behind, however the wait ended", async () => {
    const [signal, clock] = [new Signal(), new VirtualClock()];
    const controller = new AbortController();
    const byFire = signal.wait(clock, signal.version, 1_000);
    signal.fire();
    await byFire;
    const byAbort = signal.wait(clock, signal.version, 1_000, { signal: controller.signal });
    controller.abort();
    await byAbort;
    await signal.wait(clock, signal.version, 1_000, { signal: controller.signal });
    expect(clock.nextAt()).toBeNull();
  });

  it("may be fired by a caller that it woke", async () => {
    const [signal, clock] = [new Signal(), new VirtualClock()];
    let wakes = 0;
    const relay = async () => {
      await signal.wait(clock, signal.version, 1_000);
      wakes += 1;
      signal.fire();
    };
    const relays = [relay(), relay()];
    signal.fire();
    await Promise.all(relays);
    expect(wakes).toBe(2);
  });
});

describe("the hub", () => {
  it("reports a job's end to those who wait for that job, until they unsubscribe", () => {
    const hub = new Hub();
    const told: string[] = [];
    const forgetA1 = hub.onEnd("a", () => told.push("a1"));
    hub.onEnd("a", () => told.push("a2"));
    hub.onEnd("b", () => told.push("b"));
    hub.ended("a");
    expect(told).toEqual(["a1", "a2"]);
    forgetA1();
    hub.ended("a");
    hub.ended("nobody");
    expect(told).toEqual(["a1", "a2", "a2"]);
  });

  it("lists awaited jobs some at a time, in turn, without unsubscribed ones", () => {
    const hub = new Hub();
    const forget = ["a", "b", "c", "d", "e"].map((id) => hub.onEnd(id, () => {}));
    const turns = [hub.nextAwaited(2), hub.nextAwaited(2), hub.nextAwaited(2)];
    expect(new Set(turns.flat())).toEqual(new Set(["a", "b", "c", "d", "e"]));
    for (const call of forget) call();
    expect(hub.nextAwaited(10)).toEqual([]);
  });

  it("unsubscribes one waiter of a job without the other, in any order", () => {
    const hub = new Hub();
    const told: string[] = [];
    const first = hub.onEnd("a", () => told.push("first"));
    first();
    hub.onEnd("a", () => told.push("second"));
    first(); // repeated
    hub.ended("a");
    expect(told).toEqual(["second"]);
  });

  it("passes a cancel to its session only", () => {
    const hub = new Hub();
    const told: unknown[] = [];
    const forget = hub.onCancel("s1", (...args) => told.push(["s1", ...args]));
    hub.onCancel("s2", (...args) => told.push(["s2", ...args]));
    hub.cancelAsked("s1", "job", 3);
    hub.cancelAsked("elsewhere", "job", 3);
    expect(told).toEqual([["s1", "job", 3]]);
    forget();
    hub.cancelAsked("s1", "job", 3);
    expect(told).toHaveLength(1);
    expect(hub.sessions()).toEqual(["s2"]);
  });

  it("reports cancels of a session to all its subscribers, until they unsubscribe", () => {
    const hub = new Hub();
    const told: string[] = [];
    const first = hub.onCancel("s", () => told.push("first"));
    hub.onCancel("s", () => told.push("second"));
    hub.cancelAsked("s", "job", 1);
    first();
    first(); // repeated
    hub.cancelAsked("s", "job", 1);
    expect(told).toEqual(["first", "second", "second"]);
    expect(hub.sessions()).toEqual(["s"]);
  });
});
