/** A claim whose reply was lost is repeated with its id and gets the same jobs. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { broke, done, LEASE, placeOf, reaped, released, SECOND, T0, TWICE } from "./kit.ts";

export function claimRepeatTests(bench: Bench): void {
  test("gets the same jobs, in the same order, with the same tokens", async () => {
    for (const priority of [7, 3, 5]) await bench.submit({ priority });
    const session = await bench.open();
    const first = await bench.claimAnswer(session, 2, T0, "claim-1");
    expect(first.jobs).toHaveLength(2);
    const again = await bench.claimAnswer(session, 2, T0 + SECOND, "claim-1");
    expect(again.jobs).toEqual(first.jobs);
    expect((await bench.row(first.jobs[0]?.id as string)).attempt).toBe(1);
    expect((await bench.claimAnswer(session, 2, T0 + SECOND, "claim-2")).jobs).toHaveLength(1);
  });

  test("gets only what it still holds", async () => {
    for (let i = 0; i < 3; i++) await bench.submit({ retry: TWICE });
    const session = await bench.open();
    const { jobs } = await bench.claimAnswer(session, 3, T0, "claim-1");
    const [a, b, c] = jobs as [(typeof jobs)[0], (typeof jobs)[0], (typeof jobs)[0]];
    await bench.report(a, done(), T0);
    await bench.report(b, broke(), T0);
    const again = await bench.claimAnswer(session, 3, T0 + SECOND, "claim-1");
    expect(again.jobs.map((job) => job.id)).toEqual([c.id]);
    // Held again, but by another claim: repeating the first does not return the second attempt.
    expect(await bench.take(session, T0 + SECOND)).toMatchObject({ id: b.id, attempt: 2 });
    const third = await bench.claimAnswer(session, 3, T0 + SECOND, "claim-1");
    expect(third.jobs.map((job) => job.id)).toEqual([c.id]);
  });

  test("gets no job that was taken from it, and the next holder gets no job of the first", async () => {
    await bench.submit();
    const session = await bench.open();
    const { jobs } = await bench.claimAnswer(session, 1, T0, "claim-1");
    const [job] = jobs as [(typeof jobs)[0]];
    await bench.settleOne(reaped({ jobId: job.id, attempt: 1 }), T0 + LEASE + 1);
    const other = await bench.open({}, T0 + LEASE + 1);
    expect(await bench.claimAnswer(other, 1, T0 + LEASE + 1, "claim-1")).toMatchObject({ jobs: [{ attempt: 2 }] });
    expect(await bench.claimAnswer(session, 1, T0 + LEASE + 2, "claim-1")).toMatchObject({ jobs: [] });
  });

  test("is a new claim when the first found nothing", async () => {
    const session = await bench.open();
    expect((await bench.claimAnswer(session, 1, T0, "claim-1")).jobs).toEqual([]);
    await bench.submit();
    expect((await bench.claimAnswer(session, 1, T0, "claim-1")).jobs).toHaveLength(1);
  });

  test("gets nothing new once it is closed, and before that what it got", async () => {
    const session = await bench.open();
    const ask = (claimId: string, last: boolean) => bench.store.claim([{ session, limit: 2, claimId, last }], T0);
    expect(await ask("claim-1", true)).toMatchObject([{ alive: true, jobs: [], delivery: 1 }]);
    for (let i = 0; i < 3; i++) await bench.submit();
    expect(await ask("claim-1", false)).toMatchObject([{ jobs: [], delivery: 2 }]);
    expect(await bench.claimAnswer(session, 1, T0 + SECOND, "claim-1")).toMatchObject({ jobs: [], delivery: 3 });
    const [first] = await ask("claim-2", false);
    expect(first).toMatchObject({ delivery: 1, jobs: [{}, {}] });
    expect(await ask("claim-2", true)).toEqual([{ ...first, delivery: 2 }]);
    await bench.endSession(session, T0);
    expect(await ask("claim-3", true)).toMatchObject([{ alive: false }]);
  });

  test("whose reply is withdrawn gets nothing any more, and its jobs may be claimed again by the same session", async () => {
    for (let i = 0; i < 2; i++) await bench.submit();
    const session = await bench.open();
    const { jobs } = await bench.claimAnswer(session, 2, T0, "claim-1");
    const [a, b] = jobs as [(typeof jobs)[0], (typeof jobs)[0]];
    await bench.report(b, done(), T0);
    const withdraw = (claimId: string, delivery: number) => bench.store.withdrawClaim({ session, claimId, delivery });
    expect(await withdraw("claim-2", 1)).toEqual([]);
    expect(await withdraw("claim-1", 1)).toEqual([placeOf(a)]);
    expect(await withdraw("claim-1", 1)).toEqual([]);
    expect((await bench.claimAnswer(session, 2, T0, "claim-1")).jobs).toEqual([]);
    const report = released(placeOf(a), session);
    await bench.settleOne({ ...report, from: { kind: "release", session, undelivered: true } }, T0);
    const again = await bench.claimAnswer(session, 2, T0 + SECOND, "claim-2");
    expect(again.jobs).toMatchObject([{ id: a.id, attempt: 2 }]);
    expect((await bench.row(a.id)).losses).toBe(0);
  });

  test("that was repeated is withdrawn only when no reply was delivered, in any order", async () => {
    await bench.submit();
    const session = await bench.open();
    const { jobs } = await bench.claimAnswer(session, 1, T0, "claim-1");
    expect(await bench.claimAnswer(session, 1, T0, "claim-1")).toMatchObject({ delivery: 2, jobs });
    const withdraw = (delivery: number) => bench.store.withdrawClaim({ session, claimId: "claim-1", delivery });
    expect(await withdraw(2)).toEqual([]);
    expect(await withdraw(2)).toEqual([]); // reported twice, counts once
    expect((await bench.claimAnswer(session, 1, T0, "claim-1")).jobs).toEqual(jobs);
    expect(await withdraw(1)).toEqual([]);
    expect(await withdraw(4)).toEqual([]); // never sent
    expect(await withdraw(3)).toHaveLength(1);
  });

  test("in one list, and in calls made at once, returns no job twice", async () => {
    for (let i = 0; i < 4; i++) await bench.submit();
    const session = await bench.open();
    const request = { session, limit: 2, claimId: "claim-1" };
    const calls = [bench.store.claim([request, request], T0), bench.store.claim([request], T0)];
    const answers = (await Promise.all(calls)).flat();
    expect(answers[0]?.jobs).toHaveLength(2);
    for (const answer of answers) expect(answer.jobs).toEqual(answers[0]?.jobs);
    expect(answers.map(({ delivery }) => delivery).sort()).toEqual([1, 2, 3]);
    expect((await bench.store.find({ state: ["queued"] })).jobs).toHaveLength(2);
  });
}
