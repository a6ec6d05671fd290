/** Beats: after a silence of all engines, or a clock jump, late sessions prove nothing for one lease (F37): nothing is
 *  reaped or buried, and an event records why. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { DAY, done, LEASE, MINUTE, placeOf, SECOND, T0 } from "./kit.ts";

export function beatTests(bench: Bench): void {
  const held = async () =>
    (await bench.store.events.page({ after: 0, limit: 999 })).events.filter(
      (event) => event.name === "engine.reaping_held",
    );

  test("in time do not hold the reaper", async () => {
    expect(await bench.beat(T0)).toEqual({ heldUntil: expect.any(Number), gapMs: null });
    const answer = await bench.beat(T0 + 3 * SECOND);
    expect(answer.gapMs).toBeNull();
    expect(answer.heldUntil).toBeLessThanOrEqual(T0);
    expect(await held()).toEqual([]);
  });

  test("have the time at which they are stored, however long they waited", async () => {
    await bench.beat(T0);
    let now = T0;
    const rest = { maxGapMs: 3 * SECOND, holdMs: LEASE, clockJumpMs: 0, engine: "engine-2" };
    const late = bench.store.beat({ ...rest, time: () => ({ now }) });
    now = T0 + 2 * SECOND;
    expect((await late).gapMs).toBeNull();
    expect((await bench.beat(T0 + 5 * SECOND)).gapMs).toBeNull();
    expect(await held()).toEqual([]);
  });

  test("from many engines count as one", async () => {
    for (let s = 0; s < 12; s += 2) await bench.beat(T0 + s * SECOND, 0, `engine-${s % 3}`);
    expect(await held()).toEqual([]);
  });

  test("after a gap of more than three seconds hold the reaper for one lease", async () => {
    const { job } = await bench.running();
    await bench.beat(T0);
    const wake = T0 + MINUTE;
    expect(await bench.beat(wake)).toEqual({ heldUntil: wake + LEASE, gapMs: MINUTE });
    expect(await held()).toMatchObject([
      { at: wake, jobId: null, data: { gapMs: MINUTE, until: wake + LEASE, engine: "engine-1" } },
    ]);
    expect(await bench.store.expired({ now: wake, limit: 9 })).toEqual([]);
    await bench.awake(wake + SECOND, wake + LEASE - SECOND);
    expect((await bench.row(job.id)).state).toBe("running");
    await bench.awake(wake + LEASE, wake + LEASE + SECOND);
    expect(await bench.row(job.id)).toMatchObject({ state: "queued", losses: 1 });
  });

  test("leave a session that renews within the hold its jobs", async () => {
    const { job, session } = await bench.running();
    await bench.beat(T0);
    const wake = T0 + MINUTE;
    await bench.beat(wake);
    await bench.renew(session, [placeOf(job)], wake + 5 * SECOND);
    await bench.awake(wake + SECOND, wake + LEASE + 2 * SECOND);
    expect(await bench.report(job, done(), wake + LEASE + 3 * SECOND)).toMatchObject({ status: "accepted" });
  });

  test("do not bury a silent session during the hold", async () => {
    const session = await bench.open();
    await bench.beat(T0);
    await bench.beat(T0 + MINUTE);
    expect(await bench.renew(session, [], T0 + MINUTE + SECOND)).toMatchObject({ alive: true });
  });

  test("do not delay the expiry of jobs that waited too long", async () => {
    await bench.submit({ expireInMs: SECOND });
    await bench.beat(T0);
    await bench.beat(T0 + MINUTE);
    expect(await bench.store.expired({ now: T0 + MINUTE, limit: 9 })).toMatchObject([{ why: "queue_timeout" }]);
  });

  test("hold after a jump of the clock forward, though no beat was missed", async () => {
    const { job } = await bench.running();
    await bench.beat(T0);
    const jumped = T0 + DAY + SECOND;
    expect(await bench.beat(jumped, DAY)).toMatchObject({ heldUntil: jumped + LEASE });
    expect(await held()).toMatchObject([{ data: { clockJumpMs: DAY, why: expect.stringMatching("clock") } }]);
    expect(await bench.store.expired({ now: jumped, limit: 9 })).toEqual([]);
    expect((await bench.row(job.id)).state).toBe("running");
  });

  test("hold after a jump that another engine's beats hide", async () => {
    await bench.beat(T0, 0, "engine-1");
    expect(await bench.beat(T0 + SECOND, 20 * SECOND, "engine-2")).toEqual({
      ...{ heldUntil: T0 + SECOND + LEASE, gapMs: SECOND },
    });
  });

  test("hold after a jump back that is less than the silence before it", async () => {
    await bench.beat(T0);
    expect(await bench.beat(T0 + SECOND, -20 * SECOND)).toMatchObject({ heldUntil: T0 + SECOND + LEASE });
  });

  test("hold after a jump back that happened before the engine was started", async () => {
    await bench.running();
    await bench.beat(T0);
    const back = T0 - DAY;
    expect(await bench.beat(back, 0, "engine-2")).toEqual({ heldUntil: back + LEASE, gapMs: -DAY });
    expect(await held()).toHaveLength(1);
    expect((await bench.store.sessions.list())[0]?.leaseEndsAt).toBe(back + LEASE);
  });

  test("after a jump back no lease becomes endless", async () => {
    const { job, session } = await bench.running();
    await bench.beat(T0);
    const back = T0 - DAY;
    const answer = await bench.beat(back, -DAY);
    expect(answer).toEqual({ heldUntil: back + LEASE, gapMs: -DAY });
    const [row] = await bench.store.sessions.list();
    expect(row?.leaseEndsAt).toBe(back + LEASE);
    await bench.awake(back + SECOND, back + LEASE + SECOND);
    expect(await bench.row(job.id)).toMatchObject({ state: "queued", losses: 1 });
    expect(await bench.renew(session, [placeOf(job)], back + LEASE + 2 * SECOND)).toMatchObject({
      lost: [placeOf(job)],
    });
    // The store's time went back, so the times that follow it must too.
    expect((await bench.row(job.id)).runAt).toBeLessThan(T0);
  });

  test("after a jump back no hold becomes endless", async () => {
    await bench.beat(T0);
    await bench.beat(T0 + MINUTE);
    const back = T0 - DAY;
    await bench.beat(back, -DAY);
    for (let s = 1; s <= 15; s++) await bench.beat(back + s * SECOND);
    const { job } = await bench.running({ at: back + 15 * SECOND });
    await bench.awake(back + 16 * SECOND, back + 32 * SECOND);
    expect((await bench.row(job.id)).losses).toBe(1);
  });

  test("ignore a small step of the clock", async () => {
    await bench.beat(T0);
    expect((await bench.beat(T0 - 2 * SECOND, -2 * SECOND)).gapMs).toBeNull();
    expect((await bench.beat(T0 + SECOND, 2 * SECOND)).gapMs).toBeNull();
    expect(await held()).toEqual([]);
  });

  test("a job that fell due in the jump starts once", async () => {
    const id = await bench.submit({ runAt: T0 + MINUTE });
    const jumped = T0 + DAY;
    const session = await bench.open({}, jumped);
    expect(await bench.claim(session, 9, jumped)).toHaveLength(1);
    expect(await bench.claim(session, 9, jumped + 1)).toEqual([]);
    expect((await bench.row(id)).attempt).toBe(1);
  });
}
