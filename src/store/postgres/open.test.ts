/** Opening a store: what is refused, with which message, and who may. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PostgresServer, startServer } from "../../../test/postgres/server.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { openStore } from "../open.ts";
import type { Store } from "../store.ts";

let server: PostgresServer;
let admin: pg.Client;
beforeAll(async () => {
  server = await startServer();
  admin = new pg.Client({ connectionString: server.url });
  await admin.connect();
});
afterAll(async () => {
  await admin.end();
  await server.stop();
});

const open = (url: string, parts: { schema?: string; connections?: number } = {}): Promise<Store> =>
  openStore({ url, ...parts, clock: systemClock, random: Math.random, newSecret: () => "x".repeat(40) });
const as = (user: string, password: string, database = "postgres") => {
  const url = new URL(server.url);
  Object.assign(url, { username: user, password, pathname: `/${database}` });
  return url.toString();
};

describe("a schema", () => {
  it("is created once by many that open it at the same time", async () => {
    const stores = await Promise.all(Array.from({ length: 8 }, () => open(server.url, { schema: "together" })));
    const { rows } = await admin.query("select value from together.meta where name = 'generation'");
    expect(rows).toHaveLength(1);
    await Promise.all(stores.map((store) => store.close()));
  });

  it("may be named in the address, and must be a plain name", async () => {
    await (await open(`${server.url}?schema=in_the_address`)).close();
    expect((await admin.query("select to_regclass('in_the_address.job') as made")).rows[0].made).not.toBeNull();
    for (const schema of ["Big", "with space", "pg_mine", "1st", 'quo"te', "", "x".repeat(64)]) {
      await expect(open(server.url, { schema })).rejects.toMatchObject({ code: "invalid_config", path: "open.schema" });
    }
  });

  it("of a newer version, or with tables of another program, is refused and not changed", async () => {
    await (await open(server.url, { schema: "newer" })).close();
    await admin.query("update newer.meta set value = '999' where name = 'version'");
    await expect(open(server.url, { schema: "newer" })).rejects.toMatchObject({ code: "store_newer" });
    await admin.query("create schema other; create table other.thing (x int)");
    await expect(open(server.url, { schema: "other" })).rejects.toMatchObject({ code: "store_not_a_database" });
    expect((await admin.query("select count(*)::int as n from pg_tables where schemaname = 'other'")).rows[0].n).toBe(
      1,
    );
  });

  it("may belong to a role that cannot create others", async () => {
    await admin.query("create role tenant login password 'secret'; revoke create on database postgres from public");
    await expect(open(as("tenant", "secret"), { schema: "tenant" })).rejects.toThrow(/permission denied/);
    await admin.query("create schema tenant authorization tenant");
    await (await open(as("tenant", "secret"), { schema: "tenant" })).close();
  });
});

describe("a database", () => {
  it("that is not in UTF8 is refused: it would not keep every text", async () => {
    await admin.query("create database latin encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'");
    const url = as("postgres", server.password, "latin");
    await expect(open(url)).rejects.toMatchObject({ code: "store_not_a_database", message: /encoding is LATIN1/ });
  });

  it("that cannot be opened is reported with a code and the server's message, without the password", async () => {
    const wrong = [
      [as("postgres", "wrong"), /password authentication failed/],
      [as("postgres", server.password, "nowhere"), /database "nowhere" does not exist/],
      [`${server.url}?sslmode=require`, /SSL/],
    ] as const;
    for (const [url, words] of wrong) {
      const error = await open(url).then(
        () => null,
        (thrown: unknown) => thrown as Error & { code: string },
      );
      expect(error?.code).toBe("store_io");
      expect(error?.message).toMatch(words);
      expect(error?.message).not.toContain(server.password);
    }
    await expect(open("postgres://[bad")).rejects.toMatchObject({ code: "invalid_config" });
  });

  it("that cannot be reached is retried for a few seconds, and then reported as unavailable", async () => {
    const url = new URL(server.url);
    url.port = "1";
    await expect(open(url.toString())).rejects.toMatchObject({ code: "store_unavailable" });
  }, 20_000);
});

it("options of PostgreSQL are refused for a file", async () => {
  await expect(open(":memory:", { schema: "x" })).rejects.toMatchObject({ path: "open.schema" });
  await expect(open(":memory:", { connections: 3 })).rejects.toMatchObject({ path: "open.connections" });
});
