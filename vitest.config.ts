import { defineConfig } from "vitest/config";

// Crash tests and examples run against dist/, as users do: `npm test` builds first.
export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    globalSetup: ["test/postgres/global-setup.ts"], // a PostgreSQL server for the run, in about a second
    reporters: ["default", "./scripts/counts-reporter.mjs"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    maxWorkers: 3, // many wait for time or for other processes
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
