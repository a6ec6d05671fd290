/** Sessions of workers: open, drain, close, and the task defaults that they publish. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { LEASE, MINUTE, newSession, placeOf, SECOND, T0 } from "./kit.ts";

// Sessions: opened, listed, closed, buried. Also the counts of queues, which sessions reduce.

export function sessionTests(bench: Bench): void {
  const row = async (id: string) => (await bench.store.sessions.list()).find((session) => session.id === id);

  test("are listed with all their fields", async () => {
    const given = newSession({
      name: "w-ü",
      queues: ["a"],
      labels: { gpu: "1" },
      kinds: ["x", "y"],
      slots: 3,
      pid: 77,
    });
    await bench.store.sessions.open(given, T0 + 1);
    expect(await bench.store.sessions.list()).toEqual([
      {
        ...given,
        ...{ startedAt: T0 + 1, renewedAt: T0 + 1, leaseEndsAt: T0 + 1 + LEASE, endedAt: null, running: 0 },
        ...{ drainingAt: null, health: null },
      },
    ]);
    const [event] = (await bench.store.events.page({ after: 0, limit: 9 })).events;
    expect(event).toMatchObject({ jobId: null, n: 0, name: "worker.started" });
    expect(event?.data).toMatchObject({ session: given.id, namespace: "default" });
  });

  test("that have not ended are listed separately", async () => {
    const [a, b, c] = [await bench.open({ process: "p-1" }), await bench.open(), await bench.open()];
    await bench.endSession(b, T0 + 1);
    const open = await bench.store.sessions.listOpen();
    expect(open.map((session) => session.id)).toEqual([a, c]);
    expect(open[0]).toMatchObject({ process: "p-1", drainingAt: null });
  });

  test("with the same name are different sessions", async () => {
    const [a, b] = [await bench.open({ name: "same", pid: 1 }), await bench.open({ name: "same", pid: 1 })];
    await bench.insert([{}, {}]);
    const [first, second] = [await bench.take(a), await bench.take(b)];
    expect(first.token).not.toBe(second.token);
    expect((await bench.row(first.id)).worker).toBe(a);
    expect((await bench.row(second.id)).worker).toBe(b);
  });

  test("with an existing id are refused", async () => {
    const session = newSession();
    await bench.store.sessions.open(session, T0);
    await expect(bench.store.sessions.open(session, T0)).rejects.toMatchObject({ code: "store_refused" });
    expect(await bench.store.sessions.list()).toHaveLength(1);
  });

  test("end once, with one event", async () => {
    const id = await bench.open();
    await bench.endSession(id, T0 + 5);
    await bench.endSession(id, T0 + 9);
    expect(await row(id)).toMatchObject({ endedAt: T0 + 5 });
    const names = (await bench.store.events.page({ after: 0, limit: 9 })).events.map((event) => event.name);
    expect(names).toEqual(["worker.started", "worker.stopped"]);
    await bench.endSession("ses_unknown", T0 + 9);
  });

  test("that are silent and hold nothing are buried when their lease expires, with an event", async () => {
    const id = await bench.open();
    await bench.awake(T0, T0 + LEASE);
    expect(await row(id)).toMatchObject({ endedAt: null });
    await bench.beat(T0 + LEASE + SECOND);
    expect(await row(id)).toMatchObject({ endedAt: T0 + LEASE + SECOND });
    const last = (await bench.store.events.page({ after: 0, limit: 99 })).events.at(-1);
    expect(last).toMatchObject({ name: "worker.lost", data: { session: id, by: "engine-1", namespace: "default" } });
    expect(await bench.renew(id, [], T0 + LEASE + SECOND)).toMatchObject({ alive: false });
  });

  test("that still hold attempts are not buried until those are settled", async () => {
    const { job, session } = await bench.running();
    for (let s = 0; s <= 20; s++) await bench.beat(T0 + s * SECOND);
    expect(await row(session)).toMatchObject({ endedAt: null, running: 1 });
    await bench.sweep(T0 + 20 * SECOND);
    await bench.beat(T0 + 21 * SECOND);
    expect(await row(session)).toMatchObject({ endedAt: T0 + 21 * SECOND, running: 0 });
    expect((await bench.row(job.id)).worker).toBe(session);
  });

  test("that were closed are buried without an event", async () => {
    const id = await bench.open();
    await bench.endSession(id, T0 + 1);
    await bench.awake(T0, T0 + 2 * SECOND);
    const names = (await bench.store.events.page({ after: 0, limit: 9 })).events.map((event) => event.name);
    expect(names).toEqual(["worker.started", "worker.stopped"]);
    expect(await row(id)).toMatchObject({ endedAt: T0 + 1 });
  });

  test("are counted for a job that waits: those that could run it, and all live ones", async () => {
    const id = await bench.submit({ labels: { gpu: "1" }, queue: "q" });
    await bench.open({ labels: { gpu: "1" } });
    await bench.open({ labels: { gpu: "1" }, queues: ["other"] });
    await bench.open();
    await bench.open({ labels: { gpu: "1" }, kinds: ["other"] });
    await bench.open({ labels: { gpu: "1" }, namespace: "elsewhere" });
    await bench.endSession(await bench.open({ labels: { gpu: "1" } }), T0);
    expect(await bench.store.history(id)).toMatchObject({ capableSessions: 1, liveSessions: 4 });
  });

  test("reduce queues, which are counted by state and by what is due", async () => {
    await bench.insert([{}, {}, { runAt: T0 + MINUTE }, { queue: "b" }, { namespace: "c" }]);
    await bench.take(await bench.open({ queues: ["default"] }));
    const zero = { queued: 0, running: 0, blocked: 0, succeeded: 0, failed: 0, cancelled: 0 };
    const plain = { paused: false, pausedAt: null };
    expect(await bench.store.queues.counts("default", T0)).toEqual([
      { namespace: "default", queue: "b", ...plain, due: 1, counts: { ...zero, queued: 1 } },
      { namespace: "default", queue: "default", ...plain, due: 1, counts: { ...zero, queued: 2, running: 1 } },
    ]);
    expect(await bench.store.queues.counts(null, T0 + MINUTE)).toMatchObject([{ due: 1 }, { due: 1 }, { due: 2 }]);
  });

  test("have cancels to be delivered to them", async () => {
    const { job, session } = await bench.running();
    const { job: other, session: second } = await bench.running({ kind: "b" });
    await bench.running({ kind: "c" });
    await bench.amend(job.id, { kind: "cancel" });
    await bench.amend(other.id, { kind: "cancel" });
    const both = await bench.store.sessions.cancelsFor([session, second]);
    expect(both).toEqual([placeOf(job), placeOf(other)]);
    expect(await bench.store.sessions.cancelsFor([])).toEqual([]);
  });
}

// Task defaults published by sessions: which ones apply, and that sessions without any are unaffected.

export function taskDefaultTests(bench: Bench): void {
  const ask = (kind = "work", namespace = "default") => bench.store.sessions.taskDefaults(namespace, kind);

  test("are those of the newest session for the kind, in its namespace", async () => {
    expect(await ask()).toBeNull();
    const a = await bench.open({ name: "a", defaults: { work: { retry: 3, timeout: "1m" } } });
    expect(await ask()).toEqual({ session: a, worker: "a", options: { retry: 3, timeout: "1m" } });
    const b = await bench.open({
      name: "b",
      kinds: ["work", 'it\'s "x" ✓'],
      defaults: { 'it\'s "x" ✓': { priority: 2 } },
    });
    // A task without defaults publishes empty ones.
    expect(await ask()).toEqual({ session: b, worker: "b", options: {} });
    expect(await ask('it\'s "x" ✓')).toEqual({ session: b, worker: "b", options: { priority: 2 } });
    await bench.open({ name: "c", kinds: ["other"], defaults: { other: { retry: 9 } } });
    await bench.open({ name: "d", namespace: "n2", defaults: { work: { retry: 8 } } });
    expect((await ask())?.session).toBe(b);
    expect((await ask("work", "n2"))?.options).toEqual({ retry: 8 });
    expect(await ask("toString")).toBeNull();
  });

  test("of a live session come before those of an ended one, and without a live one the last apply", async () => {
    const a = await bench.open({ defaults: { work: { retry: 3 } } });
    const b = await bench.open({ defaults: { work: { retry: 4 } } });
    await bench.endSession(b, T0 + 1);
    expect((await ask())?.session).toBe(a);
    await bench.endSession(a, T0 + 2);
    expect((await ask())?.session).toBe(b);
  });

  test("a session that publishes nothing is skipped", async () => {
    const a = await bench.open({ defaults: {} });
    await bench.open({ defaults: null });
    await bench.store.sessions.open(newSession(), T0);
    expect(await ask()).toEqual({ session: a, worker: "worker-1", options: {} });
    expect((await bench.store.sessions.list()).length).toBe(3);
  });
}
