/** Draining a session, the health that it reports, and leases of different length. */
import { expect, test } from "vitest";
import type { WorkerHealth } from "../../core/worker-protocol.ts";
import type { Bench } from "./bench.ts";
import { LEASE, MINUTE, placeOf, SECOND, T0 } from "./kit.ts";

const HEALTH: WorkerHealth = {
  ...{ consecutiveFailures: 2, total: 10, failed: 3, averageMs: 12.5, inHand: 1, slots: 4, load: 0.75 },
};

export function drainTests(bench: Bench): void {
  const row = async (id: string) => (await bench.store.sessions.list()).find((session) => session.id === id);
  const engineEvents = async () => {
    const events = (await bench.store.events.page({ after: 0, limit: 99 })).events;
    return events.filter(({ jobId }) => jobId === null);
  };

  test("a draining session gets no jobs, keeps what it holds, and is notified", async () => {
    const { job, session } = await bench.running({ namespace: "n" });
    await bench.submit({ namespace: "n" });
    expect(await bench.renew(session, [placeOf(job)], T0)).toMatchObject({ alive: true, drain: false });
    expect(await bench.store.sessions.drain(session, T0 + 1)).toBe("draining");
    const none = { alive: true, drain: true, jobs: [], nextAt: null, delivery: null };
    expect(await bench.claimAnswer(session, 5, T0 + 2)).toEqual(none);
    expect(await bench.claimAnswer(session, 5, T0 + 2, "named")).toEqual(none);
    expect(await bench.renew(session, [placeOf(job)], T0 + 3)).toMatchObject({ alive: true, drain: true, lost: [] });
    expect(await row(session)).toMatchObject({ drainingAt: T0 + 1, endedAt: null, running: 1 });
    expect(await bench.store.sessions.listOpen()).toMatchObject([{ id: session, drainingAt: T0 + 1 }]);
    expect(await bench.report(job)).toMatchObject({ status: "accepted" });
    expect(await bench.claim(await bench.open({ namespace: "n" }), 5)).toHaveLength(1);
  });

  test("a session is drained once, with one event in its namespace", async () => {
    const session = await bench.open({ namespace: "n" });
    await Promise.all([bench.store.sessions.drain(session, T0 + 1), bench.store.sessions.drain(session, T0 + 1)]);
    expect(await bench.store.sessions.drain(session, T0 + 2)).toBe("draining");
    expect((await row(session))?.drainingAt).toBe(T0 + 1);
    await bench.endSession(session, T0 + 3);
    expect(await bench.store.sessions.drain(session, T0 + 4)).toBe("ended");
    expect(await bench.store.sessions.drain("ses_unknown", T0 + 4)).toBe("unknown");
    const events = await engineEvents();
    expect(events.map(({ name }) => name)).toEqual(["worker.started", "worker.draining", "worker.stopped"]);
    for (const { data } of events) expect(data).toMatchObject({ v: 1, session, namespace: "n" });
    expect(await bench.claimAnswer(session, 1, T0 + 5)).toMatchObject({ alive: false, drain: false });
  });

  test("a claim whose answer was lost is repeated also while draining", async () => {
    await bench.insert([{}, {}]);
    const session = await bench.open();
    const first = await bench.claimAnswer(session, 1, T0, "named");
    await bench.store.sessions.drain(session, T0 + 1);
    const again = await bench.claimAnswer(session, 1, T0 + 2, "named");
    expect(again).toMatchObject({ alive: true, drain: true });
    expect(again.jobs).toEqual(first.jobs);
  });

  test("a draining session that stops renewing is reaped like any other", async () => {
    const { job, session } = await bench.running();
    await bench.store.sessions.drain(session, T0 + 1);
    await bench.awake(T0, T0 + LEASE + 2 * SECOND);
    expect(await bench.row(job.id)).toMatchObject({ losses: 1 });
    expect(await row(session)).toMatchObject({ drainingAt: T0 + 1, running: 0 });
    expect((await row(session))?.endedAt).not.toBeNull();
  });

  test("health is kept as last reported, also through renewals without it", async () => {
    const session = await bench.open();
    expect(await row(session)).toMatchObject({ health: null });
    await bench.renew(session, [], T0 + 1, { health: HEALTH });
    await bench.renew(session, [], T0 + 2);
    expect(await row(session)).toMatchObject({ health: HEALTH, renewedAt: T0 + 2 });
    await bench.renew(session, [], T0 + 3, { health: { ...HEALTH, total: 11 } });
    expect((await row(session))?.health?.total).toBe(11);
    await bench.renew(session, [], T0 + 4, { health: null });
    expect(await row(session)).toMatchObject({ health: null });
  });

  test("a job that a session never received is returned after that session's lease", async () => {
    await bench.submit();
    const session = await bench.open({ leaseMs: MINUTE });
    const job = await bench.take(session);
    expect((await bench.renew(session, [], T0 + 2 * LEASE)).unheard).toEqual([]);
    expect((await bench.renew(session, [], T0 + MINUTE + 1)).unheard).toEqual([placeOf(job)]);
  });

  test("each session is late after its own lease, short or long", async () => {
    const ids = await Promise.all([{ kind: "short" }, { kind: "long" }].map((parts) => bench.submit(parts)));
    const short = await bench.open({ kinds: ["short"], leaseMs: 2 * SECOND });
    const long = await bench.open({ kinds: ["long"], leaseMs: MINUTE });
    await bench.take(short);
    await bench.take(long);
    await bench.awake(T0, T0 + 4 * SECOND);
    expect(await bench.row(ids[0] as string)).toMatchObject({ losses: 1 });
    await bench.awake(T0 + 5 * SECOND, T0 + 40 * SECOND);
    expect(await bench.row(ids[1] as string)).toMatchObject({ state: "running", losses: 0 });
  });

  test("after a sleep of all engines a long lease starts again: its session may renew later than others", async () => {
    const id = await bench.submit();
    await bench.take(await bench.open({ leaseMs: MINUTE }));
    const woke = T0 + 10 * MINUTE;
    await bench.beat(T0);
    await bench.awake(woke, woke + 50 * SECOND);
    expect(await bench.row(id)).toMatchObject({ state: "running", losses: 0 });
    await bench.awake(woke + 51 * SECOND, woke + 62 * SECOND);
    expect(await bench.row(id)).toMatchObject({ losses: 1 });
  });
}
