import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openDatabase } from "./driver.ts";
import { proveDisk } from "./same-database.ts";

it("accepts a disk only if the log was reset, not while another process still reads from it", async () => {
  const directory = mkdtempSync(join(tmpdir(), "perdure-proof-"));
  const path = join(directory, "jobs.db");
  const [first, reader, next] = [await openDatabase(path), await openDatabase(path), await openDatabase(path)];
  try {
    first.exec("pragma journal_mode = wal; create table meta (name text primary key, value)");
    reader.exec("begin");
    reader.prepare("select * from meta").all();
    expect(() => proveDisk(next)).toThrow("another process is reading the database");
    reader.exec("commit");
    proveDisk(next);
    expect(first.prepare("select name, value from meta").all()).toEqual([{ name: "reopened", value: 1 }]);
  } finally {
    for (const db of [first, reader, next]) db.close();
    rmSync(directory, { recursive: true });
  }
});
