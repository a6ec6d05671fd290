import { expect, it } from "vitest";
import { limiter } from "./limiter.ts";

it("limits concurrent work, in order of arrival, also after failures", async () => {
  const limited = limiter(2);
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const all = [0, 1, 2, 3, 4].map((i) =>
    limited(async () => {
      begun.push(i);
      await new Promise<void>((resolve) => ends.push(resolve));
      if (i === 0) throw new Error("broken");
      return i;
    }),
  );
  const settled = Promise.allSettled(all);
  expect(begun).toEqual([0, 1]);
  ends[0]?.();
  await expect(all[0]).rejects.toThrow("broken");
  expect(begun).toEqual([0, 1, 2]);
  for (let i = 1; i < 5; i++) {
    ends[i]?.();
    await all[i];
  }
  expect(begun).toEqual([0, 1, 2, 3, 4]);
  expect((await settled).filter(({ status }) => status === "fulfilled")).toHaveLength(4);
  expect(await limited(async () => "free again")).toBe("free again");
});
