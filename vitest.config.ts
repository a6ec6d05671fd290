import { defineConfig } from "vitest/config";
import TestOrder from "./scripts/test-order.mjs";
import { useMemoryDirectory } from "./test/memory-directory.ts";

/** `npm run test:full` runs everything. `npm test` leaves out `*.full.test.ts`: what waits for real time, kills processes by the
 *  dozen, runs every command of the docs, or repeats on a second store what conformance has shown there. */
const isFull = process.env.PERDURE_FULL === "1";

if (!isFull) useMemoryDirectory();

// Crash tests and examples run against dist/, as users do: `npm test` builds first. To start a process and load everything
// costs more than most files, so files share processes, and their kits leave nothing behind that another file could meet.
export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    exclude: isFull ? [] : ["**/*.full.test.ts"],
    isolate: false,
    globalSetup: ["test/postgres/global-setup.ts"], // a PostgreSQL server for the run, in about a second
    setupFiles: ["test/setup.ts"],
    sequence: { sequencer: TestOrder },
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
        "src/core/{decision/{decide,classify,backoff,budget},policy/resolve-*,job/{fold,lifecycle,command}}.ts": {
          100: true,
        },
      },
    },
  },
});
