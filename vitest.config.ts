import { defineConfig } from "vitest/config";
import LongestFirst from "./scripts/longest-first.mjs";

/** `npm run test:full` runs everything. `npm test` leaves out `*.full.test.ts`: what waits for real time, kills processes by the
 *  dozen, runs every command of the docs, or repeats on a second store what conformance has shown there. */
const isFull = process.env.PERDURE_FULL === "1";
const FULL_ONLY = isFull ? [] : ["**/*.full.test.ts"];

/** Without a database. */
const SMALL = ["src/{core,dialects,cli,contract,client,lib,files,server}/**/*.test.ts"];
/** Whose kits leave nothing behind that another file could meet. */
const SHARED = [
  "src/{embedded,engine,store,testing,worker}/**/*.test.ts",
  "test/{cli,client,crash,dialects,e2e,exec,family,faults,fuzz,http-worker,opal,server}/**/*.test.ts",
];
const ALONE = ["test/**/*.test.ts"];

/** A PostgreSQL server for the run, in about a second. */
const WITH_POSTGRES = { globalSetup: ["test/postgres/global-setup.ts"], setupFiles: ["test/setup.ts"] };

// Crash tests and examples run against dist/, as users do: `npm test` builds first. To start a process and load everything
// costs more than most files: those that can share one do.
export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: "small", include: SMALL, exclude: FULL_ONLY, isolate: false } },
      {
        extends: true,
        test: { name: "shared", include: SHARED, exclude: FULL_ONLY, isolate: false, ...WITH_POSTGRES },
      },
      { extends: true, test: { name: "alone", include: ALONE, exclude: [...FULL_ONLY, ...SHARED], ...WITH_POSTGRES } },
    ],
    sequence: { sequencer: LongestFirst },
    reporters: ["default", "./scripts/counts-reporter.mjs"],
    testTimeout: 120_000, // only what hangs reaches it
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } }, // a second is not enough where others want the processor
    unstubEnvs: true,
    maxWorkers: 4, // many wait for time or for other processes
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts"],
      exclude: ["src/**/*.test.ts", "src/**/index.ts", "src/**/testing-*.ts", "src/store/conformance/**"],
      reporter: ["text-summary"],
      // The heart is covered in full; the rest is measured by what it does to processes and files.
      thresholds: {
        "src/core/{decide,classify,backoff,resolve-*,fold,lifecycle,command,budget}.ts": { 100: true },
      },
    },
  },
});
