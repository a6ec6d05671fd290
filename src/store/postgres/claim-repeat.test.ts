/** A claim whose reply was lost is repeated with its id. It returns the same jobs in the same order, as long as the
 *  session is live; one that has ended gets nothing, as on SQLite. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { newSchema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { newJob, newSession, T0 } from "../conformance/kit.ts";
import type { Store } from "../store.ts";
import { openPostgres } from "./open.ts";

const newSecret = () => "a secret of the tests of repeated claims";
let store: Store;
beforeEach(async () => {
  const { url } = newSchema("claim_repeat");
  store = await openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections: 2 });
});
afterEach(() => store.close());

const session = newSession();
const claim = async (now: number) => {
  const [answer] = await store.claim([{ session: session.id, limit: 3, claimId: "claim-1" }], now);
  return { alive: answer?.alive, ids: answer?.jobs.map((job) => job.id) };
};

test("a repeated claim of a session that has ended gets nothing", async () => {
  await store.sessions.open(session, T0);
  const job = newJob();
  await store.insert([job], T0);
  expect(await claim(T0)).toEqual({ alive: true, ids: [job.id] });
  await store.sessions.close(session.id, T0 + 1, "gone");
  // The reaper may not have run yet: the job still runs in its name.
  expect(await claim(T0 + 2)).toEqual({ alive: false, ids: [] });
});

test("a repeated claim has its jobs in the order of the first", async () => {
  await store.sessions.open(session, T0);
  const jobs = [newJob({ priority: 9 }), newJob({ priority: 0 }), newJob({ priority: 5 })];
  await store.insert(jobs, T0);
  const first = await claim(T0);
  expect(first.ids).toEqual([jobs[1]?.id, jobs[2]?.id, jobs[0]?.id]);
  expect(await claim(T0 + 1)).toEqual(first);
});
