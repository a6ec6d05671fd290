/** The cost of settling losses: the store runs on the event loop and holds the write lock meanwhile. Counts what is
 *  read, with a spy between store and driver. */
import { expect, test } from "vitest";
import { systemClock } from "../../lib/system-clock.ts";
import { Bench } from "../conformance/bench.ts";
import { LEASE, placeOf, reaped, T0 } from "../conformance/kit.ts";
import { type Database, openDatabase, type SqlStatement } from "./driver.ts";
import { MIGRATIONS } from "./migrations.ts";
import { sqliteStore } from "./sqlite-store.ts";

/** A text that is long in every session. */
const KIND = "k".repeat(8_000);

/** Settles the losses of a number of sessions, each with its own process and job, and returns what was read. */
async function readFor(
  sessions: number,
): Promise<{ reads: number; rows: number; characters: number; scans: string[] }> {
  const read = { reads: 0, rows: 0, characters: 0 };
  const used = new Set<string>();
  const note = (sql: string, rows: readonly unknown[]) => {
    used.add(sql);
    read.reads += 1;
    read.rows += rows.length;
    for (const row of rows) {
      for (const value of Object.values((row ?? {}) as object)) {
        if (typeof value === "string") read.characters += value.length;
      }
    }
  };
  const db = await openDatabase(":memory:");
  for (const step of MIGRATIONS) db.exec(step);
  db.exec("insert into meta (name, value) values ('generation', 'g'), ('secret', 's'), ('signing_secret', 's')");
  const spied = (sql: string, statement: SqlStatement): SqlStatement => ({
    run: (...values) => statement.run(...values),
    get(...values) {
      const row = statement.get(...values);
      note(sql, row === undefined ? [] : [row]);
      return row;
    },
    all(...values) {
      const rows = statement.all(...values);
      note(sql, rows);
      return rows;
    },
    iterate: (...values) => statement.iterate(...values),
    setReturnArrays: (enabled) => statement.setReturnArrays(enabled),
  });
  const driver: Database = {
    exec: (sql) => db.exec(sql),
    close: () => db.close(),
    prepare: (sql) => spied(sql, db.prepare(sql)),
  };
  const bench = new Bench(async () => ({
    store: sqliteStore(driver, { clock: systemClock, random: Math.random, report: () => {}, shared: false }),
  }));
  await bench.begin();
  await bench.insert(Array.from({ length: sessions }, () => ({})));
  const jobs = [];
  for (let i = 0; i < sessions; i++) {
    const session = await bench.open({ process: `boot ns ${i}`, pid: i, kinds: ["work", KIND] });
    jobs.push(await bench.take(session));
  }
  used.clear();
  Object.assign(read, { reads: 0, rows: 0, characters: 0 });
  const answers = await bench.settle(
    jobs.map((job) => reaped(placeOf(job))),
    T0 + LEASE + 1,
  );
  const found = { ...read, scans: [...used].filter((sql) => scansSessions(db, sql)) };
  expect(answers.map(({ status }) => status)).toEqual(jobs.map(() => "accepted"));
  await bench.end();
  return found;
}

/** Whether it may read every session. */
function scansSessions(db: Database, sql: string): boolean {
  const steps = db.prepare(`explain query plan ${sql}`).all() as { detail: string }[];
  return steps.some(({ detail }) => /^SCAN session/.test(detail)) && !/limit 2000$/.test(sql);
}

test("the cost of losses depends on their number, not on what the sessions can run", async () => {
  const [few, many] = [await readFor(20), await readFor(80)];
  expect(many.scans).toEqual([]);
  expect(many.reads).toBeLessThanOrEqual(4 * few.reads);
  expect(many.rows).toBeLessThanOrEqual(4 * few.rows);
  expect(many.characters).toBeLessThan(80 * 1_000);
});
