/** Jobs of kind postgres on a real server: what arrives there, what returns, and what is stored when something fails. */
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { tempFile } from "../../../test/kit.ts";
import { ask, until, withClient } from "../../../test/postgres/client.ts";
import { newSchema, postgresUrl } from "../../../test/postgres/kit.ts";
import { rounds, SEED } from "../../../test/tier.ts";
import { http, type PostgresResult, postgres } from "../../core/input/builtin.ts";
import type { PostgresInput } from "../../core/input/postgres-input.ts";
import type { SubmitOptions } from "../../core/task/task.ts";
import type { WorkOptions } from "../../core/task/work-options.ts";
import { checkSql, fillSql } from "../../core/template/sql.ts";
import { Perdure } from "../../embedded/perdure.ts";

const ONCE = { retry: 1 } as const;
const { schema } = newSchema("steps");

/** The address of the server, with a schema of this file as the first of its search path. */
function address({ user, password }: { user?: string; password?: string } = {}): string {
  const url = new URL(postgresUrl());
  url.searchParams.set("options", `-c search_path=${schema}`);
  if (user !== undefined) url.username = user;
  if (password !== undefined) url.password = password;
  return url.href;
}

beforeAll(async () => {
  await ask(postgresUrl(), `create schema if not exists ${schema}`);
});

type SqlInput = Omit<PostgresInput, "connection">;

/** An engine without a worker, and jobs for the connection `shop`. */
async function openBench(file: string) {
  const logged: string[] = [];
  const logger = (level: string, message: string) => void logged.push(`${level}: ${message}`);
  const perdure = await Perdure.open({ url: file, logger });
  async function run(input: SqlInput, given: SubmitOptions = ONCE) {
    const handle = await perdure.submit(postgres, { connection: "shop", ...input }, given);
    await handle.result().catch(() => {});
    const job = await handle.get();
    return { ...job, result: job.result as PostgresResult | null };
  }
  const sql = (text: string, values: unknown[] = []) => run({ statements: [{ text, values }] });
  return { perdure, file, logged, run, sql };
}

async function bench(connections: Readonly<Record<string, string>>, options: WorkOptions = {}) {
  const opened = await openBench(tempFile());
  onTestFinished(() => opened.perdure.close({ grace: 0 }));
  await opened.perdure.work([postgres], { connections, ...options });
  return opened;
}

/** One for tests that only read their own jobs. */
let shared: Awaited<ReturnType<typeof openBench>>;
beforeAll(async () => {
  shared = await openBench(":memory:");
  await shared.perdure.work([postgres], { connections: { shop: address() } });
});
afterAll(() => shared.perdure.close({ grace: 0 }));

const stored = (table: string) => ask<{ v: unknown }>(postgresUrl(), `select v from ${schema}.${table} order by 1`);

