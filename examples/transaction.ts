/** An order and its job are stored in one transaction: both or neither. One order is committed and its
 *  job runs; the other is rolled back with its job. Requires a PostgreSQL server; removes what it creates.
 *  Run: npx tsx examples/transaction.ts postgres://user:password@host/database (or set PERDURE_DB) */
import { Perdure, task } from "perdure";
import pg from "pg";

const [url = process.env.PERDURE_DB] = process.argv.slice(2);
if (url === undefined) throw new Error("no database: pass its address as an argument, or set PERDURE_DB");
const schema = `perdure_example_${process.pid}`;

const ran: number[] = [];
const confirm = task("confirm-order", ({ order }: { order: number }) => {
  ran.push(order);
});
const perdure = await Perdure.open({ url, schema });
await perdure.work([confirm]);

const client = new pg.Client({ connectionString: url }); // your own connection, to the same database
await client.connect();
await client.query("create temporary table orders (id int primary key, total int not null check (total > 0))");

/** Resolves with the job if both are stored; rejects if neither is. */
async function place(order: number, total: number) {
  await client.query("begin");
  try {
    const job = await perdure.submit(confirm, { order }, { client, key: `order-${order}` });
    console.log(`order ${order}: submitted ${job.id}`);
    await client.query("insert into orders values ($1, $2)", [order, total]);
    await client.query("commit"); // the job may run from here on
    return job;
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

const first = await place(1, 20);
await first.result();
console.log("order 1: committed, and its job has run");

await place(2, 0).catch((error: Error) => console.log(`order 2: rolled back: ${error.message}`));
const found = await perdure.jobs({ key: "order-2" });
console.log(`order 2: jobs with its key: ${found.jobs.length}`);

await (await place(3, 30)).result(); // submitted after order 2, and has run
const { rows } = await client.query("select array_agg(id order by id) as ids from orders");
console.log(`orders stored: ${rows[0].ids}; jobs that ran: ${ran}`);

await perdure.close();
await client.query(`drop schema ${schema} cascade`); // only for this example: never do this to your jobs
await client.end();
