/** Runs on PostgreSQL where connections meet: messages that become visible out of order, several engines on one database, and what a
 *  pruned run leaves in the tables. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { ask, until, withClient } from "../../../test/postgres/client.ts";
import { newSchema, postgresUrl } from "../../../test/postgres/kit.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { Bench } from "../conformance/bench.ts";
import { DAY, decideAt, done, newSession, reportOf, T0 } from "../conformance/kit.ts";
import { newRun, RunBench, runsOf, saveDefinition, writeOf } from "../conformance/run-kit.ts";
import type { Store } from "../store.ts";
import { openPostgres } from "./open.ts";

const newSecret = () => "a secret of the advance tests";
let url = "";
let schema = "";
const open = () => openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections: 4 });
const bench = new Bench(async () => ({ store: await open(), second: open }));
const run = new RunBench(bench);
let other: Store;

beforeEach(async () => {
  ({ url, schema } = newSchema("advance"));
  await bench.begin();
  other = await bench.second();
});
afterEach(() => bench.end());

const count = async (what: string) => {
  const [row] = await ask<{ rows: number }>(postgresUrl(), `select count(*)::int as rows from "${schema}".${what}`);
  return row?.rows;
};

test("an end that takes its number first and commits last is read by the next advance", async () => {
  const { id, jobs } = await run.started([{}, { visit: 2 }]);
  const [one, two] = jobs as [string, string];
  const claimed = await bench.claim(await bench.open(), 2);
  const report = (job: string, log: string | null) =>
    reportOf(claimed.find((each) => each.id === job) as ClaimedJob, done(), { log });
  await withClient(postgresUrl(), async (client) => {
    // The settle writes its log after its message, and waits there for this transaction.
    await client.query("begin");
    await client.query(
      `insert into "${schema}".log_chunk select job, 1, 1, 'x' from "${schema}".submission where id = $1`,
      [two],
    );
    const late = other.settle([report(two, "a line")], T0, decideAt(T0));
    await until("the settle waits", async () => {
      const { rows } = await client.query("select 1 from pg_locks where not granted and locktype = 'transactionid'");
      return rows.length > 0;
    });
    await bench.settle([report(one, null)], T0);
    const loaded = await run.load(id);
    expect(loaded.messages.map(({ ref }) => ref)).toEqual([one]);
    await client.query("rollback");
    await late;
    expect(await run.write(loaded, { end: [{ n: 1 }] })).toEqual({ status: "written" });
  });
  expect(await run.due()).toEqual([id]);
  const loaded = await run.load(id);
  expect(loaded.messages.map(({ ref }) => ref)).toEqual([two]);
  expect(await run.write(loaded, { end: [{ n: 2 }], finish: { state: "succeeded" } })).toEqual({ status: "written" });
});

test("two engines and two workers: no step is made twice, no end is lost, and every run ends", async () => {
  const STEPS = 5;
  await saveDefinition(bench.store);
  const runs = Array.from({ length: 30 }, () => newRun());
  await bench.store.insert(runs, T0);
  const left = new Set(runs.map(({ id }) => id));
  const engine = async (store: Store) => {
    const { due, load, advance } = runsOf(store);
    while (left.size > 0) {
      const loaded = (await load((await due({ now: T0, limit: 20 })).runs, T0)).filter((each) => each !== null);
      const writes = loaded.map((each) => {
        const end = each.steps.map(({ n }) => ({ n }));
        const isLast = each.run.made >= STEPS;
        const more = isLast ? { finish: { state: "succeeded" as const } } : { start: [{ visit: each.run.made + 1 }] };
        return { write: writeOf(each, { end, ...more }), isLast };
      });
      const answers = await advance(
        writes.map(({ write }) => write),
        T0,
      );
      answers.forEach(({ status }, i) => {
        const { write, isLast } = writes[i] as (typeof writes)[number];
        if (status === "written" && isLast) expect(left.delete(write.run)).toBe(true);
      });
    }
  };
  const worker = async (store: Store) => {
    const session = newSession();
    await store.sessions.open(session, T0);
    while (left.size > 0) {
      const [answer] = await store.claim([{ session: session.id, limit: 10, claimId: null }], T0);
      const reports = (answer?.jobs ?? []).map((job) => reportOf(job));
      if (reports.length > 0) await store.settle(reports, T0, decideAt(T0));
    }
  };
  await Promise.all([engine(bench.store), engine(other), worker(bench.store), worker(other)]);
  expect(await run.due()).toEqual([]);
  expect([await count("job where run is not null"), await count("step where state = 3")]).toEqual([150, 150]);
});

test("a repeat of an advance whose commit was not answered finds the run moved", async () => {
  const id = await run.submit();
  const loaded = await run.load(id);
  const write = writeOf(loaded, { start: [{}] });
  expect(await runsOf(other).advance([write, write], T0)).toEqual([{ status: "written" }, { status: "moved" }]);
  expect(await run.runs.advance([write], T0)).toEqual([{ status: "moved" }]);
  expect(await run.runs.openJobs(id, 10)).toHaveLength(1);
});

test("a pruned run leaves no row in any table", async () => {
  const { id, jobs } = await run.started([{}, { visit: 2 }, { visit: 3 }], { of: { deadlineAt: T0 + DAY } });
  for (const job of await bench.claim(await bench.open(), 10)) await bench.report(job);
  await run.advance(id, { variables: { x: "1" }, end: [{ n: 1 }, { n: 2 }, { n: 3 }], send: ["continue"] });
  await run.advance(id, { finish: { state: "succeeded" } });
  const ids: string[] = [];
  for (let more = true; more; ) {
    const query = { now: T0 + 9 * DAY, endedBefore: { succeeded: T0 + DAY }, keyWindowMs: 0, sessionsEndedBefore: 0 };
    const answer = await bench.store.prune({ ...query, limit: 2 });
    ids.push(...answer.ids);
    more = answer.more;
  }
  expect(ids.toSorted()).toEqual([id, ...jobs].toSorted());
  for (const table of ["run", "run_data", "step", "variable", "inbox", "timer", "job", "submission", "attempt"]) {
    expect([table, await count(table)]).toEqual([table, 0]);
  }
});
