import { describe, expect, it } from "vitest";
import { VIRTUAL_START, VirtualClock } from "./virtual-clock.ts";

describe("the virtual clock", () => {
  it("stands still until it is moved", () => {
    const clock = new VirtualClock();
    expect([clock.now(), clock.monotonic(), clock.nextAt()]).toEqual([VIRTUAL_START, VIRTUAL_START, null]);
    expect(new VirtualClock(5).now()).toBe(5);
  });

  it("fires timers in order of time, and timers of one time in the order they were set", () => {
    const clock = new VirtualClock(0);
    const fired: string[] = [];
    clock.after(20, () => fired.push("c"));
    clock.after(10, () => fired.push("a"));
    clock.after(10, () => fired.push("b"));
    clock.after(21, () => fired.push("later"));
    expect(clock.nextAt()).toBe(10);
    clock.moveTo(20);
    expect(fired).toEqual(["a", "b", "c"]);
    expect(clock.nextAt()).toBe(21);
  });

  it("does not fire a cancelled timer, even if another one of the same move cancelled it", () => {
    const clock = new VirtualClock(0);
    const fired: string[] = [];
    clock.after(10, () => {
      fired.push("first");
      cancel();
    });
    const cancel = clock.after(10, () => fired.push("second"));
    clock.moveTo(10);
    expect(fired).toEqual(["first"]);
  });

  it("leaves a timer set while others fire for the next move, and never goes back", () => {
    const clock = new VirtualClock(0);
    let fired = 0;
    const again = () => {
      fired += 1;
      clock.after(0, again);
    };
    clock.after(5, again);
    clock.moveTo(5);
    expect([fired, clock.nextAt()]).toEqual([1, 5]);
    clock.moveTo(3);
    expect([fired, clock.now()]).toEqual([2, 5]);
  });
});
