/** Pruning: ended jobs are deleted after their retention, with everything recorded about them; nothing else is
 *  deleted. */
import { expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import { MAX_PAGES, PAGE } from "../prune-places.ts";
import type { PruneQuery } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, DAY, decideCommandAt, done, LEASE, MINUTE, placeOf, SECOND, T0, TWICE } from "./kit.ts";

export function pruneTests(bench: Bench): void {
  const prune = (endedBefore: PruneQuery["endedBefore"], parts: Partial<PruneQuery> = {}) =>
    bench.store.prune({ now: T0 + DAY, keyWindowMs: DAY, sessionsEndedBefore: 0, limit: 100, endedBefore, ...parts });
  const everything = (at: number) => ({ succeeded: at, failed: at, cancelled: at });
  const left = async () => (await bench.store.find({ order: "oldest" })).jobs.map((job) => job.id);

  async function oneOfEach() {
    const session = await bench.open({ slots: 99 });
    await bench.insert([{}, {}, {}, {}, { runAt: T0 + DAY }]);
    const all = await left();
    const [ok, bad, , off] = all as [string, string, string, string];
    const [a, b] = await bench.claim(session, 3);
    await bench.report(a as NonNullable<typeof a>, done(), T0 + 10);
    await bench.report(b as NonNullable<typeof b>, broke(), T0 + 10);
    await bench.amend(off, { kind: "cancel" }, T0 + 10);
    return { all, ok, bad, off, session };
  }

  test("deletes only ended jobs, by state; running and waiting ones stay", async () => {
    const { all, ok, bad, off } = await oneOfEach();
    expect(await prune({})).toMatchObject({ jobs: 0, more: false });
    expect(await prune({ succeeded: T0 + DAY })).toMatchObject({ jobs: 1, more: false });
    expect(await left()).toEqual(all.filter((id) => id !== ok));
    expect(await prune({ failed: T0 + DAY })).toMatchObject({ jobs: 1, more: false });
    expect(await left()).toEqual(all.filter((id) => id !== ok && id !== bad));
    expect(await prune(everything(T0 + 400 * DAY), { now: T0 + 400 * DAY })).toMatchObject({ jobs: 1 });
    expect(await left()).toEqual(all.filter((id) => ![ok, bad, off].includes(id)));
  });

  test("requested by a person leaves an event with the number of jobs, an automatic one leaves none", async () => {
    await oneOfEach();
    const recorded = async (namespace?: string) =>
      (
        await bench.store.events.page({ after: 0, limit: 100, ...(namespace === undefined ? {} : { namespace }) })
      ).events
        .filter(({ name }) => name === "jobs.pruned")
        .map(({ jobId, n, at, data }) => ({ jobId, n, at: at - T0, ...data }));
    await prune({ succeeded: T0 + DAY });
    expect(await recorded()).toEqual([]);
    expect(await prune(everything(T0 + DAY), { by: "user:me" })).toMatchObject({ jobs: 2 });
    expect(await prune(everything(T0 + DAY), { now: T0 + DAY + 1, by: "user:twice" })).toMatchObject({ jobs: 0 });
    const event = { jobId: null, n: 0, at: DAY, v: 1, by: "user:me", jobs: 1 };
    expect(await recorded()).toEqual(["failed", "cancelled"].map((state) => ({ ...event, state })));
    expect(await recorded("default")).toEqual([]);
  });

  test("depends on the time of a job's end, not of its submit", async () => {
    const early = await bench.submit({ at: T0 });
    const later = await bench.submit({ at: T0 + 1 });
    await bench.amend(later, { kind: "cancel" }, T0 + 5 * SECOND);
    await bench.amend(early, { kind: "cancel" }, T0 + 9 * SECOND);
    expect(await prune({ cancelled: T0 + 5 * SECOND })).toMatchObject({ jobs: 0 });
    expect(await prune({ cancelled: T0 + 5 * SECOND + 1 })).toMatchObject({ jobs: 1 });
    expect(await left()).toEqual([early]);
  });

  test("deletes everything recorded about a job, and nothing of its neighbours", async () => {
    const { job: kept } = await bench.running({ tags: ["t", "u"], key: "kept", kind: "a" });
    await bench.report(kept, done('"kept"'), T0 + DAY, { log: "kept" });
    const { job, session } = await bench.running({ tags: ["t", "u"], key: "gone", kind: "b", retry: TWICE });
    await bench.renew(session, [{ ...placeOf(job), progress: "1", log: "x" }], T0 + 1);
    await bench.report(job, done(), T0 + 2, { log: "y" });
    await bench.report(job, broke(), T0 + 3);
    expect(await prune(everything(T0 + DAY))).toMatchObject({ jobs: 1 });
    expect(await bench.store.history(job.id)).toBeNull();
    expect(await bench.store.attempts(job.id)).toEqual([]);
    expect(await bench.settleOne({ ...reportFor(job), attempt: 1 }, T0 + DAY)).toEqual({ status: "unknown_job" });
    expect((await bench.store.find({ tag: "t" })).jobs.map((row) => row.id)).toEqual([kept.id]);
    expect((await bench.store.find({ key: "gone" })).jobs).toEqual([]);
    expect(await bench.store.attempts(kept.id)).toMatchObject([{ result: '"kept"', log: "kept" }]);
  });

  function reportFor(job: { readonly id: string; readonly token: string }) {
    const from = { kind: "worker", token: job.token, reportId: "late" } as const;
    return { jobId: job.id, attempt: 1, from, outcome: done(), usage: null, log: null };
  }

  test("deletes no more than its limit, oldest first, and reports whether there is more", async () => {
    const answers = await bench.insert(Array.from({ length: 12 }, () => ({})));
    const ids = answers.map((answer) => (answer as { id: string }).id);
    for (const id of ids) await bench.amend(id, { kind: "cancel" }, T0 + 1);
    expect(await prune({ cancelled: T0 + DAY }, { limit: 5 })).toMatchObject({ jobs: 5, more: true });
    expect(await left()).toEqual(ids.slice(5));
    expect(await prune({ cancelled: T0 + DAY }, { limit: 5 })).toMatchObject({ jobs: 5, more: true });
    expect(await prune({ cancelled: T0 + DAY }, { limit: 5 })).toMatchObject({ jobs: 2, more: false });
  });

  test("skips jobs that must stay, however many there are", async () => {
    const answers = await bench.insert(Array.from({ length: 1_200 }, () => ({})));
    const ids = answers.map((answer) => (answer as { id: string }).id);
    // The oldest thousand end last.
    const end = (some: string[], at: number) => Promise.all(some.map((id) => bench.amend(id, { kind: "cancel" }, at)));
    await end(ids.slice(1_000), T0 + 1);
    await end(ids.slice(0, 1_000), T0 + 10);
    expect(await prune({ cancelled: T0 + 5 }, { limit: 1_000 })).toMatchObject({ jobs: 200, more: false });
    await prune({ cancelled: T0 + DAY }, { limit: 5_000 });
    expect(await left()).toEqual([]);
  });

  test.runIf(IS_FULL)("checks a bounded number of jobs at a time, and continues where it stopped", async () => {
    const parent = await bench.submit({ runAt: T0 + 400 * DAY });
    const size = MAX_PAGES * PAGE + 100;
    const children = Array.from({ length: size }, () => ({ parent: { id: parent, attempt: null }, depth: 1 }));
    const stored = [...(await bench.insert(children)), ...(await bench.insert([{}]))];
    const ids = stored.map((answer) => (answer as { id: string }).id);
    const commands = ids.map((jobId) => ({ jobId, command: { kind: "cancel" } as const }));
    await bench.store.amend(commands, T0 + 1, decideCommandAt(T0 + 1));
    // The children stay while their parent is live, and are many; the last one is behind all of them.
    const round = async () => [await prune({ cancelled: T0 + DAY }), await prune({ cancelled: T0 + DAY })];
    expect(await round()).toEqual([
      { jobs: 0, ids: [], more: true },
      { jobs: 1, ids: ids.slice(-1), more: false },
    ]);
    // A new round begins with the first.
    await bench.amend(parent, { kind: "cancel" }, T0 + 2);
    const { jobs } = await prune({ cancelled: T0 + DAY }, { limit: 1_000 });
    expect(jobs).toBe(1_000);
  });

  test("is not blocked by a job that was submitted while the clock was wrong", async () => {
    const future = T0 + 400 * DAY;
    const odd = await bench.submit({ at: future });
    await bench.amend(odd, { kind: "cancel" }, future + 1);
    const id = await bench.submit({ at: T0 + 1 });
    await bench.amend(id, { kind: "cancel" }, T0 + 2);
    expect(await prune(everything(T0 + DAY))).toMatchObject({ jobs: 1 });
    expect(await left()).toEqual([odd]);
  });

  test("leaves no stub of a child's key, so that a redriven parent can submit the child again", async () => {
    const { job, session } = await bench.running();
    const child = { key: "step", parent: { id: job.id, attempt: null }, depth: 1 };
    const first = await bench.submit(child);
    const beside = await bench.submit({ key: "beside", runAt: T0 });
    for (const each of await bench.claim(session, 2)) await bench.report(each, done(), T0 + 1);
    await bench.report(job, broke(), T0 + 2);
    expect(await prune({ succeeded: T0 + MINUTE }, { now: T0 + MINUTE })).toMatchObject({ jobs: 2 });
    await bench.amend(job.id, { kind: "redrive" }, T0 + MINUTE);
    const [again, kept] = await bench.insert([{ ...child }, { key: "beside", runAt: T0 }]);
    expect(again).toMatchObject({ status: "inserted" });
    expect((again as { id: string }).id).not.toBe(first);
    expect(kept).toMatchObject({ status: "exists", id: beside, pruned: true });
  });

  test("does not delete a redriven job, although it first ended long ago", async () => {
    const id = await bench.submit();
    await bench.amend(id, { kind: "cancel" }, T0 + 1);
    await bench.amend(id, { kind: "redrive" }, T0 + 2);
    expect(await prune(everything(T0 + DAY))).toMatchObject({ jobs: 0 });
    expect(await left()).toEqual([id]);
  });

  test("hides sessions that ended long ago; jobs keep theirs", async () => {
    const { job, session: remembered } = await bench.running();
    await bench.report(job, broke(), T0 + 1);
    const old = await bench.open({}, T0 - DAY);
    await bench.endSession(old, T0 - DAY + 1);
    await bench.endSession(remembered, T0 + 2);
    const alive = await bench.open({ leaseMs: 90 * DAY });
    await bench.awake(T0 + 3 * SECOND, T0 + 4 * SECOND);
    await prune({}, { sessionsEndedBefore: T0 + DAY });
    expect((await bench.store.sessions.list()).map((session) => session.id)).toEqual([alive]);
    for (const id of [old, remembered]) expect(await bench.renew(id, [], T0 + 5)).toMatchObject({ alive: false });
    // The row of a job refers to its session, as its events do, as long as the row exists.
    expect((await bench.row(job.id)).worker).toBe(remembered);
    expect(await bench.store.attempts(job.id)).toMatchObject([{ session: remembered }]);
    if (bench.canReopen) await bench.reopen();
    expect((await bench.row(job.id)).worker).toBe(remembered);
    await prune(everything(T0 + DAY), { sessionsEndedBefore: T0 + DAY });
    expect((await bench.store.sessions.list()).map((session) => session.id)).toEqual([alive]);
  });

  test("jobs keep their session whatever the clock did meanwhile", async () => {
    const waiting = await bench.submit({ runAt: T0 + DAY });
    const early = await bench.submit({ kind: "early" });
    // The clock was a day ahead when those two were submitted.
    const back = T0 - DAY;
    const session = await bench.open({ kinds: ["early", "late"], slots: 9 }, back);
    const late = await bench.submit({ kind: "late", at: back });
    const idle = await bench.open({}, back);
    await bench.amend(early, { kind: "reschedule", runAt: back }, back);
    const jobs = await bench.claim(session, 9, back);
    expect(jobs.map((job) => job.id).sort()).toEqual([early, late].sort());
    for (const job of jobs) await bench.report(job, broke(), back + 1);
    for (const each of [session, idle]) await bench.endSession(each, back + 2);
    await bench.awake(back + 3 * SECOND, back + 4 * SECOND);
    await prune({}, { now: back + MINUTE, sessionsEndedBefore: back + MINUTE });
    expect(await bench.store.sessions.list()).toEqual([]);
    if (bench.canReopen) await bench.reopen();
    for (const id of [early, late]) {
      expect((await bench.row(id)).worker).toBe(session);
      expect(await bench.store.attempts(id)).toMatchObject([{ session }]);
    }
    await bench.amend(waiting, { kind: "cancel" }, back + 5 * SECOND);
    await prune(everything(T0 + DAY), { sessionsEndedBefore: T0 + DAY });
    expect(await left()).toEqual([]);
  });

  test("never confuses a new session with one that was pruned", async () => {
    const first = await bench.running({ kind: "a" });
    await bench.report(first.job, done(), T0 + 1);
    await bench.endSession(first.session, T0 + 2);
    await bench.beat(T0 + 3);
    await prune(everything(T0 + DAY), { sessionsEndedBefore: T0 + DAY });
    await prune(everything(T0 + DAY), { sessionsEndedBefore: T0 + DAY });
    expect(await bench.store.sessions.list()).toEqual([]);
    const { job, session } = await bench.running({ kind: "b", at: T0 + DAY });
    expect((await bench.row(job.id)).worker).toBe(session);
    expect(await bench.renew(session, [placeOf(job)], T0 + DAY + LEASE)).toMatchObject({ lost: [] });
    expect(await bench.report(job, done(), T0 + DAY + LEASE)).toMatchObject({ status: "accepted" });
  });
}