describe("the result", () => {
  it.each([
    ["null::int", null],
    ["true", true],
    ["7::int2", 7],
    ["(-2147483648)::int4", -2147483648],
    ["9007199254740991", 9007199254740991],
    ["9007199254740993", "9007199254740993"],
    ["-9007199254740992", "-9007199254740992"],
    ["1.50::numeric", 1.5],
    ["-0.001", -0.001],
    ["0.1234567890123456789", "0.1234567890123456789"],
    ["100000000000000000000::numeric", "100000000000000000000"],
    ["0.0000001", "0.0000001"],
    ["'NaN'::numeric", "NaN"],
    ["0.1::float4", 0.1],
    ["1e300::float8", 1e300],
    ["'-Infinity'::float8", "-Infinity"],
    [`'{"a": [1, null], "n": 12345678901234567890}'::jsonb -> 'a'`, [1, null]],
    [`'{"b":   "\\u0041"}'::json`, { b: "A" }],
    ["'null'::jsonb", null],
    ["'2026-11-20'::date", "2026-11-20"],
    ["'2026-11-20 12:00:00.123456'::timestamp", "2026-11-20T12:00:00.123456"],
    ["'2026-11-20 12:00:00+00'::timestamptz at time zone 'utc'", "2026-11-20T12:00:00"],
    ["'infinity'::timestamp", "infinity"],
    ["'12:30:00.5'::time", "12:30:00.5"],
    ["'12:30+02'::timetz", "12:30:00+02:00"],
    ["'\\xdeadbeef'::bytea", Buffer.from("deadbeef", "hex").toString("base64")],
    ["'{1,NULL,3}'::int[]", [1, null, 3]],
    [`array['a', 'NULL', 'b"\\\\c,}', '', null]`, ["a", "NULL", 'b"\\\\c,}', "", null]],
    [
      "array[[1.5, 2], [3, 4]]",
      [
        [1.5, 2],
        [3, 4],
      ],
    ],
    ["'[0:1]={t,f}'::bool[]", [true, false]],
    ["'{}'::text[]", []],
    [`array['{"a": "}"}']::jsonb[]`, [{ a: "}" }]],
    ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    ["'1 day 02:00'::interval", "1 day 02:00:00"],
    ["row(1, 'a')", "(1,a)"],
    ["'grüße 🎈'", "grüße 🎈"],
  ])("has %s as %j", async (expression, expected) => {
    const { result, failure } = await shared.sql(`select ${expression} as v`);
    expect(failure).toBeNull();
    expect(result).toEqual({ rows: [{ v: expected }], rowCount: 1 });
  });

  it("has instants with their offset", async () => {
    const { result } = await shared.run({
      statements: [
        { text: "set local timezone = 'Asia/Kolkata'" },
        { text: "select '2026-01-01 00:00Z'::timestamptz as v" },
      ],
    });
    expect(result?.rows).toEqual([{ v: "2026-01-01T05:30:00+05:30" }]);
    const utc = await shared.run({
      statements: [{ text: "set local timezone = 'UTC'" }, { text: "select '2026-01-01 00:00Z'::timestamptz as v" }],
    });
    expect(utc.result?.rows).toEqual([{ v: "2026-01-01T00:00:00Z" }]);
  });

  it("keeps all digits of numbers in JSON", async () => {
    const handle = await shared.perdure.submit(postgres, {
      connection: "SHOP", // case makes no difference
      statements: [{ text: `select '{"n": 12345678901234567890}'::jsonb as v` }],
    });
    await handle.result();
    const [attempt] = await handle.attempts();
    expect(attempt?.result).toContain('{"n": 12345678901234567890}');
  });

  it("is that of the last statement, with the number of rows changed or returned", async () => {
    const table = "counted";
    const { result } = await shared.run({
      statements: [
        { text: `create table ${table} (v int)` },
        { text: `select generate_series(1, 5000)` }, // its rows count for nothing
        { text: `insert into ${table} select generate_series(1, 5)` },
        { text: `update ${table} set v = v + 1 where v > $1`, values: [3] },
      ],
    });
    expect(result).toEqual({ rows: [], rowCount: 2 });
    expect(await stored(table)).toEqual([1, 2, 3, 5, 6].map((v) => ({ v })));
    expect((await shared.sql(`create table ${table}_2 (v int)`)).result).toEqual({ rows: [], rowCount: 0 });
    expect((await shared.sql("-- nothing\n")).result).toEqual({ rows: [], rowCount: 0 });
    expect((await shared.sql('select 1 as a, 2 as a, 3 as "__proto__"')).result?.rows).toEqual([
      JSON.parse('{"a":2,"__proto__":3}'),
    ]);
  });
});

