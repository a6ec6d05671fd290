import { randomFillSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { idMaker, isId } from "./id.ts";

const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";
const random = (bytes: Uint8Array) => void randomFillSync(bytes);

/** The 128 bits of an id, as 32 hexadecimal digits. */
function bits(id: string): string {
  let value = 0n;
  for (const digit of id.slice(4)) value = value * 32n + BigInt(DIGITS.indexOf(digit));
  return value.toString(16).padStart(32, "0");
}

describe("ids", () => {
  it("have a prefix and 26 characters of Crockford's base32", () => {
    const make = idMaker({ now: Date.now, randomBytes: random });
    for (let i = 0; i < 1_000; i++) expect(make("job")).toMatch(/^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/);
    expect(isId(make("ses"), "ses")).toBe(true);
    expect(isId(make("ses"), "job")).toBe(false);
  });

  it("are UUIDs of version 7: time, version, variant", () => {
    const now = Date.UTC(2026, 1, 3, 4, 5, 6, 789);
    const make = idMaker({ now: () => now, randomBytes: random });
    for (let i = 0; i < 100; i++) {
      const hex = bits(make("job"));
      expect(Number.parseInt(hex.slice(0, 12), 16)).toBe(now);
      expect(hex[12]).toBe("7");
      expect("89ab").toContain(hex[16]);
    }
  });

  it("have 62 random bits each, new ones each time", () => {
    const make = idMaker({ now: () => 1, randomBytes: random });
    const seen = Array.from({ length: 2_000 }, () => BigInt(`0x${bits(make("job")).slice(16)}`) & ((1n << 62n) - 1n));
    expect(new Set(seen).size).toBe(seen.length);
    let [ones, zeros] = [0n, (1n << 62n) - 1n];
    for (const value of seen) {
      ones |= value;
      zeros &= value;
    }
    expect(ones).toBe((1n << 62n) - 1n); // every bit was set at times
    expect(zeros).toBe(0n); // and clear at times
  });

  it("sort in the order of creation, within a millisecond and across, also when the clock goes back", () => {
    let now = 1_000_000;
    const make = idMaker({ now: () => now, randomBytes: random });
    const made: string[] = [];
    for (let i = 0; i < 30_000; i++) {
      if (i % 1_000 === 0) now += i % 3_000 === 0 ? -500 : 700;
      made.push(make("job"));
    }
    expect(made).toEqual([...made].sort());
    expect(new Set(made).size).toBe(made.length);
  });

  it("continue in the next millisecond when one is used up, and do not fall behind it", () => {
    let now = 5_000;
    const make = idMaker({ now: () => now, randomBytes: random });
    const made = Array.from({ length: 10_000 }, () => make("job"));
    now = 5_001;
    made.push(make("job"));
    expect(made).toEqual([...made].sort());
    expect(new Set(made).size).toBe(made.length);
  });

  it("of two generators do not collide in the same millisecond", () => {
    const makers = [0, 1].map(() => idMaker({ now: () => 7, randomBytes: random }));
    const made = makers.flatMap((make) => Array.from({ length: 5_000 }, () => make("job")));
    expect(new Set(made).size).toBe(made.length);
  });

  it.each([
    ...[
      "",
      "job_",
      "job",
      "JOB_00000000000000000000000000",
      "job_0000000000000000000000000",
      "job-0000000000000000000000000a",
    ],
    ...["job_000000000000000000000000000", "job_80000000000000000000000000", "job_0000000000000000000000000i"],
    ...["job_0000000000000000000000000l", "job_0000000000000000000000000o", "job_0000000000000000000000000u"],
    ...["job_0000000000000000000000000A", "job_00000000000000000000000000\n", " job_00000000000000000000000000"],
  ])("are distinguished from text that is not an id: %j", (text) => {
    expect(isId(text, "job")).toBe(false);
  });
});
