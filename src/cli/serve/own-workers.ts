/** The worker processes of `perdure up`. Each is a `perdure worker` on our own server, with a pipe from us: when that breaks,
 *  however we ended, it stops too. One that dies is started again, later and later while it goes on dying. */
import { type ChildProcess, spawn } from "node:child_process";
import { type Clock, sleep } from "../../lib/clock.ts";
import type { ServerLog } from "../../server/parts.ts";
import { CHILD_LAST_MS } from "./until-stopped.ts";

export interface OwnWorkersOptions {
  readonly count: number;
  /** The command line of a worker, without the program. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly clock: Clock;
  readonly log: ServerLog;
  /** Called when a worker ends for a mistake in what it was given. */
  readonly onMistake: () => void;
}

const DRAINED = "exit code 0";
/** Of its options or its modules: told by itself, and no better the next time. */
const MISTAKE = "exit code 2";
const MAX_PAUSE_MS = 30_000;
/** Who lives this long has found its feet. */
const STEADY_MS = 10_000;

export class OwnWorkers {
  readonly #options: OwnWorkersOptions;
  readonly #stopping = new AbortController();
  readonly #children = new Set<ChildProcess>();
  readonly #keeping: Promise<void>[];

  constructor(options: OwnWorkersOptions) {
    this.#options = options;
    this.#keeping = Array.from({ length: options.count }, (_, i) => this.#keep(i + 1));
  }

  get pids(): number[] {
    return [...this.#children].flatMap((child) => child.pid ?? []);
  }

  /** Ends them now: the end of their standard input kills their commands. One that does not hear it is killed, and its
   *  supervisor, which holds a pipe from it, ends its commands. */
  force(): void {
    this.#stopping.abort();
    for (const child of this.#children) child.stdin?.end();
    this.#options.clock.after(CHILD_LAST_MS, () => {
      for (const child of this.#children) child.kill("SIGKILL");
    });
  }

  /** Asks them to finish; after the grace time, and a little for good-byes, there are none. */
  async stop(graceMs: number): Promise<void> {
    const { clock } = this.#options;
    this.#stopping.abort();
    for (const child of this.#children) child.kill("SIGTERM");
    const over = Promise.all(this.#keeping);
    const late = clock.after(graceMs + 15_000, () => {
      for (const child of this.#children) child.kill("SIGKILL");
    });
    await over;
    late();
  }

  async #keep(number: number): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stopping;
    for (let pauseMs = 500; !signal.aborted; ) {
      const startedAt = clock.monotonic();
      const end = await this.#run();
      if (signal.aborted) return;
      if (end === MISTAKE) {
        this.#options.onMistake();
        return;
      }
      if (end === DRAINED) {
        log("info", "a worker process was drained; the next start of this program has it again", { worker: number });
        return;
      }
      pauseMs = clock.monotonic() - startedAt > STEADY_MS ? 500 : Math.min(MAX_PAUSE_MS, pauseMs * 2);
      log("warn", "a worker process ended; it is started again", { worker: number, end, pauseMs });
      await sleep(clock, pauseMs, { signal });
    }
  }

  #run(): Promise<string> {
    const { args, env, cwd } = this.#options;
    const [, script = ""] = process.argv;
    return new Promise((resolve) => {
      const child = spawn(process.execPath, [...process.execArgv, script, ...args], {
        ...{ cwd, env: { ...env }, stdio: ["pipe", "ignore", "inherit"] },
        // In a group of its own: Ctrl-C in a terminal is for us, and we ask the workers in our turn. They end with us by
        // their pipe.
        detached: true,
      });
      this.#children.add(child);
      child.stdin?.on("error", () => {}); // it is gone: that is told by its exit
      child.once("error", (error) => resolve(`it cannot be started: ${error.message}`));
      child.once("exit", (code, by) => {
        this.#children.delete(child);
        resolve(by === null ? `exit code ${code}` : by);
      });
    });
  }
}
