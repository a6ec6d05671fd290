import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { sleep } from "./clock.ts";
import { systemClock } from "./system-clock.ts";

const DAY_MS = 86_400_000;

describe("the system clock", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([25, 30, 400])("waits %i days, where a bare timer would fire at once", (days) => {
    const call = vi.fn();
    systemClock.after(days * DAY_MS, call);
    vi.advanceTimersByTime(1_000);
    expect(call).not.toHaveBeenCalled();
    vi.advanceTimersByTime(days * DAY_MS - 1_001);
    expect(call).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(call).toHaveBeenCalledOnce();
    vi.advanceTimersByTime(days * DAY_MS);
    expect(call).toHaveBeenCalledOnce();
  });

  it.each([2 ** 31 - 1, 2 ** 31, 2 ** 32])("fires after %i ms exactly, at the limits of timers", (ms) => {
    const call = vi.fn();
    systemClock.after(ms, call);
    vi.advanceTimersByTime(ms - 1);
    expect(call).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(call).toHaveBeenCalledOnce();
  });

  it("can be cancelled, also during a long wait, and more than once", () => {
    const call = vi.fn();
    const cancel = systemClock.after(60 * DAY_MS, call);
    vi.advanceTimersByTime(40 * DAY_MS);
    cancel();
    cancel();
    vi.advanceTimersByTime(60 * DAY_MS);
    expect(call).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("never fires for an infinite wait, and at once for one in the past", () => {
    const [never, now, past] = [vi.fn(), vi.fn(), vi.fn()];
    const cancel = systemClock.after(Number.POSITIVE_INFINITY, never);
    systemClock.after(0, now);
    systemClock.after(-5, past);
    vi.advanceTimersByTime(1);
    expect(now).toHaveBeenCalledOnce();
    expect(past).toHaveBeenCalledOnce();
    vi.advanceTimersByTime(100 * DAY_MS);
    expect(never).not.toHaveBeenCalled();
    cancel();
  });

  it("keeps the process alive for a timer, but not for a background one, during the whole wait", () => {
    const unref = vi.fn();
    // By hand: a spy on a timer that is faked already would leave the fake behind for the files that come after.
    const faked = globalThis.setTimeout;
    const watched = (call: () => void, ms: number) => Object.assign(faked(call, ms), { unref });
    Object.assign(globalThis, { setTimeout: watched });
    try {
      const cancelFirst = systemClock.after(10, () => {});
      expect(unref).not.toHaveBeenCalled();
      const cancelSecond = systemClock.after(60 * DAY_MS, () => {}, { background: true });
      vi.advanceTimersByTime(55 * DAY_MS);
      expect(unref).toHaveBeenCalledTimes(3);
      cancelFirst();
      cancelSecond();
    } finally {
      Object.assign(globalThis, { setTimeout: faked });
    }
  });

  it("returns wall time and a time that never goes back", () => {
    const [wall, mono] = [systemClock.now(), systemClock.monotonic()];
    vi.advanceTimersByTime(1_000);
    expect(systemClock.now() - wall).toBe(1_000);
    expect(systemClock.monotonic() - mono).toBe(1_000);
  });
});

describe("sleep", () => {
  it("ends early when its signal aborts, and leaves neither timer nor listener", async () => {
    vi.useFakeTimers();
    const controller = new AbortController();
    const remove = vi.spyOn(controller.signal, "removeEventListener");
    const slept = sleep(systemClock, 60_000, { signal: controller.signal });
    controller.abort();
    await slept;
    expect(vi.getTimerCount()).toBe(0);
    expect(remove).toHaveBeenCalled();
    await sleep(systemClock, 60_000, { signal: controller.signal });
    const other = sleep(systemClock, 5, {});
    vi.advanceTimersByTime(5);
    await other;
    vi.useRealTimers();
  });
});
