/** Lists that are split, and the answer of each item when only a part of them could be stored. */
import { describe, expect, it } from "vitest";
import { PerdureError } from "../../core/errors.ts";
import type { RefusedItem } from "../../core/worker-protocol.ts";
import { systemLoop } from "../../lib/system-clock.ts";
import { GroupCommit, refusal } from "./group.ts";

type Answer = number | RefusedItem;
const away = () => new PerdureError("store_unavailable", "the server is unreachable");
const badData = () => Object.assign(new Error("bad"), { code: "22P02" });
const list = (length: number) => Array.from({ length }, (_, i) => i);

function group(run: (items: readonly number[]) => Promise<number[]>, isPartly = true): GroupCommit<number, Answer> {
  const refuse = (_: number, error: unknown) => refusal(error);
  return new GroupCommit<number, Answer>({ run, refuse, inFlight: 2, together: 10, isPartly }, systemLoop);
}

describe("a list in several parts", () => {
  it("is answered in its order", async () => {
    expect(await group(async (items) => [...items]).submit(list(95))).toEqual(list(95));
  });

  it("is split by its weight as well", async () => {
    const sizes: number[] = [];
    const run = async (items: readonly number[]) => {
      sizes.push(items.length);
      return [...items];
    };
    const verb = { run, inFlight: 1, together: 10, weigh: () => 3_000_000 };
    const heavy = new GroupCommit<number, number>(verb, systemLoop);
    expect(await heavy.submit(list(7))).toEqual(list(7));
    expect(sizes).toEqual([2, 2, 2, 1]);
    await Promise.all([heavy.submit([1]), heavy.submit([2]), heavy.submit([3])]);
    expect(sizes.slice(4)).toEqual([2, 1]);
  });

  it("returns which items are stored and which are not after an outage of one part", async () => {
    const partly = group(async (items) => {
      if (items.includes(25)) throw away();
      return [...items];
    });
    const answers = await partly.submit(list(40));
    expect(answers.filter((answer) => typeof answer === "number")).toHaveLength(30);
    expect(answers.slice(20, 30)).toEqual(
      list(10).map(() => ({ status: "refused", code: "store_unavailable", message: "the server is unreachable" })),
    );
  });

  it("of which no part was stored is rejected, and so is one whose caller repeats it", async () => {
    const none = group(async () => {
      throw away();
    });
    await expect(none.submit(list(40))).rejects.toMatchObject({ code: "store_unavailable" });
    const whole = group(async (items) => {
      if (items.includes(25)) throw away();
      return [...items];
    }, false);
    await expect(whole.submit(list(40))).rejects.toMatchObject({ code: "store_unavailable" });
  });
});

describe("an invalid item", () => {
  it("is the only one refused, wherever it is", async () => {
    const picky = group(async (items) => {
      if (items.some((item) => item === 3 || item === 8)) throw badData();
      return [...items];
    });
    const answers = await picky.submit(list(10));
    expect(answers.map((answer) => typeof answer)).toEqual(
      list(10).map((i) => (i === 3 || i === 8 ? "object" : "number")),
    );
  });

  it("with an outage while it is searched for: items stored before are reported as stored", async () => {
    let tries = 0;
    const unlucky = group(async (items) => {
      tries += 1;
      if (tries > 2) throw away();
      if (items.includes(7)) throw badData();
      return [...items];
    });
    const answers = await unlucky.submit(list(8));
    expect(answers.slice(0, 4)).toEqual(list(4));
    expect(answers.slice(4).every((answer) => typeof answer === "object")).toBe(true);
  });
});
