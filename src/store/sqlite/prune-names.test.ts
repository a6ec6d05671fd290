/** A process that is stopped between reading the time of a job and storing it, while another sweeps its lane and
 *  policy. */
import { expect, it, onTestFinished } from "vitest";
import { policiesIn, tempFile } from "../../../test/kit.ts";
import type { Command } from "../../core/job/command.ts";
import { DAY, decideCommandAt, lanesIn, newJob, newSession, T0 } from "../conformance/kit.ts";
import { openSqlite } from "./open.ts";

it("a job is stored with an existing lane and policy, whatever its process has cached", async () => {
  const path = tempFile();
  const open = async () => {
    const store = await openSqlite({ path, random: Math.random, newSecret: () => "secret ".repeat(9) });
    onTestFinished(() => store.close());
    return store;
  };
  const [stopped, other] = [await open(), await open()];
  const parts = { queue: "swept", retry: { maxAttempts: 7 } };
  const [first, late] = [newJob(parts), newJob(parts)];
  await stopped.insert([first], T0);
  await other.amend([{ jobId: first.id, command: { kind: "cancel" } }], T0, decideCommandAt(T0));
  const endedBefore = { succeeded: T0 + DAY, failed: T0 + DAY, cancelled: T0 + DAY };
  const query = { now: T0 + DAY, keyWindowMs: 0, sessionsEndedBefore: 0, limit: 100, endedBefore };
  while ((await other.prune({ ...query, namesUnusedBefore: T0 + DAY })).more);
  expect(await lanesIn(other)).toBe(0);

  // The job's time was read a second after the use of the lane was noted, a day ago.
  expect(await stopped.insert([late], T0 + 1_000)).toMatchObject([{ status: "inserted" }]);
  const session = newSession({ queues: ["swept"] });
  await other.sessions.open(session, T0 + DAY);
  const [claimed] = await other.claim([{ session: session.id, limit: 9, claimId: null }], T0 + DAY);
  expect(claimed?.jobs.map(({ id }) => id)).toEqual([late.id]);
  expect(await other.jobs([late.id])).toMatchObject([{ queue: "swept", policy: { maxAttempts: 7 } }]);
});

it("a sweep scans all jobs, a slice at a time, and keeps names that a job starts to use meanwhile", async () => {
  const path = tempFile();
  const store = await openSqlite({ path, random: Math.random, newSecret: () => "secret ".repeat(9) });
  onTestFinished(() => store.close());
  const [own, kept] = [{ maxAttempts: 7 }, { maxAttempts: 8 }];
  const amend = (jobId: string, command: Command) =>
    store.amend([{ jobId, command }], T0 + DAY, decideCommandAt(T0 + DAY));
  const [first, gone] = [newJob({}), newJob({ retry: own })];
  await store.insert([first, gone, ...Array.from({ length: 5_000 }, () => newJob({}))], T0);
  const last = newJob({ queue: "last", retry: kept });
  await store.insert([last], T0);
  await amend(first.id, { kind: "cancel" });
  await amend(gone.id, { kind: "cancel" });
  await amend(gone.id, { kind: "redrive", changes: { retry: { maxAttempts: 2 } } }); // no job refers to its first policy now
  const query = { now: T0 + DAY, keyWindowMs: 0, sessionsEndedBefore: 0, limit: 100, endedBefore: {} };
  const slice = async () => (await store.prune({ ...query, namesUnusedBefore: T0 + 1 })).more;
  expect(await slice()).toBe(true);
  await amend(first.id, { kind: "redrive", changes: { retry: own } }); // from the slice already scanned
  expect(await slice()).toBe(false);
  expect(await policiesIn(path)).toBe(4); // rows, because the cache proves nothing
  expect(await store.jobs([first.id, last.id])).toMatchObject([
    { policy: { maxAttempts: 7 } },
    { queue: "last", policy: { maxAttempts: 8 } },
  ]);
});
