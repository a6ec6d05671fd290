/** Tools of the crash tests: real processes on a real store, killed, and an audit of what they left. Children are the
 *  scripts in `children/`; they import "perdure" and so run the built package, as users do. A child prints lines on
 *  stdout, and tests wait for lines, events and states; a deadline only guards against hanging. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type OpenOptions, Perdure } from "perdure";
import { whenTestIsOver } from "../file-is-over.ts";
import { SEED } from "../tier.ts";
import { endLeaseOf, hasNoTransaction, isPostgres } from "./stores.ts";

export { newFile, POSTGRES, SQLITE, STORES } from "./stores.ts";

/** With `PERDURE_SOAK=1` the long tests run ten times longer. */
export const SOAK = process.env.PERDURE_SOAK === "1" ? 10 : 1;

/** Far longer than anything here takes, also on a busy machine: reaching it means that something hangs. */
export const DEADLINE_MS = 60_000;
const POLL_MS = 20;

/** Timeout of a whole test: longer than the deadlines within it, so that those are reported first. */
export const TEST_MS = 150_000 * SOAK;

// Randomness, with its seed printed.

export class Dice {
  #state: number;

  constructor(name: string) {
    this.#state = SEED;
    for (const c of name) this.#state = (this.#state * 31 + c.charCodeAt(0)) | 0;
    console.log(`${name}: PERDURE_SEED=${SEED}`);
  }

  /** From 0 to below 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `from` to `to`, both included. */
  between(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }

  pick<T>(list: readonly T[]): T {
    return list[this.between(0, list.length - 1)] as T;
  }
}

// Cleanup of what each test starts.

const children = new Set<Child>();
const opened = new Set<Perdure>();

whenTestIsOver(async () => {
  for (const child of children) child.destroy();
  await Promise.all([...children].map((child) => child.ended));
  await Promise.all([...opened].map((perdure) => perdure.close({ grace: 0 })));
  for (const set of [children, opened]) set.clear();
});

/** An engine in the test's own process. It reaps like any other. */
export async function open(url: string, options: OpenOptions = {}): Promise<Perdure> {
  const perdure = await Perdure.open({ url, retention: KEPT, ...options });
  opened.add(perdure);
  return perdure;
}

const KEPT = { succeeded: false, failed: false, cancelled: false } as const;

// Children.

type ChildName = "worker" | "submitter" | "family" | "runs";

export class Child {
  readonly pid: number;
  /** Options of its store; on PostgreSQL with a name for its connections. */
  readonly url: string;
  readonly lines: string[] = [];
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  readonly #process: ChildProcess;
  readonly #name: string;
  readonly #listeners = new Set<() => void>();
  #errors = "";
  #over = false;

  constructor(name: string, url: string, command: string, args: readonly string[]) {
    this.#name = name;
    this.url = url;
    const child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    this.#process = child;
    this.pid = child.pid as number;
    child.stdin?.on("error", () => {}); // it may exit while we write to it
    child.stderr?.on("data", (chunk) => {
      this.#errors += String(chunk);
    });
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      this.lines.push(line);
      this.#notify();
    });
    this.ended = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => {
        this.#over = true;
        this.#notify();
        resolve({ code, signal });
      });
    });
    children.add(this);
  }

  get isOver(): boolean {
    return this.#over;
  }
  /** Its stderr: errors of the engine and of Node. */
  get errors(): string {
    return this.#errors;
  }

  /** The first line that begins with this text; from `after` on, if passed. */
  async line(start: string, after = 0): Promise<string> {
    return until(`${this.#name} says "${start}"`, (wake) => {
      const found = this.lines.slice(after).find((line) => line.startsWith(start));
      if (found !== undefined) return found;
      if (this.#over) throw new Error(`${this.#name} ended before it printed "${start}"\n${this.#errors}`);
      this.#listeners.add(wake);
      return undefined;
    });
  }

  say(line: string): void {
    this.#process.stdin?.write(`${line}\n`);
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.#over) process.kill(this.pid, signal);
  }

  /** kill -9, and waits until it has exited. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.ended;
  }

  /** SIGKILL also ends a stopped process; a tracee, named by its "pid" line, outlives its strace. */
  destroy(): void {
    if (this.#over) return;
    const traced = this.lines.find((line) => line.startsWith("pid "));
    for (const pid of [this.pid, ...(traced === undefined ? [] : [Number(traced.slice(4))])]) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It exited by itself at this moment.
      }
    }
  }

  #notify(): void {
    const waiting = [...this.#listeners];
    this.#listeners.clear();
    for (const wake of waiting) wake();
  }
}

