/** `perdure run` on a server: the command runs on a worker, and its output is shown here. */
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { IS_FULL } from "../tier.ts";
import { serverTarget, startMain, untilThere } from "./follow-kit.ts";
import { perdure as ask } from "./kit.ts";
import { endingOf, idIn } from "./program.ts";

let target: Awaited<ReturnType<typeof serverTarget>>;
beforeAll(async () => {
  target = await serverTarget();
  await target.work();
});
afterAll(() => target.close());

const here = () => ({ env: target.env, cwd: target.dir });
const runScript = (script: string, ...options: string[]) => ask(["run", ...options, "--", "sh", "-c", script], here());
const start = (script: string, ...options: string[]) =>
  startMain(["run", ...options, "--", "sh", "-c", script], here());

describe("perdure run on a server", () => {
  it("shows output as it comes, a line for each attempt after its output, and exits with the code of the last", async () => {
    const script = `echo out $PERDURE_ATTEMPT; echo err $PERDURE_ATTEMPT >&2; ${untilThere("go")}; exit 7`;
    const running = start(script, "--max-attempts", "2", "--backoff", "1ms");
    await running.untilPrinted("out 1");
    await running.untilPrinted("err 1");
    writeFileSync(join(target.dir, "go"), "");
    expect(await running.ended).toBe(7);
    expect(running.io.stdout.text).toBe("out 1\nout 2\n");
    const id = idIn({ stderr: running.io.stderr.text });
    const lines = running.io.stderr.text.trimEnd().split("\n");
    expect(lines[0]).toBe(`${id}: submitted to ${target.url}, queue default`);
    expect(lines[1]).toBe("err 1");
    expect(lines[2]).toMatch(/^attempt 1\/2 failed: exit code 7 \(err 1\); retrying in /);
    expect(lines[3]).toBe("err 2");
    expect(lines[4]).toBe("attempt 2/2 failed: exit code 7 (err 2); no attempts left");
    expect(lines[5]).toMatch(new RegExp(`^${id}: failed \\(exhausted\\) after 2 attempts, `));
  }, 120_000);

  it.runIf(IS_FULL)(
    "prints the object of --json on the last line, and nothing on stderr with --quiet",
    async () => {
      const said = await runScript('echo x > "$PERDURE_OUTPUT_DIR/artifacts/f"; printf half', "--json", "--quiet");
      expect(said).toMatchObject({ code: 0, stderr: "" });
      expect(said.stdout).toMatch(/^half\n\{/);
      expect(endingOf(said)).toMatchObject({
        ...{ state: "succeeded", exitCode: 0, outputs: [{ name: "f", size: 2 }] },
        attempts: [{ attempt: 1, outcome: "completed", exitCode: 0 }],
      });
    },
    120_000,
  );

  it("runs in this directory if the worker is on this machine, with the variables of --env", async () => {
    const said = await ask(["run", "--env", "NAME=value", "--", "sh", "-c", "pwd; echo $NAME"], here());
    expect(said).toMatchObject({ code: 0, stdout: `${target.dir}\nvalue\n` });
    const other = await ask(["run", "--cwd", "worker", "--", "pwd"], here());
    expect(other.stdout).toBe(`${join(target.dir, "worker")}\n`);
  }, 120_000);

  it("exits with the codes of a timeout, a missing program and a cancelled job", async () => {
    expect((await runScript("exec sleep 71300", "--timeout", "100ms", "--max-attempts", "1")).code).toBe(124);
    const missing = await ask(["run", "--max-attempts", "1", "--", "no-such-program"], here());
    expect(missing.code).toBe(127);
    // The reason is shown however soon the job ended.
    expect(missing.stderr).toMatch(/^attempt 1\/1 failed: .*no-such-program/m);
    const running = start(`echo up; ${untilThere("never")}`);
    await running.untilPrinted("up");
    await target.perdure.cancel(idIn({ stderr: running.io.stderr.text }));
    expect(await running.ended).toBe(130);
  }, 120_000);

  it("resumes the job with its key, prints how it ended, and redrives it with --again", async () => {
    const script = `echo run $PERDURE_ATTEMPT; ${untilThere("go-key")}; [ $PERDURE_ATTEMPT = 2 ]`;
    const options = ["--key", "nightly", "--max-attempts", "1"];
    const first = start(script, ...options);
    await first.untilPrinted("run 1");
    const second = start(script, ...options);
    await second.untilPrinted("resuming the job with this key (1 attempt so far, running)");
    await second.untilPrinted("run 1");
    writeFileSync(join(target.dir, "go-key"), "");
    expect([await first.ended, await second.ended]).toEqual([1, 1]);
    const ended = await runScript(script, ...options);
    expect(ended).toMatchObject({ code: 1, stdout: "", stderr: expect.stringMatching(/^Failed \(exhausted\)/) });
    expect(await runScript(script, ...options, "--again")).toMatchObject({ code: 0, stdout: "run 2\n" });
    const conflict = await runScript("true", ...options);
    expect(conflict).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^perdure run: --key: "nightly" belongs to job_/),
    });
  }, 120_000);

  it.runIf(IS_FULL)(
    "submits to the queue of --queue",
    async () => {
      const said = await runScript("true", "--queue", "nightly");
      expect(said).toMatchObject({ code: 0, stderr: expect.stringContaining(", queue nightly\n") });
      expect((await (await target.perdure.job(idIn(said))).get()).queue).toBe("nightly");
    },
    120_000,
  );

  it("reports once that no worker takes the job, and waits for one", async () => {
    const other = await serverTarget();
    onTestFinished(() => other.close());
    const waiting = startMain(["run", "--", "echo", "at last"], { env: other.env, cwd: other.dir });
    await waiting.untilPrinted("waiting: no worker takes this job; start one with `perdure worker`");
    await other.work();
    expect(await waiting.ended).toBe(0);
    expect(waiting.io.stdout.text).toBe("at last\n");
    expect(waiting.io.stderr.text.split("no worker")).toHaveLength(2);
  }, 120_000);

  it("reports that a job is too large for every worker", async () => {
    const waiting = startMain(["submit", "--wait", "--cpu", "99999", "--", "true"], here());
    await waiting.untilPrinted("no worker is large enough for 99999 cpus; start a larger one with `perdure worker`");
    const [id = ""] = waiting.io.stdout.text.split("\n");
    await target.perdure.cancel(id);
    expect(await waiting.ended).toBe(1);
    expect(waiting.io.stderr.text).not.toContain("no worker takes this job");
  }, 120_000);

  it.runIf(IS_FULL)(
    "reports that its queue is paused",
    async () => {
      await target.perdure.pause("stopped");
      const running = start("true", "--queue", "stopped");
      await running.untilPrinted("the queue stopped is paused");
      expect(running.io.stderr.text).not.toContain("no worker");
      await target.perdure.resume("stopped");
      expect(await running.ended).toBe(0);
    },
    120_000,
  );

  it("refuses --queue for a command that runs here, and a relative --cwd for a server elsewhere", async () => {
    const local = await ask(["run", "--queue", "q", "--", "true"], { cwd: target.dir });
    expect(local).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--queue requires a server: pass --server"),
    });
    const env = { PERDURE_URL: "http://perdure.example", PERDURE_TOKEN: target.token };
    const far = await ask(["run", "--cwd", "sub", "--", "true"], { env, cwd: target.dir });
    expect(far).toMatchObject({ code: 2, stderr: expect.stringContaining("must be the full path") });
  });
});

