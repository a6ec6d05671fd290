/** What the statements cost: after every verb has been used, PostgreSQL returns the plan of each prepared statement on
 *  our connection. None may scan a whole table that grows with the number of jobs, and none may join by hashing or
 *  sorting: with such a plan a claim grows with the number of waiting jobs, and rows are not locked in order. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ask } from "../../../test/postgres/client.ts";
import { newSchema, postgresUrl } from "../../../test/postgres/kit.ts";
import { sleep } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import type { Blobs } from "../blobs.ts";
import { Bench } from "../conformance/bench.ts";
import {
  broke,
  DAY,
  decideCommandAt,
  done,
  MINUTE,
  placeOf,
  reportOf,
  SECOND,
  T0,
  TWICE,
  usageOf,
  waiting,
} from "../conformance/kit.ts";
import { DEFINITION, RunBench } from "../conformance/run-kit.ts";
import type { JobFilter } from "../store.ts";
import { PgConnections } from "./connections.ts";
import { openPostgres } from "./open.ts";
import { postgresStore } from "./postgres-store.ts";
import { ROW_COLUMNS } from "./read.ts";

const LARGE = [
  "job",
  "submission",
  "submit_key",
  "attempt",
  "log_chunk",
  "late_report",
  "event",
  "tag",
  "blob",
  "blob_chunk",
  "blocked",
  ...["run", "run_data", "step", "variable", "inbox", "timer"],
];

const { url, schema } = newSchema("plans");
let db: PgConnections;
let bench: Bench;
const plans = new Map<string, string[]>();

beforeAll(async () => {
  // Creates the tables, then opens a store with one connection, so that all statements are prepared where the test sees
  // them.
  const parts = { random: Math.random, clock: systemClock, newSecret: () => "x".repeat(40) };
  await (await openPostgres({ url, ...parts })).close();
  const config = { connectionString: postgresUrl() };
  const { random, clock } = parts;
  db = await PgConnections.open({
    config,
    connections: 1,
    random,
    sleep: (ms) => sleep(clock, ms),
    monotonic: clock.monotonic,
  });
  const store = await postgresStore(db, { schema, clock, random });
  bench = new Bench(async () => ({ store }));
  await bench.begin();
  await useEverything();
  const prepared = { name: "", text: "select name, statement from pg_prepared_statements where name like 'perdure_%'" };
  const both = [...(await db.read(prepared)), ...(await db.read(prepared, [], { reserved: true }))];
  for (const [name, text] of both as [string, string][]) {
    if (text.startsWith("lock table")) continue; // has no plan
    const rows = await db.read({ name: "", text: `explain (generic_plan, costs off) ${text}` });
    plans.set(
      name,
      rows.map(([line]) => line as string),
    );
  }
});
afterAll(() => bench.end());

async function useEverything(): Promise<void> {
  const session = await bench.open({ leaseMs: DAY, slots: 100 });
  await bench.insert(Array.from({ length: 30 }, (_, i) => ({ queue: `q${i % 5}`, retry: TWICE, expireInMs: MINUTE })));
  await bench.insert([{ key: "k", tags: ["a"] }]);
  await bench.insert([{ key: "k" }]);
  await bench.insert(Array.from({ length: 20 }, (_, i) => ({ queue: `many${i}` })));
  const jobs = await bench.claim(session, 12);
  await bench.claimAnswer(session, 2, T0, "named");
  await bench.claimAnswer(session, 2, T0, "named");
  await bench.claim(session, 5, T0 - 1);
  const held = jobs.slice(0, 3).map((job) => ({ ...placeOf(job), usage: usageOf(1), progress: "1", log: "x" }));
  await bench.renew(session, held, T0 + 1);
  const report = reportOf(jobs[4] as (typeof jobs)[0], done(), { log: "x" });
  await bench.settle([report, ...jobs.slice(5, 8).map((job) => reportOf(job, done()))], T0 + 2);
  await bench.settle(
    jobs.slice(8, 10).map((job) => reportOf(job, broke())),
    T0 + 2,
  );
  await bench.settle([report, reportOf(jobs[4] as (typeof jobs)[0], broke())], T0 + 3);
  const { job: plain } = await bench.running({ retry: TWICE, kind: "plain" });
  await bench.report(plain, broke());
  await bench.amend(jobs[10]?.id as string, { kind: "cancel" }, T0 + 4);
  await bench.sweep(T0 + 2 * MINUTE);
  for (let s = 0; s < 3; s++) await bench.beat(T0 + s * 10 * SECOND);
  await bench.store.queues.setPaused("default", "q1", true, T0);
  await bench.store.queues.setPaused("default", "q1", false, T0 + 1);
  const id = jobs[5]?.id as string;
  await bench.store.find({ idPrefix: "job_0" });
  await bench.store.jobs([id]);
  await bench.store.facts([id]);
  await bench.store.ended([id]);
  await bench.store.history(id);
  await bench.store.attempts(id);
  await bench.store.children.failures([id]);
  (await bench.store.events.page({ after: 0, limit: 10 })).events;
  (await bench.store.events.page({ after: 0, limit: 10, namespace: "default" })).events;
  (await bench.store.events.page({ after: 0, limit: 10, jobId: id })).events;
  (await bench.store.events.page({ after: 0, limit: 10, order: "newest" })).events;
  (await bench.store.events.page({ after: 0, limit: 10, order: "newest", namespace: "default" })).events;
  (await bench.store.events.page({ after: 0, limit: 10, order: "newest", jobId: id })).events;
  await bench.store.events.lastSeq();
  await bench.store.sessions.cancelsFor([session]);
  await bench.store.sessions.list();
  await bench.store.sessions.listOpen();
  const endedBefore = { succeeded: T0 + 5, failed: T0 + 5, cancelled: T0 + 5 };
  await bench.store.prune({ now: T0 + 5, endedBefore, keyWindowMs: DAY, sessionsEndedBefore: T0, limit: 10 });
  const drained = await bench.open();
  await bench.store.sessions.drain(drained, T0 + 5);
  await bench.store.sessions.drain(drained, T0 + 5);
  await bench.endSession(drained, T0 + 5);
  await bench.store.settings.setIfAbsent("a", "b");
  await useFamily();
  await useRuns();
  await useResources();
  await useBlobs((bench.store.blobs as NonNullable<typeof bench.store.blobs>)(), id);
}

async function useFamily(): Promise<void> {
  const { job } = await bench.running({ kind: "parent", annotations: "{}" });
  const childOf = (parts = {}) => ({ parent: { id: job.id, attempt: 1 }, depth: 1, kind: "child", ...parts });
  await bench.insert([childOf(), childOf({ key: "child" })]);
  await bench.insert([childOf()]);
  await bench.insert([{ key: "noted", annotations: "{}" }]);
  const child = await bench.take(await bench.open({ kinds: ["child"] }));
  await bench.store.setUsage(child.id, 1, usageOf(1));
  await bench.report(child, done());
  await bench.report(job, waiting([child.id]));
  await bench.insert([childOf({ key: "child" })]);
  await bench.store.children.unblockable({ parents: [job.id], limit: 10 });
  await bench.store.children.unblockable({ parents: null, limit: 10 });
  await bench.amend(job.id, { kind: "unblock", attempt: 1, runAt: T0 });
  await bench.amend(job.id, { kind: "cancel" });
  await bench.store.children.cascades(10);
  await bench.store.children.reachable({ parentId: job.id, after: null, limit: 10 });
  const command = { jobId: child.id, command: { kind: "cancel" } as const };
  await bench.store.amend([command], T0, decideCommandAt(T0), job.id);
  await bench.store.children.cascaded(job.id);
  // An ended job below an ended one, with children.
  const { job: upper } = await bench.running({ kind: "upper" });
  const { job: lower } = await bench.running({ kind: "lower", parent: { id: upper.id, attempt: 1 }, depth: 1 });
  await bench.insert([{ kind: "last", parent: { id: lower.id, attempt: 1 }, depth: 2 }]);
  for (const each of [lower, upper]) await bench.report(each, done());
  const late = T0 + 1_000;
  const endedBefore = { succeeded: late, failed: late, cancelled: late };
  await bench.store.prune({ now: late, endedBefore, keyWindowMs: 1, sessionsEndedBefore: 0, limit: 100 });
}

async function useRuns(): Promise<void> {
  const run = new RunBench(bench);
  const { runs } = run;
  const { id } = await run.started(
    [{}, { node: "b", state: "looping", items: "[1]", job: null }, { item: 0, node: "b" }],
    {
      of: { deadlineAt: T0 + DAY },
    },
  );
  const session = await bench.open({ leaseMs: DAY });
  for (const job of await bench.claim(session, 100, T0 + DAY)) await bench.report(job, done(), T0 + DAY);
  await runs.due({ now: T0 + DAY, limit: 10 });
  await run.load(id, T0 + DAY);
  await run.advance(id, { timers: { set: [{ n: 2, dueAt: T0 + DAY }] } }, T0 + DAY);
  await run.load(id, T0 + DAY);
  await runs.outputs(id, [1]);
  await runs.items(id, 2, 100);
  await runs.list(id, 2);
  await runs.variables(id);
  await runs.steps({ run: id, after: 0, limit: 10 });
  await runs.openJobs(id, 10);
  await runs.savePlaybooks([{ hash: "unused", body: '"aa"' }], [{ hash: "aa", body: Buffer.from("x") }], T0);
  await runs.asset("aa");
  await runs.push({ namespace: "default", path: "p", playbook: DEFINITION, source: "", at: T0, by: null });
  await runs.catalog({ namespace: "default", after: null, limit: 10 });
  await runs.versions("default", "p");
  await runs.remove("default", "p", 1);
  await run.advance(id, { end: [{ n: 1 }, { n: 2 }, { n: 3 }], finish: { state: "succeeded" } }, T0 + DAY);
  const query = { now: T0 + DAY, endedBefore: { succeeded: T0 + 2 * DAY }, keyWindowMs: 1, sessionsEndedBefore: 0 };
  while ((await bench.store.prune({ ...query, limit: 10, namesUnusedBefore: T0 + DAY })).more);
}

async function useResources(): Promise<void> {
  const labels = { "resource/cpu": "1000" };
  await bench.insert([{ labels }]);
  const session = await bench.open({ labels, kinds: ["work"] });
  await bench.claimAnswer(session, 1, T0, "c");
  await bench.store.withdrawClaim({ session, claimId: "c", delivery: 1 });
  await bench.store.claim([{ session, limit: 1, claimId: "d", last: true }], T0);
}

async function useBlobs(blobs: Blobs, id: string): Promise<void> {
  const bytes = async function* () {
    yield Buffer.from("abcdef");
  };
  for (const offset of [0, 6, 3]) await blobs.write(id, 1, "artifacts/a/b", offset, bytes(), { maxBytes: 100 });
  await blobs.write(id, 1, "artifacts/c", 0, bytes());
  for await (const _ of (await blobs.get(id, 1, "artifacts/c")) ?? []);
  await blobs.list(id, 1);
  await blobs.attempts(id);
  await blobs.delete([id]);
}

/** The plans of all statements of a search, which are prepared under no name. */
async function plansOfFind(filter: JobFilter): Promise<string[]> {
  const texts: string[] = [];
  const read = db.read.bind(db);
  db.read = (statement, ...rest) => {
    texts.push(statement.text);
    return read(statement, ...rest);
  };
  await bench.store.find(filter);
  db.read = read;
  const lines: string[] = [];
  for (const text of texts) {
    const rows = await db.read({ name: "", text: `explain (generic_plan, costs off) ${text}` });
    lines.push(...rows.map(([line]) => line as string));
  }
  return lines;
}

