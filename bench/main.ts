/** `npm run bench [-- name…]`: one table of what this machine does, durable and with everything on.
 *  Figures are comparable within one run only. `--quick` uses a tenth of the jobs, `--sqlite` and `--postgres` one store. */
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { ask } from "../test/postgres/client.ts";
import { startServer } from "../test/postgres/server.ts";
import { type Row, scenarios } from "./scenarios.ts";

// tsx turns source maps on, which makes every error of a handler slower than in plain Node.
process.setSourceMapsEnabled(false);

const USAGE = `npm run bench [-- [--quick] [--sqlite | --postgres] [name…]]
  --quick      a tenth of the jobs
  --sqlite     SQLite alone
  --postgres   PostgreSQL alone
  names: ${Object.keys(scenarios).join(", ")}`;
const FLAGS = ["--quick", "--sqlite", "--postgres"];

const args = process.argv.slice(2);
if (args.includes("--help")) {
  console.log(USAGE);
  process.exit(0);
}
const quick = args.includes("--quick");
const names = args.filter((arg) => !arg.startsWith("-"));
const unknown = args.filter((arg) => !FLAGS.includes(arg) && !(arg in scenarios));
if (unknown.length > 0) {
  console.error(`unknown: ${unknown.join(", ")}\n\n${USAGE}`);
  process.exit(2);
}

const stores = args.includes("--sqlite")
  ? ["sqlite"]
  : args.includes("--postgres")
    ? ["postgres"]
    : ["sqlite", "postgres"];

const described = {
  sqlite: "SQLite file, WAL, synchronous=FULL",
  postgres: "PostgreSQL on this machine, fsync and synchronous_commit on",
};
for (const store of stores as ("sqlite" | "postgres")[]) {
  const rows: Row[] = [];
  const place = store === "sqlite" ? files() : await server();
  try {
    for (const [name, run] of Object.entries(scenarios)) {
      if (names.length > 0 && !names.includes(name)) continue;
      process.stderr.write(`${store} ${name} … `);
      const found = await run({ store, ...place, scale: quick ? 0.1 : 1 });
      rows.push(...found);
      process.stderr.write(`${found.map((row) => row.figure).join(", ")}\n`);
    }
  } finally {
    await place.end();
  }
  console.log(`\nNode ${process.versions.node}, ${cpus().length} cores, ${described[store]}, one process`);
  const wide = (pick: (row: Row) => string) => Math.max(...rows.map((row) => pick(row).length));
  for (const { what, figure, aim } of rows) {
    console.log(`  ${what.padEnd(wide((r) => r.what))}  ${figure.padStart(wide((r) => r.figure))}  aim: ${aim}`);
  }
}

/** Each database is a separate file, removed at the end. */
function files() {
  const dir = mkdtempSync(join(process.env.PERDURE_BENCH_DIR ?? tmpdir(), "perdure-bench-"));
  return {
    open: (name: string) => ({ url: join(dir, `${name}.db`) }),
    longReader: null,
    end: async () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** Each database is a schema of one server: the test server, or that of PERDURE_TEST_POSTGRES_URL. */
async function server() {
  const foreign = process.env.PERDURE_TEST_POSTGRES_URL;
  const settings = { shared_buffers: "512MB", min_wal_size: "1GB", max_wal_size: "2GB" };
  const own = foreign === undefined ? await startServer({ settings }) : null;
  const url = foreign ?? (own?.url as string);
  if (own !== null) await warmUp(url);
  const made: string[] = [];
  return {
    open(name: string) {
      const schema = `bench_${process.pid}_${name.replaceAll(/\W/g, "_")}`;
      made.push(schema);
      return { url, schema };
    },
    async longReader() {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query("begin isolation level repeatable read");
      await client.query("select pg_current_xact_id(), count(*) from pg_class");
      return () => client.end();
    },
    async end() {
      for (const schema of made) await ask(url, `drop schema if exists ${schema} cascade`);
      await own?.stop();
    },
  };
}

/** A server that has been running for a while reuses its log files; a new one creates them as it runs, which
 *  costs more than what is written. */
async function warmUp(url: string): Promise<void> {
  await ask(url, "create table warm as select repeat(md5(i::text), 30) as text from generate_series(1, 900000) as i");
  await ask(url, "drop table warm");
  await ask(url, "checkpoint");
  await ask(url, "select pg_switch_wal()");
  await ask(url, "checkpoint");
}
