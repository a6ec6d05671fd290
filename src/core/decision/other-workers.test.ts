import { describe, expect, it } from "vitest";
import { otherWorkers, type WatchedSession } from "./evidence.ts";

const MINUTE = 60_000;

describe("other workers", () => {
  const now = 20 * MINUTE;
  const session = (no: number, parts: Partial<WatchedSession> = {}): WatchedSession => ({
    ...{ no, host: "h1", pool: "p1", process: `boot ${no}`, pid: no, startedAt: 0, renewedAt: now },
    ...{ endedAt: null, lostAt: null, isExplained: false },
    ...parts,
  });
  const died = { startedAt: now - 5 * MINUTE, renewedAt: now - 4 * MINUTE, lostAt: now - 3 * MINUTE };

  it("goes by the host or the pool, whichever is worse, without the job's own losses and those that are explained", () => {
    const lost = session(1, died);
    const of = (...others: WatchedSession[]) => otherWorkers([lost, ...others], now)(lost, [9]);
    expect(of()).toEqual({ lost: 0, watchedMs: 0 });
    expect(of(session(2), session(9, died))).toEqual({ lost: 0, watchedMs: 10 * MINUTE });
    expect(of(session(2, died), session(3, { ...died, isExplained: true }))).toEqual({
      lost: 1,
      watchedMs: 2 * MINUTE,
    });
    expect(of(session(2, { ...died, startedAt: 0, lostAt: 9 * MINUTE, renewedAt: 8 * MINUTE }))).toEqual({
      lost: 0,
      watchedMs: 0,
    });
    const elsewhere = Array.from({ length: 50 }, (_, i) => session(10 + i, { host: `h${10 + i}` }));
    expect(of(session(2, { ...died, pool: "p2" }), ...elsewhere)).toEqual({ lost: 1, watchedMs: MINUTE });
    expect(of(session(2, { ...died, host: "h2" }), session(3, { pool: "p2" }))).toEqual({ lost: 1, watchedMs: MINUTE });
    expect(of(session(2, { pool: "p2", host: "h2", ...died }))).toEqual({ lost: 0, watchedMs: 0 });
    expect(of(session(2, { endedAt: now - 9 * MINUTE }))).toEqual({ lost: 0, watchedMs: MINUTE });
  });

  it("leaves out sessions lost with the job's own in one process, and not those lost there earlier or later", () => {
    const same = { process: "boot 1", pid: 1 };
    const lost = session(1, { ...same, ...died });
    const ask = (...others: WatchedSession[]) => otherWorkers([lost, ...others], now)(lost, [9]);
    const beside = session(2, { ...same, ...died, renewedAt: died.renewedAt - 2_000, lostAt: died.lostAt - 2_000 });
    expect(ask(beside)).toEqual({ lost: 0, watchedMs: 0 });
    expect(ask({ ...beside, pid: 7 })).toEqual({ lost: 1, watchedMs: MINUTE - 2_000 });
    expect(ask({ ...beside, lostAt: died.renewedAt - 1 })).toMatchObject({ lost: 1 });
    expect(ask({ ...beside, renewedAt: died.lostAt + 1, lostAt: now })).toMatchObject({ lost: 1 });
    // The same of a session in which the job was lost before.
    const before = session(9, { ...died, process: "boot 9" });
    expect(ask(before, { ...before, no: 3 })).toEqual({ lost: 0, watchedMs: 0 });
    // Where the process is not known, nothing is said about others.
    expect(ask({ ...beside, process: null })).toMatchObject({ lost: 1 });
  });

  it("looks at each session once, however many jobs were lost", () => {
    let compared = 0;
    const watched = Array.from({ length: 2_000 }, (_, no) => {
      const { pool, ...others } = session(no, { ...died, host: `h${no % 10}` });
      return Object.defineProperty(others, "pool", {
        get: () => {
          compared += 1;
          return pool;
        },
      }) as WatchedSession;
    });
    const ask = otherWorkers(watched, now);
    const answers = watched.slice(0, 1_000).map((lost) => ask(session(lost.no, { ...died, host: lost.host }), []));
    expect(answers[0]).toEqual({ lost: 199, watchedMs: 199 * MINUTE });
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(compared).toBeLessThan(10_000);
  });
});