/** Lines of a plan that touch a large table in full, or join it in a way that does not keep the order. */
function badLines(lines: readonly string[]): string[] {
  return lines.filter((line) => {
    if (/\b(Hash|Merge) (Semi |Anti |Left |Right |Full )*Join\b/.test(line)) return true;
    const [, table] = /(?:Seq Scan|Bitmap Heap Scan) on (\w+)/.exec(line) ?? [];
    return table !== undefined && LARGE.includes(table);
  });
}

describe("plans", () => {
  test("were found for the statements of every verb", () => {
    expect(plans.size).toBeGreaterThan(45);
    for (const name of [
      "claim",
      "claim_one",
      "claim_idle",
      "succeed",
      "retry",
      "insert",
      "insert_keyed",
      "settle_write",
      "renew",
      ...["insert_whole", "insert_whole_keyed", "insert_parents", "settle_block", "claim_due", "set_usage"],
      ...["unblockable", "unblockable_all", "unblockable_end", "cascades", "cascaded", "cascaded_lock"],
      ...["amend_parent", "prune_parents", "prune_above", "facts", "reachable", "last_failures"],
    ]) {
      expect([...plans.keys()]).toContain(`perdure_${name}`);
    }
  });

  test("scan no large table, and join by nested loops only", () => {
    const bad = [...plans].flatMap(([name, lines]) => badLines(lines).map((line) => `${name}: ${line.trim()}`));
    expect(bad).toEqual([]);
  });

  test("of a claim find each lane and priority by index, in order", () => {
    const lines = plans.get("perdure_claim") as string[];
    const scans = lines.filter((line) => line.includes("Index Scan using job_ready"));
    expect(scans.length).toBeGreaterThanOrEqual(2);
    const conditions = lines.filter((line) => /Index Cond: .*lane = .*priority = .*run_at >= .*run_at <= /.test(line));
    expect(conditions.length).toBeGreaterThanOrEqual(2);
    expect(lines.filter((line) => line.includes("LockRows")).length).toBeGreaterThanOrEqual(2);
  });

  test("of a claim from one lane scan once, and update the locked rows in place", () => {
    const lines = plans.get("perdure_claim_one") as string[];
    expect(lines.filter((line) => line.includes("Index Scan using job_ready"))).toHaveLength(1);
    expect(lines.some((line) => /Index Cond: .*lane = .*priority = .*run_at >= .*run_at <= /.test(line))).toBe(true);
    // Neither may be sorted: the locked rows are the ones taken, in index order.
    expect(lines.filter((line) => line.includes("Sort"))).toEqual([]);
    expect(lines.some((line) => line.includes("Tid Scan on job"))).toBe(true);
  });

  test.each([
    ["oldest", "asc", "Index Scan using", "Index Only Scan using"],
    ["newest", "desc", "Index Scan Backward using", "Index Only Scan Backward using"],
  ])("of events, %s first, use an index without sorting", (_, direction, scan, onlyScan) => {
    const has = (name: string, step: string, condition: RegExp) => {
      const lines = plans.get(`perdure_${name}_${direction}`) as string[];
      expect(lines.some((line) => line.includes(step))).toBe(true);
      expect(lines.some((line) => condition.test(line))).toBe(true);
      expect(lines.filter((line) => line.includes("Sort"))).toEqual([]);
    };
    const range = /Index Cond: .*seq > .*seq < /;
    has("events", `${scan} event_pkey on event e`, range);
    has("events_of_namespace", `${scan} event_pkey on event e`, range);
    has("events_scan", `${onlyScan} event_pkey on event e`, range);
    has("events_of_job", `${scan} event_job on event e`, /Index Cond: .*job = .*n > .*n < /);
  });

  test("of outputs read only the needed chunks by key", () => {
    for (const name of ["blob_chunk", "blob_cut", "blob_shorten", "blob_add", "blob_list", "blob_tally"]) {
      expect([...plans.keys()]).toContain(`perdure_${name}`);
    }
    const lines = plans.get("perdure_blob_chunk") as string[];
    expect(lines.some((line) => line.includes("Index Scan Backward using blob_chunk_pkey"))).toBe(true);
    expect(lines.filter((line) => line.includes("Sort"))).toEqual([]);
  });

  test("of a settle find the jobs by number, not by state", () => {
    for (const name of ["perdure_succeed", "perdure_retry", "perdure_settle_write"]) {
      const lines = plans.get(name) as string[];
      expect(lines.filter((line) => line.includes("job_running"))).toEqual([]);
      expect(lines.some((line) => line.includes("Index Scan using job_no_key on job"))).toBe(true);
    }
  });

  test("of runs find what is due and what they read by index", () => {
    const uses = (name: string, index: string) => {
      const lines = plans.get(`perdure_${name}`) as string[];
      expect(lines.filter((line) => line.includes(index))).not.toEqual([]);
    };
    uses("runs_due", "Index Scan using inbox_pkey on inbox");
    uses("runs_due", "timer_due on timer");
    uses("run_unread", "Index Scan using inbox_unread on inbox");
    uses("run_unread", "Index Scan using timer_pkey on timer");
    for (const name of ["run_ended", "run_steps_by_n", "advance"]) {
      const lines = plans.get(`perdure_${name}`) as string[];
      const scan = lines.findIndex((line) => line.includes("Index Scan using step_pkey on step"));
      expect([name, lines[scan + 1]]).toEqual([name, expect.stringMatching(/Index Cond: .*run = .*n = /)]);
    }
    uses("run_loops", "Index Scan Backward using step_place on step");
    uses("advance", "Index Scan using inbox_pkey on inbox");
    uses("advance", "Index Scan using run_pkey on run");
    uses("prune_run_next", "run_pruned on run");
    expect([...plans.keys()]).toContain("perdure_sweep_drop_playbooks");
  });

  test("of last failures read one attempt of each job", () => {
    const lines = plans.get("perdure_last_failures") as string[];
    expect(lines.some((line) => line.includes("Index Scan Backward using attempt_pkey on attempt"))).toBe(true);
  });

  test("of the last failure of a redriven job read one attempt of an older redrive", async () => {
    const { job } = await bench.running({ kind: "redriven" });
    await bench.report(job, broke("it broke"));
    await bench.amend(job.id, { kind: "redrive", by: null }, T0 + SECOND);
    const sql = (text: string) => ask(url, text.replaceAll("$s", schema));
    const no = `(select job from $s.submission where id = '${job.id}')`;
    await sql(`insert into $s.attempt select (jsonb_populate_record(a, jsonb_build_object('attempt', g))).*
      from $s.attempt a, generate_series(2, 300) g where job = ${no}`);
    await sql(`update $s.job set attempt = 300 where no = ${no}`);
    expect((await bench.row(job.id)).failure).toBeNull();
    const from = `from $s.submission b join $s.job j on j.no = b.job where b.id = '${job.id}'`;
    const rows = await sql(`explain (analyze, costs off, timing off, summary off) select ${ROW_COLUMNS} ${from}`);
    const lines = rows.map((row) => String(Object.values(row)[0]));
    const scans = lines.filter((line) => line.includes("on attempt") && !line.includes("never executed"));
    expect(scans).toEqual([expect.stringMatching(/Backward using attempt_pkey on attempt.*rows=1\b/)]);
    expect(lines.filter((line) => line.includes("Rows Removed"))).toEqual([]);
    // As its events have it.
    await sql(`delete from $s.attempt where job = ${no} and attempt > 1`);
    await sql(`update $s.job set attempt = 1 where no = ${no}`);
  });

  test("of children use the index by parent, in the order of their numbers", async () => {
    for (const name of ["perdure_cascaded", "perdure_amend"]) {
      expect((plans.get(name) as string[]).some((line) => line.includes("using submission_parent on submission"))).toBe(
        true,
      );
    }
    const page = plans.get("perdure_reachable") as string[];
    expect(page.some((line) => line.includes("Index Scan using submission_parent on submission b"))).toBe(true);
    expect(page.filter((line) => line.includes("Sort"))).toEqual([]);
    const text = await plansOfFind({ parentId: "job_x", state: ["queued"], order: "oldest" });
    expect(badLines(text)).toEqual([]);
    expect(text.some((line) => line.includes("Index Only Scan using submission_parent on submission"))).toBe(true);
    expect(text.filter((line) => line.includes("Sort"))).toEqual([]);
  });

  test("of searches that no index serves go through jobs in the order of their numbers", async () => {
    for (const filter of [{}, { kind: ["work"] }, { state: ["queued", "succeeded"] }, { name: "w*" }] as JobFilter[]) {
      const lines = await plansOfFind({ ...filter, limit: 1 });
      expect(badLines(lines)).toEqual([]);
      expect(lines.some((line) => line.includes("Index Only Scan Backward using submission_pkey"))).toBe(true);
    }
  });

  test("of waiting and running jobs take them from the indexes of their states", async () => {
    const lines = await plansOfFind({ state: ["queued", "running"] });
    expect(badLines(lines)).toEqual([]);
    for (const index of ["job_ready", "job_running"])
      expect(lines.some((line) => line.includes(`using ${index}`))).toBe(true);
  });

  test("of names, actions and ids follow their indexes, in the order of numbers", async () => {
    for (const [filter, index] of [
      [{ name: "x" }, "submission_name"],
      [{ action: "x" }, "submission_action"],
    ] as const) {
      const lines = await plansOfFind({ ...filter, state: ["queued"], order: "oldest" });
      expect(lines.some((line) => line.includes(`using ${index} on submission`))).toBe(true);
      expect(lines.filter((line) => /Sort|Seq Scan/.test(line))).toEqual([]);
    }
    const ids = plans.get("perdure_prefixed") as string[];
    expect(ids.some((line) => /Index Cond: .*id.* >= .*id.* < /.test(line))).toBe(true);
  });

  test("that lock a line of parents do so in the order of their numbers, after they were sorted", () => {
    const lines = plans.get("perdure_amend_parent") as string[];
    expect(lines[0]).toContain("LockRows");
    expect(lines.some((line) => line.includes("Sort Key: j.no"))).toBe(true);
  });

  test("that lock parents do so in the order of their numbers, after they were sorted", () => {
    const lines = plans.get("perdure_insert_parents") as string[];
    expect(lines[0]).toContain("LockRows");
    expect(lines.some((line) => line.includes("Sort Key: j.no"))).toBe(true);
  });

  test("of a claim find due jobs of heavy lanes by index", () => {
    const lines = plans.get("perdure_claim_due") as string[];
    expect(lines.some((line) => /Index (Only )?Scan using job_ready/.test(line))).toBe(true);
    expect(lines.some((line) => /Index Cond: .*lane = .*priority = .*run_at <= /.test(line))).toBe(true);
  });

  test("that scan a table are detected", async () => {
    const explain = async (text: string) =>
      (await ask<Record<string, string>>(url, `explain (costs off) ${text}`)).map(
        (row) => Object.values(row)[0] as string,
      );
    expect(badLines(await explain(`select * from ${schema}.job where failures = 7`))).toHaveLength(1);
    const join = `select * from ${schema}.job j join ${schema}.submission b on b.job = j.no`;
    expect(badLines(await explain(join)).length).toBeGreaterThan(0);
  });
});
