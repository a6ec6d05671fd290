/** `perdure submit`, on a local data directory and through a server. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { NonRetryableError } from "../../src/core/decision/failure.ts";
import { task } from "../../src/core/task/task.ts";
import { perdure } from "./kit.ts";
import { KINDS, newDir, openWhere } from "./targets.ts";

const ID = /^job_\w{26}$/;

describe.each(KINDS)("submit to %s", (kind) => {
  it("stores a job with all options, and prints its id", async () => {
    const { ask, library } = await openWhere(kind);
    const argv = ["resize", "--input", '{"width":640}', "--queue", "images", "--priority", "2", "--delay", "1h"];
    argv.push(
      "--tag",
      "red",
      "--tag",
      "big",
      "--timeout",
      "5m",
      "--expire-in",
      "2h",
      "--label",
      "gpu=yes",
      "--key",
      "k1",
    );
    argv.push("--deadline", "2126-11-16T09:00:00Z", "--max-attempts", "7", "--backoff", "3s");
    const { code, stdout } = await ask("submit", ...argv);
    expect(code).toBe(0);
    const id = stdout.trimEnd();
    expect(id).toMatch(ID);
    const job = await (await library.job(id)).get();
    expect(job).toMatchObject({ kind: "resize", payload: { width: 640 }, queue: "images", priority: 2, key: "k1" });
    expect(job).toMatchObject({
      tags: ["red", "big"],
      timeoutMs: 300_000,
      expireInMs: 7_200_000,
      labels: { gpu: "yes" },
    });
    expect(job).toMatchObject({ deadlineAt: Date.parse("2126-11-16T09:00:00Z"), policy: { maxAttempts: 7 } });
    expect(job.runAt - job.submittedAt).toBe(3_600_000);

    const again = await ask("submit", ...argv);
    expect(again.stdout.trimEnd()).toBe(id);
    expect(again.stderr).toContain("already exists for key k1");
    const other = await ask("submit", "resize", "--input", "{}", "--queue", "images", "--key", "k1");
    expect(other).toMatchObject({ code: 1, stdout: "" });
    expect(other.stderr).toMatch(/^perdure submit: [^\n]*k1[^\n]*\n$/);
  });

  it("takes the input from parameters or a file, or none", async () => {
    const { askJson, library, dir } = await openWhere(kind);
    const payloadOf = async (...argv: string[]) => {
      const { id, created } = await askJson<{ id: string; created: boolean }>("submit", "k", ...argv);
      expect(created).toBe(true);
      return (await (await library.job(id)).get()).payload;
    };
    expect(await payloadOf("-p", "to=a=b", "-p", "n:=3", "-p", "__proto__=x")).toEqual(
      JSON.parse('{"to":"a=b","n":3,"__proto__":"x"}'),
    );
    writeFileSync(join(dir, "in.yaml"), "width: 640\nnames: [a, b]\n");
    expect(await payloadOf("--input-file", "in.yaml")).toEqual({ width: 640, names: ["a", "b"] });
    expect(await payloadOf("--input", "null")).toBeNull();
    expect(await payloadOf()).toBeUndefined();
  });

  it("takes a command after two dashes", async () => {
    const { ask, library, dir } = await openWhere(kind);
    const { stdout } = await ask("submit", "--retry", "3", "--", "sh", "-c", "exit 0");
    const job = await (await library.job(stdout.trimEnd())).get();
    expect(job).toMatchObject({ kind: "exec", payload: { argv: ["sh", "-c", "exit 0"], cwd: dir } });
    expect(job.policy.maxAttempts).toBe(3);
  });

  it("stores the jobs of a file, and of standard input", async () => {
    const { ask, askJson, library, dir } = await openWhere(kind);
    writeFileSync(
      join(dir, "jobs.yaml"),
      "jobs:\n  - argv: [./a.sh]\n    key: one\n  - kind: mail\n    input: {to: x}\n",
    );
    const first = await ask("submit", "-f", "jobs.yaml");
    const [one, two] = first.stdout.trimEnd().split("\n") as [string, string];
    expect(first.code).toBe(0);
    expect(await (await library.job(two)).get()).toMatchObject({ kind: "mail", payload: { to: "x" } });
    const again = await askJson<{ id: string; created: boolean }[]>("submit", "-f", "jobs.yaml");
    expect(again).toMatchObject([{ id: one, created: false }, { created: true }]);

    const stdin = vi.spyOn(process, "stdin", "get").mockReturnValue(Readable.from(["kind: k\n"]) as never);
    const piped = await ask("submit", "-f", "-");
    stdin.mockReturnValue(Readable.from(["kind: k\n"]) as never);
    expect(await ask("submit", "-")).toMatchObject({ code: 0, stdout: expect.stringMatching(/^job_/) });
    stdin.mockRestore();
    expect(piped.stdout.trimEnd()).toMatch(ID);
  });

  it("stores nothing of a file with a mistake, and the other jobs if one key is taken", async () => {
    const { ask, library, dir } = await openWhere(kind);
    writeFileSync(join(dir, "bad.yaml"), "jobs:\n  - kind: a\n  - kind: b\n    priorty: 3\n");
    const bad = await ask("submit", "-f", "bad.yaml");
    expect(bad).toMatchObject({ code: 2, stdout: "" });
    expect(bad.stderr).toMatch(/^perdure submit: bad\.yaml:4:5: .*priority/);
    expect((await library.jobs()).jobs).toEqual([]);

    await library.submit("a", 1, { key: "taken" });
    writeFileSync(join(dir, "mixed.yaml"), "jobs:\n  - {kind: a, input: 2, key: taken}\n  - {kind: b}\n");
    const mixed = await ask("submit", "-f", "mixed.yaml");
    expect(mixed.code).toBe(1);
    expect(mixed.stdout.trimEnd()).toMatch(ID);
    expect(mixed.stderr).toMatch(/^perdure submit: mixed\.yaml:2:\d+: [^\n]*taken/);
  });

  it("warns of jobs that no worker takes, and stores them", async () => {
    const { ask, askJson, library, dir } = await openWhere(kind);
    const command = kind === "data" ? "up" : "worker";
    const alone = `no worker is running; start one with \`perdure ${command}\``;
    expect(await ask("submit", "resize")).toMatchObject({ code: 0, stderr: expect.stringContaining(`${alone}\n`) });
    await library.work([task("resize", () => 1)]);
    expect(await ask("submit", "resize")).toMatchObject({ code: 0, stderr: "" });
    const warning = `no worker takes jobs of kind rezise; start one with \`perdure ${command}\`. Did you mean resize?`;
    const said = await ask("submit", "rezise");
    expect(said).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(`${warning}\n`),
      stdout: expect.stringMatching(/^job_\w{26}\n$/),
    });
    expect(await askJson("submit", "rezise", "--key", "a")).toEqual({ id: expect.any(String), created: true, warning });
    expect(await askJson("submit", "rezise", "--key", "a")).toEqual({ id: expect.any(String), created: false });
    const label = "no worker takes this job";
    writeFileSync(join(dir, "two.yaml"), "jobs:\n  - {kind: resize}\n  - {kind: resize, labels: {gpu: 'yes'}}\n");
    expect(await askJson("submit", "-f", "two.yaml")).toEqual([
      { id: expect.any(String), created: true },
      { id: expect.any(String), created: true, warning: expect.stringContaining(label) },
    ]);
  });

  it("waits for many without a warning from Node", async () => {
    const { ask, library, dir } = await openWhere(kind);
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => warned.mockRestore());
    await library.work([task("good", () => 1)]);
    writeFileSync(
      join(dir, "many.json"),
      JSON.stringify({ jobs: Array.from({ length: 12 }, () => ({ kind: "good" })) }),
    );
    const { code, stdout } = await ask("submit", "-f", "many.json", "--wait");
    expect(code).toBe(0);
    const ids = stdout.match(/^job_\w+$/gm) ?? [];
    expect(ids).toHaveLength(12);
    expect(await ask("wait", ...ids)).toMatchObject({ code: 0 });
    expect(warned.mock.calls.map(([warning]) => String(warning))).toEqual([]);
  });

  it("by name takes the retries and the timeout that a worker publishes for the task, and explain names the source", async () => {
    const { ask, library } = await openWhere(kind);
    const retry = { maxAttempts: 3, backoff: { initial: "1ms", jitter: 0 } } as const;
    const flaky = task("flaky", { retry, timeout: "30s", priority: 2 }, (_input: unknown, ctx) => {
      if (ctx.attempt === 1) throw new Error("connection reset");
    });
    const lonely = await ask("submit", "flaky", "--key", "k");
    expect(lonely.stderr).toContain("no worker has published defaults for flaky; using preset default (1 attempt)");
    const worker = await library.work([flaky], { name: "w 1" });
    // The job stored before does not change, and its key finds it.
    expect((await ask("submit", "flaky", "--key", "k")).stdout).toBe(lonely.stdout);
    const { code, stdout, stderr } = await ask("submit", "flaky", "--wait");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const id = stdout.slice(0, 30);
    const info = await (await library.job(id)).get();
    expect(info).toMatchObject({ attempt: 2, timeoutMs: 30_000, priority: 2, policy: { maxAttempts: 3 } });
    const by = `(published by worker "w 1", session ${worker.session})`;
    expect((await ask("explain", id)).stdout).toContain(
      `\n  Policy: maxAttempts, backoff, timeout, priority from the task ${by}; everything else from preset "default".\n`,
    );
    const once = await ask("submit", "flaky", "--retry", "1", "--wait");
    expect(once.code).toBe(1);
    expect((await ask("explain", once.stdout.slice(0, 30))).stdout).toContain(
      `  Policy: maxAttempts from the submit; timeout, priority from the task ${by}; everything else`,
    );
  });

  it("by name uses the queue of its task, for the warning and for its key", async () => {
    const { ask, library } = await openWhere(kind);
    const there = task("there", { queue: "qq" }, () => 1);
    await library.work([there], { queues: ["qq"] });
    const { stdout, stderr } = await ask("submit", "there", "--key", "k");
    expect(stderr).toBe("");
    expect((await ask("submit", "there", "--key", "k", "--queue", "qq")).stdout).toBe(stdout);
    expect(await library.submit(there, undefined, { key: "k" })).toMatchObject({ id: stdout.trim(), created: false });
    // The same in the other order, and a task whose worker does not take its queue.
    const first = await library.submit(there, undefined, { key: "k2" });
    expect((await ask("submit", "there", "--key", "k2")).stdout.trim()).toBe(first.id);
    expect((await ask("submit", "there", "--key", "k2", "--queue", "rr")).stderr).toContain("k2");
    await library.work([task("elsewhere", { queue: "rr" }, () => 1)], { queues: ["qq", "default"] });
    expect((await ask("submit", "elsewhere")).stderr).toContain("no worker takes this job");
  });

  it("waits for the end, and exits with its code", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const good = task("good", {}, (n: number) => n + 1);
    const bad = task("bad", {}, () => {
      throw new NonRetryableError("no");
    });
    await library.work([good, bad]);
    const done = await ask("submit", "good", "--input", "1", "--wait");
    expect(done).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^(job_\w{26})\n\1 {2}good {2}succeeded {2}after 1 attempt/),
    });
    expect(await askJson("submit", "good", "--input", "1", "-w")).toMatchObject({
      state: "succeeded",
      result: 2,
      created: true,
    });
    expect(await ask("submit", "bad", "--wait")).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("failed (rejected)"),
    });
  });
});

describe("submit", () => {
  it("creates missing data, and reports that no worker runs", async () => {
    const cwd = newDir();
    const { code, stdout, stderr } = await perdure(["submit", "k"], { cwd });
    expect(code).toBe(0);
    expect(stdout.trimEnd()).toMatch(ID);
    expect(stderr).toContain("no worker is running; start one with `perdure up`\n");
    expect((await perdure(["ps"], { cwd })).stdout).toContain(stdout.trimEnd());
  });

  it.each([
    [[], /missing KIND, file or command\. Usage/],
    [["--"], /missing COMMAND after --/],
    [["k", "--", "sh"], /a kind and a command/],
    [["k", "more"], /unexpected argument "more"/],
    [["k", "--input", "{a}"], /--input: not JSON: /],
    [["k", "--input", "1", "-p", "a=1"], /--input and --param cannot be used together/],
    [["k", "-p", "a"], /--param: must be NAME=VALUE; got "a"/],
    [["k", "-p", "a=1", "-p", "a=2"], /--param: a can be used only once/],
    [["k", "-p", "a:=x"], /--param a: not JSON/],
    [["k", "--input-file", "gone.json"], /--input-file: file "gone.json" does not exist/],
    [["k", "--delay", "5"], /--delay: must be a time with its unit.*; got "5"/],
    [["k", "--delay", "5s", "--run-at", "2126-01-01T00:00:00Z"], /--delay and --run-at/],
    [["k", "--run-at", "tomorrow"], /--run-at: must be an instant with its zone.*; got "tomorrow"/],
    [["k", "--priority", "10"], /--priority: must be .*; got "10"/],
    [["k", "--tag", "a\nb"], /--tag: /],
    [["k", "--retry", '{"maxAttempt":3}'], /--retry: retry\.maxAttempt.*maxAttempts/],
    [["k", "--retry", "3", "--backoff", "1s"], /--retry and --backoff/],
    [["k", "--preset", "opall"], /--preset: .*opal/],
    [["k", "--retry-when", "{{ nope"], /--retry-when: /],
    [["exec"], /--input: /],
    [["exec", "--input", '{"argv":[]}'], /--input: input\.argv/],
    [["-f", "gone.yaml"], /file "gone.yaml" does not exist/],
    [["-f", "x.yaml", "--queue", "q"], /--queue and --file cannot be used together/],
    [["-f", "x.yaml", "k"], /unexpected argument "k"/],
    [["--input", "1", "--", "sh"], /--input and a command after -- cannot be used together/],
  ] as [string[], RegExp][])("answers %j with one line, and creates nothing", async (argv, line) => {
    const cwd = newDir();
    const { code, stdout, stderr } = await perdure(["submit", ...argv], { cwd });
    expect({ code, stdout, stderr }).toEqual({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^perdure submit: [^\n]+\n$/),
    });
    expect(stderr).toMatch(line);
    expect(existsSync(join(cwd, ".perdure"))).toBe(false);
  });
});
