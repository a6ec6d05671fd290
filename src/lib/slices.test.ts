import { expect, it } from "vitest";
import { Slices } from "./slices.ts";

it("yields to the event loop when a slice is over, and not before", async () => {
  let now = 0;
  let turns = 0;
  const turn = (call: () => void) => {
    turns += 1;
    call();
  };
  const slices = new Slices({ monotonic: () => now, turn });
  for (let step = 0; step < 100; step++) {
    if (slices.isOver) await slices.next();
    now += 3; // the cost of a step
  }
  // A slice is 10 ms, and so four steps.
  expect(turns).toBe(24);
});
