import { defineConfig } from "vitest/config";

/** Folders whose tests keep nothing behind: many small files, which share processes. The others have one each. */
const SMALL = ["src/{core,dialects,cli,contract,client,lib,files,server}/**/*.test.ts"];

// Crash tests and examples run against dist/, as users do: `npm test` builds first.
export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: "small", include: SMALL, isolate: false } },
      { extends: true, test: { name: "whole", include: ["src/**/*.test.ts", "test/**/*.test.ts"], exclude: SMALL } },
    ],
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
