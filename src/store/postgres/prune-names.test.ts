/** A caller's transaction may be open for longer than names count as used. */
import { Client } from "pg";
import { expect, it, onTestFinished } from "vitest";
import { newSchema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { DAY, newJob, T0 } from "../conformance/kit.ts";
import { openPostgres } from "./open.ts";

it("the lane and policy of a job in an open transaction are not swept", async () => {
  const { url } = newSchema("sweep");
  const newSecret = () => "secret ".repeat(9);
  const store = await openPostgres({ url, newSecret, random: Math.random, clock: systemClock, connections: 2 });
  onTestFinished(() => store.close());
  const client = new Client({ connectionString: url.replace(/\?.*$/, "") });
  await client.connect();
  onTestFinished(() => client.end());
  const sweep = () =>
    store.prune({
      ...{ now: T0, endedBefore: {}, keyWindowMs: 0, sessionsEndedBefore: 0, limit: 9, namesUnusedBefore: T0 + DAY },
    });
  const job = newJob({ queue: "within", retry: 9 });
  await client.query("begin");
  expect(await store.insertWithin?.(client as never, [job], T0)).toMatchObject([{ status: "inserted" }]);
  await sweep();
  await client.query("commit");
  expect(await store.jobs([job.id])).toMatchObject([{ queue: "within", policy: { maxAttempts: 9 } }]);
  await sweep();
  expect(await store.jobs([job.id])).toMatchObject([{ queue: "within" }]);
});
