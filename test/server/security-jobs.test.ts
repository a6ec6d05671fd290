/** What strangers put into jobs stays data, from the request to the command that gets it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec } from "../../src/core/input/builtin.ts";
import type { AnyTask } from "../../src/core/task/task.ts";
import type { WorkerHandle } from "../../src/core/task/work-options.ts";
import { connectWorker } from "../../src/worker/connect-worker.ts";
import { startServer, type TestServer } from "./kit.ts";

let server: TestServer;
let worker: WorkerHandle;
const dir = mkdtempSync(join(tmpdir(), "perdure-security-"));

beforeAll(async () => {
  server = await startServer();
  const token = await server.token({ name: "worker", scopes: ["work"] });
  worker = await connectWorker(server.url, [exec as AnyTask], { token, dir, logger: () => {} });
});
afterAll(async () => {
  await worker.stop({ grace: 0 });
  await server.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Runs a command to its end; the answer is the job and what it wrote. */
async function run(input: object): Promise<{ readonly job: Record<string, unknown>; readonly stdout: string }> {
  const { body } = await server.call("POST", "/v1/jobs", { body: { kind: "exec", input } });
  for (let ended: string[] = []; ended.length === 0; ) {
    const wait = { jobs: [{ id: body.id, chapter: 1 }], waitMs: 10_000 };
    ended = (await server.call("POST", "/v1/jobs/wait", { body: wait })).body.ended;
  }
  const job = (await server.call("GET", `/v1/jobs/${body.id}`)).body;
  const logs = await server.call("GET", `/v1/jobs/${body.id}/logs?stream=stdout`);
  return { job, stdout: logs.status === 200 ? logs.text : "" };
}

describe("S14: templates and expressions", () => {
  it.each([
    "{{ constructor.constructor('return process')() }}",
    "{{ range(30000000) }}",
    "{{ result.__proto__.polluted() }}",
    "{% for x in y %}{% endfor %}",
    `{{ ${"not ".repeat(50)}true }}`,
  ])("%s as a condition is refused at submit, with its place", async (retryWhen) => {
    const { status, body } = await server.call("POST", "/v1/jobs", { body: { kind: "k", retry: { retryWhen } } });
    expect(status).toBe(400);
    expect(body).toMatchObject({ code: "invalid_config", path: "retry.retryWhen" });
    expect((await server.call("GET", "/v1/jobs?kind=k")).body.jobs).toEqual([]);
  });

  it("stay text everywhere else", async () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a stranger wrote it
    const nasty = { a: "{{7*7}}", b: "${7*7}", c: "<%= 7*7 %>", __proto__x: { "constructor.prototype": 1 } };
    const text = JSON.stringify(nasty);
    const sent = { body: `{"kind":"stays","input":${text},"tags":["{{7*7}}"]}` };
    const { body } = await server.call("POST", "/v1/jobs", sent);
    const read = await server.call("GET", `/v1/jobs/${body.id}`);
    expect(read.text).toContain(`"payload":${text}`);
    expect(read.body.tags).toEqual(["{{7*7}}"]);
  });
});

describe("S15: shell injection", () => {
  it("arguments reach a command as they are, and are never more than one", async () => {
    const args = ["; rm -rf /", "$(id)", "`id`", "a\nb", "-n", "--help", "'\"\\", "*", "$HOME", "&& true", "|cat"];
    const script = 'for each in "$@"; do printf "%s\\0" "$each"; done';
    const { job, stdout } = await run({ argv: ["sh", "-c", script, "sh", ...args] });
    expect(job.state).toBe("succeeded");
    expect(stdout.split("\0").slice(0, -1)).toEqual(args);
  });
});

describe("S24, S25: the environment of a command", () => {
  it("holds nothing of the worker's: no tokens, no NODE_OPTIONS", async () => {
    process.env.PERDURE_TOKEN = "pdr_canary00_secret";
    process.env.PERDURE_DB = "postgres://canary";
    try {
      const { stdout } = await run({ argv: ["env"], env: { MINE: "1" } });
      const names = stdout
        .trim()
        .split("\n")
        .map((line) => line.split("=")[0] as string);
      const known = ["HOME", "LANG", "LOGNAME", "MINE", "PATH", "PWD", "SHELL", "SHLVL", "TMPDIR", "TZ", "USER", "_"];
      expect(names.filter((name) => !known.includes(name) && !name.startsWith("PERDURE_"))).toEqual([]);
      expect(names).toContain("MINE");
      expect(stdout).not.toMatch(/canary|pdr_/);
    } finally {
      delete process.env.PERDURE_TOKEN;
      delete process.env.PERDURE_DB;
    }
  });

  it.each(["PATH", "LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV"])("%s is not for a job to set", async (name) => {
    const { job } = await run({ argv: ["true"], env: { [name]: "/tmp/evil" } });
    expect(job).toMatchObject({ state: "failed", reason: "invalid", attempt: 1 });
  });
});
