/** Attempts that are never reported: lost sessions are reaped, claims that were never received are released, only on
 *  evidence that is checked again when it is settled (F17). */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { broke, done, LEASE, placeOf, RELEASED, reaped, released, reportOf, SECOND, T0, usageOf } from "./kit.ts";

export function reaperTests(bench: Bench): void {
  test("finds running jobs of sessions whose lease expired", async () => {
    const { job } = await bench.running();
    const { job: kept, session } = await bench.running({ kind: "b" });
    await bench.renew(session, [placeOf(kept)], T0 + SECOND);
    expect(await bench.store.expired({ now: T0 + LEASE, limit: 10 })).toEqual([]);
    const found = await bench.store.expired({ now: T0 + LEASE + 1, limit: 10 });
    expect(found).toEqual([{ ...placeOf(job), why: "lost" }]);
    expect(await bench.settleOne(reaped(placeOf(job)), T0 + LEASE + 1)).toMatchObject({ state: "queued" });
    expect(await bench.row(job.id)).toMatchObject({ losses: 1, failures: 0, streak: 1 });
    expect(await bench.store.attempts(job.id)).toMatchObject([{ outcome: "lost", endedAt: T0 + LEASE + 1 }]);
    const [, , lost] = (await bench.store.events.page({ after: 0, limit: 9, jobId: job.id })).events;
    expect(lost).toMatchObject({ name: "attempt.lost", data: { why: "lease_expired", by: "engine-1", renewedAt: T0 } });
  });

  test("finds running jobs whose session is missing, at once, and settles them as lost", async ({ skip }) => {
    if (!bench.canDropSession) skip("the data of this store is not reachable from outside");
    const { job: kept } = await bench.running({ kind: "kept" });
    const { job, session } = await bench.running({ kind: "orphan" });
    const { job: unwanted, session: other } = await bench.running({ kind: "unwanted" });
    for (const id of [session, other]) await bench.dropSession(id);
    expect(await bench.amend(unwanted.id, { kind: "cancel" }, T0)).toMatchObject({ status: "applied" });
    const areOrphans = async () =>
      Promise.all([kept, job, unwanted].map(async ({ id }) => (await bench.store.history(id))?.isOrphan));
    expect(await areOrphans()).toEqual([false, true, true]);
    // No session is requested to stop: that is how a cancel detects it.
    expect(await bench.store.sessions.cancelsFor([other])).toEqual([]);
    const found = await bench.store.expired({ now: T0, limit: 10 });
    const lost = [job, unwanted].map((each) => ({ ...placeOf(each), why: "lost" }));
    expect(found).toEqual(lost);
    expect(await bench.store.expired({ now: T0, limit: 1 })).toEqual(lost.slice(0, 1));
    const answers = await bench.settle(found.map(reaped), T0);
    expect(answers).toMatchObject([{ state: "queued" }, { state: "cancelled" }]);
    expect(await bench.row(job.id)).toMatchObject({ attempt: 1, losses: 1, failures: 0 });
    expect(await bench.store.expired({ now: T0, limit: 10 })).toEqual([]);
    expect(await areOrphans()).toEqual([false, false, false]);
    expect(await bench.report(job, done(), T0)).toEqual({ status: "stale", recorded: "lost" });
    expect((await bench.row(kept.id)).state).toBe("running");
    // Their rows refer to an existing session again, as their events do.
    await bench.amend(unwanted.id, { kind: "redrive" }, T0);
    const next = await bench.open({ kinds: ["orphan", "unwanted"] });
    expect((await bench.claim(next, 9)).map(({ id }) => id).sort()).toEqual([job.id, unwanted.id].sort());
  });

  test("finds no more than its limit, and continues from there", async () => {
    const session = await bench.open();
    await bench.insert([{}, {}, {}, {}, {}]);
    await bench.claim(session, 5);
    const late = T0 + LEASE + 1;
    const first = await bench.store.expired({ now: late, limit: 2 });
    expect(first).toHaveLength(2);
    await bench.settle(first.map(reaped), late);
    const rest = await bench.store.expired({ now: late, limit: 10 });
    expect(rest).toHaveLength(3);
    for (const job of rest) expect(first).not.toContainEqual(job);
  });

  test("takes nothing from a session whose lease is current", async () => {
    const { job } = await bench.running();
    expect(await bench.settleOne(reaped(placeOf(job)), T0 + LEASE)).toEqual({ status: "stale", recorded: null });
    expect((await bench.row(job.id)).state).toBe("running");
  });

  test("takes nothing that has been started again since the check", async () => {
    const { job } = await bench.running();
    const late = T0 + LEASE + 1;
    const looked = placeOf(job);
    await bench.settleOne(reaped(looked), late);
    const session = await bench.open({}, late);
    const second = await bench.take(session, late);
    expect(await bench.settleOne(reaped(looked), late + 2 * LEASE)).toEqual({ status: "stale", recorded: "lost" });
    expect(await bench.report(second, done(), late)).toMatchObject({ status: "accepted" });
    expect(await bench.settleOne(reaped(placeOf(second)), late + 2 * LEASE)).toMatchObject({ status: "stale" });
  });

  test("a report after the end of the lease is in time if the attempt was not reaped", async () => {
    const { job } = await bench.running();
    const late = T0 + 3 * LEASE;
    expect(await bench.report(job, done(), late)).toMatchObject({ status: "accepted", state: "succeeded" });
    const answer = await bench.settleOne(reaped(placeOf(job)), late);
    expect(answer).toEqual({ status: "stale", recorded: "completed" });
  });

  test("the first of reaper and worker wins, in either order", async () => {
    const late = T0 + LEASE + 1;
    const { job: a } = await bench.running({ kind: "a" });
    const { job: b } = await bench.running({ kind: "b" });
    const order = [reaped(placeOf(a)), reportOf(a), reportOf(b), reaped(placeOf(b))];
    const answers = await bench.settle(order, late);
    expect(answers.map((answer) => answer.status)).toEqual(["accepted", "stale", "accepted", "stale"]);
    expect((await bench.row(a.id)).state).toBe("queued");
    expect((await bench.row(b.id)).state).toBe("succeeded");
  });

  test("two reapers take an attempt once and count it once", async () => {
    const { job } = await bench.running();
    const late = T0 + LEASE + 1;
    const calls = [1, 2].map(() => bench.settleOne(reaped(placeOf(job)), late));
    const answers = await Promise.all(calls);
    expect(answers.map((answer) => answer.status)).toEqual(["accepted", "stale"]);
    expect((await bench.row(job.id)).losses).toBe(1);
  });

  test("a session that ends while it holds jobs loses them at once", async () => {
    const { job, session } = await bench.running();
    await bench.endSession(session, T0 + SECOND);
    expect(await bench.sweep(T0 + SECOND)).toMatchObject({ answers: [{ status: "accepted", state: "queued" }] });
    expect(await bench.row(job.id)).toMatchObject({ losses: 1 });
    const last = (await bench.store.events.page({ after: 0, limit: 99, jobId: job.id })).events.at(-1);
    expect(last).toMatchObject({ name: "attempt.lost", data: { why: "worker_gone", session } });
  });

  test("does not wait for a session whose process is known to have exited, though reaping is held", async () => {
    const { job: late } = await bench.running({ kind: "a" });
    const { job: gone, session } = await bench.running({ kind: "b" });
    await bench.beat(T0);
    const wake = T0 + 60 * SECOND;
    await bench.beat(wake);
    await bench.endSession(session, wake, "gone");
    expect((await bench.sweep(wake)).found).toEqual([{ ...placeOf(gone), why: "lost" }]);
    expect((await bench.row(late.id)).state).toBe("running");
    const events = (await bench.store.events.page({ after: 0, limit: 99 })).events;
    expect(events.filter((event) => event.name === "worker.lost")).toMatchObject([{ data: { session, why: "gone" } }]);
  });

  test("a release takes back jobs that the session never received, and counts no failure", async () => {
    const { job, session } = await bench.running({ retry: 2 });
    const { unheard } = await bench.renew(session, [], T0 + LEASE + 1);
    const answers = await bench.settle(
      unheard.map((place) => released(place, session)),
      T0 + LEASE + 1,
    );
    expect(answers).toMatchObject([{ status: "accepted", state: "queued", runAt: T0 + LEASE + 1 + SECOND }]);
    const clean = { failures: 0, losses: 0, handbacks: 1, firstStartedAt: null, usage: null };
    expect(await bench.row(job.id)).toMatchObject(clean);
    expect(await bench.report(job, done(), T0 + LEASE + 2)).toEqual({ status: "stale", recorded: "released" });
  });

  test("a release applies only to its session and to running attempts", async () => {
    const { job, session } = await bench.running({ retry: 2 });
    const { session: other } = await bench.running({ kind: "b" });
    expect(await bench.settleOne(released(placeOf(job), other), T0)).toEqual({ status: "stale", recorded: null });
    const wrong = { jobId: job.id, attempt: 2 };
    expect(await bench.settleOne(released(wrong, session), T0)).toEqual({ status: "stale", recorded: null });
    await bench.report(job, broke());
    const answer = await bench.settleOne(released(placeOf(job), session), T0);
    expect(answer).toEqual({ status: "stale", recorded: "failed" });
  });

  test("the twentieth release in a row counts as a loss", async () => {
    const id = await bench.submit();
    let now = T0;
    for (let i = 0; i < 20; i++) {
      now = (await bench.row(id)).runAt;
      await bench.report(await bench.take(await bench.open({}, now), now), RELEASED, now);
    }
    expect(await bench.row(id)).toMatchObject({ state: "queued", handbacks: 0, losses: 1, attempt: 20 });
  });

  test("counts the usage of a lost attempt", async () => {
    const { job, session } = await bench.running({ retry: { budget: { tokens: 50 } } });
    await bench.renew(session, [{ ...placeOf(job), usage: usageOf(60) }], T0 + 1);
    const answer = await bench.settleOne(reaped(placeOf(job)), T0 + LEASE + 2);
    expect(answer).toMatchObject({ state: "failed", reason: "budget" });
    expect((await bench.row(job.id)).usage).toEqual(usageOf(60));
  });
}
