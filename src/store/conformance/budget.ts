/** Usage reported by running attempts: it never shrinks, counts at their end, and shows when a budget is used up. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { broke, done, jobId, LEASE, placeOf, reaped, T0, usageOf } from "./kit.ts";

export function budgetTests(bench: Bench): void {
  const BUDGET = { maxAttempts: 3, backoff: { type: "none" }, budget: { tokens: 100 } } as const;
  const usageAfter = async (id: string) => (await bench.row(id)).usage;

  test("a renewal returns attempts whose job has used up its budget", async () => {
    const { job, session } = await bench.running({ retry: BUDGET });
    const renew = (usage: ReturnType<typeof usageOf> | null) =>
      bench.renew(session, [{ ...placeOf(job), usage }], T0 + 1);
    expect((await renew(null)).overspent).toEqual([]);
    expect((await renew(usageOf(60, 39, 5))).overspent).toEqual([]);
    expect((await renew(usageOf(60, 40, 5))).overspent).toEqual([placeOf(job)]);
    expect((await renew(null)).overspent).toEqual([placeOf(job)]);
    expect((await renew(usageOf(1))).overspent).toEqual([placeOf(job)]);
  });

  test("earlier attempts count too, and money as tokens do", async () => {
    const retry = { maxAttempts: 3, backoff: { type: "none" }, budget: { costUsd: 1 } } as const;
    const { job, session } = await bench.running({ retry });
    await bench.report(job, broke(), T0, { usage: usageOf(1_000, 0, 0.75) });
    const again = await bench.take(session, T0 + 1);
    const renewWith = (costUsd: number) =>
      bench.renew(session, [{ ...placeOf(again), usage: usageOf(0, 0, costUsd) }], T0 + 2);
    expect((await renewWith(0.125)).overspent).toEqual([]);
    expect((await renewWith(0.25)).overspent).toEqual([placeOf(again)]);
  });

  test("without a budget nothing is used up, and only held attempts are returned", async () => {
    const { job, session } = await bench.running();
    const held = [{ ...placeOf(job), usage: usageOf(1e9, 1e9, 1e6) }];
    expect(await bench.renew(session, held, T0 + 1)).toMatchObject({ overspent: [], lost: [] });
    const { job: rich } = await bench.running({ retry: BUDGET });
    const stranger = await bench.renew(session, [{ ...placeOf(rich), usage: usageOf(1e9) }], T0 + 1);
    expect(stranger).toMatchObject({ overspent: [], lost: [placeOf(rich)] });
  });

  test("reported usage never shrinks, number by number", async () => {
    const { job, session } = await bench.running();
    const renew = (usage: ReturnType<typeof usageOf>) => bench.renew(session, [{ ...placeOf(job), usage }], T0 + 1);
    await renew(usageOf(10, 5, 0.1));
    await renew(usageOf(7, 9, 0.05));
    expect(await bench.store.setUsage(job.id, 1, usageOf(3, 3, 0.3))).toBe(true);
    await bench.settleOne(reaped(placeOf(job)), T0 + LEASE + 2);
    expect(await usageAfter(job.id)).toEqual(usageOf(10, 9, 0.3));
  });

  test("small and large numbers are returned as reported", async () => {
    const { job, session } = await bench.running();
    await bench.renew(session, [{ ...placeOf(job), usage: usageOf(1, 2 ** 50, 1e-7) }], T0 + 1);
    await bench.store.setUsage(job.id, 1, usageOf(2 ** 51, 3, 0.1 + 0.2));
    await bench.store.setUsage(job.id, 1, usageOf(0, 0, 1e-9));
    await bench.report(job, done(), T0 + 1);
    expect(await usageAfter(job.id)).toEqual(usageOf(2 ** 51, 2 ** 50, 0.1 + 0.2));
  });

  test("of a report and earlier renewals the larger number counts", async () => {
    const { job, session } = await bench.running();
    await bench.renew(session, [{ ...placeOf(job), usage: usageOf(10, 0, 1) }], T0 + 1);
    await bench.store.setUsage(job.id, 1, usageOf(0, 20, 0));
    await bench.report(job, done(), T0 + 2, { usage: usageOf(12, 5, 0.5) });
    expect(await usageAfter(job.id)).toEqual(usageOf(12, 20, 1));
    expect((await bench.store.attempts(job.id))[0]?.usage).toEqual(usageOf(12, 20, 1));
  });

  test("usage reported while running counts for a plain success", async () => {
    const { job } = await bench.running();
    expect(await bench.store.setUsage(job.id, 1, usageOf(4))).toBe(true);
    await bench.report(job, done(), T0 + 1);
    expect(await usageAfter(job.id)).toEqual(usageOf(4));
  });

  test("is used up by usage reported while running, and then ends the job", async () => {
    const { job, session } = await bench.running({ retry: BUDGET });
    await bench.store.setUsage(job.id, 1, usageOf(0, 100));
    expect((await bench.renew(session, [placeOf(job)], T0 + 1)).overspent).toEqual([placeOf(job)]);
    expect(await bench.report(job, broke(), T0 + 2)).toMatchObject({ state: "failed", reason: "budget" });
  });

  test("only a running attempt can report usage", async () => {
    const id = await bench.submit();
    expect(await bench.store.setUsage(id, 0, usageOf(1))).toBe(false);
    expect(await bench.store.setUsage(jobId(), 1, usageOf(1))).toBe(false);
    const job = await bench.take(await bench.open());
    expect(await bench.store.setUsage(id, 2, usageOf(1))).toBe(false);
    await bench.report(job, done(), T0 + 1);
    expect(await bench.store.setUsage(id, 1, usageOf(1))).toBe(false);
    expect(await usageAfter(id)).toBeNull();
  });

  test("the next attempt starts without usage", async () => {
    const { job, session } = await bench.running({ retry: BUDGET });
    await bench.store.setUsage(job.id, 1, usageOf(60));
    await bench.report(job, broke(), T0 + 1);
    const again = await bench.take(session, T0 + 2);
    expect((await bench.renew(session, [{ ...placeOf(again), usage: usageOf(30) }], T0 + 2)).overspent).toEqual([]);
    await bench.report(again, done(), T0 + 3);
    expect(await usageAfter(job.id)).toEqual(usageOf(90));
  });
}
