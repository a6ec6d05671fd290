/** The tools of the tests with commands: an engine on a file with a worker for commands, and eyes for what is alive.
 *  Tests wait for states, files and ends of processes; a deadline only guards against hanging. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { JobHandle } from "../../src/core/api/jobs.ts";
import { type ExecResult, exec } from "../../src/core/input/builtin.ts";
import type { ExecInput } from "../../src/core/input/exec-input.ts";
import type { JobInfo } from "../../src/core/job/views.ts";
import type { SubmitOptions } from "../../src/core/task/task.ts";
import type { WorkerHandle, WorkOptions } from "../../src/core/task/work-options.ts";
import type { OpenOptions } from "../../src/embedded/options.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import type { AttemptRow } from "../../src/store/store.ts";
import { whenFileIsOver } from "../file-is-over.ts";

const DEADLINE_MS = 60_000;

export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "perdure-exec-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export interface Ended {
  readonly job: JobInfo;
  readonly result: ExecResult;
  readonly attempts: AttemptRow[];
  readonly last: AttemptRow;
  /** Of the last attempt. */
  readonly dir: string;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Bench {
  readonly perdure: Perdure;
  readonly worker: WorkerHandle;
  readonly dir: string;
  /** What engine and worker logged. */
  readonly logged: string[];
  dirOf(jobId: string, attempt: number): string;
  submit(input: ExecInput, options?: SubmitOptions): Promise<JobHandle<ExecResult>>;
  /** Submits, and waits for the end, whatever it is. One attempt by default. */
  run(input: ExecInput, options?: SubmitOptions): Promise<Ended>;
  /** Text for the shell. */
  sh(command: string, input?: ExecInput, options?: SubmitOptions): Promise<Ended>;
  ended(handle: JobHandle<ExecResult>): Promise<Ended>;
}

export const QUICK = { backoff: { initial: "1ms", jitter: 0 } } as const;
export const ONCE = { maxAttempts: 1 } as const;

interface BenchOptions {
  readonly work?: WorkOptions;
  readonly open?: OpenOptions;
  readonly dir?: string;
}

/** For one test, which may stop its worker, close it, and list everything. */
export async function openBench(options: BenchOptions = {}): Promise<Bench> {
  const bench = await makeBench({ ...options, dir: options.dir ?? tempDir() });
  onTestFinished(() => bench.perdure.close({ grace: 0 }));
  return bench;
}

let shared: Promise<Bench> | null = null;

/** Shared by tests of a file that only read their own jobs: opening one, with its supervisor, costs more than such a test. */
export function sharedBench(): Promise<Bench> {
  if (shared !== null) return shared;
  const dir = mkdtempSync(join(tmpdir(), "perdure-exec-"));
  shared = makeBench({ dir });
  return shared;
}

whenFileIsOver(async () => {
  const opened = shared;
  shared = null;
  if (opened === null) return;
  const bench = await opened;
  await bench.perdure.close({ grace: 0 });
  rmSync(bench.dir, { recursive: true, force: true });
});

async function makeBench(options: BenchOptions & { readonly dir: string }): Promise<Bench> {
  const { dir } = options;
  const logged: string[] = [];
  const logger = (level: string, message: string) => void logged.push(`${level}: ${message}`);
  const perdure = await Perdure.open({ url: join(dir, "perdure.db"), logger, ...options.open });
  const worker = await perdure.work([exec], options.work);
  const dirOf = (jobId: string, attempt: number) => join(dir, "artifacts", jobId, `attempt_${attempt}`);
  const submit: Bench["submit"] = (input, given = {}) => perdure.submit(exec, input, { retry: ONCE, ...given });

  async function ended(handle: JobHandle<ExecResult>): Promise<Ended> {
    await handle.result({ timeout: DEADLINE_MS }).catch((error: { code?: string }) => {
      if (error.code === "result_timeout") throw error;
    });
    const job = await handle.get();
    const attempts = await handle.attempts();
    const at = dirOf(job.id, job.attempt);
    const text = (name: string) => (existsSync(join(at, name)) ? readFileSync(join(at, name), "utf8") : "");
    const said = { stdout: text("stdout.log"), stderr: text("stderr.log") };
    return { job, result: job.result as ExecResult, attempts, last: attempts.at(-1) as AttemptRow, dir: at, ...said };
  }

  const run: Bench["run"] = async (input, given) => ended(await submit(input, given));
  const sh: Bench["sh"] = (command, input, given) => run({ command, shell: true, ...input }, given);
  return { perdure, worker, dir, logged, dirOf, submit, run, sh, ended };
}

/** The first answer that is not undefined or false. */
export async function until<T>(what: string, look: () => T | Promise<T>, deadlineMs = DEADLINE_MS) {
  const start = performance.now();
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found as Exclude<T, undefined | false>;
    if (performance.now() - start > deadlineMs) throw new Error(`waited for ${deadlineMs} ms, in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A unique text in the environment or the arguments of a process tree. */
export const needle = () => `needle${randomBytes(9).toString("hex")}`;

/** The running processes with this mark; zombies do not count. */
export function alive(mark: string): number[] {
  const found: number[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      const carries = ["environ", "cmdline"].some((file) =>
        readFileSync(`/proc/${name}/${file}`, "latin1").includes(mark),
      );
      if (carries && isAlive(Number(name))) found.push(Number(name));
    } catch {
      // gone meanwhile
    }
  }
  return found;
}

export function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

/** Waits until no process is alive, and returns how many milliseconds that took. */
export async function allDead(mark: string, deadlineMs?: number): Promise<number> {
  const start = performance.now();
  await until(`no process has ${mark}`, () => alive(mark).length === 0, deadlineMs);
  return performance.now() - start;
}

export const exists = (path: string) => until(`${path} exists`, () => existsSync(path));

/** A worker in a separate process, from the sources: `worker.ts` beside this file. Communicates in lines. */
export interface Child {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly lines: string[];
  readonly errors: () => string;
  line(start: string): Promise<string>;
  readonly ended: Promise<number | null>;
}

export function startChild(script: string, args: readonly string[], env: Record<string, string> = {}): Child {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", path, ...args], { env: { ...process.env, ...env } });
  const lines: string[] = [];
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += String(chunk);
  });
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const line = (start: string) =>
    until(`the child prints "${start}"; it printed ${lines.join(" | ")} ${errors}`, () => {
      return lines.find((each) => each.startsWith(start)) ?? (child.exitCode !== null ? fail(errors) : undefined);
    });
  return { process: child, pid: child.pid as number, lines, errors: () => errors, line, ended };
}

function fail(message: string): never {
  throw new Error(`the child has ended: ${message}`);
}
