/** `npm run acceptance:opal`, started and stopped from the command line. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { gone, treeOf, until } from "../e2e/machine.ts";
import { ROOT } from "../fences.ts";
import { evidenceName, passedAll, type RunSummary, summaryText } from "./evidence.ts";

const TSX = join(ROOT, "node_modules/tsx/dist/cli.mjs");

function run(args: readonly string[]) {
  const script = [TSX, join(ROOT, "test/opal/acceptance-run.ts"), ...args];
  const child: ChildProcess = spawn(process.execPath, script, { cwd: ROOT, stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGTERM"));
  const printed = { text: "" };
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (text) => {
      printed.text += String(text);
    });
  }
  const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  return { child, printed, ended };
}

function newOut(): string {
  const place = realpathSync(mkdtempSync(join(tmpdir(), "perdure-acceptance-test-")));
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
  return join(place, "evidence");
}

const summaryIn = (out: string) => JSON.parse(readFileSync(join(out, "summary.json"), "utf8")) as RunSummary;

describe("npm run acceptance:opal", () => {
  it('runs "Test #1" to "Test #5" and keeps the "Evidence Directory"', async () => {
    const out = newOut();
    const { printed, ended } = run(["--out", out]);
    expect(await ended, printed.text).toBe(0);
    expect(printed.text.trimEnd()).toMatch(/\n5 passed, 0 failed$/);
    expect(printed.text).not.toContain("  fail  ");
    const summary = summaryIn(out);
    expect(summary).toMatchObject({ passed: 5, failed: 0, broken_off: null });
    expect(summary.tests.map(({ name }) => name)).toEqual([
      ...["Retry Success", "Max Retries Exceeded", "Atomic Winner Guard", "Backoff Logic", "Zero ABI Drift"],
    ]);
    expect(readFileSync(join(out, "SUMMARY.md"), "utf8")).toBe(summaryText(summary));
    const [retried = "", spent = ""] = summary.tests[4]?.jobs ?? [];
    expect(readdirSync(join(out, "runtime/job_attempts")).sort()).toEqual([`${retried}.json`, `${spent}.json`].sort());
    expect(readdirSync(join(out, "runtime/opal_artifacts", retried)).sort()).toEqual(["attempt_1", "attempt_2"]);
    expect(readdirSync(join(out, "runtime/logs/worker_pool")).length).toBeGreaterThan(2);
    for (const name of ["perdure.log", "api/jobs_before.json", "api/jobs_after.json"]) {
      expect(existsSync(join(out, name)), name).toBe(true);
    }
    expect(existsSync(join(out, ".perdure")), "no tokens among the evidence").toBe(false);
  });

  it("stopped by Ctrl-C, ends all that it started and reports it", async () => {
    const out = newOut();
    const { child, printed, ended } = run(["--out", out]);
    await until("the first job runs", () => printed.text.includes("Kill worker holding lease"));
    const pids = treeOf(child.pid as number);
    expect(pids.length).toBeGreaterThan(5);
    child.kill("SIGINT");
    expect(await ended, printed.text).toBe(130);
    expect(printed.text).toMatch(/broken off: stopped by SIGINT[\s\S]*\n0 passed, 5 failed\n$/);
    for (const pid of pids) await gone(pid);
    expect(summaryIn(out).broken_off).toBe("stopped by SIGINT");
  });

  it.each([
    [["--port", "x"], /--port takes a number from 0 to 65535, not "x"/],
    [["--out", ROOT], /--out: .* exists; name a directory that does not/],
    [["--fast"], /--fast.*; see --help/],
  ])("with %j ends with 2", async (args, message) => {
    const { printed, ended } = run(args);
    expect(await ended).toBe(2);
    expect(printed.text).toMatch(message);
  });
});

describe("the evidence", () => {
  it('has a name like "p2_20260205T170721Z"', () => {
    expect(evidenceName(new Date(Date.UTC(2026, 1, 5, 17, 7, 21, 987)))).toBe("p2_20260205T170721Z");
  });

  it("is a success only with all five tests, and nothing broken off", () => {
    const tests = Array.from({ length: 5 }, (_, i) => {
      return { number: i + 1, name: "n", objective: "o", jobs: [], passed: true, steps: [] };
    });
    expect(passedAll({ tests, broken_off: null })).toBe(true);
    expect(passedAll({ tests, broken_off: "stopped" })).toBe(false);
    expect(passedAll({ tests: tests.slice(1), broken_off: null })).toBe(false);
    expect(passedAll({ tests: tests.with(3, { ...tests[3], passed: false } as never), broken_off: null })).toBe(false);
  });
});
