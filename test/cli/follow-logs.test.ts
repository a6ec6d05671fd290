/** `perdure logs --follow`, on a local data directory and on a server. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { task } from "../../src/core/task/task.ts";
import { inFull } from "../tier.ts";
import { localTarget, serverTarget, startMain, type TestTarget, untilThere } from "./follow-kit.ts";
import { perdure as ask, DANGEROUS, Kept } from "./kit.ts";

const logging = task("logging", (_: undefined, ctx) => ctx.log("a line from the handler"));
/** Each lets a waiting attempt of `steps` continue. */
const letGo: (() => void)[] = [];
/** Logs a line, and another when it may continue; fails the first time. */
const steps = task("steps", async (_: undefined, ctx) => {
  ctx.log(`attempt ${ctx.attempt} began`);
  await new Promise<void>((resolve) => letGo.push(resolve));
  ctx.log(`attempt ${ctx.attempt} goes on`);
  if (ctx.attempt === 1) throw new Error("once more");
});

describe.each(
  inFull([
    ["a server", serverTarget],
    ["data of this machine", localTarget],
  ]),
)("logs --follow on %s", (_, open) => {
  let target: TestTarget;
  beforeAll(async () => {
    target = await open();
    await target.work([logging, steps]);
  });
  afterAll(() => target.close());

  const go = (name: string) => writeFileSync(join(target.dir, name), "");
  const follow = (id: string, ...options: string[]) => startMain(["logs", "-f", id, ...options], { env: target.env });

  it("shows output as it comes, to its last byte, and ends with the job", async () => {
    const job = await target.script(
      `echo first; echo aside >&2; ${untilThere("go1")}; echo second; ${untilThere("go2")}; printf 'no end of line'`,
    );
    const following = follow(job.id);
    await following.untilPrinted("first");
    await following.untilPrinted("aside");
    expect(following.io.stdout.text).not.toContain("second");
    go("go1");
    await following.untilPrinted("second");
    go("go2");
    expect(await following.ended).toBe(0);
    expect(following.io.stdout.text.replace("aside\n", "")).toBe("first\nsecond\nno end of line");
    expect(following.io.stderr.text).toBe("");
  }, 120_000);

  it("continues with the next attempt, and prints when one begins", async () => {
    const script = `echo run $PERDURE_ATTEMPT; ${untilThere("go$PERDURE_ATTEMPT.x")}; seq 1000; [ $PERDURE_ATTEMPT = 3 ]`;
    const job = await target.script(script);
    const following = follow(job.id);
    await following.untilPrinted("run 1\n");
    for (const n of [1, 2, 3]) go(`go${n}.x`);
    expect(await following.ended).toBe(0);
    const numbers = Array.from({ length: 1_000 }, (_, i) => `${i + 1}\n`).join("");
    expect(following.io.stdout.text).toBe([1, 2, 3].map((n) => `run ${n}\n${numbers}`).join(""));
    expect(following.io.stderr.text).toBe(`attempt 2 of ${job.id} (echo run)\nattempt 3 of ${job.id} (echo run)\n`);
  }, 120_000);

  it("follows only one attempt with --attempt", async () => {
    const job = await target.script("echo run $PERDURE_ATTEMPT; [ $PERDURE_ATTEMPT = 2 ]");
    const following = follow(job.id, "--attempt", "1");
    expect(await following.ended).toBe(0);
    expect(following.io).toMatchObject({ stdout: { text: "run 1\n" }, stderr: { text: "" } });
    await job.result();
    const late = await ask(["logs", "--follow", job.id, "--attempt", "9"], { env: target.env });
    expect(late).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("has no attempt 9") });
  }, 120_000);

  it("waits for the first attempt of a job that never ran", async () => {
    const job = await target.script("echo begun", { delay: "1h" });
    const following = follow(job.id);
    await target.perdure.retry(job.id);
    expect(await following.ended).toBe(0);
    expect(following.io.stdout.text).toBe("begun\n");
  }, 120_000);

  it("shows the last attempt of a job that has ended, and reports one that never ran", async () => {
    const job = await target.script("echo run $PERDURE_ATTEMPT; [ $PERDURE_ATTEMPT = 2 ]");
    await job.result();
    expect(await ask(["logs", "-f", job.id], { env: target.env })).toEqual({ code: 0, stdout: "run 2\n", stderr: "" });
    const never = await target.script("true", { delay: "1h" });
    await never.cancel();
    const said = await ask(["logs", "-f", never.id], { env: target.env });
    expect(said).toMatchObject({ code: 1, stderr: `perdure logs: ${never.id} ended without an attempt\n` });
  }, 120_000);

  it("shows only one stream, or JSON objects, or the log of a handler", async () => {
    const job = await target.script("printf 'a\\342\\202'; sleep 0.1; printf '\\254\\n'; echo b >&2");
    await job.result();
    expect((await ask(["logs", "-f", "--stderr", job.id], { env: target.env })).stdout).toBe("b\n");
    const { stdout } = await ask(["logs", "-f", "--json", job.id], { env: target.env });
    const parts = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { stream: string; text: string });
    const textOf = (stream: string) => parts.flatMap((part) => (part.stream === stream ? part.text : [])).join("");
    expect([textOf("stdout"), textOf("stderr")]).toEqual(["a€\n", "b\n"]);
    const logged = await target.perdure.submit(logging);
    const following = follow(logged.id);
    expect(await following.ended).toBe(0);
    expect(following.io.stdout.text).toContain("a line from the handler");
  }, 120_000);

  it("shows what a task logs while it runs, over all attempts, each line once", async () => {
    const retry = { maxAttempts: 2, backoff: { type: "none" } } as const;
    const job = await target.perdure.submit(steps, undefined, { retry });
    const following = follow(job.id);
    for (const attempt of [1, 2]) {
      await following.untilPrinted(`attempt ${attempt} began`);
      const now = await ask(["logs", job.id], { env: target.env });
      expect(now).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(new RegExp(`^\\S+ attempt ${attempt} began\n$`)),
      });
      letGo.shift()?.();
    }
    expect(await following.ended).toBe(0);
    const lines = following.io.stdout.text.split("\n").map((line) => line.replace(/^\S+ /, ""));
    expect(lines).toEqual(["attempt 1 began", "attempt 1 goes on", "attempt 2 began", "attempt 2 goes on", ""]);
    const json = JSON.parse((await ask(["logs", "--json", job.id], { env: target.env })).stdout) as { log: string };
    expect(json).toMatchObject({ attempt: 2, log: expect.stringContaining("attempt 2 goes on") });
  }, 120_000);

  it("sends no control characters to a terminal, and every byte into a pipe", async () => {
    const job = await target.script("printf '\\033[2J\\302\\233x\\r\\n'");
    await job.result();
    const shown = await ask(["logs", "-f", job.id], { env: target.env, isTTY: true });
    expect(shown.stdout).toBe("\\x1b[2J\\x9bx\n");
    expect(shown.stdout).not.toMatch(DANGEROUS);
  }, 120_000);

  it("ends quietly when its output is closed", async () => {
    const job = await target.script(`echo up; ${untilThere("never")}`);
    const following = startMain(["logs", "-f", job.id], { env: target.env, stdout: new Kept(0) });
    expect(await following.ended).toBe(0);
    expect(following.io.stderr.text).toBe("");
    await job.cancel();
  }, 120_000);
});
