/** `perdure validate`, `perdure schema` and `perdure graph` of files: every mistake with its line and column, exit code 2, and no
 *  database. */
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { perdureAt } from "./kit.ts";
import { newDir } from "./targets.ts";

const EXAMPLES = resolve(import.meta.dirname, "../../examples/playbooks");
const HEAD = "apiVersion: perdure/v1\nkind: Playbook\nmetadata: { name: bad }\nworkflow:\n";

/** Each: what is wrong, the steps, and the one line about it. */
const MISTAKES: readonly (readonly [name: string, steps: string, line: string])[] = [
  [
    "a cycle without jobs",
    "  - { step: a, next: b }\n  - { step: b, next: a }\n",
    'bad.yaml:5:7: error: a cycle of steps that only route: "a", "b"; add a step with a type, such as a wait [inline_cycle]',
  ],
  [
    "a join in a cycle",
    '  - { step: a, type: wait, for: 1s, join: all, next: b }\n  - { step: b, type: wait, for: 1s, next: { step: a, when: "{{ a }}" } }\n',
    "bad.yaml:5:37: error: ",
  ],
  [
    "an unknown step",
    "  - { step: a, next: proces }\n  - { step: process }\n",
    'unknown step "proces"; did you mean "process"?',
  ],
  [
    "two steps of one name",
    "  - { step: a, next: b }\n  - { step: b }\n  - { step: b }\n",
    'bad.yaml:7:7: error: two steps are called "b"',
  ],
  [
    "a template that names nothing",
    '  - { step: a, type: http, url: "http://x/{{ citty }}" }\n',
    'bad.yaml:5:46: error: unknown name "citty" [unknown_name]',
  ],
  [
    "an over-long list",
    `  - { step: a, type: shell, command: ls, loop: { in: [${"1,".repeat(10_001)}], iterator: i } }\n`,
    "must be a list of at most 10000 items, or a template that gives one; got a list of 10001",
  ],
  [
    "a secret",
    '  - { step: a, type: shell, command: "curl {{ secret.KEY }}" }\n',
    "bad.yaml:5:47: error: secrets are not available",
  ],
];

it.each(MISTAKES)("reports %s with its place, and exits with 2", async (_, steps, line) => {
  const cwd = newDir();
  writeFileSync(join(cwd, "bad.yaml"), HEAD + steps);
  const said = await perdureAt({ cwd }, ["validate", "bad.yaml"]);
  expect(said.code).toBe(2);
  expect(said.stdout).toContain(line);
  expect(said.stdout).toMatch(/^bad\.yaml:\d+:\d+: error: .+ \[\w+\]\n/);
  expect(readdirSync(cwd)).toEqual(["bad.yaml"]);
});

it("reports the problems of all files at once: texts, jobs, bytes and playbooks", async () => {
  const cwd = newDir();
  writeFileSync(join(cwd, "broken.yaml"), "a: [1\nb: 2\n");
  writeFileSync(join(cwd, "job.yaml"), "argv: [echo, hi]\n");
  writeFileSync(join(cwd, "bytes.yaml"), Buffer.from([0xff, 0xfe, 0x00]));
  writeFileSync(join(cwd, "two.yaml"), `${HEAD}  - { step: a, nxt: b }\n---\n${HEAD}  - { step: a, next: c }\n`);
  writeFileSync(join(cwd, "good.yaml"), `${HEAD}  - { step: a }\n`);
  const names = ["broken.yaml", "job.yaml", "bytes.yaml", "two.yaml", "good.yaml"];
  const { code, stdout, stderr } = await perdureAt({ cwd }, ["validate", ...names]);
  expect([code, stderr]).toEqual([2, "5 errors\n"]);
  expect(stdout.split("\n")).toEqual([
    expect.stringMatching(/^broken\.yaml:2:1: error: the "\[" is not closed/),
    expect.stringMatching(
      /^job\.yaml:1:1: error: a playbook must have apiVersion.*`perdure apply --dry-run -f job\.yaml`/,
    ),
    expect.stringMatching(/^bytes\.yaml: error: is not UTF-8 text/),
    expect.stringMatching(/^two\.yaml:5:16: error: .*nxt/),
    expect.stringMatching(/^two\.yaml:11:16: error: unknown step "c"/),
    "good.yaml: valid: bad, 1 step",
    "",
  ]);
  const json = await perdureAt({ cwd }, ["validate", "--json", "two.yaml", "good.yaml"]);
  expect(json.code).toBe(2);
  expect(JSON.parse(json.stdout)).toMatchObject([
    { file: "two.yaml", ok: false, problems: [{ code: "unknown_field", line: 5 }] },
    { file: "two.yaml", ok: false, problems: [{ code: "unknown_step", line: 11, column: 16 }] },
    { file: "good.yaml", ok: true, playbook: { name: "bad", path: null, steps: ["a"] }, problems: [] },
  ]);
});

