/** The verdict of a command takes precedence over its exit status; and its usage is added up. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { exists, openBench, QUICK, sharedBench } from "./kit.ts";

const says = (json: string) => `printf '%s' '${json}' > "$PERDURE_RESULT_FILE"`;
const retry = { maxAttempts: 3, ...QUICK };

describe("a verdict", () => {
  it("completed succeeds with any exit code, with its output", async () => {
    const bench = await sharedBench();
    const { job, result } = await bench.sh(`${says('{"status":"completed","output":{"n":1}}')}; exit 1`);
    expect(job.state).toBe("succeeded");
    expect(result).toMatchObject({ exitCode: 1, output: { n: 1 } });
    const killed = await bench.sh(`${says('{"status":"completed"}')}; kill -9 $$`);
    expect(killed.result).toMatchObject({ exitCode: 137, output: null });
  });

  it("failed is a no of the task itself with any exit code: not tried again", async () => {
    const bench = await sharedBench();
    const { job, last } = await bench.sh(
      `${says('{"status":"failed","reason":"no such image"}')}; exit 0`,
      {},
      { retry },
    );
    expect(job).toMatchObject({ state: "failed", reason: "rejected", attempt: 1 });
    expect(last.failure).toMatchObject({ kind: "result", class: "logical", message: "no such image", exitCode: 0 });
    const bare = await bench.sh(says('{"status":"failed"}'));
    expect(bare.last.failure?.message).toContain("without a reason");
  });

  it("without a status is output, and the exit code decides", async () => {
    const bench = await sharedBench();
    expect((await bench.sh(says('{"rows":3}'))).result.output).toEqual({ rows: 3 });
    expect((await bench.sh(says("[1,2]"))).result.output).toEqual([1, 2]);
    expect((await bench.sh(`${says('{"rows":3}')}; exit 4`)).last.failure).toMatchObject({ kind: "exit", exitCode: 4 });
  });

  it.each([
    ["no JSON", says("{oops")],
    ["another status", says('{"status":"ok"}')],
    ["waiting without children", says('{"status":"waiting","children":[]}')],
    ["waiting for no text", says('{"status":"waiting","children":[7]}')],
    ["empty", ': > "$PERDURE_RESULT_FILE"'],
  ])("that is malformed (%s) does not succeed; a bad exit code is reported first", async (_name, script) => {
    const bench = await sharedBench();
    const { job, last } = await bench.sh(script);
    expect(job.state).toBe("failed");
    expect(last.failure).toMatchObject({ kind: "result", exitCode: 0 });
    expect(last.failure?.message).toMatch(/^result\.json is malformed: /);
    const bad = await bench.sh(`${script}; exit 6`);
    expect(bad.last.failure).toMatchObject({ kind: "exit", exitCode: 6 });
  });

  it.each([
    ["huge", 'truncate -s 100G "$PERDURE_RESULT_FILE"', "it has 107374182400 bytes, over the limit of 786432"],
    ["a link", `echo '{"status":"completed"}' > x; ln -s x "$PERDURE_RESULT_FILE"`, "it is a link"],
    ["a pipe", 'mkfifo "$PERDURE_RESULT_FILE"', "it is not a file"],
    ["a folder", 'mkdir "$PERDURE_RESULT_FILE"', "it is not a file"],
    ["nested without end", `perl -e 'print "[" x 100000, "]" x 100000' > "$PERDURE_RESULT_FILE"`, "it is nested more"],
  ])("that is %s is final after exit code 0, and counts as none after another", async (_name, script, why) => {
    const bench = await sharedBench();
    const { job, last } = await bench.sh(script, {}, { retry });
    expect(job).toMatchObject({ state: "failed", reason: "rejected", attempt: 1 });
    expect(last.failure).toMatchObject({ kind: "result", class: "logical", exitCode: 0 });
    expect(last.failure?.message).toContain(`exit code 0, but its result.json cannot be used: ${why}`);
    expect((await bench.perdure.explain(job.id)).text).toContain(
      "its result.json is not valid, and a retry would not change that",
    );
    const bad = await bench.sh(`${script}; exit 6`, {}, { retry });
    expect(bad.job).toMatchObject({ state: "failed", reason: "exhausted", attempt: 3 });
    expect(bad.last.failure).toMatchObject({ kind: "exit", exitCode: 6 });
  });

  it("whose result grows beyond what a result may hold fails its job, and is not run again and again", async () => {
    const bench = await sharedBench();
    const script = `perl -e 'print "[1e20", ",1e20" x 150000, "]"' > "$PERDURE_RESULT_FILE"`;
    const { job, last } = await bench.sh(script, {}, { retry });
    expect(job).toMatchObject({ state: "failed", attempt: 1 });
    expect(last.failure?.kind).toBe("result");
  });

  it("with every character that is hard to store comes back as it was", async () => {
    const bench = await sharedBench();
    const output = String.raw`{"nul":"\u0000","lone":"\ud800","bidi":"\u202e","__proto__":{"x":1},"big":1e308}`;
    const { job } = await bench.sh(says(`{"status":"completed","output":${output}}`));
    expect(JSON.stringify((job.result as { output: unknown }).output)).toBe(JSON.stringify(JSON.parse(output)));
  });

  it("that existed before the kill counts, also on a timeout, a cancel and a stop", async () => {
    const bench = await openBench();
    const script = (status: string) => `${says(`{"status":"${status}","reason":"so"}`)}; touch up; sleep 1000`;
    const timeout = "4s"; // to write a line, on a machine that may be busy
    const [late, no, half, output] = await Promise.all([
      bench.sh(script("completed"), {}, { timeout }),
      bench.sh(script("failed"), {}, { timeout, retry }),
      bench.sh(`printf '{"status":' > "$PERDURE_RESULT_FILE"; sleep 1000`, {}, { timeout }),
      bench.sh(`${says('{"rows":1}')}; sleep 1000`, {}, { timeout }),
    ]);
    expect(late.job.state).toBe("succeeded");
    expect(no.job).toMatchObject({ state: "failed", reason: "rejected" });
    expect(half.last.failure?.kind).toBe("timeout");
    expect(output.last.failure?.kind).toBe("timeout");
    const job = await bench.submit({ command: script("completed"), shell: true });
    await exists(join(bench.dirOf(job.id, 1), "up"));
    await bench.worker.stop({ grace: 0 });
    expect((await job.get()).state).toBe("succeeded");
  });
});

describe("a verdict of waiting", () => {
  /** Waits in its first run for the child that is named in the file `child`. */
  const waiting = (end: string) =>
    `[ "$PERDURE_ATTEMPT" = 2 ] && { echo again; exit 0; }
     until [ -s child ]; do sleep 0.02; done
     printf '{"status":"waiting","children":["%s"],"usage":{"tokens_in":5}}' "$(cat child)" > "$PERDURE_RESULT_FILE"
     ${end}`;

  it.each(["exit 0", "exit 3", "kill -9 $$"])(
    "with any exit code ends the attempt (%s); the job runs again when the child has ended, and nothing is counted",
    async (end) => {
      const bench = await sharedBench();
      const parent = await bench.submit({ command: waiting(end), shell: true, keep: true });
      const child = await bench.submit({ argv: ["cat", "go"], cwd: bench.dir }, { parent: parent.id });
      await exists(bench.dirOf(parent.id, 1));
      writeFileSync(join(bench.dirOf(parent.id, 1), "child"), child.id);
      const { job, attempts, stdout } = await bench.ended(parent);
      expect(job).toMatchObject({ state: "succeeded", attempt: 2, failures: 0, usage: { tokensIn: 5 } });
      expect(attempts.map(({ outcome }) => outcome)).toEqual(["waiting", "completed"]);
      expect(stdout).toBe("again\n");
      expect((await child.get()).state).toBe("failed"); // how it ended is for the parent to judge
    },
  );
});

