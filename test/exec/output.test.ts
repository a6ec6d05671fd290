/** Output of commands: all of it is drained, the beginning and the end are kept. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { OutputChunk } from "../../src/core/task/work-options.ts";
import { IS_FULL } from "../tier.ts";
import { exists, openBench, sharedBench, startChild, until } from "./kit.ts";

describe("output", () => {
  it("is kept per attempt and stream, byte for byte", async () => {
    const bench = await sharedBench();
    const script = String.raw`perl -e 'print pack("C*", 0 .. 255) x 100'; printf 'no end \377\376' >&2`;
    const { dir, result } = await bench.sh(script);
    const bytes = Buffer.from(Array.from({ length: 25_600 }, (_, i) => i % 256));
    expect(readFileSync(join(dir, "stdout.log")).equals(bytes)).toBe(true);
    expect(readFileSync(join(dir, "stderr.log"), "latin1")).toBe("no end \xff\xfe");
    expect(result).toMatchObject({ stdout: { bytes: 25_600, dropped: 0 }, stderr: { bytes: 9, dropped: 0 } });
  });

  it("beyond the cap keeps head and tail, with the exact number of bytes between them", async () => {
    const bench = await sharedBench();
    const { stdout, result } = await bench.run({ argv: ["seq", "1", "200000"], outputCap: 10_000 });
    const all = Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join("");
    const dropped = all.length - 10_000;
    expect(result.stdout).toEqual({ bytes: all.length, dropped });
    expect(stdout).toBe(`${all.slice(0, 5_000)}\n[perdure: ${dropped} bytes dropped here]\n${all.slice(-5_000)}`);
  });

  it("is in the result as text, if the job asks for it: its beginning, whatever is kept in the file", async () => {
    const bench = await sharedBench();
    const resultStdout = true;
    const some = await bench.sh("printf 'grüße\\n'; echo no >&2", { resultStdout });
    expect(some.result.stdout).toEqual({ bytes: 8, dropped: 0, text: "grüße\n" });
    expect(some.result.stderr).toEqual({ bytes: 3, dropped: 0 });
    expect((await bench.sh("true", { resultStdout })).result.stdout).toEqual({ bytes: 0, dropped: 0, text: "" });
    const seq = await bench.run({ argv: ["seq", "1", "200000"], outputCap: 10_000, resultStdout });
    const all = Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join("");
    const { text, ...others } = seq.result.stdout;
    expect(text === all.slice(0, 65_536)).toBe(true);
    expect(others).toEqual({ bytes: all.length, dropped: all.length - 10_000, textCut: true });
    const failed = await bench.sh("echo out; exit 3", { resultStdout });
    expect(failed.job.state).toBe("failed");
  });

  it("without a newline, in one line of 20 MB, fails no command, and its end is the last line", async () => {
    const bench = await sharedBench();
    const script = "head -c 20000000 /dev/zero | tr '\\0' x >&2; echo ' the end' >&2; exit 2";
    const { last, dir } = await bench.sh(script, { outputCap: 4_096 });
    expect(last.failure?.message).toMatch(/^exit code 2: x+/);
    expect(last.failure?.message.length).toBeLessThanOrEqual(2_048);
    expect(statSync(join(dir, "stderr.log")).size).toBeLessThan(4_200);
  });

  it("that is written at the very end is all there", async () => {
    const bench = await openBench({ work: { concurrency: 8 } });
    const runs = Array.from({ length: IS_FULL ? 24 : 8 }, () =>
      bench.run({ argv: ["head", "-c", "500000", "/dev/zero"] }),
    );
    for (const { result } of await Promise.all(runs)) expect(result.stdout.bytes).toBe(500_000);
  });

  // /dev/stderr cannot be opened where it is a socket, as Node makes them.
  it("may be opened by its names", async () => {
    const bench = await sharedBench();
    const script = "echo a > /dev/stdout; echo b > /dev/stderr; echo c | tee /dev/stderr >> /proc/self/fd/1";
    const { stdout, stderr, job } = await bench.sh(script);
    expect([stdout, stderr, job.state]).toEqual(["a\nc\n", "b\nc\n", "succeeded"]);
  });

  it("does not wait in the pipe for a reader that is slow, nor get lost", async () => {
    let isFirst = true;
    const onOutput = () => {
      if (!isFirst) return undefined;
      isFirst = false;
      return new Promise<void>((resolve) => setTimeout(resolve, 3_000)); // longer than a pipe may stay open
    };
    const bench = await openBench({ work: { onOutput } });
    const { result, job } = await bench.run({ argv: ["head", "-c", "130000", "/dev/zero"] });
    expect([job.state, result.stdout.bytes]).toEqual(["succeeded", 130_000]);
  });
});

describe("who follows the output", () => {
  it("gets it as it comes, and finds it in the file", async () => {
    const chunks: OutputChunk[] = [];
    const bench = await openBench({ work: { onOutput: (chunk) => void chunks.push(chunk) as undefined } });
    const script = "echo one; touch up; while ! [ -e go ]; do sleep 0.02; done; echo two >&2; echo three";
    const job = await bench.submit({ command: script, shell: true });
    const dir = bench.dirOf(job.id, 1);
    await exists(join(dir, "up"));
    await until("the first line arrived", () => chunks.length === 1);
    await until("the first line is in the file", () => readFileSync(join(dir, "stdout.log"), "utf8") === "one\n");
    const { writeFileSync } = await import("node:fs");
    writeFileSync(join(dir, "go"), "");
    await bench.ended(job);
    const told = (stream: string) =>
      chunks
        .filter((each) => each.stream === stream)
        .map(({ bytes }) => String(bytes))
        .join("");
    expect([told("stdout"), told("stderr")]).toEqual(["one\nthree\n", "two\n"]);
    expect(chunks[0]).toMatchObject({ jobId: job.id, attempt: 1 });
  });

  it.each([
    ["throws", () => JSON.parse("{")],
    ["rejects", () => Promise.reject(new Error("no"))],
  ])("and %s harms neither the command nor the worker", async (_name, onOutput) => {
    const bench = await openBench({ work: { onOutput } });
    const { job, stdout } = await bench.sh("echo one; sleep 0.1; echo two");
    expect([job.state, stdout]).toEqual(["succeeded", "one\ntwo\n"]);
  });

  it("and never resolves holds the command up, and not its end", async () => {
    const bench = await openBench({ work: { onOutput: () => new Promise<void>(() => {}) } });
    const { last } = await bench.sh("yes", { grace: "100ms" }, { timeout: "500ms" });
    expect(last.failure?.kind).toBe("timeout");
  });
});

describe("200 MB of output", () => {
  it.runIf(IS_FULL)("make the worker grow by less than 64 MB", async () => {
    const child = startChild("memory.ts", ["200000000"]);
    const line = await child.line("grown ");
    const [, mb, bytes] = line.split(" ");
    console.log(`the worker grew by ${mb} MB`);
    expect(Number(mb)).toBeLessThan(64);
    expect(Number(bytes)).toBe(200_000_000);
  });
});
