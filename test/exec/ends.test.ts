/** How commands end, and how that is reported. */
import { mkdirSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { exists, openBench, QUICK, sharedBench } from "./kit.ts";

describe("an exit code", () => {
  it("decides, and is reported with the last line of stderr", async () => {
    const bench = await sharedBench();
    const ok = await bench.sh("echo hi; echo noise >&2");
    expect(ok.job).toMatchObject({ state: "succeeded", attempt: 1 });
    expect(ok.result).toMatchObject({ exitCode: 0, output: null, outputs: [], stdout: { bytes: 3, dropped: 0 } });
    for (const code of [1, 7, 126, 127, 255]) {
      const { job, last } = await bench.sh(`echo out; echo first >&2; echo 'the last line  ' >&2; exit ${code}`);
      expect(job).toMatchObject({ state: "failed", reason: "exhausted" });
      const message = `exit code ${code}: the last line`;
      expect(last.failure).toMatchObject({ kind: "exit", class: "transient", exitCode: code, signal: null, message });
    }
    expect((await bench.sh("exit 7")).last.failure?.message).toBe("exit code 7");
  });

  it("of a Node program is reported with its error, not with its version", async () => {
    const bench = await sharedBench();
    const throws = (script: string) => bench.run({ argv: [process.execPath, "-e", script] });
    const thrown = await throws('throw new Error("connect ECONNREFUSED 127.0.0.1:1: Connection refused")');
    expect(thrown.last.failure?.message).toBe(
      "exit code 1: Error: connect ECONNREFUSED 127.0.0.1:1: Connection refused",
    );
    const emitted = await throws('require("node:net").connect(1, "127.0.0.1")');
    expect(emitted.last.failure?.message).toBe("exit code 1: Error: connect ECONNREFUSED 127.0.0.1:1");
  });

  it("is retried by the policy, each attempt with its own exit code", async () => {
    const bench = await sharedBench();
    const retry = { maxAttempts: 3, ...QUICK };
    const { job, attempts } = await bench.sh('exit "$((3 - PERDURE_ATTEMPT))"', {}, { retry });
    expect(job).toMatchObject({ state: "succeeded", attempt: 3 });
    expect(attempts.map(({ failure }) => failure?.exitCode ?? null)).toEqual([2, 1, null]);
  });

  it("works with any bytes on stderr, even those that a database refuses", async () => {
    const bench = await sharedBench();
    const { last } = await bench.sh(String.raw`printf 'a\000b\377\033[31m\n' >&2; exit 3`);
    expect(last.failure?.message).toMatch(/^exit code 3: a.b/s);
    const emoji = await bench.run({ argv: ["perl", "-e", 'print STDERR "x", "\\xf0\\x9f\\x98\\x80" x 2000; exit 4'] });
    expect(emoji.last.failure?.message).toMatch(/^exit code 4: /);
    expect(emoji.last.failure?.message.isWellFormed()).toBe(true);
  });
});

describe("a signal", () => {
  it.each(["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGHUP", "SIGINT", "SIGPIPE"] as const)(
    "%s is reported as 128 + n",
    async (signal) => {
      const bench = await sharedBench();
      const { last } = await bench.sh(`echo why >&2; kill -${signal.slice(3)} $$; sleep 100`);
      const exitCode = 128 + constants.signals[signal];
      expect(last.failure).toMatchObject({ kind: "signal", signal, exitCode, message: `signal ${signal}: why` });
    },
  );

  it("that the worker did not send finds all handlers at their defaults", async () => {
    const bench = await sharedBench();
    const { stdout, stderr, job } = await bench.sh("yes | head -1; grep -E 'SigIgn|SigBlk' /proc/self/status");
    expect(job.state).toBe("succeeded");
    expect(stdout).toMatch(/^y\nSigBlk:\s0+\nSigIgn:\s0+\n$/);
    expect(stderr).toBe(""); // no "Broken pipe"
  });
});

describe("what cannot be started", () => {
  it("is permanent: no program, no right, no directory", async () => {
    const bench = await sharedBench();
    const plain = join(bench.dir, "plain");
    writeFileSync(plain, "x", { mode: 0o644 });
    const badShebang = join(bench.dir, "bad");
    writeFileSync(badShebang, "#!/no/such/interpreter\n", { mode: 0o755 });
    mkdirSync(join(bench.dir, "folder"));
    const cases = [
      [{ argv: ["no-such-program"] }, "ENOENT"],
      [{ argv: ["/no/such/program"] }, "ENOENT"],
      [{ argv: ["./relative"] }, "ENOENT"],
      [{ argv: [badShebang] }, "ENOENT"],
      [{ argv: [plain] }, "EACCES"],
      [{ argv: [join(bench.dir, "folder")] }, "EACCES"],
      [{ argv: ["true"], cwd: join(bench.dir, "gone") }, "ENOENT"],
      [{ argv: ["true"], cwd: plain }, "ENOTDIR"],
    ] as const;
    const retry = { maxAttempts: 5, ...QUICK };
    for (const [input, code] of cases) {
      const { job, last } = await bench.run(input, { retry });
      expect(job, code).toMatchObject({ state: "failed", reason: "invalid", attempt: 1 });
      expect(last.failure).toMatchObject({ kind: "error", class: "invalid", code, exitCode: null });
    }
  });

  it("is permanent: a script whose interpreter does not exist", async () => {
    const bench = await sharedBench();
    const script = join(bench.dir, "script");
    writeFileSync(script, "#!/no/such/interpreter\n", { mode: 0o755 });
    const { job, last } = await bench.run({ argv: [script] });
    expect(job.reason).toBe("invalid");
    expect(last.failure?.message).toBe(`cannot start: the interpreter of ${script} does not exist (ENOENT)`);
  });

  it("is permanent: arguments and environment that are longer than the system takes", async () => {
    const bench = await sharedBench();
    const { last, job } = await bench.run(
      { argv: ["true", "x".repeat(131_072)] },
      { retry: { maxAttempts: 5, ...QUICK } },
    );
    expect(job).toMatchObject({ state: "failed", reason: "invalid", attempt: 1 });
    expect(last.failure).toMatchObject({ code: "E2BIG" });
    const env = await bench.run({ argv: ["true"], env: { LONG: "x".repeat(131_072) }, limits: { openFiles: 64 } });
    expect(env.last.failure).toMatchObject({ class: "invalid", code: "E2BIG" });
  });

  it("may be started with the next attempt where somebody is writing the program", async () => {
    const bench = await sharedBench();
    const program = join(bench.dir, "busy");
    const flag = join(bench.dir, "open");
    const held = await bench.submit({
      argv: [
        "perl",
        "-e",
        "open F, '>', $ARGV[0]; chmod 0755, $ARGV[0]; open G, '>', $ARGV[1]; sleep 100",
        program,
        flag,
      ],
    });
    await exists(flag);
    const { last } = await bench.run({ argv: [program] });
    expect(last.failure).toMatchObject({ class: "transient", code: "ETXTBSY" });
    await held.cancel();
    await bench.ended(held);
  });
});

describe("requested to stop", () => {
  it("a command that answers with exit code 0 has not succeeded: it timed out", async () => {
    const bench = await sharedBench();
    const { job, last } = await bench.sh("trap 'exit 0' TERM; sleep 100 & wait", {}, { timeout: "300ms" });
    expect(job).toMatchObject({ state: "failed" });
    expect(last.failure).toMatchObject({ kind: "timeout" });
  });

  it("a command that reacts with exit code 0 is released when the worker stops", async () => {
    const bench = await openBench();
    const job = await bench.submit({ command: "trap 'exit 0' TERM; touch up; sleep 100 & wait", shell: true });
    await exists(join(bench.dirOf(job.id, 1), "up"));
    await bench.worker.stop({ grace: 0 });
    expect(await job.get()).toMatchObject({ state: "queued", failures: 0 });
  });

  it("a command that answers with exit code 0 to a cancel is cancelled", async () => {
    const bench = await sharedBench();
    const job = await bench.submit({ command: "trap 'exit 0' TERM; touch up; sleep 100 & wait", shell: true });
    await exists(join(bench.dirOf(job.id, 1), "up"));
    await job.cancel();
    expect((await bench.ended(job)).job.state).toBe("cancelled");
  });
});