interface Settings {
  readonly url: string;
  readonly [name: string]: unknown;
}

/** Starts `children/<name>.mjs` with these settings; `under` is a command that runs it, such as strace. */
export function start(name: ChildName, settings: Settings, under: readonly string[] = []): Child {
  const script = fileURLToPath(new URL(`children/${name}.mjs`, import.meta.url));
  const url = isPostgres(settings.url) ? `${settings.url}&application_name=${name}-${++started}` : settings.url;
  const words = [...under, process.execPath, script, JSON.stringify({ ...settings, url })];
  const [command = process.execPath, ...args] = words;
  return new Child(name, url, command, args);
}

let started = 0;

/** A worker with an open session. */
export async function startWorker(url: string, settings: object = {}): Promise<Child> {
  const child = start("worker", { url, ...settings });
  await child.line("ready");
  return child;
}

// Waiting.

type Look<T> = (wake: () => void) => T | undefined | Promise<T | undefined>;

/** The first answer that is not undefined. Checks again when woken, and every few milliseconds. */
export async function until<T>(what: string, look: Look<T>, deadlineMs = DEADLINE_MS): Promise<T> {
  const start = performance.now();
  for (;;) {
    let wake: () => void = () => {};
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const found = await look(wake);
    if (found !== undefined) return found;
    if (performance.now() - start > deadlineMs) throw new Error(`timed out after ${deadlineMs} ms: ${what}`);
    const timer = setTimeout(wake, POLL_MS);
    await woken;
    clearTimeout(timer);
  }
}

/** Waits in real time as part of the fault: how long a machine sleeps, when a process is killed. */
export function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits until nothing is queued or running, as long as there is progress. */
export async function drained(perdure: Perdure): Promise<void> {
  let seen = "";
  let movedAt = performance.now();
  await until(
    "nothing is queued or running",
    async () => {
      const queues = await perdure.queues();
      const left = queues.map(({ counts }) => counts.queued + counts.running).reduce((a, b) => a + b, 0);
      if (left === 0) return true;
      const now = JSON.stringify(queues);
      if (now !== seen) movedAt = performance.now();
      seen = now;
      if (performance.now() - movedAt > DEADLINE_MS) throw new Error(`no progress: ${now}`);
      return undefined;
    },
    TEST_MS,
  );
}

/** Stops a process, and makes sure that it holds no lock in the database: a lock would stop other processes too, which
 *  is a different test. */
export async function stopOutsideTransaction(child: Child, perdure: Perdure): Promise<void> {
  await until("the process is stopped and the database is free", async () => {
    child.signal("SIGSTOP");
    await stopped(child);
    if (await (isPostgres(child.url) ? hasNoTransaction(child.url) : isFree(perdure, child))) return true;
    child.signal("SIGCONT");
    return undefined;
  });
}

/** Ends the lease of a stopped worker. */
export async function endLease(worker: Child): Promise<void> {
  const session = (await worker.line("ready")).split(" ")[1] as string;
  await endLeaseOf(session, worker.url);
}

/** SQLite has one lock for all writers. */
async function isFree(perdure: Perdure, child: Child): Promise<boolean> {
  const written = perdure.resume("probe").then(() => true); // changes nothing, but needs the lock
  if (await Promise.race([written, pass(300).then(() => false)])) return true;
  child.signal("SIGCONT");
  await written;
  return false;
}

/** SIGSTOP takes effect shortly after it was sent. */
export async function stopped(child: Child): Promise<void> {
  const path = `/proc/${child.pid}/stat`;
  if (!existsSync("/proc/self/stat")) return pass(100);
  await until("the process is stopped", () => (/\) T /.test(readFileSync(path, "utf8")) ? true : undefined));
}

/** A file to which others append lines. Reads only what is new, because it is polled many times a second. */
export class LineFile {
  readonly path: string;
  readonly lines: string[] = [];
  #read = 0;

  constructor(path: string) {
    this.path = path;
  }

  /** All lines so far. An incomplete line was being written when its process was killed. */
  look(): readonly string[] {
    if (!existsSync(this.path)) return this.lines;
    const file = openSync(this.path, "r");
    const bytes = Buffer.alloc(Math.max(0, fstatSync(file).size - this.#read));
    readSync(file, bytes, 0, bytes.length, this.#read);
    closeSync(file);
    const whole = bytes.subarray(0, bytes.lastIndexOf(10) + 1);
    this.#read += whole.length;
    for (const line of whole.toString("utf8").split("\n").slice(0, -1)) this.lines.push(line);
    return this.lines;
  }
}
