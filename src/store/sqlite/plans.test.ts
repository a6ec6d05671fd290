/** What the statements of the hot verbs cost: SQLite explains each one that a verb runs, and none may scan a whole
 *  table that grows with the number of jobs. A spy between store and driver records the statements. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { Bench } from "../conformance/bench.ts";
import {
  broke,
  DAY,
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
import { RunBench } from "../conformance/run-kit.ts";
import { type Database, openDatabase, type SqlStatement, type SqlValue } from "./driver.ts";
import { MIGRATIONS } from "./migrations.ts";
import { sqliteStore } from "./sqlite-store.ts";

/** Tables whose size is the number of jobs, or a multiple of it. */
const LARGE = [
  ...["job", "payload", "submit_key", "attempt", "log_chunk", "late_report", "event", "tag"],
  ...["run", "run_data", "step", "variable", "timer", "inbox"],
];

class Spy {
  readonly db: Database;
  #used = new Set<string>();

  constructor(db: Database) {
    this.db = db;
  }

  /** The driver as the store sees it. */
  get driver(): Database {
    const { db } = this;
    return {
      exec: (sql) => db.exec(sql),
      close: () => db.close(),
      prepare: (sql) => this.#noted(db.prepare(sql), sql),
    };
  }

  #noted(statement: SqlStatement, sql: string): SqlStatement {
    const note = <Result>(run: (...values: SqlValue[]) => Result) => {
      return (...values: SqlValue[]) => {
        this.#used.add(sql);
        return run(...values);
      };
    };
    return {
      run: note((...values) => statement.run(...values)),
      get: note((...values) => statement.get(...values)),
      all: note((...values) => statement.all(...values)),
      iterate: note((...values) => statement.iterate(...values)),
      setReturnArrays: (enabled) => statement.setReturnArrays(enabled),
    };
  }

  /** The statements since the last call, with the steps of their plans. */
  plans(): { readonly sql: string; readonly steps: string[] }[] {
    const used = [...this.#used];
    this.#used = new Set();
    return used.map((sql) => {
      const rows = this.db.prepare(`explain query plan ${sql}`).all() as { detail: string }[];
      return { sql, steps: rows.map((row) => row.detail) };
    });
  }
}

/** Steps that read every row of a large table or index. A table may have an alias in its statement. */
function walks({ sql, steps }: { readonly sql: string; readonly steps: readonly string[] }): string[] {
  const names = new Map(LARGE.map((table) => [table, table]));
  for (const [, table, name] of sql.matchAll(/\b(?:from|join)\s+(\w+)\s+(?:as\s+)?(\w+)\b/g)) {
    if (LARGE.includes(table as string)) names.set(name as string, table as string);
  }
  return steps.filter((step) => {
    const name = /^SCAN (\w+)/.exec(step)?.[1];
    return name !== undefined && names.has(name);
  });
}

let spy: Spy;
let bench: Bench;
beforeAll(async () => {
  const db = await openDatabase(":memory:");
  for (const step of MIGRATIONS) db.exec(step);
  db.exec("insert into meta (name, value) values ('generation', 'g'), ('secret', 's'), ('signing_secret', 's')");
  spy = new Spy(db);
  bench = new Bench(async () => ({
    store: sqliteStore(spy.driver, { clock: systemClock, random: Math.random, report: () => {}, shared: false }),
  }));
  await bench.begin();
  // A little of everything, so that no statement is skipped for lack of data.
  await bench.insert(Array.from({ length: 300 }, (_, i) => ({ queue: `q${i % 5}`, priority: i % 3, runAt: T0 + i })));
  spy.plans();
});
afterAll(() => bench.end());

/** Asserts that no statement of this verb scans a table, except those listed, each for a reason. */
async function expectNoWalk(verb: () => Promise<unknown>, allowed: readonly RegExp[] = []): Promise<void> {
  await verb();
  const plans = spy.plans();
  expect(plans.length).toBeGreaterThan(0);
  const bad = plans.filter((plan) => walks(plan).length > 0 && !allowed.some((pattern) => pattern.test(plan.sql)));
  expect(bad).toEqual([]);
}

