/** Starts a worker of this process for functions, commands and requests. */
import { hostname } from "node:os";
import { exec, http } from "../core/builtin.ts";
import { ConfigError } from "../core/errors.ts";
import type { AnyTask } from "../core/task.ts";
import type { Engine, Log } from "../engine/engine.ts";
import type { Blobs } from "../store/blobs.ts";
import { ExecExecutor } from "../worker/exec/exec-executor.ts";
import type { Executor } from "../worker/executor.ts";
import { httpExecutor } from "../worker/http/http-executor.ts";
import { Worker } from "../worker/worker.ts";
import { localLink } from "./local-link.ts";
import { checkGrace, checkWork, isTask, type WorkOptions } from "./options.ts";
import { processName } from "./process-proof.ts";

/** A running worker. */
export interface WorkerHandle extends AsyncDisposable {
  /** Its session's id. */
  readonly session: string;
  /** Handlers running now. */
  readonly running: number;
  /** Claims no more, waits for what runs up to `grace` (default 30 s), hands back the rest. Nothing is charged. */
  stop(options?: { grace?: string | number }): Promise<void>;
}

export interface WorkerParts {
  readonly engine: Engine;
  readonly namespace: string;
  readonly log: Log;
  readonly blobs: Blobs;
  /** The workers to be stopped with the engine. */
  readonly running: Set<{ stop(graceMs: number): Promise<void> }>;
}

export async function startWorker(
  { engine, namespace, log, blobs, running }: WorkerParts,
  tasks: readonly AnyTask[],
  options: WorkOptions,
): Promise<WorkerHandle> {
  const { stopGraceMs, name, allowEnv, allowAddresses, onOutput, isolate, ...checked } = checkWork(options);
  const kinds = kindsOf(tasks);
  const { clock } = engine;
  const commands = tasks.includes(exec as AnyTask)
    ? new ExecExecutor({ places: blobs, clock, env: process.env, allowEnv, onOutput, isolate, log })
    : null;
  const executors: Executor[] = commands === null ? [] : [commands];
  if (tasks.includes(http as AnyTask)) executors.push(httpExecutor({ allow: allowAddresses, clock, log }));
  const worker = new Worker({
    ...{ link: localLink(engine), clock, executors, stopGraceMs, log },
    tasks: tasks.filter((task) => task !== exec && task !== http),
    request: {
      ...checked,
      ...{ namespace, kinds, name: name ?? `${hostname()}-${process.pid}`, host: hostname() },
      ...{ pid: process.pid, process: processName() },
    },
  });
  const whole = {
    async stop(graceMs: number) {
      await worker.stop(graceMs);
      await commands?.close();
    },
  };
  running.add(whole); // before it starts: a close that comes meanwhile stops it
  await worker.start();
  const stop = async (given: { grace?: string | number } = {}) => {
    await whole.stop(checkGrace(given, "stop"));
    running.delete(whole);
  };
  return {
    get session() {
      return worker.session;
    },
    get running() {
      return worker.running;
    },
    stop,
    [Symbol.asyncDispose]: () => stop(),
  };
}

function kindsOf(tasks: readonly AnyTask[]): string[] {
  if (!Array.isArray(tasks) || tasks.length === 0 || !tasks.every(isTask)) {
    throw new ConfigError({ path: "work.tasks", given: tasks, allowed: "a list of tasks made with task()" });
  }
  const kinds = tasks.map((task) => task.kind);
  const twice = kinds.find((kind, i) => kinds.indexOf(kind) !== i);
  if (twice !== undefined) throw new ConfigError({ path: "work.tasks", given: twice, allowed: "each kind once" });
  return kinds;
}
