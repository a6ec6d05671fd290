/** Pauses: no job of the queue starts, and its waiting jobs do not expire. Deadlines still apply. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { broke, DAY, SECOND, T0, TWICE } from "./kit.ts";

const WAIT = 10 * SECOND;

export function pauseTests(bench: Bench): void {
  const pause = (paused: boolean, at: number, queue = "default") =>
    bench.store.queues.setPaused("default", queue, paused, at);
  /** Sweeps each second like an engine, 1 ms after it: a job is overdue after its last millisecond. Returns when the
   *  job ended, in seconds after T0. */
  async function endedAt(id: string, from: number, to: number): Promise<number | null> {
    for (let s = from; s <= to; s++) {
      await bench.sweep(T0 + s * SECOND + 1);
      if ((await bench.row(id)).state === "failed") return s;
    }
    return null;
  }

  test("stop the expiry of a waiting job while they last", async () => {
    const id = await bench.submit({ expireInMs: WAIT });
    await pause(true, T0 + 5 * SECOND);
    expect(await endedAt(id, 5, 29)).toBeNull();
    await pause(false, T0 + 30 * SECOND);
    // 5 s had passed before the pause, 5 are left after it.
    expect(await endedAt(id, 30, 34)).toBeNull();
    expect(await endedAt(id, 35, 45)).toBe(35);
  });

  test("allow a claim afterwards of a job that would have expired during them", async () => {
    const id = await bench.submit({ expireInMs: WAIT });
    const session = await bench.open({ leaseMs: 10 * 60 * SECOND });
    await pause(true, T0 + SECOND);
    for (let s = 1; s <= 60; s++) await bench.sweep(T0 + s * SECOND);
    await pause(false, T0 + 61 * SECOND);
    await bench.sweep(T0 + 61 * SECOND);
    expect(await bench.take(session, T0 + 62 * SECOND)).toMatchObject({ id });
  });

  test("add up", async () => {
    const id = await bench.submit({ expireInMs: WAIT });
    for (const [from, to] of [[2, 5] as const, [6, 10] as const, [16, 20] as const, [22, 90] as const]) {
      await pause(true, T0 + from * SECOND);
      await pause(false, T0 + to * SECOND);
    }
    // 10 + 3 + 4 + 4: the last one starts after it has expired.
    expect(await endedAt(id, 20, 20)).toBeNull();
    expect(await endedAt(id, 21, 40)).toBe(21);
  });

  test("before a job was due do not extend its wait", async () => {
    const id = await bench.submit({ runAt: T0 + 20 * SECOND, expireInMs: WAIT });
    await pause(true, T0 + 5 * SECOND);
    await pause(false, T0 + 22 * SECOND);
    // Two seconds of the pause overlap the wait.
    expect(await endedAt(id, 22, 31)).toBeNull();
    expect(await endedAt(id, 32, 50)).toBe(32);
  });

  test("that start after it expired do not save it", async () => {
    const id = await bench.submit({ expireInMs: WAIT });
    await pause(true, T0 + 11 * SECOND);
    expect(await endedAt(id, 11, 20)).toBe(11);
  });

  test("of another queue or namespace have no effect", async () => {
    const id = await bench.submit({ expireInMs: WAIT });
    await pause(true, T0, "other");
    await bench.store.queues.setPaused("elsewhere", "default", true, T0);
    expect(await endedAt(id, 9, 20)).toBe(10);
  });

  test("do not stop a deadline", async () => {
    const id = await bench.submit({ expireInMs: WAIT, deadlineAt: T0 + 7 * SECOND });
    await pause(true, T0 + SECOND);
    expect(await endedAt(id, 1, 20)).toBe(7);
    expect((await bench.row(id)).reason).toBe("unschedulable");
  });

  test("count for a retry's wait as for the first", async () => {
    const { job } = await bench.running({ expireInMs: WAIT, retry: TWICE });
    await bench.report(job, broke(), T0);
    await pause(true, T0 + 3 * SECOND);
    await pause(false, T0 + 6 * SECOND);
    expect(await endedAt(job.id, 10, 13)).toBeNull();
    expect(await endedAt(job.id, 14, 30)).toBe(14);
  });

  test("are kept as long as a job may wait, whatever is pruned meanwhile", async () => {
    const id = await bench.submit({ expireInMs: 30 * DAY });
    await pause(true, T0 + DAY);
    await pause(false, T0 + 6 * DAY);
    const now = T0 + 20 * DAY;
    await bench.store.prune({ now, endedBefore: {}, keyWindowMs: DAY, sessionsEndedBefore: now - DAY, limit: 100 });
    expect(await endedAt(id, 30 * 86_400, 30 * 86_400)).toBeNull();
    expect(await endedAt(id, 35 * 86_400, 35 * 86_400)).toBe(35 * 86_400);
  });

  test("are shown with the counts and in a job's history, and repeat without effect", async () => {
    const id = await bench.submit({ queue: "mail" });
    await pause(true, T0 + 1, "mail");
    await pause(true, T0 + 2, "mail");
    expect(await bench.store.queues.counts("default", T0)).toMatchObject([
      { queue: "mail", paused: true, pausedAt: T0 + 1 },
    ]);
    expect(await bench.store.history(id)).toMatchObject({ queuePausedAt: T0 + 1 });
    await pause(false, T0 + 3, "mail");
    await pause(false, T0 + 4, "mail");
    expect(await bench.store.queues.counts("default", T0)).toMatchObject([
      { queue: "mail", paused: false, pausedAt: null },
    ]);
    expect(await bench.store.history(id)).toMatchObject({ queuePausedAt: null });
    const names = (await bench.store.events.page({ after: 0, limit: 99 })).events.map((event) => event.name);
    expect(names).toEqual(["job.submitted", "queue.paused", "queue.resumed"]);
  });

  test("show a queue that no job has named yet", async () => {
    await pause(true, T0, "new");
    expect(await bench.store.queues.counts(null, T0)).toMatchObject([{ queue: "new", paused: true, due: 0 }]);
  });

  test("let running jobs finish", async () => {
    const { job } = await bench.running();
    await pause(true, T0 + 1);
    expect(await bench.report(job)).toMatchObject({ status: "accepted" });
  });
}
