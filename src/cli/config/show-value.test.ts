import { describe, expect, it } from "vitest";
import { toBytes } from "../../core/input/resources.ts";
import { showBytes, showMemory, showSpan, withoutPassword } from "./show-value.ts";

describe("a value shown to people", () => {
  it.each([
    ["postgres://me:geheim@host:5432/db", "postgres://me:***@host:5432/db"],
    [
      "postgres://host/db?user=me&password=geheim&sslmode=require",
      "postgres://host/db?user=me&password=***&sslmode=require",
    ],
    ["postgres://me@host/db", "postgres://me@host/db"],
    ["postgres://me:ge heim@host:port/db", "set (hidden)"],
    ["host=h password=geheim", "set (hidden)"],
    ["me:geheim@host", "set (hidden)"],
    ["./data/perdure.db", "./data/perdure.db"],
    ["/home/me@work/perdure.db", "/home/me@work/perdure.db"],
  ])("has no password: %s", (address, shown) => {
    expect(withoutPassword(address)).toBe(shown);
  });

  it("shows durations and sizes exactly", () => {
    expect([0, 1, 1_500, 90_000, 7_200_000, 7 * 86_400_000].map(showSpan)).toEqual([
      "0ms",
      "1ms",
      "1500ms",
      "90s",
      "2h",
      "7d",
    ]);
    expect([0, 1_024, 10_000_000, 1e9].map(showBytes)).toEqual(["0B", "1024B", "10MB", "1GB"]);
    const memory = [0, 1_000, 1_536, 512 * 2 ** 20, 8 * 2 ** 30, 2 ** 40];
    expect(memory.map(showMemory)).toEqual(["0b", "1000b", "1536b", "512m", "8g", "1t"]);
    expect(memory.map((bytes) => toBytes(showMemory(bytes), "memory"))).toEqual(memory);
  });
});
