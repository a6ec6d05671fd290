import { expect, it } from "vitest";
import { TurnLimiter } from "./turn-limiter.ts";

it("limits the passes per turn, in turn by caller", async () => {
  let turn = () => {};
  const loop = {
    turn(call: () => void) {
      turn = call;
    },
  };
  const share = new TurnLimiter(2, loop);
  const order: string[] = [];
  for (const name of ["a1", "a2", "a3", "a4", "a5", "b1"]) {
    void share.pass(name.slice(0, 1)).then(() => order.push(name));
  }
  const seen: string[][] = [];
  for (let i = 0; i < 4; i++) {
    await new Promise(setImmediate);
    seen.push(order.splice(0));
    turn();
  }
  expect(seen).toEqual([["a1", "a2"], ["a3", "b1"], ["a4", "a5"], []]);
});
