/** The store's part of the poison guard: suspects run alone, and what is known about a loss is part of its decision. */
import { expect, test } from "vitest";
import type { Crash } from "../../core/decision/evidence.ts";
import type { NewSession } from "../../core/worker-protocol.ts";
import { BESIDE_OTHERS_MS, MAKE_ROOM_MS } from "../plan/claim.ts";
import type { Bench } from "./bench.ts";
import { broke, done, LEASE, MINUTE, placeOf, reaped, SECOND, T0 } from "./kit.ts";

/** Each in a separate process, like workers. */
let processes = 0;
const own = (parts: Partial<NewSession> = {}): Partial<NewSession> => {
  processes += 1;
  return { process: `boot ns ${processes}`, pid: processes, ...parts };
};

export function suspectTests(bench: Bench): void {
  /** These jobs, lost together twice in a row. Returns when all are due again. */
  async function suspects(ids: readonly string[], at = T0): Promise<number> {
    let now = at;
    for (let i = 0; i < 2; i++) {
      const session = await bench.open(own(), now);
      const jobs = await bench.claim(session, ids.length, now);
      expect(jobs.map(({ id }) => id).sort()).toEqual([...ids].sort());
      now += SECOND;
      await bench.endSession(session, now, "gone");
      await bench.sweep(now);
      now += 10 * SECOND;
    }
    return now;
  }
  const crashes = async (id: string): Promise<(Crash | undefined)[]> => {
    const events = (await bench.store.events.page({ after: 0, limit: 99, jobId: id })).events;
    return events.flatMap((event) => (event.name === "attempt.lost" ? [(event.data as { crash?: Crash }).crash] : []));
  };

  test("treats quick losses in three sessions as poison", async () => {
    const id = await bench.submit();
    let now = T0;
    for (let i = 0; i < 3; i++) {
      now = Math.max(now, (await bench.row(id)).runAt);
      const job = await bench.take(await bench.open({}, now), now);
      now += LEASE + 1;
      await bench.settleOne(reaped(placeOf(job)), now);
    }
    expect(await bench.row(id)).toMatchObject({ state: "failed", reason: "poison", losses: 3, streak: 3 });
  });

  test("a suspect runs alone: only an idle session claims it, and then nothing else", async () => {
    const ids = [await bench.submit(), await bench.submit()];
    const now = await suspects(ids);
    // One that has been due for longer than they have, and one that has not.
    const before = await bench.submit({ at: now, runAt: T0 });
    const busy = await bench.open(own(), now);
    expect((await bench.claim(busy, 9, now)).map(({ id }) => id)).toEqual([before]);
    const after = await bench.submit({ at: now });
    const first = await bench.open(own(), now);
    const tried = await bench.claim(first, 9, now);
    expect(tried.map(({ id }) => ids.includes(id))).toEqual([true]);
    const waits = await bench.claimAnswer(first, 9, now);
    expect(waits).toMatchObject({ jobs: [], nextAt: now + 30 * SECOND });
    // The other suspect is first in line, so a busy session makes room for it, and an idle one gets it.
    expect(await bench.claim(busy, 9, now)).toEqual([]);
    const second = await bench.open(own(), now);
    const other = await bench.claim(second, 9, now);
    expect([...tried, ...other].map(({ id }) => id).sort()).toEqual([...ids].sort());
    expect((await bench.claim(busy, 9, now)).map(({ id }) => id)).toEqual([after]);
    // It ends, and its session takes others again; the other session has been alive long enough.
    const more = [await bench.submit({ at: now }), await bench.submit({ at: now })];
    await bench.report(tried[0] as never, done(), now + SECOND);
    expect((await bench.claim(first, 1, now + SECOND)).map(({ id }) => id)).toEqual([more[0]]);
    expect(await bench.claim(second, 9, now + 15 * SECOND)).toEqual([]);
    await bench.renew(second, other.map(placeOf), now + 15 * SECOND);
    expect((await bench.claim(second, 9, now + 30 * SECOND)).map(({ id }) => id)).toEqual([more[1]]);
    expect(await bench.row((tried[0] as { id: string }).id)).toMatchObject({
      state: "succeeded",
      streak: 0,
      evidence: 0,
    });
  });

  test("one session at a time keeps its slots free for a suspect, for a while; then the suspect runs beside others", async () => {
    const long = { leaseMs: 10 * MINUTE };
    const held = [await bench.submit({ kind: "long" }), await bench.submit({ kind: "long" })];
    const sessions = [
      await bench.open(own({ ...long, kinds: ["long", "work"] })),
      await bench.open(own({ ...long, kinds: ["long", "work"] })),
    ] as const;
    const kept = [await bench.take(sessions[0]), await bench.take(sessions[1])];
    expect(kept.map((job) => job.id)).toEqual(held);
    const id = await bench.submit();
    let now = await suspects([id]);
    const others = await Promise.all([1, 2, 3].map((n) => bench.submit({ at: now, runAt: now + n })));
    now += 10;
    expect(await bench.claim(sessions[0], 1, now)).toEqual([]);
    expect((await bench.claim(sessions[1], 1, now)).map((job) => job.id)).toEqual([others[0]]);
    now += MAKE_ROOM_MS;
    expect((await bench.claim(sessions[0], 1, now)).map((job) => job.id)).toEqual([others[1]]);
    expect(await bench.claim(sessions[1], 1, now)).toEqual([]);
    now += BESIDE_OTHERS_MS - MAKE_ROOM_MS;
    expect(await bench.claim(sessions[1], 1, now - SECOND)).toEqual([]);
    // The second had its turn: other jobs come first there.
    expect((await bench.claim(sessions[1], 9, now)).map((job) => job.id)).toEqual([others[2]]);
    expect((await bench.claim(sessions[0], 9, now)).map((job) => job.id)).toEqual([id]);
    expect(await bench.claim(sessions[0], 9, now)).toEqual([]);
  });

  test.each(["busy", "empty"])(
    "others wait for a minute at most however many suspects there are, in a session that is %s",
    async (hands) => {
      const session = await bench.open(own({ leaseMs: 60 * MINUTE, kinds: ["long", "work"] }));
      if (hands === "busy") {
        await bench.submit({ kind: "long" });
        await bench.take(session);
      }
      const accused = await Promise.all([1, 2, 3, 4].map(() => bench.submit()));
      const from = await suspects(accused);
      const untried = new Set(accused);
      const since = new Map<string, number>();
      let now = from;
      for (; untried.size > 0 && now < from + 20 * MINUTE; now += 10 * SECOND) {
        // One more each time, so that there are always others behind.
        since.set(await bench.submit({ at: now }), now);
        for (const job of await bench.claim(session, 15, now)) {
          if (untried.delete(job.id)) continue; // it never ends
          expect(now - (since.get(job.id) as number)).toBeLessThanOrEqual(MINUTE);
          since.delete(job.id);
          await bench.report(job, done(), now);
        }
        for (const at of since.values()) expect(now - at).toBeLessThanOrEqual(MINUTE);
      }
      expect([...untried]).toEqual([]);
      expect(now - from).toBeLessThan(5 * MINUTE);
    },
  );

  test("knows who ran beside a lost attempt, also in other sessions of the process and settled one by one", async () => {
    const one = { process: "boot ns shared", pid: 7 };
    for (const kind of ["a", "a", "b", "c"]) await bench.submit({ kind });
    const [a, b, c] = [
      await bench.open({ ...one, kinds: ["a"] }),
      await bench.open({ ...one, kinds: ["b"] }),
      await bench.open(own({ kinds: ["c"] })),
    ];
    const lost = [...(await bench.claim(a, 9)), ...(await bench.claim(b, 9))];
    const alone = await bench.take(c);
    const late = T0 + LEASE + 1;
    for (const job of [...lost, alone]) await bench.settleOne(reaped(placeOf(job)), late);
    for (const { id } of lost) {
      expect(await crashes(id)).toEqual([{ beside: 2 }]);
      expect(await bench.row(id)).toMatchObject({ streak: 1, evidence: 0 });
    }
    // Of those on its host two were lost, in 15 seconds that they lived; it is unknown for how long.
    expect(await crashes(alone.id)).toEqual([{ beside: 0, others: { lost: 2, watchedMs: 0 } }]);
  });

  test("knows what was lost beside it when leases of one process end one after another, and the first was settled long before", async () => {
    for (let i = 0; i < 3; i++) await bench.open(own({ leaseMs: 60 * MINUTE }));
    const [id, other, alone] = [
      await bench.submit({ kind: "a" }),
      await bench.submit({ kind: "b" }),
      await bench.submit({ kind: "c" }),
    ];
    let now = T0;
    for (let i = 0; i < 3; i++) {
      now = Math.max(now, (await bench.row(id)).runAt, (await bench.row(other)).runAt);
      const one = own({ leaseMs: 4 * SECOND });
      const [a, b] = [await bench.open({ ...one, kinds: ["a"] }, now), await bench.open({ ...one, kinds: ["b"] }, now)];
      const job = await bench.take(a, now);
      await bench.take(b, now);
      if (i === 0) {
        const third = own({ leaseMs: 4 * SECOND, kinds: ["c"] });
        await bench.open(third, now);
        const later = await bench.open(third, now);
        const held = await bench.take(later, now);
        await bench.renew(later, [placeOf(held)], now + SECOND);
      }
      await bench.renew(a, [placeOf(job)], now + 2 * SECOND);
      await bench.awake(now, now + 7 * SECOND);
      now += 7 * SECOND;
    }
    expect(await crashes(id)).toEqual([{ beside: 1 }, { beside: 1 }, { beside: 1 }]);
    expect(await bench.row(id)).toMatchObject({ state: "queued", losses: 3, streak: 3, evidence: 0 });
    // An idle session of its process that was found earlier does not count, nor does one of the others that were lost.
    expect(await crashes(alone)).toEqual([{ beside: 0, others: { lost: 1, watchedMs: expect.any(Number) } }]);
  });

  test("a job that is lost repeatedly is not poison if other workers are lost too", async () => {
    const id = await bench.submit();
    let now = T0;
    for (let i = 0; i < 6; i++) {
      now = Math.max(now, (await bench.row(id)).runAt);
      // Two more are lost without jobs.
      for (const idle of [await bench.open(own(), now), await bench.open(own(), now)]) {
        await bench.endSession(idle, now + SECOND, "gone");
      }
      const session = await bench.open(own(), now);
      await bench.take(session, now);
      now += SECOND;
      await bench.endSession(session, now, "gone");
      await bench.sweep(now);
    }
    expect(await bench.row(id)).toMatchObject({ state: "queued", losses: 6, streak: 6, evidence: 0 });
    expect((await crashes(id)).at(-1)).toEqual({ beside: 0, others: { lost: 12, watchedMs: 0 } });
  });

  test("workers killed by a poison job excuse no other job", async () => {
    const [guilty, other] = [await bench.submit(), await bench.submit({ kind: "other" })];
    let now = T0;
    for (const [kind, count] of [
      ["work", 3],
      ["other", 1],
    ] as const) {
      for (let i = 0; i < count; i++) {
        const id = kind === "work" ? guilty : other;
        now = Math.max(now, (await bench.row(id)).runAt);
        const session = await bench.open(own({ kinds: [kind] }), now);
        await bench.take(session, now);
        now += SECOND;
        await bench.endSession(session, now, "gone");
        await bench.sweep(now);
      }
    }
    expect((await bench.row(guilty)).reason).toBe("poison");
    // The third is explained at once; the first two because they were lost alone with it, too.
    expect(await crashes(other)).toEqual([{ beside: 0, others: { lost: 0, watchedMs: 0 } }]);
  });

  test("does not suspect a job for the exit of the engine, unless engine and worker share a process", async () => {
    const server = { host: "host-1", pid: 1, process: "boot ns server" };
    const both = { pid: 5, process: "boot ns both" };
    const rival = { ...server, process: "boot ns rival" };
    const [unlucky, remote, embedded, stopped] = [
      await bench.submit({ kind: "d" }),
      await bench.submit({ kind: "a" }),
      await bench.submit({ kind: "b" }),
      await bench.submit({ kind: "c" }),
    ];
    const beat = (now: number, self: typeof server, ended: string | null = null) =>
      bench.store.beat({
        ...{ time: () => ({ now }), maxGapMs: 3 * SECOND, holdMs: LEASE, clockJumpMs: 0, engine: "e", self },
        isOver: ({ process }) => (process === ended ? true : null),
      });
    const lose = async (kind: string, parts: Partial<NewSession>, at: number, gap: () => Promise<unknown>) => {
      const session = await bench.open({ ...parts, kinds: [kind] }, at);
      await bench.take(session, at);
      const away = gap();
      await away;
      await bench.endSession(session, at + 46 * SECOND, "gone");
      await bench.sweep(at + 46 * SECOND);
    };
    // Away for 45 s, three times.
    let now = T0;
    for (let i = 0; i < 3; i++) {
      await beat(now, server);
      await lose("a", own(), now, () => beat(now + 45 * SECOND, { ...server, pid: 10 + i }));
      now += 2 * MINUTE;
    }
    expect(await bench.row(remote)).toMatchObject({ state: "queued", losses: 3, streak: 0, evidence: 0 });
    expect(new Set((await crashes(remote)).map((crash) => crash?.excuse))).toEqual(new Set(["engine_away"]));
    // Back before anyone noticed: that its process has ended is known all the same.
    await beat(now, server);
    await lose("a", own(), now, () => beat(now + SECOND, { ...server, process: "boot ns next" }, "boot ns server"));
    expect((await bench.row(remote)).streak).toBe(0);
    // One that was late but live: later losses are not excused.
    now += 2 * MINUTE;
    await beat(now, rival);
    await lose("d", own(), now, () => beat(now + 45 * SECOND, rival));
    expect(await bench.row(unlucky)).toMatchObject({ streak: 1 });
    // A library whose process is worker and engine.
    now += 2 * MINUTE;
    await beat(now, { ...server, ...both });
    await lose("b", { host: "host-1", ...both }, now, () => beat(now + 45 * SECOND, server));
    expect(await bench.row(embedded)).toMatchObject({ streak: 1 });
    // The same, but its machine was rebooted.
    now = Math.max(now + 2 * MINUTE, (await bench.row(embedded)).runAt);
    await beat(now, { ...server, ...both });
    const rebooted = { ...server, process: "boot2 ns 1" };
    await lose("b", { host: "host-1", ...both }, now, () => beat(now + 45 * SECOND, rebooted));
    expect(await bench.row(embedded)).toMatchObject({ streak: 1, losses: 2 });
    // A worker that stopped in good order.
    now += 2 * MINUTE;
    await beat(now, rebooted);
    const session = await bench.open({ ...own(), kinds: ["c"] }, now);
    await bench.take(session, now);
    await bench.endSession(session, now + SECOND);
    await bench.sweep(now + SECOND);
    expect(await crashes(stopped)).toEqual([{ beside: 0, excuse: "stopped" }]);
    expect(await bench.row(stopped)).toMatchObject({ losses: 1, streak: 0 });
  });

  test("a session that runs a suspect is available again when the suspect fails", async () => {
    const id = await bench.submit({ retry: 5 });
    const now = await suspects([id]);
    const session = await bench.open(own(), now);
    const tried = await bench.take(session, now);
    const next = await bench.submit({ at: now });
    expect(await bench.claim(session, 9, now)).toEqual([]);
    await bench.report(tried, broke(), now + 1);
    expect((await bench.claim(session, 9, now + 1)).map((job) => job.id)).toContain(next);
  });
}
