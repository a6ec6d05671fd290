/** Every example is run as a reader would run it: as a separate process, with the built package. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ask } from "./postgres/client.ts";
import { postgresUrl } from "./postgres/kit.ts";
import { IS_FULL } from "./tier.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TSX = join(ROOT, "node_modules/tsx/dist/cli.mjs");

/** The working directory of the example, with its own directory for temporary files. */
let cwd = "";

beforeEach(() => {
  if (!existsSync(join(ROOT, "dist/index.js"))) throw new Error("examples run the built package: npm run build");
  cwd = mkdtempSync(join(tmpdir(), "perdure-examples-"));
  mkdirSync(join(cwd, "tmp"));
});

afterEach(() => rmSync(cwd, { recursive: true, force: true }));

/** Its output, after it exited with code 0 and left no temporary files behind. */
async function runExample(name: string, ...args: string[]): Promise<string> {
  const script = join(ROOT, "examples", `${name}.ts`);
  const env = { ...process.env, TMPDIR: join(cwd, "tmp") };
  const child = spawn(process.execPath, [TSX, script, ...args], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => {
    stdout += String(chunk);
  });
  child.stderr.on("data", (chunk) => {
    stderr += String(chunk);
  });
  const code = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
  expect(readdirSync(join(cwd, "tmp")).filter((left) => left.startsWith("perdure-"))).toEqual([]);
  return stdout;
}

const ran = new Set<string>();
function example(name: string, check: (run: (...args: string[]) => Promise<string>) => Promise<void>): void {
  ran.add(`${name}.ts`);
  // `npm test` runs one of them.
  it.runIf(IS_FULL || name === "first-job")(`examples/${name}.ts`, () => check((...args) => runExample(name, ...args)));
}

example("first-job", async (run) => {
  const text = await run();
  expect(text).toContain("Hello, Ada! (from attempt 2)");
  expect(text).toMatch(/^Succeeded at .*, with attempt 2 of 3\.$/m);
  expect(text).toMatch(/^Attempt 1 started at .* and failed after .*"the first run fails, to show a retry"\.$/m);
  expect(text).toMatch(/^Attempt 2 started at .* and completed after/m);
  expect(statSync(join(cwd, ".perdure")).mode & 0o777).toBe(0o700);
  expect(statSync(join(cwd, ".perdure/perdure.db")).mode & 0o777).toBe(0o600);
});

it.runIf(IS_FULL)("examples/first-job.ts with a file of your choice, twice", async () => {
  const file = join(cwd, "mine/jobs.db");
  const [first, second] = [await runExample("first-job", file), await runExample("first-job", file)];
  expect(existsSync(file)).toBe(true);
  expect(existsSync(join(cwd, ".perdure"))).toBe(false);
  const idIn = (text: string) => /job_[0-9a-z]{26}/.exec(text)?.[0];
  expect(idIn(first)).not.toBe(idIn(second));
});

example("flaky-api", async (run) => {
  const lines = (await run()).split("\n");
  expect(lines.slice(0, 4)).toEqual([
    "/price, attempt 1: 503",
    "/price, attempt 2: 429",
    "/price, attempt 3: 200",
    "price: 42",
  ]);
  expect(lines[4]).toContain("attempt 1 failed, next after 200 ms");
  expect(lines[5]).toContain("attempt 2 failed, next after 1000 ms"); // Retry-After, not the backoff's 400
  expect(lines[6]).toContain("attempt 3 completed");
  expect(lines.filter((line) => line.startsWith("/missing"))).toEqual(["/missing, attempt 1: 404"]);
  expect(lines).toContain("missing: rejected after 1 attempt");
});

example("dead-letter", async (run) => {
  const text = await run();
  expect(text).toContain("dead letter: invoice A-1, exhausted after 2 attempts");
  expect(text).toContain("rules[1] matched 2 times and allows 1 retry");
  expect(text).toContain("dead letter: invoice A-2, rejected after 1 attempt");
  expect(text).toContain('"the card has expired" (CardDeclined)');
  expect(text).toContain("redriven: receipt for A-1");
  expect(text).toContain("discarded: invoice A-2; dead letters left: 0");
});

example("cancel-from-another-process", async (run) => {
  const text = await run();
  expect(text).toContain("canceller: requested cancel, the job is running");
  expect(text).toContain("worker: stopped, because the job was cancelled");
  expect(text).toContain("worker: result() rejected with job_cancelled");
  expect(text).toMatch(/^Cancelled at .*, after attempt 1 \(0 of 1 counted\)\.$/m);
});

example("testing", async (run) => {
  const text = await run();
  expect(text).toContain("fails twice, then succeeds after 1 s and 2 s");
  expect(text).toMatch(/pass 2\n/);
  expect(text).toMatch(/fail 0\n/);
});

