import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../lib/system-clock.ts";
import { type Database, openDatabase, type SqlStatement } from "./driver.ts";
import { openSqlite } from "./open.ts";
import { sqliteStore } from "./sqlite-store.ts";
import { watcher } from "./watch.ts";

/** SQLite's error while another process recovers the file after a crash. Real, but it lasts microseconds. */
function locked(): Error {
  return Object.assign(new Error("database is locked"), { code: "ERR_SQLITE_ERROR", errcode: 5 });
}

/** The database, with the next `times` reads refused. */
function refusing(db: Database, state: { times: number }): Database {
  const wrap = (statement: SqlStatement): SqlStatement =>
    new Proxy(statement, {
      get(target, name) {
        const verb: unknown = Reflect.get(target, name);
        if (typeof verb !== "function") return verb;
        return (...args: unknown[]) => {
          if ((name === "get" || name === "all") && state.times > 0) {
            state.times -= 1;
            throw locked();
          }
          return verb.apply(target, args);
        };
      },
    });
  return new Proxy(db, {
    get(target, name) {
      if (name === "prepare") return (sql: string) => wrap(target.prepare(sql));
      const verb: unknown = Reflect.get(target, name);
      return typeof verb === "function" ? verb.bind(target) : verb;
    },
  });
}

describe("a file that is locked for a moment", () => {
  let dir = "";
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "perdure-locked-"));
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  async function opened() {
    const path = join(dir, "jobs.db");
    await (await openSqlite({ path, random: () => 0.5, newSecret: () => "s".repeat(32) })).close();
    const state = { times: 0 };
    return { state, db: refusing(await openDatabase(path), state) };
  }

  it("does not fail a read: it is retried", async () => {
    const { db, state } = await opened();
    const store = sqliteStore(db, { clock: systemClock, random: () => 0, report: () => {}, shared: false });
    state.times = 5;
    expect(await store.jobs(["job_unknown"])).toEqual([null]);
    expect(state.times).toBe(0);
    await store.close();
  });

  it("does not crash the process that watches it: something may have changed", async () => {
    const { db, state } = await opened();
    const watch = watcher(db, true);
    const called = new Promise<void>((resolve) => {
      watch.add(resolve);
      state.times = 1;
    });
    await called;
    watch.stop();
    db.close();
  });
});
