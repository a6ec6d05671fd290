/** Lanes and policies that are no longer used: deleted with the last job that refers to them, and stored again for new
 *  jobs, whatever a process has cached. */
import { expect, test } from "vitest";
import type { Store } from "../store.ts";
import type { Bench } from "./bench.ts";
import { DAY, decideCommandAt, lanesIn, MINUTE, newJob, newSession, T0 } from "./kit.ts";

const OWN = { maxAttempts: 7, retryOn: ["only this one"] };

export function unusedNameTests(bench: Bench): void {
  const prune = async (unusedBefore: number, store: Store = bench.store) => {
    const endedBefore = { succeeded: T0 + DAY, failed: T0 + DAY, cancelled: T0 + DAY };
    const query = { now: T0 + DAY, keyWindowMs: 0, sessionsEndedBefore: 0, limit: 100, endedBefore };
    while ((await store.prune({ ...query, namesUnusedBefore: unusedBefore })).more);
  };
  const expectNames = async (lanes: number, policies: number) => {
    const counted = await bench.policyCount(); // null where nobody else can reach the data
    expect([await lanesIn(bench.store), counted]).toEqual([lanes, counted === null ? null : policies]);
  };
  const cancel = (id: string, at = T0 + 1) => bench.amend(id, { kind: "cancel" }, at);

  test("are deleted after the last job that refers to them, if not used for a while", async () => {
    const ids = [await bench.submit({ queue: "a", retry: OWN }), await bench.submit({ queue: "a", retry: OWN })];
    const other = await bench.submit({ queue: "b" });
    await cancel(ids[0] as string);
    await prune(T0 + DAY);
    await expectNames(2, 2);
    await cancel(ids[1] as string);
    await prune(T0); // in use at that very moment
    await expectNames(2, 2);
    await prune(T0 + 1);
    await expectNames(1, 1);
    expect(await bench.row(other)).toMatchObject({ queue: "b" });
  });

  test("stay if used again since, though no job refers to them", async () => {
    for (const at of [T0, T0 + 2 * MINUTE]) await cancel(await bench.submit({ queue: "a", retry: OWN, at }), at);
    await prune(T0 + 2 * MINUTE);
    await expectNames(1, 1);
    await prune(T0 + 2 * MINUTE + 1);
    await expectNames(0, 0);
  });

  test("are stored again when such a job is submitted again, and its jobs are found and run", async () => {
    await cancel(await bench.submit({ queue: "a", retry: OWN }));
    await prune(T0 + DAY);
    // Others take the next numbers: they must not be the deleted ones'.
    const other = await bench.submit({ queue: "b", at: T0 + DAY });
    const again = await bench.submit({ queue: "a", retry: OWN, at: T0 + DAY });
    expect(await bench.row(again)).toMatchObject({ queue: "a", policy: { maxAttempts: 7 } });
    expect(await bench.row(other)).toMatchObject({ queue: "b", policy: { maxAttempts: 1 } });
    const session = await bench.open({ queues: ["a"], slots: 9 }, T0 + DAY);
    expect((await bench.claim(session, 9, T0 + DAY)).map(({ id }) => id)).toEqual([again]);
  });

  test("stay if a job was redriven with them", async () => {
    const id = await bench.submit({ queue: "a" });
    await cancel(id);
    await bench.amend(id, { kind: "redrive", changes: { retry: OWN } }, T0 + 2);
    await prune(T0 + DAY);
    await expectNames(1, 1); // its previous policy is deleted
    expect(await bench.row(id)).toMatchObject({ queue: "a", policy: { maxAttempts: 7 } });
  });

  test("are stored again by a process that still caches the deleted ones", async () => {
    if (!bench.hasSecond) return;
    const second = await bench.second();
    const insert = async (at: number) => {
      const job = newJob({ queue: "a", retry: OWN, at });
      expect(await second.insert([job], at)).toEqual([{ status: "inserted", id: job.id }]);
      return job.id;
    };
    await cancel(await insert(T0));
    await prune(T0 + DAY);
    await expectNames(0, 0);
    await bench.submit({ queue: "b", at: T0 + DAY });
    const again = await insert(T0 + DAY);
    for (const store of [bench.store, second]) {
      expect(await store.jobs([again])).toMatchObject([{ queue: "a", policy: { maxAttempts: 7 } }]);
    }
    const session = newSession({ queues: ["a"] });
    await second.sessions.open(session, T0 + DAY);
    const [claimed] = await second.claim([{ session: session.id, limit: 9, claimId: null }], T0 + DAY);
    expect(claimed?.jobs.map(({ id }) => id)).toEqual([again]);
  });

  test("are never pruned while jobs with them are submitted", async () => {
    const second = bench.hasSecond ? await bench.second() : bench.store;
    for (let round = 1; round <= 15; round++) {
      const at = T0 + 2 * round * MINUTE;
      const job = newJob({ queue: "a", retry: OWN, at });
      const [answers] = await Promise.all([second.insert([job], at), prune(at), prune(at, second)]);
      expect(answers).toMatchObject([{ status: "inserted" }]);
      expect(await bench.row(job.id)).toMatchObject({ queue: "a", policy: { maxAttempts: 7 } });
      const commands = [{ jobId: job.id, command: { kind: "cancel" } as const }];
      await Promise.all([bench.store.amend(commands, at + 1, decideCommandAt(at + 1)), prune(at)]);
    }
    await prune(T0 + DAY);
    await expectNames(0, 0);
  });

  test("return the owners of lanes, and which lanes exist", async () => {
    await bench.submit({ queue: "a", owner: "token:x" });
    await bench.submit({ queue: "b", owner: "token:y", labels: { gpu: "1" } });
    await bench.submit({ queue: "a", owner: "token:y" }); // it existed before
    await bench.submit({ queue: "c" });
    const lane = (queue: string, labels = {}) => ({ namespace: "default", queue, kind: "work", labels });
    const lanes = [lane("a"), lane("b"), lane("b", { gpu: "1" }), lane("d")];
    const use = (...owners: string[]) => bench.store.queues.laneUse({ namespace: "default", owners, lanes });
    expect(await use("token:x")).toEqual({ total: 3, owned: 1, exists: [true, false, true, false] });
    expect(await use("token:y")).toMatchObject({ owned: 1 });
    expect(await use("token:z")).toMatchObject({ owned: 0 });
    expect(await use("token:x", "token:y")).toMatchObject({ owned: 2 });
  });
}