example("policy", async (run) => {
  const text = await run();
  expect(text).toContain("retry 3 waits 7200 to 10796 ms, 9000 in the middle");
  expect(text).toContain("attempt 4 failed: fail (exhausted, exhausted, by onUnknown; failures 4)");
  expect(text).toContain("attempt 1 failed: retry in 1000 ms (retry, by rule; failures 0)");
  expect(text).toContain("attempt 1 failed: fail (not_retryable, rejected, by list; failures 1)");
  expect(text).toContain("retry.maxAttemps: did you mean maxAttempts?");
});

example("two-processes-postgres", async (run) => {
  const before = await exampleSchemas();
  const text = await run(postgresUrl());
  const ranBy = [...text.matchAll(/^worker (\d+): runs greet for (Ada|Grace|Alan)$/gm)];
  const toldBy = [...text.matchAll(/^submitter (\d+): "Hello, (Ada|Grace|Alan)!" came from process (\d+)$/gm)];
  expect(ranBy.map(([, , name]) => name)).toEqual(["Ada", "Grace", "Alan"]);
  expect(toldBy.map(([, , name, pid]) => [pid, name])).toEqual(ranBy.map(([, pid, name]) => [pid, name]));
  expect(new Set([...ranBy, ...toldBy].map(([, pid]) => pid)).size).toBe(2);
  expect(await exampleSchemas()).toEqual(before);
});

example("transaction", async (run) => {
  const before = await exampleSchemas();
  const lines = (await run(postgresUrl())).trimEnd().split("\n");
  expect(lines.map((line) => line.replace(/job_[0-9a-z]{26}/, "ID"))).toEqual([
    "order 1: submitted ID",
    "order 1: committed, and its job has run",
    "order 2: submitted ID",
    'order 2: rolled back: new row for relation "orders" violates check constraint "orders_total_check"',
    "order 2: jobs with its key: 0",
    "order 3: submitted ID",
    "orders stored: 1,3; jobs that ran: 1,3",
  ]);
  expect(await exampleSchemas()).toEqual(before);
});

example("commands", async (run) => {
  const lines = (await run()).trimEnd().split("\n");
  expect(lines).toEqual([
    "stderr: power is out",
    "stdout: resumed in attempt 2",
    "exit code 0, outputs: resumed.txt (11 bytes)",
    "attempt 1: exit code 7: power is out",
    "attempt 2: ok",
    'HTTP 200 after 2 attempts: {"requests":2}',
  ]);
});

// On a server, too: test/client/same-program.full.test.ts.
example("same-program", async (run) => {
  const lines = (await run()).trimEnd().split("\n");
  expect(lines[0]).toBe("tea costs 4.99 after 3 attempts");
  expect(lines.slice(1, 4)).toEqual(["job.submitted", "attempt.started", "attempt.failed"]);
  expect(lines.at(-1)).toMatch(/^Attempt 3 started at .* and completed after/);
});

example("fluster/flaky-demo", async (run) => {
  const lines = (await run("0.1", "0.4", "0.7")).trimEnd().split("\n");
  expect(lines).toEqual([
    "attempt 0 on worker-1: FAILED, Random failure",
    "attempt 1 on worker-1: FAILED, Random failure",
    "attempt 2 on worker-1: SUCCEEDED",
    "Succeeded after 3 attempts",
  ]);
});

it("the README's first command gets a flaky command through", () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: { start: string } };
  expect(scripts.start).toMatch(/ && node dist\/cli\/main.js run .*-- sh examples\/flaky.sh$/);
  const main = join(ROOT, "dist/cli/main.js");
  const args = [main, "run", "--backoff", "10ms", "--", "sh", join(ROOT, "examples/flaky.sh")];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, encoding: "utf8" });
  expect(stdout.trimEnd().split("\n")).toEqual([
    ...[1, 2, 3].map((n) => `attempt ${n}: fetching the report`),
    "got it",
  ]);
  expect(stderr).toMatch(/^attempt 1\/5 failed: exit code 75 \(connection reset by peer\); retrying in \d+ ms$/m);
  expect(stderr).toMatch(/^attempt 2\/5 failed: /m);
  expect(stderr).toMatch(/^attempt 3 succeeded after [\d.]+ m?s$/m);
  expect(status).toBe(0);
});

/** Each run has a schema named after its process. */
async function exampleSchemas(): Promise<unknown[]> {
  return ask(postgresUrl(), "select nspname from pg_namespace where nspname like 'perdure\\_example\\_%' order by 1");
}

it("every example is run here and opens with a comment of 2 to 4 lines", () => {
  const found = readdirSync(join(ROOT, "examples"), { recursive: true, encoding: "utf8" });
  const files = found.filter((name) => name.endsWith(".ts"));
  expect([...ran].sort()).toEqual(files.sort());
  for (const name of files) {
    const text = readFileSync(join(ROOT, "examples", name), "utf8").replace(/^\/\/ biome-ignore-all.*\n/, "");
    const [, header = ""] = /^\/\*\* (.*?) \*\/\n/s.exec(text) ?? [];
    expect({ name, lines: header.split("\n").length >= 2 && header.split("\n").length <= 4 }).toEqual({
      name,
      lines: true,
    });
  }
});