describe("values", () => {
  it("are inferred like literals, and lists and objects are JSON", async () => {
    const { result } = await shared.sql(
      "select $1::int + 1 as a, $2::numeric as b, $3::bool as c, $4 as d, $5::jsonb as e, $6::jsonb -> 0 as f",
      [1, 2.5, true, "x", { k: ["'", '"', "\\"] }, [null]],
    );
    expect(result?.rows).toEqual([{ a: 2, b: 2.5, c: true, d: "x", e: { k: ["'", '"', "\\"] }, f: null }]);
  });

  it("that are hostile come back equal from templates, bare and in quotes", async () => {
    const fragments = [
      "'",
      "''",
      '"',
      "\\",
      "\\'",
      "$1",
      "$$",
      "$tag$",
      ";",
      "--",
      "/*",
      "*/",
      "E'",
      "{{ x }}",
      "%s",
      "?",
      "\n",
      "\r",
    ];
    const words = [
      "'; drop table hostile; --",
      "' or '1'='1",
      "null",
      "NULL",
      "default",
      "ü🎈",
      "\u202e",
      "\ufeff",
      "\x01",
      " ",
    ];
    const part = fc.oneof(fc.constantFrom(...fragments, ...words), fc.string({ unit: "binary", maxLength: 8 }));
    const value = fc.array(part, { maxLength: 6 }).map((parts) => parts.join("").replaceAll("\0", "").toWellFormed());
    const values = fc.sample(value, { numRuns: rounds(10_000), seed: SEED });
    await shared.sql("create table hostile (n int, bare text, quoted text)");
    for (let from = 0; from < values.length; from += 300) {
      const some = values.slice(from, from + 300);
      const rows = some.map((_, i) => `(${from + i}, {{ v[${i}] }}, '<{{ v[${i}] }}''{{ v[${i}] }}>')`);
      const command = `insert into hostile values ${rows.join(", ")} returning n, bare, quoted`;
      checkSql(command);
      const statements = fillSql(command, (name) => (name === "v" ? some : undefined), { undefined: "strict" });
      const { result, failure } = await shared.run({ statements });
      expect(failure).toBeNull();
      const expected = some.map((bare, i) => ({ n: from + i, bare, quoted: `<${bare}'${bare}>` }));
      expect(result?.rows).toEqual(expected);
      const stored = `select * from ${schema}.hostile where n >= ${from} order by n`;
      expect(await ask(postgresUrl(), stored)).toEqual(expected);
    }
  });

  it("that PostgreSQL cannot store as they are, are refused at the submit", async () => {
    for (const value of ["a\0b", "\ud800", 1n]) {
      const submit = shared.perdure.submit(postgres, {
        connection: "shop",
        statements: [{ text: "select $1", values: [value] }],
      });
      await expect(submit).rejects.toThrow(/postgres\.statements\[0\]\.values\[0\]: must be a JSON value/);
    }
  });
});

