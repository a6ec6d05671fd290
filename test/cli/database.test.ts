/** Every command with a database named in the settings: it uses that database, creates no local file, and shows no password. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { COMMANDS } from "../../src/cli/command-list.ts";
import { NonRetryableError } from "../../src/core/decision/failure.ts";
import { task } from "../../src/core/task/task.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { newSchema, postgresUrl } from "../postgres/kit.ts";
import { perdure, type Said } from "./kit.ts";
import { newDir } from "./targets.ts";

/** A password that no server uses; the server of the tests has another. */
const PASSWORD = "geheim-1234";

function newDatabase(): string {
  return newSchema("database").url;
}

/** The jobs by their state: failed twice, cancelled, waiting. */
async function stocked(db: string) {
  const fatal = task("fatal", {}, () => {
    throw new NonRetryableError("no such image");
  });
  await using engine = await Perdure.open(db);
  await engine.work([fatal]);
  const failed = await Promise.all([1, 2, 3].map(() => engine.submit(fatal, undefined, { queue: "images" })));
  await Promise.all(failed.map((job) => job.result().catch(() => {})));
  const waiting = await Promise.all([1, 2].map(() => engine.submit("later", { n: 1 }, { delay: "1h" })));
  const [a, b, c, d, e] = [...failed, ...waiting].map(({ id }) => id) as [string, string, string, string, string];
  return { failed: a, redriven: b, discarded: c, waiting: d, cancelled: e };
}

/** Every SQLite file and data directory below this directory. */
function databasesIn(cwd: string): string[] {
  const names = readdirSync(cwd, { recursive: true }) as string[];
  return names.filter((name) => /\.db/.test(name));
}

function expectNoPassword({ stdout, stderr }: Said): void {
  for (const password of [PASSWORD, new URL(postgresUrl()).password]) {
    if (password !== "") expect(stdout + stderr).not.toContain(`:${password}@`);
  }
  expect(stdout + stderr).not.toContain(PASSWORD);
}

/** Commands that serve a database, or do not use one. `server` and `up` are processes: test/e2e. */
const OTHERS = ["convert", "simulate", "up", "server", "worker", "config", "completion"];

it("is what every command works on, named by PERDURE_DB", async () => {
  const cwd = newDir();
  const db = newDatabase();
  const ids = await stocked(db);
  const ask = async (argv: readonly string[]) => {
    const said = await perdure(argv, { cwd, env: { PERDURE_DB: db } });
    expectNoPassword(said);
    return said;
  };
  writeFileSync(join(cwd, "job.yaml"), "kind: mail\n");
  const book = "apiVersion: perdure/v1\nkind: Playbook\nmetadata: { name: book, path: shop/book }\nworkflow:\n";
  writeFileSync(join(cwd, "book.yaml"), `${book}  - { step: a, type: task, task: mail }\n`);
  const ran = await ask(["run", "--json", "--", "sh", "-c", "echo hello; echo kept > $PERDURE_OUTPUT_DIR/artifacts/x"]);
  expect(ran).toMatchObject({ code: 0, stdout: expect.stringMatching(/^hello\n/) });
  const run = (JSON.parse(ran.stdout.split("\n")[1] as string) as { id: string }).id;
  const rows: readonly (readonly [argv: string[], said: RegExp, code?: number])[] = [
    [["run", "--", "echo", "once"], /^once$/m],
    [["submit", "mail"], /^job_/],
    [["apply", "-f", "job.yaml"], /^job_/],
    [["wait", run], /succeeded/],
    [["ps"], new RegExp(`${run}[^]*${ids.failed}`)],
    [["get", ids.failed], /no such image/],
    [["explain", ids.failed], /no such image/],
    [["describe", ids.failed], new RegExp(ids.failed)],
    [["tree", ids.failed], new RegExp(ids.failed)],
    [["logs", run], /^hello$/m],
    [["events", run], /attempt.succeeded/],
    [["artifacts", run, "x"], /^kept$/m],
    [["cancel", ids.cancelled], /cancel/],
    [["retry", ids.waiting], new RegExp(ids.waiting)],
    [["redrive", ids.redriven], new RegExp(ids.redriven)],
    [["resubmit", ids.failed], /^job_/m],
    [["discard", ids.discarded], new RegExp(ids.discarded)],
    [["usage", ids.failed, "--tokens-in", "1"], /is not running/, 1],
    [["queues"], /^images /m],
    [["workers", "--all"], /./],
    [["drain", "ses_none"], /worker "ses_none" does not exist/, 1],
    [["token", "list"], /no tokens/],
    [["doctor"], /^ok +store +postgres:\S+ has schema \d+$/m],
    [["migrate"], /is up to date: schema \d+/],
    [["prune"], /^deleted 0 jobs$/m],
    [["validate", "book.yaml"], /^book\.yaml: valid/],
    [["schema", "playbook"], /json-schema/],
    [["views", "noetl", "--print"], /create/i],
    [["playbook", "push", "book.yaml"], /^shop\/book@1$/m],
    [["start", "shop/book"], /^job_.*\sno server is running on this data/],
    [["runs"], /book +shop\/book@1 +running/],
    [["steps", "book"], /./],
    [["graph", "book"], /task mail/],
  ];
  const covered = new Set([...rows.map(([[name]]) => name), ...OTHERS]);
  expect(COMMANDS.map(({ name }) => name).filter((name) => !covered.has(name))).toEqual([]);
  for (const [argv, wanted, code = 0] of rows) {
    const said = await ask(argv);
    expect({ code: said.code, said: said.stdout + said.stderr }, argv.join(" ")).toEqual({
      ...{ code, said: expect.stringMatching(wanted) },
    });
  }
  // The queues of the local runs were deleted with their jobs.
  expect((await ask(["queues"])).stdout).not.toContain("run-");
  expect(databasesIn(cwd)).toEqual([]);
  // The local runs left their files in the database, and nothing else.
  expect(readdirSync(join(cwd, ".perdure", "artifacts"))).toEqual([]);
});

