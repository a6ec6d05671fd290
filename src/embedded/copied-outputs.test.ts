import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { Clock } from "../lib/clock.ts";
import { systemLoop } from "../lib/system-clock.ts";
import type { Blobs } from "../store/blobs.ts";
import { directoryBlobs } from "../store/directory-blobs.ts";
import type { RunningAttempt } from "../worker/exec/exec-executor.ts";
import { copiedOutputs } from "./job-outputs.ts";

const JOB = "job_01m7gekg9zevv9a6xvvwmt1v8g";

function newDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "perdure-copied-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A machine with its own directory, on a shared store. */
function machine(kept: Blobs, { maxBytes = 1_000_000, dir = newDir() } = {}) {
  const due: (() => void)[] = [];
  const clock: Clock = {
    ...systemLoop,
    now: () => 0,
    monotonic: () => 0,
    after(_ms, call) {
      due.push(call);
      return () => {};
    },
  };
  const outputs = copiedOutputs({ local: directoryBlobs(dir), kept, clock, maxBytes });
  const said: string[] = [];
  const running = (attempt: number) =>
    ({ job: { id: JOB, attempt }, log: (line: string) => void said.push(line) }) as unknown as RunningAttempt;
  return { dir, due, outputs, said, running };
}

async function textOf(blobs: Blobs, attempt: number, name: string): Promise<string | null> {
  const source = await blobs.get(JOB, attempt, name);
  if (source === null) return null;
  let text = "";
  for await (const chunk of source) text += String(chunk);
  return text;
}

it("copies output while an attempt runs, the remainder at its end, and leaves no local files", async () => {
  const kept = directoryBlobs(newDir());
  const { dir, due, outputs, running } = machine(kept);
  const { dir: at, previous } = await outputs.begin(JOB, 1, false, running(1));
  expect(previous).toBeNull();
  writeFileSync(join(at, "stdout.log"), "one\n");
  outputs.follow?.(running(1));
  due.shift()?.();
  await expect.poll(() => textOf(kept, 1, "stdout.log")).toBe("one\n");
  writeFileSync(join(at, "stdout.log"), "one\ntwo\n");
  writeFileSync(join(at, "stderr.log"), "");
  writeFileSync(join(at, "artifacts", "report.txt"), "all well");
  writeFileSync(join(at, "scratch"), "x");
  await outputs.finish?.(running(1));
  expect(await textOf(kept, 1, "stdout.log")).toBe("one\ntwo\n");
  expect(await textOf(kept, 1, "artifacts/report.txt")).toBe("all well");
  await outputs.tidy(JOB);
  expect(readdirSync(dir)).toEqual([]);
  expect(await outputs.attempts(JOB)).toEqual([1]);
  expect(await textOf(outputs, 1, "artifacts/report.txt")).toBe("all well");
});

it("gives the next attempt the files that the previous one left on another machine", async () => {
  const kept = directoryBlobs(newDir());
  const first = machine(kept);
  const { dir } = await first.outputs.begin(JOB, 1, false, first.running(1));
  writeFileSync(join(dir, "artifacts", "report.txt"), "half");
  await first.outputs.finish?.(first.running(1));
  const second = machine(kept);
  const { previous } = await second.outputs.begin(JOB, 2, false, second.running(2));
  expect(await readFile(join(previous as string, "artifacts", "report.txt"), "utf8")).toBe("half");
});

it("reports files that could not be stored, and keeps them in place", async () => {
  const { dir, outputs, running, said } = machine(directoryBlobs(newDir()), { maxBytes: 3 });
  const { dir: at } = await outputs.begin(JOB, 1, false, running(1));
  writeFileSync(join(at, "artifacts", "large"), "1234567");
  await outputs.finish?.(running(1));
  expect(said).toEqual([expect.stringMatching(/^artifacts\/large was not kept: /)]);
  await outputs.tidy(JOB);
  expect(readdirSync(join(dir, JOB, "attempt_1", "artifacts"))).toEqual(["large"]);
});

