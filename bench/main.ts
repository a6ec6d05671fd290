/** `npm run bench [-- name…]`: one table of what this machine does, durable and with everything on.
 *  Figures are comparable within one run only. `--quick` uses a tenth of the jobs. */
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { type Row, scenarios } from "./scenarios.ts";

// tsx turns source maps on, which makes every error of a handler dearer than it is in plain Node.
process.setSourceMapsEnabled(false);

const args = process.argv.slice(2);
const quick = args.includes("--quick");
const names = args.filter((arg) => !arg.startsWith("--"));
const unknown = names.filter((name) => !(name in scenarios));
if (unknown.length > 0) {
  console.error(`unknown: ${unknown.join(", ")}; there are: ${Object.keys(scenarios).join(", ")}`);
  process.exit(2);
}

const dir = mkdtempSync(join(process.env.PERDURE_BENCH_DIR ?? tmpdir(), "perdure-bench-"));
const rows: Row[] = [];
try {
  for (const [name, run] of Object.entries(scenarios)) {
    if (names.length > 0 && !names.includes(name)) continue;
    process.stderr.write(`${name} … `);
    const found = await run(join(dir, `${name}.db`), quick ? 0.1 : 1);
    rows.push(...found);
    process.stderr.write(`${found.map((row) => row.figure).join(", ")}\n`);
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}

console.log(`\nNode ${process.versions.node}, ${cpus().length} cores, SQLite file, WAL, synchronous=FULL, one process`);
const wide = (pick: (row: Row) => string) => Math.max(...rows.map((row) => pick(row).length));
for (const { what, figure, aim } of rows) {
  console.log(`  ${what.padEnd(wide((r) => r.what))}  ${figure.padStart(wide((r) => r.figure))}  aim: ${aim}`);
}
