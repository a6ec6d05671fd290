/** The worker's side of the supervisor: one process for all commands of a worker, started before the first of them. If it exits
 *  it is restarted, and the running commands are registered again. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { ExecLimits } from "../../core/input/exec-input.ts";
import type { Clock } from "../../lib/clock.ts";
import { family, marked, readProcess, send, snapshot } from "./processes.mjs";

export interface ExceededLimit {
  readonly kind: "memory" | "processes";
  readonly used: number;
}

interface SupervisedProcess {
  readonly pid: number;
  readonly started: string | null;
  readonly limits: ExecLimits;
  readonly onLimit: (exceeded: ExceededLimit) => void;
}

/** A request to the supervisor without an answer so far. */
interface SupervisorRequest {
  readonly message: object;
  readonly done: (left: number) => void;
}

const SUPERVISOR = fileURLToPath(new URL("./supervisor.mjs", import.meta.url));
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5_000;
/** After this many failed starts in a row, commands are killed without it, as far as possible. */
const MAX_STARTS = 4;

export class SupervisorClient {
  /** A random mark in the environment of all commands of this worker. */
  readonly #mark = randomBytes(9).toString("base64url");
  readonly #clock: Clock;
  readonly #watched = new Map<number, SupervisedProcess>();
  readonly #pending = new Map<number, SupervisorRequest[]>();
  #supervisor: ChildProcess | null = null;
  #count = 0;
  /** Exits in a row, without a message in between. */
  #exits = 0;
  #isWaiting = false;
  #isClosed = false;
  #isForced = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A number for a command, and the mark for its environment. */
  next(): { readonly n: number; readonly mark: string } {
    this.#count += 1;
    return { n: this.#count, mark: `${this.#mark}.${this.#count}.` };
  }

  /** To be called before a command is started, so that the supervisor can end it from the first moment on. */
  ensureStarted(): void {
    if (this.#supervisor === null && !this.#isWaiting && !this.#isClosed) this.#start();
  }

  watch(n: number, pid: number, limits: ExecLimits, onLimit: (exceeded: ExceededLimit) => void): void {
    this.#watched.set(n, { pid, started: readProcess(pid)?.started ?? null, limits, onLimit });
    this.#sendWatch(n);
  }

  /** Ends a command and all its processes. Resolves with the number of processes that could not be killed. */
  end(n: number, graceMs: number): Promise<number> {
    return this.#watched.has(n) ? this.#request(n, { end: n, grace: graceMs }) : Promise.resolve(0);
  }

  /** Kills all processes of earlier attempts of a job on this machine, whichever worker ran them. */
  clear(jobId: string): Promise<number> {
    this.ensureStarted();
    const { n } = this.next();
    return this.#request(n, { clear: n, job: jobId });
  }

  /** From now on there is no grace time, also for commands that are being ended. */
  force(): void {
    this.#isForced = true;
    this.#send({ force: true });
  }

  /** Commands that are still running are killed by the supervisor, as if this process had exited. */
  close(): void {
    this.#isClosed = true;
    if (this.#watched.size === 0) this.#send({ bye: true });
    this.#supervisor?.stdin?.end();
    this.#supervisor = null;
  }

  #request(n: number, message: object): Promise<number> {
    return new Promise((done) => {
      const requests = this.#pending.get(n) ?? [];
      this.#pending.set(n, [...requests, { message, done }]);
      if (this.#supervisor === null && this.#exits >= MAX_STARTS) this.#killDirectly();
      else this.#send(message);
    });
  }

  #start(): void {
    // In its own session, so that a signal to the worker's group does not end it, and without the worker's environment.
    const child = spawn(process.execPath, [SUPERVISOR, this.#mark], {
      ...{ detached: true, env: {}, cwd: "/", stdio: ["pipe", "pipe", "ignore"] },
    });
    this.#supervisor = child;
    child.unref();
    for (const stream of [child.stdin, child.stdout]) {
      (stream as unknown as { unref?: () => void } | null)?.unref?.();
      stream?.on("error", () => {});
    }
    child.on("error", () => this.#exited(child));
    child.on("exit", () => this.#exited(child));
    if (child.stdout !== null) createInterface({ input: child.stdout }).on("line", (line) => this.#receive(line));
    if (this.#isForced) this.#send({ force: true });
    for (const n of this.#watched.keys()) this.#sendWatch(n);
    for (const requests of this.#pending.values()) for (const { message } of requests) this.#send(message);
  }

  /** Restarts it after a growing pause: if the machine cannot start processes, retrying at once does not help. */
  #exited(child: ChildProcess): void {
    if (this.#supervisor !== child || this.#isClosed) return;
    this.#supervisor = null;
    this.#exits += 1;
    if (this.#exits >= MAX_STARTS) this.#killDirectly();
    if (this.#watched.size === 0 && this.#pending.size === 0) return;
    this.#isWaiting = true;
    this.#clock.after(Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.#exits, 10)), () => {
      this.#isWaiting = false;
      this.ensureStarted();
    });
  }

  #receive(line: string): void {
    this.#exits = 0;
    const message = JSON.parse(line) as { ended?: number; left?: number; limit?: number } & ExceededLimit;
    if (message.limit !== undefined) this.#watched.get(message.limit)?.onLimit(message);
    if (message.ended !== undefined) this.#ended(message.ended, message.left ?? 0);
  }

  #ended(n: number, left: number): void {
    const requests = this.#pending.get(n) ?? [];
    this.#pending.delete(n);
    this.#watched.delete(n);
    for (const { done } of requests) done(left);
  }

  #sendWatch(n: number): void {
    const { pid, started, limits } = this.#watched.get(n) as SupervisedProcess;
    this.#send({ watch: n, pid, started, memory: limits.memory, processes: limits.processes });
  }

  #send(message: object): void {
    this.#supervisor?.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  /** Kills what is pending from this process, without the supervisor and without a grace time. */
  #killDirectly(): void {
    const list = snapshot();
    for (const n of [...this.#pending.keys()]) {
      const one = this.#watched.get(n);
      if (one !== undefined) send(-one.pid, "SIGKILL");
      const left = family(list, marked(list, `${this.#mark}.${n}.`), one === undefined ? [] : [one]);
      for (const { pid } of left) send(pid, "SIGKILL");
      this.#ended(n, 0);
    }
  }
}