describe("claims", () => {
  test("scan lanes by index, for each priority, without sorting", async () => {
    const session = await bench.open({ leaseMs: DAY });
    spy.plans();
    await bench.claimAnswer(session, 5, T0 + 500, "claim");
    await bench.claimAnswer(session, 5, T0 - 1);
    const used = spy.plans();
    const onReady = used.filter(({ steps }) => steps.some((step) => step.includes("job_ready")));
    expect(onReady.length).toBeGreaterThanOrEqual(3);
    for (const { steps } of onReady) {
      expect(steps).toHaveLength(1); // no sort step beside it
      expect(steps[0]).toMatch(
        /^SEARCH job USING (COVERING )?INDEX job_ready \(lane=\? AND priority(=\? AND run_at|>)/,
      );
    }
    expect(used.flatMap(walks)).toEqual([]);
  });
});

describe("no hot verb scans all jobs:", () => {
  let jobs: ClaimedJob[];
  let session: string;
  beforeAll(async () => {
    session = await bench.open({ leaseMs: DAY, slots: 100 });
    await bench.insert(Array.from({ length: 20 }, () => ({ retry: TWICE, expireInMs: MINUTE, runAt: T0 - SECOND })));
    jobs = await bench.claim(session, 20, T0);
    spy.plans();
  });
  const job = (i: number) => jobs[i] as ClaimedJob;

  test("insert", () =>
    expectNoWalk(async () => {
      await bench.insert([
        { key: "k", tags: ["a", "b"] },
        { expireInMs: SECOND, queue: "new", retry: 7 },
      ]);
      await bench.insert([{ key: "k" }, { key: "k", payload: "2" }]);
    }));

  test("claim, also repeated, and after a failure", () =>
    expectNoWalk(async () => {
      const other = await bench.open({ leaseMs: DAY });
      await bench.claimAnswer(other, 3, T0 + 500, "claim");
      await bench.claimAnswer(other, 3, T0 + 500, "claim");
      await bench.report(job(19), broke(), T0);
      await bench.claim(other, 100, T0 + MINUTE);
    }));

  test("renew", () =>
    expectNoWalk(() => {
      const held = jobs.slice(0, 5).map((held) => ({ ...placeOf(held), usage: usageOf(1), progress: "1", log: "x" }));
      return bench.renew(session, held, T0 + 1);
    }));

  test("settle: accepted, repeated, late, reaped", () =>
    expectNoWalk(async () => {
      const report = reportOf(job(0), done(), { log: "x" });
      await bench.settle([report, reportOf(job(1), broke(), { usage: usageOf(2) })], T0 + 2);
      await bench.settle([report, reportOf(job(0), broke())], T0 + 3);
      await bench.sweep(T0 + MINUTE);
    }));

  test("children: stored, waited for, found, and requested to stop", () =>
    expectNoWalk(async () => {
      const parent = await bench.running({ kind: "parent", retry: TWICE });
      const { id } = parent.job;
      const childOf = (parts = {}) => ({ parent: { id, attempt: 1 }, depth: 1, kind: "child", ...parts });
      await bench.insert([childOf(), childOf({ key: "child", annotations: "{}" })]);
      const child = await bench.take(await bench.open({ kinds: ["child"] }));
      await bench.store.setUsage(child.id, 1, usageOf(1));
      await bench.report(child, done());
      await bench.report(parent.job, waiting([child.id]));
      await bench.store.children.unblockable({ parents: [id], limit: 10 });
      await bench.store.children.unblockable({ parents: null, limit: 10 });
      await bench.amend(id, { kind: "unblock", attempt: 1, runAt: T0 });
      await bench.amend(id, { kind: "cancel" });
      await bench.store.children.cascades(10);
      await bench.store.children.cascaded(id);
      await bench.store.find({ parentId: id });
      await bench.store.find({ parentId: id, state: ["queued", "running"], order: "oldest" });
    }));

  test("children of a job are found in the order of their numbers, without sorting", async () => {
    await bench.store.find({ parentId: "job_x", state: ["queued"], order: "oldest" });
    const used = spy.plans().filter(({ sql }) => sql.includes("indexed by job_parent"));
    expect(used).toHaveLength(1);
    expect(used[0]?.steps).toContain("SEARCH job USING COVERING INDEX job_parent (parent=? AND no>?)");
    expect(used[0]?.steps.filter((step) => step.includes("TEMP B-TREE"))).toEqual([]);
  });

  test("claim of jobs that need cpu", () =>
    expectNoWalk(async () => {
      const labels = { "resource/cpu": "1000" };
      await bench.insert([{ labels }]);
      const other = await bench.open({ labels, leaseMs: DAY });
      for (let i = 0; i < 3; i++) await bench.claimAnswer(other, 1, T0, `c${i}`);
      await bench.store.withdrawClaim({ session: other, claimId: "c0", delivery: 1 });
    }));

  test("amend", () =>
    expectNoWalk(async () => {
      await bench.amend(job(2).id, { kind: "cancel" }, T0 + 4);
      await bench.amend(job(1).id, { kind: "retry" }, T0 + 4);
    }));

  test("reading one job and everything about it", () =>
    expectNoWalk(async () => {
      await bench.store.jobs([job(0).id]);
      await bench.store.ended([job(0).id, job(3).id]);
      await bench.store.history(job(0).id);
      await bench.store.attempts(job(0).id);
      (await bench.store.events.page({ after: 5, limit: 10 })).events;
      (await bench.store.events.page({ after: 5, limit: 10, jobId: job(0).id })).events;
      (await bench.store.events.page({ after: 5, limit: 10, namespace: "default" })).events;
      (await bench.store.events.page({ after: 5, limit: 10, namespace: "nobody" })).events;
      (await bench.store.events.page({ after: 5, limit: 10, order: "newest" })).events;
      (await bench.store.events.page({ after: 5, limit: 10, order: "newest", jobId: job(0).id })).events;
      (await bench.store.events.page({ after: 5, limit: 10, order: "newest", namespace: "nobody" })).events;
      await bench.store.events.lastSeq();
      await bench.store.sessions.cancelsFor([session]);
      await bench.store.sessions.list();
      await bench.store.sessions.listOpen();
    }));

  test("events of a namespace: in the order of their numbers, without sorting", async () => {
    (await bench.store.events.page({ after: 5, limit: 10, namespace: "nobody" })).events;
    const used = spy.plans().filter(({ sql }) => sql.includes("l.namespace"));
    expect(used.map(({ steps }) => steps)).toEqual([
      [
        "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        "SEARCH j USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
        "SEARCH l USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
      ],
    ]);
  });

  test("draining, tokens and settings", () =>
    expectNoWalk(async () => {
      await bench.store.sessions.drain(await bench.open(), T0);
      await bench.store.settings.setIfAbsent("a", "b");
      await bench.store.tokens.revoke("nobody", T0);
    }));

  test("beat, and the search for what has expired", () =>
    expectNoWalk(async () => {
      for (let s = 0; s < 40; s++) await bench.beat(T0 + s * SECOND);
      await bench.store.expired({ now: T0 + 2 * DAY, limit: 100 });
    }));

  test("prune, except the scan of old successes up to the first page of recent ones", () =>
    expectNoWalk(async () => {
      const { job: keyed } = await bench.running({ key: "old", tags: ["t"], kind: "old" });
      await bench.report(keyed, done(), T0 + 1);
      const off = await bench.submit({ key: "off" });
      await bench.amend(off, { kind: "cancel" }, T0 + 1);
      const endedBefore = { succeeded: T0 + 5, failed: T0 + 5, cancelled: T0 + 5 };
      const query = { now: T0 + 5, endedBefore, keyWindowMs: DAY, sessionsEndedBefore: T0, limit: 10 };
      expect((await bench.store.prune(query)).jobs).toBeGreaterThan(1);
      await bench.store.prune({ ...query, keyWindowMs: 1 });
      // The index has only the runs that are being deleted.
    }, [/submitted_at from job order by no limit 1/, /indexed by run_pruned/]));

  test("runs: due, loaded, advanced, read, and pruned", () =>
    expectNoWalk(async () => {
      const run = new RunBench(bench);
      const loop = { node: "l", job: null, state: "looping", items: "[1]" } as const;
      const { id } = await run.started([
        { job: { kind: "step" } },
        loop,
        { node: "l", item: 0, job: { kind: "step" } },
      ]);
      const session = await bench.open({ kinds: ["step"] });
      await bench.settle(
        (await bench.claim(session, 9)).map((step) => reportOf(step, done(), { usage: usageOf(1) })),
        T0 + 1,
      );
      await run.due();
      const timers = { set: [{ n: 5, dueAt: T0 }] };
      const start = [{ node: "b" }, { node: "w", job: null, state: "waiting" }] as const;
      await run.advance(id, { end: [{ n: 1 }, { n: 3 }], start, timers, variables: { a: "1" } }, T0 + 1);
      await run.runs.due({ now: T0, limit: 9 });
      await run.runs.outputs(id, [1, 3]);
      await run.runs.items(id, 2, 100);
      await run.runs.list(id, 2);
      await run.runs.variables(id);
      await run.runs.steps({ run: id, after: 0, limit: 9, states: ["open"], node: "b", items: false });
      const [open] = await run.runs.openJobs(id, 9);
      await bench.amend(open as string, { kind: "cancel" }, T0 + 2);
      const ends = [2, 4, 5].map((n) => ({ n }));
      await run.advance(id, { end: ends, finish: { state: "succeeded" } }, T0 + 2);
      await bench.row(id);
      const endedBefore = { succeeded: T0 + 5 };
      await bench.store.prune({ now: T0 + 5, endedBefore, keyWindowMs: DAY, sessionsEndedBefore: T0, limit: 99 });
      // Only unread messages are in the inbox.
    }, [
      /submitted_at from job order by no limit 1/,
      /indexed by run_pruned/,
      /from inbox where kept = 0 order by no/,
    ]));

  test("find, one page of anything", () =>
    expectNoWalk(async () => {
      await bench.store.find({ key: "k", namespace: "default" });
      await bench.store.find({ tag: "a" });
      await bench.store.find({ deadLetter: true });
      await bench.store.find({ state: ["running"] });
      await bench.store.find({ state: ["failed", "cancelled"], kind: ["work"] });
      await bench.store.find({ queue: ["q1"], submittedBefore: 1 });
      await bench.store.find({ state: ["succeeded"], order: "oldest", namespace: "default" });
      // Running jobs have their own index, and there are only as many as slots.
    }, [/indexed by job_running where state = 1/]));
});

test("a table scan is detected, under any alias", () => {
  const steps = (sql: string) => {
    const rows = spy.db.prepare(`explain query plan ${sql}`).all() as { detail: string }[];
    return walks({ sql, steps: rows.map((row) => row.detail) });
  };
  expect(steps("select id from job where failures = 7")).toHaveLength(1);
  expect(steps("select j.id from session s join job as j where j.failures = s.no")).toHaveLength(1);
  expect(steps("update submit_key set state = 1 where id = ?")).toHaveLength(1);
  expect(steps("delete from event where seq in (select seq from event e where e.at < 5)")).toHaveLength(1);
  expect(steps("select id from job where id = ?")).toEqual([]);
});
