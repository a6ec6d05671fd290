/** After everything has been pruned, nothing is left: no table keeps rows that no verb can reach any more. */
import { expect, test } from "vitest";
import { resourceLabels } from "../../core/input/resources.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { Bench } from "../conformance/bench.ts";
import { broke, DAY, done, placeOf, reportOf, SECOND, T0, TWICE, usageOf } from "../conformance/kit.ts";
import { RunBench } from "../conformance/run-kit.ts";
import { openDatabase } from "./driver.ts";
import { MIGRATIONS } from "./migrations.ts";
import { sqliteStore } from "./sqlite-store.ts";

/** What stays: the store's own values, names that are never deleted, tokens, which belong to no job, and the catalog. */
const STAYS = ["meta", "policy", "lane", "access_token", "catalog", "sqlite_sequence"];

test("a store whose jobs and sessions are all pruned is empty", async () => {
  const db = await openDatabase(":memory:");
  for (const step of MIGRATIONS) db.exec(step);
  db.exec("insert into meta (name, value) values ('generation', 'g'), ('secret', 's'), ('signing_secret', 's')");
  const bench = new Bench(async () => ({
    store: sqliteStore(db, { clock: systemClock, random: Math.random, report: () => {}, shared: false }),
  }));
  await bench.begin();
  const tables = (db.prepare("select name from sqlite_master where type = 'table'").all() as { name: string }[])
    .map((table) => table.name)
    .filter((name) => !STAYS.includes(name));
  const filled = () =>
    tables.filter((name) => (db.prepare(`select count(*) as n from ${name}`).get() as { n: number }).n > 0);

  const session = await bench.open();
  await bench.insert(Array.from({ length: 4 }, (_, i) => ({ key: `k${i}`, tags: ["a", "b"], retry: TWICE })));
  const { jobs } = await bench.claimAnswer(session, 3, T0, "claim");
  for (const job of jobs) {
    await bench.renew(session, [{ ...placeOf(job), progress: "1", usage: usageOf(1), log: "x" }], T0 + 1);
    await bench.settle([reportOf(job, done(), { log: "y" }), reportOf(job, broke())], T0 + 2);
  }
  const { jobs: waiting } = await bench.store.find({ state: ["queued"] });
  await bench.amend(waiting[0]?.id as string, { kind: "cancel" }, T0 + 2);
  const { job: parent } = await bench.running({ kind: "parent", retry: TWICE, annotations: "{}" });
  const child = await bench.submit({ kind: "child", parent: { id: parent.id, attempt: 1 }, depth: 1 });
  await bench.report(parent, { kind: "waiting", children: [child] });
  const other = await bench.submit({ kind: "parent" });
  const orphan = await bench.submit({ kind: "child", parent: { id: other, attempt: null }, depth: 1 });
  await bench.amend(other, { kind: "cancel" }, T0 + 2);
  // One that needs cpu, and spends from a budget.
  const labels = resourceLabels({ cpu: 500, memory: 100 });
  const { job: costly } = await bench.running({ kind: "costly", labels, retry: { budget: { costUsd: 1 } } });
  await bench.store.queues.setPaused("default", "mail", true, T0);
  const run = new RunBench(bench);
  const id = await run.submit();
  const asset = { hash: "asset", body: new Uint8Array([1]) };
  await run.runs.savePlaybooks([{ hash: "other", body: '{"code":"asset"}' }], [asset], T0);
  const wait = { node: "w", job: null, state: "waiting", due: T0 + DAY } as const;
  const timers = { set: [{ n: 2, dueAt: T0 + DAY }] };
  await run.advance(id, { start: [{ job: { kind: "step", retry: TWICE } }, wait], variables: { a: "1" }, timers });
  await bench.amend(id, { kind: "cancel" }, T0 + 2);
  expect(filled()).toEqual(tables.filter((name) => name !== "past_pause"));

  await bench.settle([reportOf(costly, done())], T0 + 2);
  const [step] = await run.runs.openJobs(id, 9);
  await bench.amend(step as string, { kind: "cancel" }, T0 + 3);
  const ends = [1, 2].map((n) => ({ n, state: "cancelled" as const }));
  await run.advance(id, { end: ends, finish: { state: "cancelled" }, timers: { drop: [] } }, T0 + 3);
  for (const id of [parent.id, child, orphan]) await bench.amend(id, { kind: "cancel" }, T0 + 3);
  for (const id of [parent.id, other]) await bench.store.children.cascaded(id);
  await bench.store.queues.setPaused("default", "mail", false, T0 + 3);
  for (const { id } of await bench.store.sessions.listOpen()) await bench.endSession(id, T0 + 4);
  await bench.awake(T0 + SECOND, T0 + 2 * SECOND);
  const now = T0 + 10 * DAY;
  const endedBefore = { succeeded: now, failed: now, cancelled: now };
  const query = { now, endedBefore, keyWindowMs: DAY, sessionsEndedBefore: now, namesUnusedBefore: now, limit: 100 };
  await bench.store.prune(query);
  expect(filled()).toEqual([]);
  await bench.end();
});