describe("the transaction", () => {
  it("stores nothing if the second of three statements fails, and the failure has its code", async () => {
    const table = "failing";
    await shared.sql(`create table ${table} (v int primary key)`);
    const { state, failure } = await shared.run({
      statements: [
        { text: `insert into ${table} values (1)` },
        { text: `insert into ${table} values ($1)`, values: [1] },
        { text: `insert into ${table} values (2)` },
      ],
    });
    expect(state).toBe("failed");
    expect(failure).toMatchObject({ kind: "error", class: "transient", name: "PostgresError", code: "23505" });
    expect(failure?.message).toMatch(
      /^connection shop: statement 2 of 3: duplicate key value violates .*; Key \(v\)=\(1\) already exists\.$/,
    );
    expect(await stored(table)).toEqual([]);
  });

  it("that fails at its commit, stores nothing", async () => {
    const table = "deferred";
    await shared.sql(`create table ${table} (v int unique deferrable initially deferred)`);
    const { failure } = await shared.sql(`insert into ${table} values (1), (1)`);
    expect(failure).toMatchObject({
      code: "23505",
      message: expect.stringMatching(/^connection shop: commit: duplicate/),
    });
    expect(await stored(table)).toEqual([]);
  });

  it.each([
    "begin",
    "  /* a /* b */ */ -- c\n ; COMMIT work",
    "rollback",
    "end",
    "abort",
    "start transaction",
    "prepare transaction 'x'",
    "rollback and chain",
    "commit prepared 'x'",
  ])("cannot be ended by %j", async (text) => {
    const submit = shared.perdure.submit(postgres, { connection: "shop", statements: [{ text }] });
    await expect(submit).rejects.toThrow(/postgres\.statements\[0\]\.text: .* is not possible: all statements/);
  });

  it("cannot be ended by a second statement in a text, or in a procedure", async () => {
    const table = "hidden";
    await shared.sql(`create table ${table} (v int)`);
    const { failure } = await shared.run({
      statements: [{ text: `insert into ${table} values (1)` }, { text: "select 1; commit" }, { text: "select 1/0" }],
    });
    expect(failure).toMatchObject({ code: "42601", message: expect.stringContaining("multiple commands") });
    await shared.sql(`create procedure ${table}_p() language plpgsql as 'begin commit; end'`);
    const called = await shared.run({
      statements: [{ text: `insert into ${table} values (2)` }, { text: `call ${table}_p()` }],
    });
    expect(called.failure).toMatchObject({ code: "2D000" });
    expect(await stored(table)).toEqual([]);
  });

  it("may have savepoints", async () => {
    const { result } = await shared.run({
      statements: [
        { text: "create temporary table t (v int)" },
        { text: "savepoint a" },
        { text: "insert into t values (1)" },
        { text: "rollback to savepoint a" },
        { text: "select count(*)::int as n from t" },
      ],
    });
    expect(result?.rows).toEqual([{ n: 0 }]);
  });

  it("is left out for a single statement that PostgreSQL forbids in it, or that commits itself", async () => {
    const table = "alone";
    await shared.sql(`create table ${table} (v int)`);
    for (const text of [
      `vacuum ${table}`,
      `create index concurrently ${table}_v on ${table} (v)`,
      `do $$ begin insert into ${table} values (1); commit; insert into ${table} values (2); rollback; end $$`,
    ]) {
      expect(await shared.sql(text)).toMatchObject({ state: "succeeded", result: { rows: [] } });
    }
    expect(await stored(table)).toEqual([{ v: 1 }]);
    const { failure } = await shared.run({ statements: [{ text: "select 1" }, { text: `vacuum ${table}` }] });
    expect(failure).toMatchObject({ code: "25001", message: expect.stringContaining("statement 2 of 2") });
  });

  it("leaves no trace in its connection for the next job", async () => {
    await shared.run({
      statements: [
        { text: "set search_path to pg_catalog" },
        { text: "create temporary table left_over (v int)" },
        { text: "select pg_advisory_lock(4711)" },
      ],
    });
    const locks = "select count(*)::int as n from pg_locks where locktype = 'advisory' and objid = 4711";
    const { result } = await shared.sql(`select to_regclass('left_over') as t, (${locks}), current_schema() as s`);
    expect(result?.rows).toEqual([{ t: null, n: 0, s: schema }]);
  });
});

describe("a result above a limit", () => {
  it.each([
    [{ maxRows: 3 }, "insert into LIMITED select generate_series(1, 4) returning v", /more than 3 rows \(maxRows\)/],
    [{}, "insert into LIMITED select generate_series(1, 100000) returning v", /more than 1000 rows \(maxRows\)/],
    [{ maxBytes: 100 }, "insert into LIMITED values (1) returning repeat('x', 100)", /more than 100 bytes/],
    [
      {},
      "insert into LIMITED values (1) returning repeat('x', 1048576)",
      /more than 1048576 bytes as JSON \(maxBytes\)/,
    ],
    [{ maxBytes: 300 }, "insert into LIMITED values (1) returning repeat(chr(34), 150)", /more than 300 bytes/], // doubled
  ])("fails the job for good, and nothing is stored: %j %s", async (limits, text, message) => {
    const table = `limited_${randomBytes(4).toString("hex")}`;
    await shared.sql(`create table ${table} (v int)`);
    const job = await shared.run({ statements: [{ text: text.replace("LIMITED", table) }], ...limits }, { retry: 3 });
    expect(job).toMatchObject({ state: "failed", attempt: 1, failure: { class: "logical", code: "too_large" } });
    expect(job.failure?.message).toMatch(message);
    expect(await stored(table)).toEqual([]);
  });

  it("is one row or byte above it", async () => {
    const rows = await shared.run({ statements: [{ text: "select generate_series(1, 3)" }], maxRows: 3 });
    expect(rows.result?.rowCount).toBe(3);
    const text = "select repeat('x', $1::int) as v";
    const sizes = [1_048_000, 1_048_576];
    const ends = await Promise.all(sizes.map((n) => shared.sql(text, [n])));
    expect(ends.map(({ state }) => state)).toEqual(["succeeded", "failed"]);
  });
});

