import { describe, expect, it } from "vitest";
import { ByteCache } from "./byte-cache.ts";

describe("a cache that is bounded by bytes", () => {
  it("never exceeds its limit, whatever is added", () => {
    const cache = new ByteCache<number, string>(1_000);
    for (let i = 0; i < 500; i++) {
      cache.set(i, `value ${i}`, 1 + ((i * 37) % 200));
      expect(cache.bytes).toBeLessThanOrEqual(1_000);
    }
    expect(cache.get(499)).toBe("value 499");
    expect(cache.get(0)).toBeUndefined();
  });

  it("keeps entries that are read rather than others", () => {
    const cache = new ByteCache<string, number>(100);
    cache.set("read", 1, 20);
    for (let i = 0; i < 50; i++) {
      cache.set(`other ${i}`, i, 20);
      expect(cache.get("read")).toBe(1);
    }
  });

  it("counts a replaced entry once, and does not keep an entry larger than the cache", () => {
    const cache = new ByteCache<string, number>(100);
    cache.set("a", 1, 60);
    cache.set("a", 2, 50);
    expect([cache.get("a"), cache.bytes, cache.size]).toEqual([2, 50, 1]);
    cache.set("b", 3, 101);
    expect([cache.get("b"), cache.get("a"), cache.bytes]).toEqual([undefined, 2, 50]);
    // Nor does it evict entries that were not read yet.
    cache.set("c", 4, 30);
    cache.set("d", 5, 101);
    expect(cache.get("c")).toBe(4);
    cache.clear();
    expect([cache.bytes, cache.size]).toEqual([0, 0]);
  });
});
