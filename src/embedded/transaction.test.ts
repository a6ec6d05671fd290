/** Jobs stored in a transaction of the application: committed with it or not at all. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PostgresServer, startServer } from "../../test/postgres/server.ts";
import { Perdure, type PerdureError, type TransactionClient, task } from "../index.ts";

const ran: number[] = [];
let noticed: () => void = () => {};
const note = task("note", ({ n }: { n: number }) => {
  ran.push(n);
  noticed();
});

let server: PostgresServer;
let perdure: Perdure;
let client: pg.Client;
beforeAll(async () => {
  // A separate server, because open transactions delay the event feeds of other tests.
  server = await startServer();
  perdure = await Perdure.open({ url: server.url, schema: "order" }); // a reserved word, to be sure
  client = new pg.Client({ connectionString: server.url });
  await client.connect();
  await client.query("create table orders (id int primary key)");
});
afterAll(async () => {
  await perdure.close();
  await client.end();
  await server.stop();
});

const waiting = async () => (await perdure.jobs({ kind: "note" })).jobs.length;

describe("a submit with a client", () => {
  it("becomes visible when the transaction commits, and not before", async () => {
    await client.query("begin");
    await client.query("insert into orders values (1)");
    const job = await perdure.submit(note, { n: 1 }, { client });
    expect(await waiting()).toBe(0);
    await client.query("commit");
    expect(await waiting()).toBe(1);
    expect((await job.get()).state).toBe("queued");
    await job.cancel();
  });

  it("never becomes visible when the transaction is rolled back", async () => {
    const before = await waiting();
    await client.query("begin");
    const job = await perdure.submit(note, { n: 2 }, { client, key: "once", tags: ["a"] });
    await client.query("rollback");
    expect(await waiting()).toBe(before);
    await expect(job.get()).rejects.toMatchObject({ code: "job_not_found" });
    // Its key is free again.
    await client.query("begin");
    const again = await perdure.submit(note, { n: 2 }, { client, key: "once" });
    await client.query("commit");
    expect(again.created).toBe(true);
    expect((await perdure.submit(note, { n: 2 }, { key: "once" })).id).toBe(again.id);
    await expect(perdure.submit(note, { n: 3 }, { key: "once" })).rejects.toMatchObject({ code: "key_conflict" });
    await again.cancel();
  });

  it("wakes a waiting worker when it commits, also long after it was submitted", async () => {
    await using _worker = await perdure.work([note]);
    await (await perdure.submit(note, { n: 10 })).result(); // the worker runs, and has already polled
    await client.query("begin");
    const job = await perdure.submit(note, { n: 11 }, { client });
    for (let n = 20; n < 40; n++) await (await perdure.submit(note, { n })).result();
    expect(ran).not.toContain(11);
    const seen = new Promise<void>((resolve) => {
      noticed = () => ran.includes(11) && resolve();
    });
    await client.query("commit");
    await seen;
    await job.result();
    expect(ran.filter((n) => n === 11)).toHaveLength(1);
  });

  it("may be a whole list", async () => {
    await client.query("begin");
    const entries = Array.from({ length: 5_000 }, (_, n) => ({ task: note, input: { n: 1_000 + n } }));
    const answers = await perdure.submitMany([...entries, { task: note, input: { n: 1n as never } }], { client });
    await client.query("rollback");
    expect(answers.filter((answer) => answer.ok)).toHaveLength(5_000);
    expect(answers.at(-1)).toMatchObject({ ok: false, error: { code: "invalid_payload" } });
  });

  it("does not disturb the jobs of others, however long the transaction stays open", async () => {
    await client.query("begin");
    await perdure.submit(note, { n: 50 }, { client, key: "held" });
    await using _worker = await perdure.work([note]);
    const jobs = await Promise.all(Array.from({ length: 50 }, (_, n) => perdure.submit(note, { n: 100 + n })));
    await Promise.all(jobs.map((job) => job.result()));
    const rival = perdure.submit(note, { n: 50 }, { key: "held" }); // must wait: the commit or rollback decides who gets the key
    await (await perdure.submit(note, { n: 200 })).result();
    await client.query("rollback");
    expect((await rival).created).toBe(true);
  });

  it("reports an invalid client, or one in the options of an entry", async () => {
    const wrong = { client: { connect() {} } as unknown as TransactionClient };
    await expect(perdure.submit(note, { n: 1 }, wrong)).rejects.toMatchObject({ code: "invalid_config" });
    await expect(perdure.submitMany([], wrong)).rejects.toMatchObject({ path: "submitMany.client" });
    const [answer] = await perdure.submitMany([{ task: note, input: { n: 1 }, options: { client } as never }]);
    expect((answer as { error: PerdureError }).error.message).toContain("submitMany(entries, { client })");
    await using file = await Perdure.open(":memory:");
    await expect(file.submit(note, { n: 1 }, { client })).rejects.toMatchObject({ path: "submit.client" });
  });

  it("is refused without a transaction: with a pool, or a client that has not begun one", async () => {
    const before = await waiting();
    await expect(perdure.submit(note, { n: 1 }, { client })).rejects.toThrow(/no transaction is in progress/);
    const pool = new pg.Pool({ connectionString: server.url });
    await expect(perdure.submit(note, { n: 1 }, { client: pool })).rejects.toThrow(/a pool has no transaction/);
    await pool.end();
    expect(await waiting()).toBe(before);
  });

  it("reports the database's own error in a transaction that has failed", async () => {
    await client.query("begin");
    await client.query("select 1 / 0").catch(() => {});
    await expect(perdure.submit(note, { n: 1 }, { client })).rejects.toThrow(/current transaction is aborted/);
    await client.query("rollback");
  });
});