describe("a statement that runs", () => {
  const running = (mark: string) => async () => {
    const [row] = await ask<{ n: number }>(
      postgresUrl(),
      "select count(*)::int as n from pg_stat_activity where state = 'active' and query like $1 and pid <> pg_backend_pid()",
      [`%${mark}%`],
    );
    return row?.n ?? 0;
  };

  it("is cancelled at the server when its job is", async () => {
    const mark = `cancel_${randomBytes(6).toString("hex")}`;
    const handle = await shared.perdure.submit(postgres, {
      connection: "shop",
      statements: [{ text: `select pg_sleep(600) as ${mark}` }],
    });
    await until("it runs", async () => (await running(mark)()) === 1);
    await shared.perdure.cancel(handle.id);
    await handle.result().catch(() => {});
    expect((await handle.get()).state).toBe("cancelled");
    expect(await running(mark)()).toBe(0);
    expect((await shared.sql("select 1 as v")).result?.rows).toEqual([{ v: 1 }]);
  });

  it("is ended by the timeout of its job, at the server too", async () => {
    const mark = `timeout_${randomBytes(6).toString("hex")}`;
    const { state, failure } = await shared.run(
      { statements: [{ text: `select pg_sleep(600) as ${mark}` }] },
      { ...ONCE, timeout: 200 },
    );
    expect({ state, kind: failure?.kind }).toEqual({ state: "failed", kind: "timeout" });
    expect(await running(mark)()).toBe(0);
    const { result } = await shared.run(
      { statements: [{ text: "select current_setting('statement_timeout') as v" }] },
      { ...ONCE, timeout: "1m" },
    );
    expect(String(result?.rows[0]?.v)).toMatch(/^(6[01]|59|60\d{3})\D/);
  });

  it("whose connection is lost fails as any other, and the next job gets a new one", async () => {
    const mark = `lost_${randomBytes(6).toString("hex")}`;
    const job = shared.run({ statements: [{ text: `select pg_sleep(600) as ${mark}` }] });
    await until("it runs", async () => (await running(mark)()) === 1);
    await ask(
      postgresUrl(),
      "select pg_terminate_backend(pid) from pg_stat_activity where query like $1 and pid <> pg_backend_pid()",
      [`%${mark}%`],
    );
    expect((await job).failure).toMatchObject({ class: "transient", code: "57P01" });
    expect((await shared.sql("select 1 as v")).result?.rows).toEqual([{ v: 1 }]);
  });

  it("shares ten connections with all others", async () => {
    const mark = `pool_${randomBytes(6).toString("hex")}`;
    const { perdure } = await bench({ shop: address() }, { concurrency: 50 });
    const statements = [{ text: `select pg_sleep(0.05) as ${mark}` }];
    const items = Array.from({ length: 50 }, () => ({ task: postgres, input: { connection: "shop", statements } }));
    const handles = await Promise.all(items.map(({ task, input }) => perdure.submit(task, input, ONCE)));
    let most = 0;
    const ended = Promise.all(handles.map((handle) => handle.result()));
    await until("all have run", async () => {
      most = Math.max(most, await running(mark)());
      return (await Promise.race([ended, null])) !== null;
    });
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(10);
  });
});