it.each([
  ["a file by option", () => [["--db", "jobs.db"], ""]],
  ["a file in the settings", () => [["--config", "settings.yaml"], "db: deep/jobs.db\n"]],
  ["a server's address in the settings", (db: string) => [["--config", "settings.yaml"], `db: ${db}\n`]],
] as [string, (db: string) => [string[], string]][])(
  "is created by commands that submit, and not by commands that read: %s",
  async (_, how) => {
    const cwd = newDir();
    const [argv, file] = how(newDatabase());
    writeFileSync(join(cwd, "settings.yaml"), file);
    const ask = (command: string, ...rest: string[]) => perdure([command, ...argv, ...rest], { cwd });
    expect(await ask("ps")).toMatchObject({ code: 1, stderr: expect.stringContaining("no Perdure data in") });
    expect(databasesIn(cwd)).toEqual([]);
    expect(await ask("run", "--quiet", "--", "echo", "here")).toEqual({ code: 0, stdout: "here\n", stderr: "" });
    const jobs = JSON.parse((await ask("ps", "--json")).stdout) as { id: string; state: string }[];
    expect(jobs).toMatchObject([{ state: "succeeded" }]);
    expect((await ask("logs", jobs[0]?.id as string)).stdout).toBe("here\n");
    expect(databasesIn(cwd).filter((name) => !name.includes("jobs.db"))).toEqual([]);
  },
);

it.each([
  [["--db", ":memory:"], /^perdure ps: --db: a database in memory belongs to one process/],
  [["--db", "mysql://u:geheim-1234@h/x"], /^perdure ps: --db: must be .*; got "mysql:…"/],
  [["--db", "."], /is a directory; pass it as --data/],
  [["--db", "host=db password=geheim-1234"], /^perdure ps: --db: /],
  [["--db", "x.db", "--server", "http://localhost:1"], /^perdure ps: --db and --server cannot be used together$/m],
])("is refused with a message without the password: %j", async (argv, stderr) => {
  const said = await perdure(["ps", ...argv], { cwd: newDir() });
  expect(said).toMatchObject({ code: 2, stderr: expect.stringMatching(stderr) });
  expectNoPassword(said);
});
