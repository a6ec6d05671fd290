/** Two processes share a PostgreSQL database: this one submits, another one works. They could be on two hosts.
 *  The second process is the same file, started with the schema as an argument. Requires a server; removes what it creates.
 *  Run: npx tsx examples/two-processes-postgres.ts postgres://user:password@host/database (or set PERDURE_DB) */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Perdure, task } from "perdure";
import pg from "pg";

const [url = process.env.PERDURE_DB, schemaOfParent] = process.argv.slice(2);
if (url === undefined) throw new Error("no database: pass its address as an argument, or set PERDURE_DB");

const greet = task("greet", async (input: { name: string }) => {
  console.log(`worker ${process.pid}: runs greet for ${input.name}`);
  return { text: `Hello, ${input.name}!`, pid: process.pid };
});

if (schemaOfParent === undefined) await submit(url, `perdure_example_${process.pid}`);
else await work(url, schemaOfParent);

/** The other process: works until it is disconnected. */
async function work(url: string, schema: string): Promise<void> {
  const perdure = await Perdure.open({ url, schema });
  await perdure.work([greet]);
  await once(process, "disconnect");
  await perdure.close();
}

/** This process has no worker, so all jobs run in the other one. */
async function submit(url: string, schema: string): Promise<void> {
  const other = fork(fileURLToPath(import.meta.url), [url, schema]);
  const perdure = await Perdure.open({ url, schema }); // the first process creates the tables
  for (const name of ["Ada", "Grace", "Alan"]) {
    const job = await perdure.submit(greet, { name });
    const { text, pid } = await job.result({ timeout: "30s" });
    console.log(`submitter ${process.pid}: "${text}" came from process ${pid}`);
  }
  other.disconnect();
  await once(other, "exit");
  await perdure.close();

  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`drop schema ${schema} cascade`); // only for this example: never do this to your jobs
  await client.end();
}
