/** What a command costs before it does anything: `perdure ps` on a small database, beside a bare `node -e 0`. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Bench, Row } from "./scenarios.ts";

const PROGRAM = process.env.PERDURE_BENCH_PROGRAM ?? fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const ROUNDS = 30;

/** Alternately, so that both have the same noise. */
export async function cliStart({ store }: Bench): Promise<Row[]> {
  if (store !== "sqlite") return []; // the start does not depend on the store
  const cwd = mkdtempSync(join(tmpdir(), "perdure-cli-start-"));
  try {
    run(cwd, [PROGRAM, "run", "--", "true"]);
    const bare: number[] = [];
    const ps: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      bare.push(run(cwd, ["-e", "0"]));
      ps.push(run(cwd, [PROGRAM, "ps"]));
    }
    const ratio = `${(median(ps) / median(bare)).toFixed(2)}×`;
    const figure = `${median(ps).toFixed(0)} ms, node -e 0 ${median(bare).toFixed(0)} ms, ${ratio}`;
    return [{ what: "start of `perdure ps`", figure, aim: "≤ 2×" }];
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}

function run(cwd: string, argv: readonly string[]): number {
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(process.execPath, argv, { cwd, encoding: "utf8" });
  if (status !== 0 || (argv.includes("ps") && !stdout.includes("succeeded")))
    throw new Error(`${argv.join(" ")}: ${stderr}`);
  return performance.now() - started;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
}
