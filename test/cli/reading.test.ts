/** The reading commands, on a data directory that the library has filled. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import type { Io } from "../../src/cli/io.ts";
import { main } from "../../src/cli/main.ts";
import { textWidth } from "../../src/cli/output/terminal-text.ts";
import type { JobInfo } from "../../src/core/job/views.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { claimAndVanish, DANGEROUS, eventsIn, Kept, perdure, type Stock, stocked, testIo, uncoloured } from "./kit.ts";

const UNKNOWN = "job_01m7gekg9zevv9a6xvvwmt1v8g";

let stock: Stock;
beforeAll(async () => {
  stock = await stocked();
});
afterAll(() => stock.remove());

/** Runs a command on the stock; its output must not contain control characters from a job. */
async function ask(argv: readonly string[], parts: Partial<Io> = {}) {
  const said = await perdure([...argv, "--data", stock.dir], parts);
  expect(said.stdout).not.toMatch(DANGEROUS);
  expect(said.stderr).not.toMatch(DANGEROUS);
  return said;
}

async function askJson<T>(argv: readonly string[]): Promise<T> {
  const { code, stdout, stderr } = await ask([...argv, "--json"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as T;
}

const idsOf = async (...argv: string[]) => (await askJson<JobInfo[]>(["ps", ...argv])).map((job) => job.id);

function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "perdure-cli-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

describe("ps", () => {
  it("lists jobs, newest first, with their name, state, reason and attempts", async () => {
    const { code, stdout, stderr } = await ask(["ps"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const { done, failed, waiting, exec } = stock.ids;
    const lines = stdout.trimEnd().split("\n");
    expect(lines.map((line) => line.split(/ +/)[0])).toEqual(["ID", exec, waiting, failed, done]);
    expect(lines[0]).toMatch(/^ID +NAME +STATE +ATTEMPT +AGE$/);
    expect(lines[1]).toMatch(/ flaky\.sh +queued \(in \d+\S* (min|h)\) +0 /);
    expect(lines[2]).toMatch(/ later +queued \(in /);
    expect(lines[3]).toMatch(/ hopeless +failed \(rejected\) +1 /);
    expect(lines[4]).toMatch(/ flaky +succeeded +2 /);
  });

  it.each([
    [["--state", "failed"], ["failed"]],
    [
      ["--state", "succeeded", "--state=queued"],
      ["exec", "waiting", "done"],
    ],
    [["--queue", "images"], ["failed"]],
    [["--kind", "exec"], ["exec"]],
    [["--tag", "red"], ["done"]],
    [["--tag", "red", "--state", "failed"], []],
    [
      ["-n", "2"],
      ["exec", "waiting"],
    ],
  ] as [string[], (keyof Stock["ids"])[]][])("with %j lists %j", async (argv, names) => {
    const { code, stdout } = await ask(["ps", ...argv, "--json"]);
    expect(code).toBe(0);
    expect((JSON.parse(stdout) as JobInfo[]).map((job) => job.id)).toEqual(names.map((name) => stock.ids[name]));
  });

  it("reports that there are more, and continues from a cursor", async () => {
    const first = await ask(["ps", "--limit", "3"]);
    const cursor = /--cursor (\S+) /.exec(first.stderr)?.[1] as string;
    expect(first.stderr).toMatch(/^there are more jobs; [^\n]+\n$/);
    expect(await idsOf("--limit", "3", "--cursor", cursor)).toEqual([stock.ids.done]);
    expect((await ask(["ps", "--limit", "1", "--json"])).stderr).toContain("there are more");
    expect(await idsOf("--all")).toHaveLength(4);
    const wrong = await ask(["ps", "--kind", "exec", "--cursor", cursor]);
    expect(wrong).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("belongs to another query") });
  });

  it("lists more jobs than one page holds with --all", async () => {
    const dir = tempDir();
    const engine = await Perdure.open(join(dir, "perdure.db"));
    await engine.submitMany(Array.from({ length: 250 }, (_, i) => ({ task: "k", input: i })));
    await engine.close();
    const { stdout, stderr } = await perdure(["ps", "--all", "--json", "--data", dir]);
    const inputs = (JSON.parse(stdout) as JobInfo[]).map((job) => job.payload);
    expect(inputs).toEqual(Array.from({ length: 250 }, (_, i) => 249 - i));
    expect(stderr).toBe("");
  });

  it("limits lines to the terminal width, and uses colours on a terminal", async () => {
    for (const columns of [40, 80, 100]) {
      const { stdout } = await ask(["ps"], { isTTY: false, columns });
      for (const line of stdout.split("\n")) expect(textWidth(line)).toBeLessThanOrEqual(columns);
      expect(stdout).toContain(stock.ids.done.slice(0, 18));
    }
    const wide = await ask(["ps", "--wide"], { isTTY: false, columns: 80 });
    expect(wide.stdout).toMatch(/^ID +NAME +KIND .* COMMAND +FAILURE$/m);
    expect(wide.stdout).toMatch(new RegExp(`^${stock.ids.exec} .* \\./flaky\\.sh --name 'a b\\\\x1b\\[2J`, "m"));
    const shown = await perdure(["ps", "--data", stock.dir], { isTTY: true, columns: 100 });
    expect(shown.stdout).toContain("\x1b[31mfailed (rejected)");
    expect(uncoloured(shown.stdout)).not.toMatch(DANGEROUS);
    const json = await perdure(["ps", "--json", "--data", stock.dir], { isTTY: true, columns: 100 });
    expect(json.stdout).not.toContain("\x1b");
  });

  it.each([
    [["--state", "runing"], 'perdure ps: --state: must be one of "queued"'],
    [["--limit", "0"], 'perdure ps: --limit: must be a whole number from 1 to 1000; got "0"'],
    [["--limit", "x"], 'perdure ps: --limit: must be a whole number from 1 to 1000; got "x"'],
    [["--all", "--limit", "3"], "perdure ps: --all and --limit cannot be used together"],
    [["--queue", ""], "perdure ps: --queue: must be a text"],
    [["--cursor", "nonsense"], "perdure ps: the cursor was not made by this store"],
    [["extra"], 'perdure ps: unexpected argument "extra"'],
  ])("refuses %j in one line", async (argv, line) => {
    const { code, stdout, stderr } = await ask(["ps", ...argv]);
    expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: "", stderr: expect.stringMatching(/^[^\n]+\n$/) });
    expect(stderr).toContain(line);
  });

  it("reports no matching jobs with exit code 0", async () => {
    expect(await ask(["ps", "--kind", "none"])).toEqual({ code: 0, stdout: "", stderr: "no matching jobs\n" });
    expect(await idsOf("--kind", "none")).toEqual([]);
  });
});

describe("get", () => {
  it("shows a job, its attempts and its result", async () => {
    const { code, stdout, stderr } = await ask(["get", stock.ids.done]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(new RegExp(`^Job +${stock.ids.done}$`, "m"));
    expect(stdout).toMatch(/^State +succeeded$/m);
    expect(stdout).toMatch(/^Key +img-1$/m);
    expect(stdout).toMatch(/^Tags +red$/m);
    expect(stdout).toMatch(/^Attempts +2 of 3$/m);
    expect(stdout).toMatch(/^Submitted +\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:\d\d$/m);
    expect(stdout).toMatch(/^ +1 +failed +\S+ +[\d.]+ m?s +1 ms +connection reset$/m);
    expect(stdout).toMatch(/^ +2 +completed +\S+ +[\d.]+ m?s$/m);
    expect(stdout).toContain('Input\n{\n  "n": 1\n}\n');
    expect(stdout).toContain('Result\n{\n  "width": 640\n}\n');
  });

  it("counts a lost worker as explain does, if losses count towards maxAttempts", async () => {
    const dir = tempDir();
    const engine = await Perdure.open(join(dir, "perdure.db"));
    const { id } = await engine.submit("k", undefined, { retry: { preset: "opal" }, runAt: Date.now() - 120_000 });
    await engine.close();
    await claimAndVanish(dir, true);
    const reaping = await Perdure.open(join(dir, "perdure.db"));
    const losses = async () => (await (await reaping.job(id)).get()).losses;
    await vi.waitFor(async () => expect(await losses()).toBe(1), { timeout: 20_000 });
    await reaping.close();
    const [got, explained] = [await perdure(["get", id, "--data", dir]), await perdure(["explain", id, "--data", dir])];
    expect(got.stdout).toMatch(/^Attempts +1 of 2 \(1 loss\)$/m);
    expect(explained.stdout).toContain("attempt 1 of 2 (1 loss)");
  });

  it("shows a failure on one line, with hostile text escaped", async () => {
    const { stdout } = await ask(["get", stock.ids.failed]);
    expect(stdout).toMatch(/^State +failed \(rejected\)$/m);
    expect(stdout).toMatch(/^ +1 +failed .* no such image \\x1b\[2J.*\\r\\nsecond line$/m);
    expect(stdout).not.toContain("Result");
  });

  it("shows a waiting job, and when it is due", async () => {
    const { stdout } = await ask(["get", stock.ids.exec]);
    expect(stdout).toMatch(/^State +queued \(in /m);
    expect(stdout).toMatch(/^Due +\d{4}-/m);
    expect(stdout).toMatch(/^Command +\.\/flaky\.sh --name 'a b/m);
    expect(stdout).not.toContain("OUTCOME");
  });

  it("as JSON is the job with its attempts", async () => {
    const job = await askJson<JobInfo & { attempts: unknown[] }>(["get", stock.ids.done]);
    expect(job).toMatchObject({ id: stock.ids.done, state: "succeeded", result: { width: 640 }, payload: { n: 1 } });
    expect(job.attempts).toMatchObject([
      { attempt: 1, outcome: "failed", failure: { message: "connection reset" }, delay: { delayMs: 1 } },
      { attempt: 2, outcome: "completed", failure: null, delay: null },
    ]);
  });

  it("shows an attempt whose worker is silent as such, and does not change it", async () => {
    const dir = tempDir();
    const engine = await Perdure.open(join(dir, "perdure.db"));
    const { id } = await engine.submit("k", undefined, { runAt: 0 });
    await engine.close();
    await claimAndVanish(dir);
    const before = await eventsIn(dir);
    const { stdout } = await perdure(["get", id, "--data", dir]);
    expect(stdout).toMatch(/^State +running \(worker silent\)$/m);
    expect(stdout).toMatch(/^ +1 +running +\S+$/m);
    expect((await perdure(["ps", "--data", dir])).stdout).toContain("running (worker silent)");
    expect(await eventsIn(dir)).toEqual(before);
  });
});

describe("explain", () => {
  it("explains jobs that ended and those that wait", async () => {
    const done = await ask(["explain", stock.ids.done]);
    expect(done).toMatchObject({ code: 0, stderr: "" });
    expect(done.stdout).toMatch(/^Succeeded at /);
    expect(done.stdout).toContain("Decision: retry");
    expect((await ask(["explain", stock.ids.failed])).stdout).toMatch(/^Failed \(rejected\) at /);
    expect((await ask(["explain", stock.ids.waiting])).stdout).toMatch(/^Waiting|^Queued/);
  });

  it("as JSON is the explanation", async () => {
    const explanation = await askJson<{ text: string }>(["explain", stock.ids.waiting]);
    expect(explanation).toMatchObject({ jobId: stock.ids.waiting, state: "queued", next: { kind: "run" } });
  });
});

describe("events", () => {
  it("of one job are listed in order, without its id on each line", async () => {
    const { code, stdout } = await ask(["events", stock.ids.done]);
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^SEQ +AT +EVENT +DETAIL$/);
    expect(lines.slice(1).map((line) => line.replace(/^ *\d+ +\S+ +/, "").replaceAll(/ {2,}/g, " | "))).toEqual([
      "job.submitted | kind flaky, queue default",
      "attempt.started | attempt 1 on worker worker-1",
      "attempt.failed, job.retry_scheduled | attempt 1, retrying in 1 ms: connection reset",
      "attempt.started | attempt 2 on worker worker-1",
      "attempt.succeeded, job.succeeded | attempt 2",
    ]);
  });

  it("of all jobs and of the engine are listed, and continue after a sequence number", async () => {
    const { stdout, stderr } = await ask(["events"]);
    expect(stderr).toBe("");
    expect(stdout).toMatch(/worker\.started +session ses_/);
    expect(stdout).toContain(stock.ids.failed);
    const every = await askJson<{ seq: number }[]>(["events"]);
    const two = await ask(["events", "--limit", "2", "--json"]);
    expect(JSON.parse(two.stdout)).toEqual(every.slice(0, 2));
    expect(two.stderr).toBe(`there are more events; to continue, pass --after ${every[1]?.seq}\n`);
    expect(await askJson(["events", "--after", String(every[1]?.seq)])).toEqual(every.slice(2));
    const last = String(every.at(-1)?.seq);
    expect(await ask(["events", "--after", last])).toEqual({
      ...{ code: 0, stdout: "", stderr: `no events after ${last}\n` },
    });
    expect((await ask(["events", "--limit", String(every.length)])).stderr).toBe("");
  });

  it("end quietly when the output is closed", async () => {
    const io = testIo({ stdout: new Kept(1) });
    expect(await main(["events", "--json", "--data", stock.dir], io)).toBe(0);
    expect(io.stderr.text).toBe("");
  });
});

describe("a job that does not exist", () => {
  it.each(["get", "explain", "events"])("is reported by %s in one line, with exit code 1", async (command) => {
    const said = {
      code: 1,
      stdout: "",
      stderr: `perdure ${command}: job ${UNKNOWN} does not exist, or it was pruned\n`,
    };
    expect(await ask([command, UNKNOWN])).toEqual(said);
    expect(await ask([command, UNKNOWN, "--json"])).toEqual(said);
  });

  it.each(["get", "explain", "events"])(
    "is reported by %s for text that is neither an id nor a name",
    async (command) => {
      for (const id of ["job_01m", UNKNOWN.toUpperCase(), `${UNKNOWN}0`, "ses_01m7gekg9zevv9a6xvvwmt1v8g"]) {
        const { code, stdout, stderr } = await ask([command, id]);
        expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
        const hint = id.startsWith("job_")
          ? "; an id is job_ and 26 characters, or at least the first 4 of them"
          : "; see `perdure ps`";
        expect(stderr).toBe(`perdure ${command}: no job has the id or name "${id}"${hint}\n`);
      }
    },
  );
});

describe("the data directory", () => {
  const nothing = (dir: string) =>
    `perdure ps: no Perdure data in ${dir}; ` +
    "run `perdure run -- COMMAND` or `perdure up` first, or pass another directory with --data\n";

  it("is never created by a command that reads", async () => {
    const cwd = tempDir();
    const missing = join(cwd, "no", "where");
    expect(await perdure(["ps", "--data", missing])).toEqual({ code: 1, stdout: "", stderr: nothing(missing) });
    expect(await perdure(["ps"], { cwd })).toEqual({ code: 1, stdout: "", stderr: nothing("./.perdure") });
    expect(readdirSync(cwd)).toEqual([]);
    writeFileSync(join(cwd, "perdure.db"), "");
    expect(await perdure(["ps", "--data", "."], { cwd })).toEqual({ code: 1, stdout: "", stderr: nothing(".") });
    expect(await perdure(["ps", "--data", join(cwd, "perdure.db")])).toEqual({
      ...{ code: 1, stdout: "" },
      stderr: `perdure ps: ${cwd}/perdure.db is a file: pass its directory, --data ${cwd}\n`,
    });
    writeFileSync(join(cwd, "kd"), "SQLite format 3");
    expect((await perdure(["ps", "--data", "kd"], { cwd })).stderr).toBe(
      "perdure ps: kd is a file: --data must be a directory with a perdure.db; " +
        "pass a database file with --db kd\n",
    );
    expect((await perdure(["submit", "k", "--data", "kd"], { cwd })).stderr).toMatch(
      /^perdure submit: --data: cannot write to kd \(\w+\); --data must be a directory with a perdure\.db/,
    );
    expect(readdirSync(cwd)).toEqual(["kd", "perdure.db"]);
  });

  it("is --data, else PERDURE_DATA, else ./.perdure", async () => {
    const env = { PERDURE_DATA: stock.dir };
    expect((await perdure(["ps"], { env })).stdout).toContain(stock.ids.done);
    expect(await perdure(["ps", "--data", "other"], { env })).toMatchObject({ code: 1, stderr: nothing("other") });
    expect(await perdure(["ps"], { env: { PERDURE_DATA: "" }, cwd: tempDir() })).toMatchObject({ code: 1 });
  });

  it.each(["", " ", "postgres://me:secret@host/db"])("cannot be %j", async (dir) => {
    const { code, stderr } = await perdure(["ps", "--data", dir]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^perdure ps: --data: must be a (directory|text)[^\n]*; got /);
    expect(stderr).not.toContain("secret");
  });

  it("with a file of another program is refused, and the file is not changed", async () => {
    const dir = tempDir();
    writeFileSync(join(dir, "perdure.db"), "not a database, but long enough to be looked at ".repeat(100));
    const { code, stdout, stderr } = await perdure(["ps", "--data", dir]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^perdure ps: .* is not an SQLite database and was not changed[^\n]*\n$/);
  });

  it("is not changed by any of these commands, except for SQLite's own files", async () => {
    const before = await eventsIn(stock.dir);
    for (const argv of [["ps"], ["get", stock.ids.done], ["explain", stock.ids.waiting], ["events"]]) await ask(argv);
    expect(await eventsIn(stock.dir)).toEqual(before);
    expect(existsSync(join(stock.dir, ".perdure"))).toBe(false);
  });
});