describe("usage", () => {
  const used = (n: number) => `{"tokens_in":${n},"tokens_out":${2 * n},"cost_usd":0.5}`;

  it("of result.json and of usage.json adds up over attempts, and each attempt counts once", async () => {
    const bench = await sharedBench();
    const script = `
      printf '%s' '${used(1)}' > "$PERDURE_USAGE_FILE"
      printf '%s' '${used(10)}' > tmp; mv tmp "$PERDURE_USAGE_FILE"
      [ "$PERDURE_ATTEMPT" = 3 ] && ${says(`{"status":"completed","usage":${used(100)}}`)}
      exit 1`;
    const { job, attempts } = await bench.sh(script, {}, { retry });
    expect(job).toMatchObject({ state: "succeeded", usage: { tokensIn: 120, tokensOut: 240, costUsd: 1.5 } });
    expect(attempts.map(({ usage }) => usage?.tokensIn)).toEqual([10, 10, 100]);
  });

  it("that was reported before the kill counts", async () => {
    const bench = await sharedBench();
    const script = `printf '%s' '${used(7)}' > tmp; mv tmp "$PERDURE_USAGE_FILE"; sleep 1000`;
    const job = await bench.submit({ command: script, shell: true, grace: 0 });
    await exists(join(bench.dirOf(job.id, 1), "usage.json"));
    await job.cancel();
    expect((await bench.ended(job)).job.usage).toMatchObject({ tokensIn: 7 });
  });

  it("beyond the budget ends the job", async () => {
    const bench = await sharedBench();
    const script = `printf '%s' '${used(60)}' > "$PERDURE_USAGE_FILE"; exit 1`;
    const { job } = await bench.sh(script, {}, { retry: { maxAttempts: 9, ...QUICK, budget: { tokens: 200 } } });
    expect(job).toMatchObject({ state: "failed", reason: "budget", attempt: 2 });
  });

  it("that reaches the budget while it runs stops it, and ends the job", async () => {
    const bench = await sharedBench();
    const script = `printf '%s' '${used(60)}' > tmp; mv tmp "$PERDURE_USAGE_FILE"; sleep 1000`;
    const { job, last } = await bench.sh(script, {}, { retry: { maxAttempts: 9, ...QUICK, budget: { tokens: 100 } } });
    expect(job).toMatchObject({ state: "failed", reason: "budget", attempt: 1, usage: { tokensIn: 60 } });
    expect(last.failure).toMatchObject({ kind: "error", name: "BudgetError" });
  });

  it("that is invalid changes nothing, and is reported in the log of its attempt", async () => {
    const bench = await openBench();
    const logWith = async (text: string) => {
      const { job, last } = await bench.sh(`printf '%s' '${text}' > "$PERDURE_USAGE_FILE"`);
      expect(job.state, text).toBe("succeeded");
      return last.log ?? "";
    };
    for (const text of ['{"tokens_in":-5}', '{"tokens_in":"many"}', "["]) {
      expect(await logWith(text)).toContain("not all usage in usage.json is counted: ");
    }
    const { last } = await bench.sh(says('{"status":"completed","usage":{"cost_usd":"3"}}'));
    expect(last.log).toContain(
      "not all usage in result.json is counted: cost_usd: must be a number of at least 0; got",
    );
    for (const text of ['{"tokens_in":1.5}', '{"cost_usd":1e308}']) expect(await logWith(text)).toBe("");
    expect(bench.logged.filter((line) => line.startsWith("error"))).toEqual([]);
  });
});
