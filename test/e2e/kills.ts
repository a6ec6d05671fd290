/** F01, with any numbers: `npm run test:kills -- --kills 1000 --workers 8 --every 200`. Workers and servers are killed
 *  at random while jobs run; at the end every guarantee is checked (I1, I2, I4, I9), and no job may have failed as
 *  poison. `kills.full.test.ts` does the work; this passes the numbers. Exits with 1 if anything is wrong. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "100" },
    workers: { type: "string", default: "8" },
    /** Slots of each worker. */
    concurrency: { type: "string", default: "4" },
    /** Minimum milliseconds between kills: a busy machine takes longer to restart what was killed. */
    every: { type: "string", default: "200" },
    seed: { type: "string", default: "" },
  },
});

const names = {
  kills: "KILLS",
  workers: "KILL_WORKERS",
  concurrency: "KILL_SLOTS",
  every: "KILL_EVERY_MS",
  seed: "SEED",
};
const env: NodeJS.ProcessEnv = { ...process.env, PERDURE_FULL: "1" };
for (const [option, name] of Object.entries(names)) {
  const value = values[option as keyof typeof names];
  if (value === "") continue;
  if (!/^\d{1,9}$/.test(value)) {
    console.error(`--${option} takes a whole number, not ${JSON.stringify(value)}`);
    process.exit(2);
  }
  env[`PERDURE_${name}`] = value;
}

const vitest = fileURLToPath(new URL("../../node_modules/vitest/vitest.mjs", import.meta.url));
const args = [vitest, "run", "test/e2e/kills.full.test.ts", "--disable-console-intercept"];
const cwd = fileURLToPath(new URL("../..", import.meta.url));
process.exitCode = spawnSync(process.execPath, args, { env, cwd, stdio: "inherit" }).status ?? 1;
