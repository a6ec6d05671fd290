import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { checkEntry } from "../../core/api/jobs.ts";
import { CliError } from "../exit.ts";
import { jobsOf, readJobFile } from "./job-file.ts";
import { readYaml } from "./yaml-file.ts";

const jobs = (text: string) => jobsOf(readYaml(text, "job.yaml"));
const entry = (text: string) => jobs(text)[0]?.entry;
const refusal = (text: string): string => {
  try {
    jobs(text);
  } catch (error) {
    expect(error).toBeInstanceOf(CliError);
    expect((error as CliError).exitCode).toBe(2);
    return (error as Error).message;
  }
  return "nothing was wrong";
};

describe("a job file", () => {
  it("has one job of any kind", () => {
    const text = `
kind: resize
input: { file: a.png, sizes: [1, 2] }
key: a.png
queue: images
priority: 3
delay: 5s
tags: [a, b]
timeout: 1m
expireIn: 1h
deadline: 2026-11-16T09:00:00+01:00
labels: { gpu: a100 }
retry:
  maxAttempts: 3
  backoff: { initial: 2s }
`;
    const [job] = jobs(text);
    expect(job?.entry).toEqual({
      task: "resize",
      input: { file: "a.png", sizes: [1, 2] },
      options: {
        ...{ key: "a.png", queue: "images", priority: 3, delay: 5_000, tags: ["a", "b"], timeout: 60_000 },
        ...{ expireIn: 3_600_000, deadline: Date.parse("2026-11-16T08:00:00Z"), labels: { gpu: "a100" } },
        retry: { maxAttempts: 3, backoff: { initial: "2s" } },
      },
    });
    expect(job?.where).toBe("job.yaml:2:1");
    expect(() => checkEntry(job?.entry as never)).not.toThrow();
  });

  it("has a short form for a command", () => {
    expect(entry("argv: [./backup.sh, --fast]\nenv: {A: b}\ncwd: /srv\ninput: {x: 1}\nretry: 5")).toEqual({
      task: "exec",
      input: { argv: ["./backup.sh", "--fast"], env: { A: "b" }, cwd: "/srv", input: { x: 1 } },
      options: { retry: 5 },
    });
    expect(entry("command: a | b\nshell: true")).toEqual({
      ...{ task: "exec", input: { command: "a | b", shell: true }, options: {} },
    });
    expect(entry("kind: exec\nargv: [a]")).toEqual(entry("kind: exec\ninput: {argv: [a]}"));
    expect(entry("kind: mine")).toEqual({ task: "mine", input: null, options: {} });
  });

  it("has many jobs, each with its position", () => {
    const found = jobs("jobs:\n  - argv: [a]\n  - kind: http\n    input: {url: https://example.com}\n    runAt: 5");
    expect(found.map(({ where, entry: { task } }) => [where, task])).toEqual([
      ["job.yaml:2:5", "exec"],
      ["job.yaml:3:5", "http"],
    ]);
    expect(found[1]?.entry.options).toEqual({ runAt: 5 });
  });

  it.each([
    ["", "job.yaml:1:1: the file is empty; write a job"],
    ["- a", "job.yaml:1:1: must be one job, such as `argv: [./backup.sh]`, or `jobs:` with a list of them; got a list"],
    [
      "queue: a",
      "job.yaml:1:1: kind: is missing; set kind, such as exec, http or one of your own, or argv with a command.",
    ],
    ["kind: a\nprioritty: 1", 'job.yaml:2:1: prioritty: unknown field "prioritty"'],
    ["kind: a\nprioritty: 1", 'Did you mean "priority"?'],
    ["agrv: [a]", 'Did you mean "argv"?'],
    ["kind: a\nenv: {}", 'job.yaml:2:1: env: unknown field "env"'],
    [
      "kind: a\nretry:\n  maxAttempts: 0",
      "job.yaml:3:3: retry.maxAttempts: must be a whole number from 1 to 1000000; got 0.",
    ],
    [
      "kind: a\nretry:\n  rules:\n    - if: {kind: x}\n      then: fail",
      'job.yaml:4:12: retry.rules[0].if.kind: must be one of "exit", "signal", "oom", "error", "http", "timeout", "queue_timeout", "result"; got "x".',
    ],
    ["kind: a\nretry:\n  backof: {}", "job.yaml:3:3: retry.backof: unknown field"],
    ["kind: a\nretry: {retryWhen: '{{ x'}", "job.yaml:2:9: retry.retryWhen"],
    ["kind: a\nretry: {'a b': 1}", 'job.yaml:2:9: retry["a b"]: unknown field'],
    [
      "jobs:\n  - kind: a\n  - kind: b\n    timeout: 0s",
      'job.yaml:4:5: jobs[1].timeout: must be a duration of at least 1 ms; got "0s".',
    ],
    ["jobs: []", "job.yaml:1:1: jobs: must be a list of 1 to 1048576 items; got a list of 0."],
    ["jobs: [{kind: a}]\nqueue: b", "job.yaml:2:1: queue: unknown field"],
    ["jobs: [5]", "job.yaml:1:8: jobs[0]: must be an object; got 5."],
    ["kind: exec\ninput: {argv: []}", "job.yaml:2:9: input.argv: must be a list of 1 to 10000 items; got a list of 0."],
    [
      "argv:\n  - a\n  - 5",
      'job.yaml:3:5: argv[1]: must be text of at most 131072 characters, without NUL; got 5. Write "5" for the text',
    ],
    ["argv: [a]\nenv: {PERDURE_X: a}", "job.yaml:2:7: env.PERDURE_X"],
    ["command: a b", "job.yaml:1:1: command: requires shell to be true; set it, or use argv."],
    ["command: a\nargv: [b]", "job.yaml:1:1: argv and command cannot be used together"],
    [
      "kind: http\nargv: [b]",
      'job.yaml:1:1: kind: must be exec, or no kind: argv and command are commands; got "http".',
    ],
    [
      "kind: http\ninput:\n  url: ftp://x",
      "job.yaml:3:3: input.url: must be an http or https address of at most 8192 characters; got an address of ftp:.",
    ],
    ["kind: a\ndelay: 1s\nrunAt: 5", "job.yaml:2:1: delay: cannot be used together with runAt."],
    [
      "kind: a\nrunAt: 2026-11-16T09:00:00",
      "job.yaml:2:1: runAt: must be an instant with its zone, such as 2026-11-16T09:00:00Z",
    ],
    [
      "kind: a\nrunAt: 2026-02-30T09:00:00Z",
      "job.yaml:2:1: runAt: must be an instant with its zone, such as 2026-11-16T09:00:00Z",
    ],
    [
      "kind: a\nlabels: {gpu: 1}",
      'job.yaml:2:10: labels.gpu: must be text of 1 to 200 characters, not only spaces, without NUL; got 1. Write "1" for the text',
    ],
    ['kind: a\ntags: ["a\\n"]', "job.yaml:2:8: tags[0]: must be text without control characters; got"],
    [
      "kind: a\nkey:",
      "job.yaml:2:1: key: must be text of 1 to 500 characters, not only spaces, without NUL; got null.",
    ],
    ["kind: a\nkind: b", 'job.yaml:2:1: duplicate key "kind"'],
    ["__proto__: {kind: a}", "job.yaml:1:1: __proto__: unknown field"],
  ])("is refused with the position of the mistake: %j", (text, message) => {
    expect(refusal(text)).toContain(message);
  });

  it("with too much input is refused", () => {
    expect(refusal(JSON.stringify({ kind: "a", input: "\u0001".repeat(170_000) }))).toBe("nothing was wrong");
    expect(refusal(`kind: a\ninput: "${"\\a".repeat(200_000)}"`)).toContain("job.yaml:2:1: input: too much input");
  });

  it("of any shape is either read or refused", () => {
    const names = [
      "kind",
      "input",
      "argv",
      "command",
      "retry",
      "jobs",
      "delay",
      "labels",
      "tags",
      "runAt",
      "__proto__",
    ];
    const tree = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 3 },
        fc.jsonValue({ maxDepth: 1 }),
        fc.dictionary(fc.constantFrom(...names), tie("any"), { maxKeys: 5 }),
        fc.array(tie("any"), { maxLength: 4 }),
      ),
    })).any;
    fc.assert(
      fc.property(tree, (value) => {
        fc.pre(!/\d{16}/.test(JSON.stringify(value)));
        expect(refusal(JSON.stringify(value))).toMatch(/^(job\.yaml:\d+:\d+: .|nothing was wrong)/s);
        expect(({} as Record<string, unknown>).polluted).toBeUndefined();
      }),
      { numRuns: rounds(500) },
    );
  });
});

