/** Queues of single runs, as `perdure run` uses them: listed until their jobs have ended, and deleted with their
 *  jobs. */
import { expect, test } from "vitest";
import { runQueue } from "../../core/names.ts";
import type { Store } from "../store.ts";
import type { Bench } from "./bench.ts";
import { DAY, decideCommandAt, lanesIn, newJob, newSession, T0 } from "./kit.ts";

const QUEUE = runQueue("0123456789abcdef");

export function runLaneTests(bench: Bench): void {
  const prune = (store: Store = bench.store) => {
    const endedBefore = { succeeded: T0 + DAY, failed: T0 + DAY, cancelled: T0 + DAY };
    return store.prune({ now: T0 + DAY, keyWindowMs: 0, sessionsEndedBefore: 0, limit: 100, endedBefore });
  };
  const lanes = () => lanesIn(bench.store);
  const queues = async () => (await bench.store.queues.counts("default", T0)).map(({ queue }) => queue);
  const insertInto = async (store: Store) => {
    const job = newJob({ queue: QUEUE });
    expect(await store.insert([job], T0)).toEqual([{ status: "inserted", id: job.id }]);
    return job.id;
  };
  const cancel = (id: string) => bench.amend(id, { kind: "cancel" }, T0 + 1);

  test("are claimed by sessions that name them, and by those for all queues: there may be no other worker", async () => {
    const [first, second] = [await bench.submit({ queue: QUEUE }), await bench.submit({ queue: QUEUE })];
    const own = await bench.open({ queues: [QUEUE], slots: 9 });
    expect((await bench.claim(own, 1)).map((job) => job.id)).toEqual([first]);
    const other = await bench.open({ queues: [runQueue("f".repeat(16))], slots: 9 });
    expect(await bench.claim(other, 9)).toEqual([]);
    const all = await bench.open({ slots: 9 });
    expect((await bench.claim(all, 9)).map((job) => job.id)).toEqual([second]);
  });

  test("are listed until their jobs have ended", async () => {
    const id = await bench.submit({ queue: QUEUE });
    const other = await bench.submit({ queue: "run-nightly" });
    expect(await queues()).toEqual([QUEUE, "run-nightly"]);
    await cancel(id);
    await cancel(other);
    expect(await queues()).toEqual(["run-nightly"]);
    await bench.store.queues.setPaused("default", QUEUE, true, T0);
    expect(await queues()).toEqual([QUEUE, "run-nightly"]);
  });

  test("leave no lane behind when their last job is pruned; other queues keep theirs", async () => {
    const ids = [await bench.submit({ queue: QUEUE }), await bench.submit({ queue: QUEUE, key: "k" })];
    const other = await bench.submit({ queue: "other" });
    for (const id of [ids[0] as string, other]) await cancel(id);
    expect(await lanes()).toBe(2);
    await prune();
    expect(await lanes()).toBe(2); // one job is left in it
    await cancel(ids[1] as string);
    await prune();
    expect(await lanes()).toBe(1);
    const again = await bench.submit({ queue: QUEUE, key: "k" });
    expect(await bench.store.jobs([again])).toMatchObject([{ queue: QUEUE }]);
    expect(await lanes()).toBe(2);
  });

  test("accept jobs again from a process that still caches their deleted lane", async () => {
    if (!bench.hasSecond) return;
    const second = await bench.second();
    await cancel(await insertInto(second));
    await prune();
    expect(await lanes()).toBe(0);
    // Another lane takes the next number: it must not be the deleted one's.
    const other = await bench.submit({ queue: runQueue("ffffffffffffffff") });
    const again = await insertInto(second);
    const ids = [other, again];
    for (const store of [bench.store, second]) {
      expect((await store.jobs(ids)).map((job) => job?.queue)).toEqual([runQueue("ffffffffffffffff"), QUEUE]);
    }
    const session = newSession({ queues: [QUEUE] });
    await second.sessions.open(session, T0);
    const [claimed] = await second.claim([{ session: session.id, limit: 9, claimId: null }], T0);
    expect(claimed?.jobs.map((job) => job.id)).toEqual([again]);
    await prune();
    expect(await lanes()).toBe(2);
  });

  test("keep their lane when pruned while jobs are submitted to them", async () => {
    if (!bench.hasSecond) return;
    const second = await bench.second();
    for (let round = 0; round < 20; round++) {
      const [ids] = await Promise.all([Promise.all([1, 2, 3].map(() => insertInto(second))), prune(), prune(second)]);
      const stored = { queue: QUEUE, state: "queued" };
      expect(await bench.store.jobs(ids)).toMatchObject(ids.map((id) => ({ id, ...stored })));
      const commands = ids.map((jobId) => ({ jobId, command: { kind: "cancel" } as const }));
      const [cancelled] = await Promise.all([bench.store.amend(commands, T0 + 1, decideCommandAt(T0 + 1)), prune()]);
      expect(cancelled).toMatchObject(ids.map(() => ({ status: "applied" })));
    }
    await prune();
    expect(await lanes()).toBe(0);
  });
}