it("the running server of a data directory is found through that directory, with its token", async () => {
  const cwd = join(target.dir, "with-server");
  const data = join(cwd, ".perdure");
  mkdirSync(data, { recursive: true });
  writeFileSync(join(data, "server.json"), JSON.stringify({ pid: process.pid, process: null, url: target.url }));
  writeFileSync(join(data, "token"), target.token, { mode: 0o600 });
  const said = await ask(["run", "--", "pwd"], { cwd });
  expect(said).toMatchObject({ code: 0, stdout: `${cwd}\n` });
  const id = idIn(said);
  expect((await ask(["ps", "-n", "1", "--data", data])).stdout).toContain(id);
  // A directory without a server, passed with --data, is read itself, whatever the environment sets.
  const none = await ask(["ps", "--data", "none"], { cwd, env: target.env });
  expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining("no Perdure data in none") });
  expect((await ask(["ps", "--data", "none", "--server", target.url], { cwd, env: target.env })).stdout).toContain(id);
}, 120_000);

describe("a server that cannot be used", () => {
  it.each([["ps"], ["run", "--", "true"], ["wait", "job_01m7gekg9zevv9a6xvvwmt1v8g"]])(
    "does not know the token: %s reports what to do",
    async (...argv) => {
      const env = { PERDURE_URL: target.url, PERDURE_TOKEN: `pdr_wrongone_${"x".repeat(43)}` };
      const said = await ask(argv, { env, cwd: target.dir });
      expect(said).toMatchObject({ code: 1, stdout: "", stderr: expect.stringMatching(/^perdure \w+: [^\n]+\n$/) });
      expect(said.stderr).toContain("refused the token: it is not known there; set PERDURE_TOKEN, or pass a file");
      expect(said.stderr).not.toContain("xxx");
    },
  );

  it("gets no request without a token", async () => {
    const said = await ask(["ps"], { env: { PERDURE_URL: target.url }, cwd: target.dir });
    expect(said).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`no token for ${target.url}: set PERDURE_TOKEN`),
    });
  });

  it("cannot be reached: one line soon reports what to do", async () => {
    const free = createServer();
    const port = await new Promise<number>((resolve) => {
      free.listen(0, "127.0.0.1", () => resolve((free.address() as { port: number }).port));
    });
    await new Promise((resolve) => free.close(resolve));
    const env = { PERDURE_TOKEN: target.token };
    const said = await ask(["ps", "--server", `http://127.0.0.1:${port}`], { env, cwd: target.dir });
    expect(said).toMatchObject({ code: 1, stdout: "", stderr: expect.stringMatching(/^perdure ps: [^\n]+\n$/) });
    expect(said.stderr).toContain("cannot be reached");
    expect(said.stderr).toContain("Start one with `perdure up`, or check --server");
  }, 120_000);
});