describe("reading a job file", () => {
  const cwd = mkdtempSync(join(tmpdir(), "perdure-job-file-"));
  afterAll(() => rmSync(cwd, { recursive: true }));
  const from = (...chunks: string[]) => Readable.from(chunks.map((chunk) => Buffer.from(chunk))) as never;

  it("uses a file in the working directory, or standard input", async () => {
    writeFileSync(join(cwd, "job.yaml"), "argv: [a]");
    expect((await readJobFile("job.yaml", { cwd }))[0]?.where).toBe("job.yaml:1:1");
    expect((await readJobFile("-", { cwd }, from("argv:", " [é]")))[0]?.entry.input).toEqual({ argv: ["é"] });
    await expect(readJobFile("none.yaml", { cwd })).rejects.toThrow('file "none.yaml" does not exist');
    await expect(readJobFile("-", { cwd }, from("x: 1"))).rejects.toThrow("stdin:1:1: x: unknown field");
    await expect(
      readJobFile(
        "-",
        { cwd },
        from(
          ..."x"
            .repeat(20)
            .split("")
            .map((c) => c.repeat(100_000)),
        ),
      ),
    ).rejects.toThrow("stdin: over 1048576 bytes");
  });
});

describe("resources, annotations, parents and ports", () => {
  const parent = "job_01m7gekg9zevv9a6xvvwmt1v8g";

  it("are read as in the library", () => {
    const text = `argv: [a]\nports: [http]\nfill: { MY_PORT: port.http }\nparent: ${parent}\nresources: { cpu: 0.5, memory: 2g }\nannotations: { team/a: "x y" }\n`;
    expect(entry(text)).toEqual({
      task: "exec",
      input: { argv: ["a"], ports: ["http"], fill: { MY_PORT: "port.http" } },
      options: { parent, resources: { cpu: 0.5, memory: "2g" }, annotations: { "team/a": "x y" } },
    });
  });

  it.each([
    ["resources: { cpu: -1 }", "job.yaml:2:14: resources.cpu: must be a number from 0 to 100000; got -1."],
    [
      "resources: { memory: lots }",
      'job.yaml:2:14: resources.memory: must be bytes, or text such as "512m" or "2g", at most 1024t; got "lots".',
    ],
    ["resources: { gpu: 1 }", 'job.yaml:2:14: resources.gpu: unknown field "gpu"'],
    [
      "annotations: { a: 1 }",
      'job.yaml:2:16: annotations.a: must be text, well-formed and without NUL; got 1. Write "1" for the text',
    ],
    ["annotations: [a]", 'job.yaml:2:1: annotations: must be an object; got ["a"].'],
    [`annotations: { a: ${"x".repeat(17_000)} }`, "at most 16384 bytes in all"],
    ["parent: 7", "job.yaml:2:1: parent: must be the id of a job, at least 4 characters of it, or its name; got 7."],
    ["labels: { resource/cpu: '1' }", "is reserved; use resources"],
    ["fill: { A: port.http }", "job.yaml:2:9: fill.A: "],
  ])("are refused if they are invalid: %s", (line, message) => {
    expect(refusal(`argv: [a]\n${line}\n`)).toContain(message);
  });
});