describe("a connection", () => {
  it("that no worker has is named by explain, and a worker that has it takes the job", async () => {
    const { perdure } = await bench({ other: address() });
    const input = { connection: "Pg-Shop", statements: [{ text: "select 1 as v" }] };
    const handle = await perdure.submit("postgres", input, ONCE);
    expect((await handle.get()).labels).toEqual({ "connection/pg_shop": "yes" });
    const { text } = await handle.explain();
    expect(text).toContain('connection "pg_shop"');
    expect(text).toContain("perdure worker --connection pg_shop=URL");
    await perdure.work([postgres], { connections: { PG_SHOP: address() } });
    expect(await handle.result()).toEqual({ rows: [{ v: 1 }], rowCount: 1 });
  });

  it("is an option that is checked, without showing an address", async () => {
    const perdure = await Perdure.open({ url: ":memory:" });
    onTestFinished(() => perdure.close());
    const secret = "postgres://u:hunter22@h/db";
    for (const [tasks, connections, message] of [
      [[postgres], {}, /work\.connections: the task postgres requires a connection/],
      [[postgres], { a: "mysql://u:hunter22@h/db" }, /work\.connections\.a: must be an address such as/],
      [[postgres], { [secret]: secret }, /work\.connections: must be the name of a connection/],
      [[postgres], { "a-b": secret, A_B: secret }, /a_b exists already/],
      [
        [postgres],
        Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`c${i}`, secret])),
        /at most 100 connections/,
      ],
      [[http], { a: secret }, /connections require the task postgres/],
    ] as const) {
      const work = perdure.work([...tasks], { connections });
      const error = await work.then(
        () => new Error("accepted"),
        (thrown: Error) => thrown,
      );
      expect(error.message).toMatch(message);
      expect(JSON.stringify([error.message, { ...error }])).not.toContain("hunter22");
    }
    await expect(perdure.work([postgres], { labels: { "connection/a": "yes" } })).rejects.toThrow(
      /reserved.*connections/,
    );
    const named = perdure.submit(postgres, { connection: secret, statements: [{ text: "select 1" }] });
    await expect(named).rejects.toThrow(/^(?!.*hunter22)postgres\.connection: must be the name/);
  });

  it("shows its password in no row, log, event or message, even where it is wrong", async () => {
    const user = `u_${randomBytes(6).toString("hex")}`;
    const password = `pw_${randomBytes(9).toString("hex")}%40/:`;
    await withClient(postgresUrl(), async (client) => {
      await client.query(`create role ${user} login password '${password}'`);
      await client.query(`grant usage on schema ${schema} to ${user}`);
    });
    onTestFinished(async () => {
      await ask(postgresUrl(), `drop owned by ${user}; drop role ${user}`);
    });
    const right = address({ user, password: encodeURIComponent(password) });
    const wrong = address({ user: "nobody_here", password: encodeURIComponent(password) });
    const closed = right.replace(/:\d+\//, ":1/");
    const { perdure, file, logged } = await bench({ right, wrong, closed });
    const states: unknown[] = [];
    const texts: string[] = [];
    for (const [connection, text] of [
      ["right", "select current_user as v"],
      ["right", "select * from no_such_table"],
      ["wrong", "select 1"],
      ["closed", "select 1"],
    ] as const) {
      const handle = await perdure.submit(postgres, { connection, statements: [{ text }] }, ONCE);
      await handle.result().catch((error: unknown) => texts.push(String(error)));
      const job = await handle.get();
      states.push([job.state, job.failure?.code ?? null]);
      texts.push(JSON.stringify([job, await handle.attempts(), await handle.explain()]));
      for await (const event of handle.events()) texts.push(JSON.stringify(event));
    }
    expect(states).toEqual([
      ["succeeded", null],
      ["failed", "42P01"],
      ["failed", expect.stringMatching(/^(28P01|28000)$/)],
      ["failed", "ECONNREFUSED"],
    ]);
    texts.push(JSON.stringify(await perdure.workers()), ...logged);
    const secrets = [password, encodeURIComponent(password), right];
    for (const secret of secrets) expect(texts.join("\n")).not.toContain(secret);
    await perdure.close();
    const files = readdirSync(dirname(file)).map((name) => join(dirname(file), name));
    const stored = files.filter((name) => name.startsWith(file)).map((name) => readFileSync(name, "latin1"));
    expect(stored.join("")).toContain("no_such_table");
    for (const secret of secrets) expect(stored.join("")).not.toContain(secret);
  });
});
