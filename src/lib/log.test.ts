import { describe, expect, it } from "vitest";
import { TroubleLog, withFields } from "./log.ts";

function bench() {
  const time = { ms: 0 };
  const lines: string[] = [];
  const log = new TroubleLog({
    clock: { monotonic: () => time.ms },
    log: (level, message, fields) => void lines.push(`${level} ${withFields(message, fields)}`),
    name: "store.trouble",
  });
  return { time, lines, log };
}

describe("an ongoing problem", () => {
  it("logs one line when it starts and one when it is over, with a count", () => {
    const { time, lines, log } = bench();
    log.works();
    for (let i = 0; i < 10_000; i++) {
      time.ms += 2;
      log.failed("full", "no room left", i % 100 === 0 ? "rounds" : "requests");
      if (i % 500 === 0) log.works(); // one success does not end it
    }
    expect(log.trouble).toMatchObject({ kind: "full", since: 2 });
    time.ms += 5_000;
    log.works();
    log.works();
    expect(log.trouble).toBeNull();
    expect(lines).toEqual([
      'error store.trouble kind="full" cause="no room left"',
      'warn store.trouble_over kind="full" ms=19998 rounds=100 requests=9900',
    ]);
    log.failed("full", "no room left", "requests");
    expect(lines).toHaveLength(3);
  });

  it("logs one more line when its kind changes, not each time that kinds alternate", () => {
    const { time, lines, log } = bench();
    for (let i = 0; i < 1_000; i++) {
      time.ms += 10;
      log.failed(i % 2 === 0 ? "full" : "unavailable", "x".repeat(5_000), "requests");
    }
    expect(lines.map((line) => line.split(" ").slice(0, 3).join(" "))).toEqual([
      'error store.trouble kind="full"',
      'error store.trouble_changed kind="unavailable"',
    ]);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(700);
  });
});
