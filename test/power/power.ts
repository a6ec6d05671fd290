/** F30: repeated power cuts, with figures: `npm run test:power -- --rounds 300`. Each round fills a disk, cuts its
 *  power at a random moment and checks what is left. Exits with 1 if anything acknowledged is missing, or if a cut did
 *  not even lose unflushed data: then nothing was tested. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Disk, whyNoPower } from "./disk.ts";
import { powerRound, type Round } from "./round.ts";

const INNER = "PERDURE_POWER_INNER";
/** The cut comes after at most this many jobs have ended, and at most this long after that. */
const [MOST_ENDS, MOST_MS] = [40, 300];

const { values } = parseArgs({ options: { rounds: { type: "string", default: "5" } } });
const why = whyNoPower();
if (why !== null) {
  console.log(`NOT TESTED: power cuts need root and loop devices, and ${why}`);
  process.exitCode = 2;
} else if (process.env[INNER] === undefined) {
  // In a separate mount namespace: whatever happens, nothing stays mounted.
  const args = [
    "-m",
    "--propagation",
    "private",
    process.execPath,
    ...process.execArgv,
    fileURLToPath(import.meta.url),
  ];
  const { status } = spawnSync("unshare", [...args, ...process.argv.slice(2)], {
    stdio: "inherit",
    env: { ...process.env, [INNER]: "1" },
  });
  process.exitCode = status ?? 1;
} else {
  process.exitCode = await cut(Number(values.rounds));
}

function below(limit: number): number {
  return Math.floor(Math.random() * limit);
}

async function cut(rounds: number): Promise<number> {
  const work = mkdtempSync(join(tmpdir(), "perdure-power-"));
  const env = { PATH: process.env.PATH, HOME: work, TMPDIR: work };
  const disk = new Disk(work);
  const done: Round[] = [];
  console.log("round   cut after    jobs  files  wrong");
  try {
    for (let i = 0; i < rounds; i++) {
      const round = await powerRound(disk, { ends: below(MOST_ENDS), ms: below(MOST_MS) }, env);
      done.push(round);
      const { afterMs, jobs, files, wrong, isHarsh } = round;
      const cells = [i + 1, `${afterMs} ms`, jobs, files, isHarsh ? wrong.length : "nothing was lost"];
      console.log(cells.map((cell, n) => String(cell).padStart([5, 10, 6, 5, 5][n] as number)).join("  "));
      for (const problem of wrong) console.log(`  ${problem}`);
      if (wrong.length > 0) console.log(`  the disk: ${disk.keep(`perdure-power-${process.pid}-${i + 1}.img`)}`);
    }
  } finally {
    await disk.unmount();
    rmSync(work, { recursive: true, force: true });
  }
  const sum = (of: (round: Round) => number) => done.reduce((all, round) => all + of(round), 0);
  const bad = sum(({ wrong }) => (wrong.length > 0 ? 1 : 0));
  const mild = sum(({ isHarsh }) => (isHarsh ? 0 : 1));
  console.log(
    `${done.length} power cuts, ${sum(({ jobs }) => jobs)} acknowledged jobs and ${sum(({ files }) => files)} stored files: ` +
      `${bad} with anything lost; ${mild} that lost not even unflushed data`,
  );
  return bad + mild > 0 ? 1 : 0;
}
