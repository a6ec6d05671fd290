/** `perdure migrate`, on files and PostgreSQL schemas of the first version, without tables, and of a newer version. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ServerClaim } from "../../src/cli/target/server-notes.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { schemaVersion, storeFaults } from "../../src/store/open.ts";
import { MIGRATIONS as PG } from "../../src/store/postgres/migrations.ts";
import { openDatabase } from "../../src/store/sqlite/driver.ts";
import { APPLICATION_ID, MIGRATIONS } from "../../src/store/sqlite/migrations.ts";
import { ask } from "../postgres/client.ts";
import { newSchema, type Schema } from "../postgres/kit.ts";
import { perdure } from "./kit.ts";
import { newDir } from "./targets.ts";

const versionOf = (url: string) => schemaVersion({ url, clock: systemClock, random: Math.random });

/** A data directory as version 1 left it, except for the version number. */
async function oldFile(version = 1): Promise<{ dir: string; file: string }> {
  const dir = newDir();
  const file = join(dir, "perdure.db");
  const db = await openDatabase(file);
  db.exec(MIGRATIONS[0] as string);
  db.exec("insert into meta (name, value) values ('generation', 'first'), ('secret', 'of cursors')");
  db.exec(`pragma application_id = ${APPLICATION_ID}; pragma user_version = ${version}`);
  db.close();
  return { dir, file };
}

async function oldSchema({ url, schema }: Schema, version = 1): Promise<void> {
  await ask(url, `create schema ${schema}`);
  await ask(url, (PG[0] as string).replaceAll("$s", schema));
  const values = `('generation', 'first'), ('secret', 'of cursors'), ('version', '${version}'), ('beat_at', ''), ('held_until', '0')`;
  await ask(url, `insert into ${schema}.meta (name, value) values ${values}`);
}

describe("migrate of a file", () => {
  it("shows what it would do, does it, and then has nothing to do", async () => {
    const { dir, file } = await oldFile();
    const to = MIGRATIONS.length;
    const dry = await perdure(["migrate", "--dry-run", "--data", dir]);
    expect(dry).toMatchObject({ code: 0, stdout: `${dir} would be upgraded from schema 1 to ${to}\n`, stderr: "" });
    expect(await versionOf(file)).toEqual({ found: 1, known: to });
    const done = await perdure(["migrate", "--data", dir]);
    expect(done).toMatchObject({ code: 0, stdout: `${dir} was upgraded from schema 1 to ${to}\n` });
    const again = await perdure(["migrate", "--data", dir, "--json"]);
    expect(JSON.parse(again.stdout)).toEqual({ store: dir, from: to, to, changed: false });
    expect((await perdure(["migrate", "--data", dir])).stdout).toContain("is up to date");
    expect((await perdure(["ps", "--data", dir])).code).toBe(0);
  });

  it("does not create the file that --db names, nor a data directory", async () => {
    const cwd = newDir();
    const file = join(cwd, "new.db");
    const dry = await perdure(["migrate", "--dry-run", "--db", file], { cwd });
    expect(dry.stdout).toContain("has no tables yet: schema");
    expect(existsSync(file)).toBe(false);
    expect((await perdure(["migrate", "--db", file], { cwd })).stdout).toContain("has no tables yet: schema");
    const missing = await perdure(["migrate"], { cwd });
    expect(missing).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("no Perdure data in ./.perdure"),
    });
    expect(existsSync(join(cwd, ".perdure"))).toBe(false);
  });

  it("refuses a newer schema, a file that is not a database, and data in use", async () => {
    const newer = await oldFile(99);
    for (const argv of [["migrate"], ["migrate", "--dry-run"]]) {
      const said = await perdure([...argv, "--data", newer.dir]);
      expect(said).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining("has schema 99, but this version"),
      });
    }
    const foreign = newDir();
    writeFileSync(
      join(foreign, "perdure.db"),
      "no database at all, but longer than its header would have to be ".repeat(4),
    );
    expect(await perdure(["migrate", "--data", foreign])).toMatchObject({
      ...{ code: 2, stderr: expect.stringContaining("is not an SQLite database") },
    });
    const used = await oldFile();
    const claim = await ServerClaim.take(used.dir);
    const said = await perdure(["migrate", "--data", used.dir]);
    claim.release();
    expect(said).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/is in use by the server with pid \d+; stop it/),
    });
    expect((await versionOf(used.file)).found).toBe(1);
    expect(await perdure(["migrate", "--db", "x.db", "--data", "d"])).toMatchObject({ code: 2 });
  });
});

describe("migrate of a PostgreSQL schema", () => {
  it("shows what it would do, does it, and then has nothing to do", async () => {
    const made = newSchema("migrate");
    await oldSchema(made);
    const run = async (...argv: string[]) => {
      const { stdout } = await perdure(["migrate", "--json", ...argv], { env: { PERDURE_DB: made.url } });
      return JSON.parse(stdout) as unknown;
    };
    const to = PG.length;
    expect(await run("--dry-run")).toMatchObject({ from: 1, to, changed: false });
    expect((await versionOf(made.url)).found).toBe(1);
    expect(await run()).toMatchObject({ from: 1, to, changed: true });
    expect(await run()).toMatchObject({ from: to, to, changed: false });
  });

  it("creates no schema when it only reads the version, and refuses a newer one", async () => {
    const fresh = newSchema("migrate");
    expect(await versionOf(fresh.url)).toEqual({ found: 0, known: PG.length });
    const rows = await ask<{ n: string | null }>(fresh.url, `select to_regnamespace('${fresh.schema}')::text as n`);
    expect(rows).toEqual([{ n: null }]);
    const newer = newSchema("migrate");
    await oldSchema(newer, 99);
    const said = await perdure(["migrate", "--dry-run", "--db", newer.url]);
    expect(said).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("has version 99, but this version"),
    });
    expect(said.stderr).not.toContain(new URL(newer.url).password || "\0");
  });
});

it("a sound file has no faults", async () => {
  const { file } = await oldFile();
  expect(await storeFaults({ url: file, random: Math.random })).toEqual([]);
});
