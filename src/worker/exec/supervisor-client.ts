/** The worker's side of the supervisor: one process for all commands of a worker, started with the first of them. If it
 *  should die it is started anew, and told again what runs. */
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

/** What the supervisor was asked, until it has answered. */
interface SupervisorRequest {
  readonly message: object;
  readonly done: (left: number) => void;
}

const SUPERVISOR = fileURLToPath(new URL("./supervisor.mjs", import.meta.url));
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5_000;
/** So often in a row it could not be started: then commands are ended without it, as far as that goes. */
const HOPELESS = 4;

export class SupervisorClient {
  /** In the environment of all our commands; nobody else has it. */
  readonly #mark = randomBytes(9).toString("base64url");
  readonly #clock: Clock;
  readonly #guarded = new Map<number, SupervisedProcess>();
  readonly #pending = new Map<number, SupervisorRequest[]>();
  #supervisor: ChildProcess | null = null;
  #count = 0;
  /** Deaths in a row, without a word in between. */
  #deaths = 0;
  #isWaiting = false;
  #isClosed = false;
  #isForced = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A number for a command, and the mark it must carry. */
  next(): { readonly n: number; readonly mark: string } {
    this.#count += 1;
    return { n: this.#count, mark: `${this.#mark}.${this.#count}.` };
  }

  /** Before a command is started: from its first instant on somebody must be there to end it. */
  ready(): void {
    if (this.#supervisor === null && !this.#isWaiting && !this.#isClosed) this.#start();
  }

  watch(n: number, pid: number, limits: ExecLimits, onLimit: (exceeded: ExceededLimit) => void): void {
    this.#guarded.set(n, { pid, started: readProcess(pid)?.started ?? null, limits, onLimit });
    this.#tellWatch(n);
  }

  /** Ends a command with all that came of it. Resolves to how many could not be ended, which should be none. */
  end(n: number, graceMs: number): Promise<number> {
    return this.#guarded.has(n) ? this.#ask(n, { end: n, grace: graceMs }) : Promise.resolve(0);
  }

  /** Ends what earlier attempts of a job left on this machine, whoever ran them. */
  clear(jobId: string): Promise<number> {
    this.ready();
    const { n } = this.next();
    return this.#ask(n, { clear: n, job: jobId });
  }

  /** From now on nothing gets a grace time, also what is being ended. */
  force(): void {
    this.#isForced = true;
    this.#tell({ force: true });
  }

  /** What still runs is ended by the supervisor, as if we had died. */
  close(): void {
    this.#isClosed = true;
    if (this.#guarded.size === 0) this.#tell({ bye: true });
    this.#supervisor?.stdin?.end();
    this.#supervisor = null;
  }

  #ask(n: number, message: object): Promise<number> {
    return new Promise((done) => {
      const asked = this.#pending.get(n) ?? [];
      this.#pending.set(n, [...asked, { message, done }]);
      if (this.#supervisor === null && this.#deaths >= HOPELESS) this.#endAlone();
      else this.#tell(message);
    });
  }

  #start(): void {
    // Of its own session, so that what ends the worker's group does not end it, and with nothing of our environment.
    const child = spawn(process.execPath, [SUPERVISOR, this.#mark], {
      ...{ detached: true, env: {}, cwd: "/", stdio: ["pipe", "pipe", "ignore"] },
    });
    this.#supervisor = child;
    child.unref();
    for (const stream of [child.stdin, child.stdout]) {
      (stream as unknown as { unref?: () => void } | null)?.unref?.();
      stream?.on("error", () => {});
    }
    child.on("error", () => this.#died(child));
    child.on("exit", () => this.#died(child));
    if (child.stdout !== null) createInterface({ input: child.stdout }).on("line", (line) => this.#hear(line));
    if (this.#isForced) this.#tell({ force: true });
    for (const n of this.#guarded.keys()) this.#tellWatch(n);
    for (const asked of this.#pending.values()) for (const { message } of asked) this.#tell(message);
  }

  /** Started again, after a pause that grows: when the machine can start nothing, trying at once helps nobody. */
  #died(child: ChildProcess): void {
    if (this.#supervisor !== child || this.#isClosed) return;
    this.#supervisor = null;
    this.#deaths += 1;
    if (this.#deaths >= HOPELESS) this.#endAlone();
    if (this.#guarded.size === 0 && this.#pending.size === 0) return;
    this.#isWaiting = true;
    this.#clock.after(Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.#deaths, 10)), () => {
      this.#isWaiting = false;
      this.ready();
    });
  }

  #hear(line: string): void {
    this.#deaths = 0;
    const message = JSON.parse(line) as { ended?: number; left?: number; limit?: number } & ExceededLimit;
    if (message.limit !== undefined) this.#guarded.get(message.limit)?.onLimit(message);
    if (message.ended !== undefined) this.#ended(message.ended, message.left ?? 0);
  }

  #ended(n: number, left: number): void {
    const asked = this.#pending.get(n) ?? [];
    this.#pending.delete(n);
    this.#guarded.delete(n);
    for (const { done } of asked) done(left);
  }

  #tellWatch(n: number): void {
    const { pid, started, limits } = this.#guarded.get(n) as SupervisedProcess;
    this.#tell({ watch: n, pid, started, memory: limits.memory, processes: limits.processes });
  }

  #tell(message: object): void {
    this.#supervisor?.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  /** Without help, and without grace. */
  #endAlone(): void {
    const list = snapshot();
    for (const n of [...this.#pending.keys()]) {
      const one = this.#guarded.get(n);
      if (one !== undefined) send(-one.pid, "SIGKILL");
      const left = family(list, marked(list, `${this.#mark}.${n}.`), one === undefined ? [] : [one]);
      for (const { pid } of left) send(pid, "SIGKILL");
      this.#ended(n, 0);
    }
  }
}