it("stores the files of a killed process before it removes any of them", async () => {
  const kept = directoryBlobs(newDir());
  const killed = machine(kept);
  const { dir } = await killed.outputs.begin(JOB, 1, false, killed.running(1));
  writeFileSync(join(dir, "stdout.log"), "one\n");
  killed.outputs.follow?.(killed.running(1));
  killed.due.shift()?.();
  await expect.poll(() => textOf(kept, 1, "stdout.log")).toBe("one\n");
  writeFileSync(join(dir, "stdout.log"), "one\ntwo\n");
  writeFileSync(join(dir, "artifacts", "y.txt"), "x");
  writeFileSync(join(dir, "result.json"), '{"status": "completed"}');
  const { outputs } = machine(kept, { dir: killed.dir });
  expect((await outputs.list(JOB, 1)).files).toMatchObject([{ name: "y.txt", size: 1 }]);
  await outputs.tidy(JOB);
  expect((await kept.list(JOB, 1)).files).toMatchObject([{ name: "y.txt", size: 1 }]);
  expect(await textOf(kept, 1, "stdout.log")).toBe("one\ntwo\n");
  expect(await textOf(kept, 1, "result.json")).toBe('{"status": "completed"}');
  expect((await outputs.list(JOB, 1)).files).toHaveLength(1);
});

it("keeps the only copy in place if the store refuses it, and never replaces a stored file by a shorter one", async () => {
  const kept = directoryBlobs(newDir());
  const first = machine(kept);
  const { dir: at } = await first.outputs.begin(JOB, 1, false, first.running(1));
  writeFileSync(join(at, "stdout.log"), "one\ntwo\n");
  writeFileSync(join(at, "artifacts", "a"), "whole");
  await first.outputs.finish?.(first.running(1));
  // Incomplete downloads, and a file that is too large.
  writeFileSync(join(at, "stdout.log"), "one\n");
  writeFileSync(join(at, "artifacts", "a"), "wh");
  writeFileSync(join(at, "artifacts", "large"), "1234567");
  const { outputs } = machine(kept, { dir: first.dir, maxBytes: 15 });
  await outputs.tidy(JOB);
  expect(await textOf(kept, 1, "stdout.log")).toBe("one\ntwo\n");
  expect(await textOf(kept, 1, "artifacts/a")).toBe("whole");
  expect(await textOf(kept, 1, "artifacts/large")).toBeNull();
  expect(await textOf(outputs, 1, "artifacts/large")).toBe("1234567");
});

it("copies the verdict last", async () => {
  const store = directoryBlobs(newDir());
  const names: string[] = [];
  const write: Blobs["write"] = (...args) => {
    names.push(args[2]);
    return store.write(...args);
  };
  const kept: Blobs = { ...store, write };
  const { outputs, running } = machine(kept);
  const { dir } = await outputs.begin(JOB, 1, false, running(1));
  writeFileSync(join(dir, "artifacts", "y.txt"), "x");
  writeFileSync(join(dir, "result.json"), '{"status": "completed"}');
  await outputs.finish?.(running(1));
  expect(names).toEqual(["artifacts/y.txt", "result.json"]);
});

it("gives each attempt the input of its job from the store, from the start", async () => {
  const kept = directoryBlobs(newDir());
  async function* source() {
    yield Buffer.from("piped");
  }
  const { outputs, running, dir } = machine(kept);
  await outputs.write(JOB, 0, "stdin", 0, source());
  for (const attempt of [1, 2]) {
    const file = await outputs.openStdin?.(JOB, running(attempt));
    expect(await file?.readFile("utf8")).toBe("piped");
    await file?.close();
  }
  await outputs.tidy(JOB);
  expect(readdirSync(join(dir, "inputs"))).toEqual([]);
  expect(await textOf(kept, 0, "stdin")).toBe("piped");
});