it("checks the files that steps name, and reads none outside of the folder", async () => {
  const cwd = newDir();
  mkdirSync(join(cwd, "books/sub"), { recursive: true });
  const step = (path: string) => `  - { step: s, type: playbook, path: ${path} }\n`;
  writeFileSync(join(cwd, "secret.yaml"), `${HEAD}  - { step: a }\n`);
  writeFileSync(join(cwd, "books/root.yaml"), HEAD + step("./sub/pay.yaml"));
  writeFileSync(join(cwd, "books/sub/pay.yaml"), HEAD + step("./more.yaml"));
  writeFileSync(join(cwd, "books/sub/more.yaml"), `${HEAD + step("../root.yaml")}  - { step: b, next: nowhere }\n`);
  const deep = await perdureAt({ cwd }, ["validate", "books/root.yaml"]);
  expect(deep).toMatchObject({ code: 2, stderr: "1 error\n" });
  expect(deep.stdout).toContain('books/sub/more.yaml:6:16: error: unknown step "nowhere"');
  symlinkSync("../secret.yaml", join(cwd, "books/link.yaml"));
  for (const path of ["../secret.yaml", "./link.yaml", "./none.yaml"]) {
    writeFileSync(join(cwd, "books/root.yaml"), HEAD + step(path));
    const { code, stdout } = await perdureAt({ cwd }, ["validate", "books/root.yaml"]);
    expect([code, stdout]).toEqual([
      2,
      expect.stringMatching(/^books\/root\.yaml:5:32: error: .*\[unknown_playbook\]\n/),
    ]);
  }
});

it("accepts all examples, and takes types of steps from the settings", async () => {
  const names = readdirSync(EXAMPLES).filter((name) => name.endsWith(".yaml"));
  const said = await perdureAt({ cwd: EXAMPLES }, ["validate", ...names]);
  expect(said).toMatchObject({ code: 0, stderr: "" });
  const cwd = newDir();
  writeFileSync(join(cwd, "tool.yaml"), `${HEAD}  - { step: a, type: duckdb, data: { sql: "select 1" } }\n`);
  expect((await perdureAt({ cwd }, ["validate", "tool.yaml"])).stdout).toContain("[tool_unknown]");
  const known = await perdureAt({ cwd }, ["validate", "--playbook-tool", "duckdb=my-duckdb", "tool.yaml"]);
  expect(known).toMatchObject({ code: 0, stdout: "tool.yaml: valid: bad, 1 step\n" });
  writeFileSync(join(cwd, "perdure.yaml"), "playbooks: { tools: { duckdb: my-duckdb } }\n");
  expect(await perdureAt({ cwd }, ["validate", "tool.yaml"])).toMatchObject({ code: 0 });
});

it("draws the playbook of a file, and prints the schema", async () => {
  const drawn = await perdureAt({ cwd: EXAMPLES }, ["graph", "failure-branch.yaml"]);
  expect(drawn).toMatchObject({ code: 0, stdout: expect.stringContaining("live → cached when error != None") });
  const mermaid = await perdureAt({ cwd: EXAMPLES }, ["graph", "failure-branch.yaml", "--format", "mermaid"]);
  expect(mermaid.stdout).toMatch(/^flowchart TD\n/);
  const json = await perdureAt({ cwd: EXAMPLES }, ["graph", "failure-branch.yaml", "--json"]);
  expect(JSON.parse(json.stdout)).toMatchObject({ name: "failure-branch", entry: "live" });
  const schema = await perdureAt({ cwd: EXAMPLES }, ["schema", "playbook"]);
  expect(JSON.parse(schema.stdout)).toMatchObject({ type: "object" });
  for (const argv of [
    ["validate"],
    ["validate", "none.yaml"],
    ["graph", "none.yaml"],
    ["graph", "loop.yaml", "--format", "svg"],
    ["schema"],
    ["schema", "playbok"],
  ]) {
    expect(await perdureAt({ cwd: EXAMPLES }, argv), argv.join(" ")).toMatchObject({ code: 2, stdout: "" });
  }
});
