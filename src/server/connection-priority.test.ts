import { describe, expect, it } from "vitest";
import { ConnectionPriority, HOLD_MS, REST_MS } from "./connection-priority.ts";

/** Turns of an event loop that are made by hand. */
function setUp() {
  let now = 0;
  let due: (() => void)[] = [];
  const started: string[] = [];
  const gate = new ConnectionPriority({ monotonic: () => now, turn: (call) => due.push(call) });
  return {
    started,
    request: (name: string) => gate.take(() => started.push(name)),
    turn({ accepts = true, ms = 0 } = {}) {
      now += ms;
      if (accepts) gate.accepted();
      const calls = due;
      due = [];
      for (const call of calls) call();
    },
    isWatching: () => due.length > 0,
  };
}

describe("new connections before requests", () => {
  it("starts requests at once where nothing is accepted, or only now and then", () => {
    const { request, turn, started, isWatching } = setUp();
    request("a");
    turn();
    request("b");
    turn({ accepts: false });
    expect(isWatching()).toBe(false);
    turn();
    turn();
    request("c");
    expect(started).toEqual(["a", "b", "c"]);
  });

  it("holds requests while turn after turn brings a connection, and starts them in their order after it", () => {
    const { request, turn, started } = setUp();
    for (let i = 0; i < 3; i++) turn();
    request("a");
    turn();
    request("b");
    expect(started).toEqual([]);
    turn({ accepts: false });
    expect(started).toEqual(["a", "b"]);
    request("c");
    expect(started).toEqual(["a", "b", "c"]);
  });

  it("takes half of the time at most from requests, however many connections come", () => {
    const { request, turn, started } = setUp();
    for (let i = 0; i < 3; i++) turn();
    request("held");
    turn({ ms: HOLD_MS });
    expect(started).toEqual(["held"]);
    turn({ ms: REST_MS - 1 });
    request("at once");
    expect(started).toEqual(["held", "at once"]);
    turn({ ms: 1 });
    request("held again");
    expect(started).toEqual(["held", "at once"]);
    turn({ ms: HOLD_MS });
    expect(started).toEqual(["held", "at once", "held again"]);
  });
});
