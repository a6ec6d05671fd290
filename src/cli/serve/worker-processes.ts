/** The worker processes of `perdure up`. Each has a pipe from this process and stops when the pipe breaks, however this
 *  process ended. A worker that exits is restarted, with growing pauses. */
import { type ChildProcess, spawn } from "node:child_process";
import { type Clock, sleep } from "../../lib/clock.ts";
import type { ServerLog } from "../../server/log.ts";
import type { Config } from "../config/config.ts";
import { CHILD_LAST_MS } from "../stop-signals.ts";
import { servedKinds } from "./task-modules.ts";

interface WorkerProcessesOptions {
  readonly count: number;
  /** The command line of a worker, without the program. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly clock: Clock;
  readonly log: ServerLog;
  /** Called when a worker exits because of its options or modules. */
  readonly onMistake: () => void;
}

const DRAINED = "exit code 0";
/** An error in its options or modules, which it logs itself; a restart would not help. */
const MISTAKE = "exit code 2";
const MAX_PAUSE_MS = 30_000;
/** A worker that runs this long resets the pause. */
const STEADY_MS = 10_000;

export class WorkerProcesses {
  readonly #options: WorkerProcessesOptions;
  readonly #stopping = new AbortController();
  readonly #children = new Set<ChildProcess>();
  readonly #keeping: Promise<void>[];

  constructor(options: WorkerProcessesOptions) {
    this.#options = options;
    this.#keeping = Array.from({ length: options.count }, (_, i) => this.#keep(i + 1));
  }

  get pids(): number[] {
    return [...this.#children].flatMap((child) => child.pid ?? []);
  }

  /** Ends the workers now: closing their standard input makes them kill their commands. A worker that does not react is
   *  killed; its supervisor, which has a pipe from it, then ends its commands. */
  force(): void {
    this.#stopping.abort();
    for (const child of this.#children) child.stdin?.end();
    this.#options.clock.after(CHILD_LAST_MS, () => {
      for (const child of this.#children) child.kill("SIGKILL");
    });
  }

  /** Requests a graceful stop; kills what is left some time after the grace time. */
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
        log("info", "worker process drained; not restarted", { worker: number });
        return;
      }
      pauseMs = clock.monotonic() - startedAt > STEADY_MS ? 500 : Math.min(MAX_PAUSE_MS, pauseMs * 2);
      log("warn", "worker process exited; restarting", { worker: number, end, pauseMs });
      await sleep(clock, pauseMs, { signal });
    }
  }

  #run(): Promise<string> {
    const { args, env, cwd } = this.#options;
    const [, script = ""] = process.argv;
    return new Promise((resolve) => {
      const child = spawn(process.execPath, [...process.execArgv, script, ...args], {
        ...{ cwd, env: { ...env }, stdio: ["pipe", "ignore", "inherit"] },
        // Its own process group, so that Ctrl-C in a terminal reaches only this process, which then stops the workers. They
        // exit when their pipe breaks.
        detached: true,
      });
      this.#children.add(child);
      child.stdin?.on("error", () => {}); // the worker has exited, which is handled there
      child.once("error", (error) => resolve(`cannot be started: ${error.message}`));
      child.once("exit", (code, by) => {
        this.#children.delete(child);
        resolve(by === null ? `exit code ${code}` : by);
      });
    });
  }
}

/** Connections have passwords, so workers get them by their environment: arguments are visible to other users. */
export function connectionVariables(config: Config): Record<string, string> {
  const connections = Object.entries(config.connections("worker.connections"));
  return Object.fromEntries(connections.map(([name, url]) => [`PERDURE_CONNECTION_${name.toUpperCase()}`, url]));
}

// The command line of a worker, with the settings of `perdure up` from any source. Without a setting each worker may use all
// cpus and memory of the machine: the store counts what they use together.

export function workerArguments(config: Config, url: string, tokenFile: string, runAs?: string): string[] {
  const args = ["worker", "--with-stdin", "--server", url, "--token-file", tokenFile];
  const give = (flag: string, value: string) => args.push(`--${flag}=${value}`);
  give("data", config.text("data"));
  give("concurrency", String(config.integer("worker.concurrency")));
  const [cpu, memory] = [config.number("worker.cpu"), config.bytes("worker.memory")];
  if (cpu !== undefined) give("cpu", String(cpu));
  if (memory !== undefined) give("memory", `${memory}b`);
  give("scratch-age", `${config.durationMs("worker.scratchAge")}ms`);
  give("scratch-limit", String(config.bytes("worker.scratchLimit")));
  give("grace", `${config.durationMs("worker.grace")}ms`);
  give("heartbeat", `${config.durationMs("worker.heartbeat")}ms`);
  give("log-level", config.text("server.logLevel"));
  give("log-format", config.text("server.logFormat"));
  const lease = config.durationMs("worker.lease");
  if (lease !== undefined) give("worker-lease", `${lease}ms`);
  for (const [key, flag] of [
    ["worker.tasks", "tasks"],
    ["worker.queues", "queue"],
    ["worker.runtimes", "runtime"],
    ["worker.allowEnv", "allow-env"],
    ["worker.allowAddresses", "allow-address"],
  ] as const) {
    for (const each of config.list(key)) give(flag, each);
  }
  for (const kind of servedKinds(config)) give("kind", kind);
  for (const [name, value] of Object.entries(config.labels("worker.labels"))) give("label", `${name}=${value}`);
  for (const [key, flag] of [
    ["worker.name", "name"],
    ["worker.dir", "dir"],
  ] as const) {
    const value = config.text(key);
    if (value !== undefined) give(flag, value);
  }
  if (config.flag("worker.isolate")) args.push("--isolate");
  const user = runAs ?? config.text("worker.runAs");
  if (user !== undefined) give("run-as", user);
  return args;
}
