/** Jobs that need cpu and memory: given only to a session with that capacity, and only as many as fit into what it and
 *  its host have left. */
import { expect, test } from "vitest";
import { capacityLabels, type Resources, resourceLabels } from "../../core/input/resources.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { Bench } from "./bench.ts";
import { broke, type JobParts, LEASE, MINUTE, reportOf, SECOND, T0 } from "./kit.ts";

const of = (cpu: number, memory: number): Resources => ({ cpu, memory });
const needing = (cpu: number, memory: number): JobParts => ({ labels: resourceLabels(of(cpu, memory)) });
const SMALL = needing(500, 100);
const BIG = needing(2_000, 1_000);

export function resourceTests(bench: Bench): void {
  const open = (cpu: number, memory: number, more: Readonly<Record<string, string>> = {}, host = "host") =>
    bench.open({ labels: { ...resourceLabels(of(cpu, memory)), ...more }, slots: 100, leaseMs: 10 * MINUTE, host });
  const times = (count: number, parts: JobParts) => Array.from({ length: count }, () => parts);
  const claim = async (session: string, limit: number, room?: Resources, now = T0) =>
    (await bench.claimAnswer(session, limit, now, null, room === undefined ? {} : { room })).jobs;

  test("goes to a session with at least that capacity, with its needs", async () => {
    await bench.insert([BIG]);
    for (const session of [
      await bench.open(),
      await open(1_999, 5_000),
      await open(4_000, 999),
      await open(4_000, 0),
    ]) {
      expect(await claim(session, 5)).toEqual([]);
    }
    expect(await claim(await open(2_000, 1_000), 5)).toMatchObject([{ needs: of(2_000, 1_000) }]);
  });

  test("one need is enough, and other labels must be equal as always", async () => {
    await bench.insert([needing(0, 700), { labels: { ...resourceLabels(of(100, 0)), gpu: "yes" } }]);
    expect(await claim(await open(100, 699), 5)).toEqual([]);
    expect(await claim(await open(0, 700, { gpu: "no" }), 5)).toMatchObject([{ needs: of(0, 700) }]);
    expect(await claim(await open(100, 0, { gpu: "yes" }), 5)).toMatchObject([{ needs: of(100, 0) }]);
  });

  test("a job without needs goes to any session, without needs in the answer", async () => {
    await bench.insert([{}, {}]);
    for (const session of [await bench.open(), await open(1_000, 1_000)]) {
      const [job] = await claim(session, 1);
      expect(job).toBeDefined();
      expect(Object.hasOwn(job as object, "needs")).toBe(false);
    }
  });

  test("returns as many as fit into the capacity, by cpu and by memory", async () => {
    const session = await open(4_000, 1_000);
    await bench.insert(times(20, SMALL));
    const held = await claim(session, 1, of(499, 1_000));
    expect(held).toEqual([]);
    held.push(...(await claim(session, 100, of(1_700, 1_000))));
    expect(held).toHaveLength(3);
    held.push(...(await claim(session, 100, of(4_000, 250))));
    expect(held).toHaveLength(5);
    held.push(...(await claim(session, 100)));
    expect(held).toHaveLength(8); // all of its cpu
    expect(await claim(session, 100)).toEqual([]);
    await bench.report(held[0] as ClaimedJob);
    await bench.report(held[5] as ClaimedJob, broke());
    expect(await claim(session, 100)).toHaveLength(2);
    expect(await claim(session, 100)).toEqual([]);
    const thin = await open(100_000, 350, {}, "thin");
    expect(await claim(thin, 100)).toHaveLength(3);
  });

  test("is shared by all sessions of a host, and no others", async () => {
    await bench.insert(times(20, SMALL));
    const [a, b] = [await open(2_000, 1_000, {}, "host-a"), await open(2_000, 1_000, {}, "host-a")];
    const first = await claim(a, 3);
    expect(first).toHaveLength(3);
    expect(await claim(b, 9)).toHaveLength(1);
    expect([await claim(a, 9), await claim(b, 9)]).toEqual([[], []]);
    expect(await claim(await open(2_000, 1_000, {}, "host-b"), 9)).toHaveLength(4);
    // Sessions that do not report their host share with nobody.
    expect(await claim(await open(500, 100, {}, ""), 9)).toHaveLength(1);
    expect(await claim(await open(500, 100, {}, ""), 9)).toHaveLength(1);
    await bench.report(first[0] as ClaimedJob);
    expect(await claim(b, 9)).toHaveLength(1);
    // Capacity held by a lost session is free after it has been settled.
    await bench.endSession(a, T0, "gone");
    expect(await claim(b, 9)).toEqual([]);
    await bench.sweep(T0);
    expect(await claim(b, 9)).toHaveLength(2);
  });

  test("a session takes no more than its own capacity of the host", async () => {
    await bench.insert(times(20, SMALL));
    const part = (cpu: number) =>
      bench.open({ labels: capacityLabels(of(cpu, 1_000), of(3_000, 1_000)), slots: 100, host: "host-c" });
    const [a, b, c] = [await part(1_000), await part(1_500), await part(1_500)];
    expect(await claim(a, 9)).toHaveLength(2);
    expect(await claim(b, 9)).toHaveLength(3);
    expect(await claim(c, 9)).toHaveLength(1); // the host has 3 cpus
  });

  test("is never given twice to concurrent claims on one host", async () => {
    await bench.insert([...times(60, needing(1_000, 0)), ...times(20, {})]);
    const sessions = await Promise.all(Array.from({ length: 6 }, () => open(7_000, 0, {}, "host-d")));
    const stores = [bench.store, ...(bench.hasSecond ? [await bench.second()] : [])];
    const calls = sessions.flatMap((session, i) =>
      [null, `claim-${i}`].map((claimId, k) =>
        (stores[(i + k) % stores.length] as typeof bench.store).claim([{ session, limit: 3, claimId }], T0),
      ),
    );
    const jobs = (await Promise.all(calls)).flat().flatMap((answer) => answer.jobs);
    for (const session of sessions) jobs.push(...(await claim(session, 9)));
    for (const session of sessions) jobs.push(...(await claim(session, 9)));
    expect(jobs.filter(({ needs }) => needs !== undefined)).toHaveLength(7);
    expect(jobs.filter(({ needs }) => needs === undefined)).toHaveLength(20);
  });

  test("a job that does not fit delays neither others nor the claim", async () => {
    const session = await open(2_000, 1_000);
    await bench.insert([BIG, BIG, SMALL, {}, { ...SMALL, runAt: T0 + 7 * SECOND }]);
    const room = of(600, 1_000);
    const given = [await claim(session, 9, room), await claim(session, 9, room)];
    expect(given.map((jobs) => jobs.map((job) => job.needs ?? null))).toEqual([[of(500, 100)], [null]]);
    // Due, but too large: no reason to claim again before the next one is due.
    expect(await bench.claimAnswer(session, 9, T0, null, { room })).toMatchObject({
      jobs: [],
      nextAt: T0 + 7 * SECOND,
    });
    expect(await bench.claimAnswer(session, 9, T0, null, { room: of(0, 0) })).toMatchObject({ jobs: [], nextAt: null });
    expect(await claim(session, 9)).toEqual([]);
    await bench.report(given[0]?.[0] as ClaimedJob);
    expect(await claim(session, 9)).toMatchObject([{ needs: of(2_000, 1_000) }]);
  });

  test("neither light nor heavy jobs starve", async () => {
    const session = await open(2_000, 1_000);
    await bench.insert([...times(12, { priority: 0 }), ...times(6, BIG), ...times(6, SMALL)]);
    const order: string[] = [];
    for (let i = 0; i < 9; i++) {
      const [job] = await claim(session, 1);
      order.push(String(job?.needs?.cpu ?? "light"));
      await bench.report(job as ClaimedJob);
    }
    const each = ["light", "2000", "500"];
    expect(order.slice(0, 3).sort()).toEqual([...each].sort());
    for (const kind of each) expect(order.filter((one) => one === kind)).toHaveLength(3);
  });

  /** Claims twelve times with all its cpu and memory free, and each time this often while the cpu is taken. */
  async function takeTurns(beside: number): Promise<string[]> {
    const session = await open(1_000, 1_000);
    const taken: string[] = [];
    for (let i = 0; i < 12; i++) {
      const [job] = await claim(session, 1);
      taken.push(String(job?.needs?.memory ?? "light"));
      const others: ClaimedJob[] = [];
      for (let k = 0; k < beside && job?.needs?.cpu; k++) others.push(...(await claim(session, 1, of(0, 800))));
      for (const one of job === undefined ? others : [job, ...others]) await bench.report(one);
    }
    return taken;
  }
  const howOften = (taken: readonly string[], memory: number) => taken.filter((one) => one === String(memory)).length;

  test("of two jobs that fit only one at a time, neither starves while light jobs arrive", async () => {
    await bench.insert([...times(12, needing(1_000, 100)), ...times(12, needing(1_000, 200)), ...times(40, {})]);
    const taken = await takeTurns(1);
    expect(Math.min(howOften(taken, 100), howOften(taken, 200)), taken.join(" ")).toBeGreaterThanOrEqual(4);
  });

  test("nor while jobs with other needs, which fit beside them, arrive", async () => {
    await bench.insert([...times(12, needing(1_000, 100)), ...times(12, needing(1_000, 200))]);
    await bench.insert([...times(40, needing(0, 50)), ...times(40, {})]);
    const taken = await takeTurns(2);
    expect(Math.min(howOften(taken, 100), howOften(taken, 200)), taken.join(" ")).toBeGreaterThanOrEqual(3);
  });

  test("within the same needs the order is by priority, then by time, over all queues", async () => {
    const session = await open(9_000, 9_000);
    const jobs = [5, 1, 9, 1, 5].map((priority, i) => ({ ...SMALL, priority, queue: `q${i}`, runAt: T0 - 9 + i }));
    const ids: string[] = [];
    for (const parts of jobs) ids.push(await bench.submit(parts));
    const got = (await claim(session, 9)).map(({ id }) => ids.indexOf(id));
    expect(got).toEqual([1, 3, 0, 4, 2]);
  });

  test("a paused queue, a job that is not due and a drained session give nothing", async () => {
    const session = await open(9_000, 9_000);
    await bench.insert([
      { ...SMALL, queue: "q" },
      { ...SMALL, runAt: T0 + MINUTE },
    ]);
    await bench.store.queues.setPaused("default", "q", true, T0);
    expect(await bench.claimAnswer(session, 9, T0)).toMatchObject({ jobs: [], nextAt: T0 + MINUTE });
    await bench.store.queues.setPaused("default", "q", false, T0);
    expect(await claim(session, 9)).toHaveLength(1);
    await bench.store.sessions.drain(session, T0);
    expect(await bench.claimAnswer(session, 9, T0 + MINUTE)).toMatchObject({ drain: true, jobs: [] });
  });

  test("a repeated claim gets the same jobs, with their needs, whatever capacity is left", async () => {
    const session = await open(2_000, 1_000);
    await bench.insert(times(3, SMALL));
    const named = (room: Resources) => bench.claimAnswer(session, 2, T0, "c-1", { room });
    const { jobs } = await named(of(2_000, 1_000));
    expect(jobs.map((job) => job.needs)).toEqual([of(500, 100), of(500, 100)]);
    expect((await named(of(0, 0))).jobs).toEqual(jobs);
    expect((await bench.claimAnswer(session, 2, T0, "c-2")).jobs).toHaveLength(1);
  });

  test("is claimed again with its needs after a failure and a loss", async () => {
    const session = await open(2_000, 1_000);
    await bench.insert([{ ...BIG, retry: { maxAttempts: 3, backoff: { type: "none" } } }]);
    const [job] = await claim(session, 1);
    const outcome = { kind: "interrupted" } as const;
    await bench.settle([reportOf(job as NonNullable<typeof job>, outcome)], T0);
    const again = (await bench.claim(session, 1, T0 + LEASE))[0];
    expect(again).toMatchObject({ attempt: 2, needs: of(2_000, 1_000) });
    await bench.endSession(session, T0 + LEASE, "gone");
    await bench.sweep(T0 + LEASE);
    const other = await bench.open({ labels: resourceLabels(of(2_000, 1_000)) }, T0 + LEASE);
    expect((await bench.claim(other, 1, T0 + LEASE + MINUTE))[0]).toBeUndefined(); // its lease is over
    await bench.renew(other, [], T0 + LEASE + MINUTE);
    expect((await bench.claim(other, 1, T0 + LEASE + MINUTE))[0]).toMatchObject({ attempt: 3 });
  });

  test("needs without due jobs have no place in the queue yet", async () => {
    const session = await open(2_000, 500);
    await bench.insert([{ ...needing(500, 0), runAt: T0 + MINUTE }]);
    expect(await claim(session, 1)).toEqual([]);
    await bench.insert([needing(1_000, 200), { queue: "light" }]);
    expect(await claim(session, 1)).toMatchObject([{ needs: of(1_000, 200) }]);
    expect((await claim(session, 1)).map(({ queue }) => queue)).toEqual(["light"]);
  });

  test("many different needs are scanned in turn, and none is forgotten", async () => {
    const session = await open(1_000_000, 1_000_000);
    const kinds = 45;
    await bench.insert([
      ...Array.from({ length: kinds }, (_, i) => needing(1_000 + i, i)),
      ...times(5, { queue: "light" }),
    ]);
    const seen = new Set<string>();
    let light = 0;
    for (let i = 0; i < 3 * kinds && seen.size + light < kinds + 5; i++) {
      for (const { needs } of await claim(session, 2)) {
        if (needs === undefined) light += 1;
        else seen.add(`${needs.cpu}/${needs.memory}`);
      }
    }
    expect([seen.size, light]).toEqual([kinds, 5]);
  });
}
