/** A claim whose reply was lost is repeated with its id and gets the same jobs. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { broke, done, LEASE, reaped, SECOND, T0, TWICE } from "./kit.ts";

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
    // Held again, but by another claim: a repeat of the first does not hand out the second attempt.
    expect(await bench.take(session, T0 + SECOND)).toMatchObject({ id: b.id, attempt: 2 });
    const third = await bench.claimAnswer(session, 3, T0 + SECOND, "claim-1");
    expect(third.jobs.map((job) => job.id)).toEqual([c.id]);
  });

  test("gets nothing of what was taken from it, and the next holder nothing of the first", async () => {
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

  test("in one list, and in calls made at once, hands nothing out twice", async () => {
    for (let i = 0; i < 4; i++) await bench.submit();
    const session = await bench.open();
    const request = { session, limit: 2, claimId: "claim-1" };
    const calls = [bench.store.claim([request, request], T0), bench.store.claim([request], T0)];
    const answers = (await Promise.all(calls)).flat();
    expect(answers[0]?.jobs).toHaveLength(2);
    for (const answer of answers) expect(answer.jobs).toEqual(answers[0]?.jobs);
    expect((await bench.store.find({ state: ["queued"] })).jobs).toHaveLength(2);
  });
}
