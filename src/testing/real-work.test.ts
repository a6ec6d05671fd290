import { expect, it } from "vitest";
import { RealWork } from "./real-work.ts";

it("an earlier timer that has ended does not hide a later one", () => {
  const before = [setTimeout(() => {}, 60_000), setTimeout(() => {}, 60_000)];
  const work = new RealWork();
  expect(work.current()).toEqual([]);
  for (const timer of before) clearTimeout(timer);
  expect(work.current()).toEqual([]);
  const later = setTimeout(() => {}, 60_000);
  expect(work.current()).toEqual(["Timeout"]);
  clearTimeout(later);
  expect(work.current()).toEqual([]);
});
