/** Children that are stored within somebody's transaction: their parent is locked until it ends. */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newSchema, postgresUrl } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../engine/clock.ts";
import { audit } from "../conformance/audit.ts";
import { decideCommandAt, newJob, T0 } from "../conformance/kit.ts";
import type { InsertAnswer, NewJob, Store } from "../store.ts";
import { openPostgres } from "./open.ts";

const { url } = newSchema("children");
let store: Store;
let client: pg.Client;
beforeAll(async () => {
  store = await openPostgres({ url, random: Math.random, clock: systemClock, newSecret: () => "x".repeat(40) });
  client = new pg.Client({ connectionString: postgresUrl() });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await audit(store);
  await store.close();
});

const within = (jobs: readonly NewJob[]) =>
  (store.insertWithin as NonNullable<typeof store.insertWithin>)(client, jobs, T0);
const childOf = (id: string, parts: Parameters<typeof newJob>[0] = {}) =>
  newJob({ parent: { id, attempt: null }, depth: 1, ...parts });
const cancel = (id: string) => store.amend([{ jobId: id, command: { kind: "cancel" } }], T0, decideCommandAt(T0));

async function parentJob(): Promise<string> {
  const job = newJob();
  await store.insert([job], T0);
  return job.id;
}

test("a cancel waits for the transaction, and then finds the child", async () => {
  const parent = await parentJob();
  await client.query("begin");
  const child = childOf(parent, { key: "within", annotations: '{"a":"b"}' });
  expect(await within([child, newJob()])).toMatchObject([{ status: "inserted" }, { status: "inserted" }]);
  let isOver = false;
  const cancelled = cancel(parent).then(() => {
    isOver = true;
  });
  // Asked after it over the same connections: the cancel is on its way, and would be over if nothing held it.
  for (let i = 0; i < 20; i++) await store.jobs([parent]);
  expect(isOver).toBe(false);
  await client.query("commit");
  await cancelled;
  expect(await store.cascades(9)).toContain(parent);
  expect((await store.jobs([child.id]))[0]).toMatchObject({ parentId: parent, annotations: { a: "b" } });
});

test("a child that is rolled back was never there", async () => {
  const parent = await parentJob();
  await client.query("begin");
  await within([childOf(parent)]);
  await client.query("rollback");
  await cancel(parent);
  expect(await store.cascades(99)).not.toContain(parent);
});

test("a child of an ended parent is refused, and the transaction goes on", async () => {
  const parent = await parentJob();
  const known = childOf(parent, { key: "known" });
  await store.insert([known], T0);
  await cancel(parent);
  await client.query("begin");
  const jobs = [childOf(parent), childOf(parent, { key: "known" }), newJob(), childOf("job_nobody")];
  const answers: InsertAnswer[] = await within(jobs);
  expect(answers).toMatchObject([
    { status: "refused", code: "parent_ended" },
    { status: "exists", id: known.id },
    { status: "inserted" },
    { status: "refused", code: "parent_ended" },
  ]);
  await client.query("commit");
  const rows = await store.jobs(jobs.map(({ id }) => id));
  expect(rows.map((row) => row !== null)).toEqual([false, false, true, false]);
});
