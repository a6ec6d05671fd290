/** Builds a worker from tasks and options, over any link to an engine: functions of this process, and executors for commands
 *  and HTTP requests if they are among the tasks. It is returned before it is started, so that its start can be stopped. */

import { hostname } from "node:os";
import { checkStop } from "../core/api/workers.ts";
import { ConfigError } from "../core/errors.ts";
import { exec, http, postgres } from "../core/input/builtin.ts";
import { TASK_OPTION_NAMES } from "../core/task/submit-options.ts";
import type { AnyTask } from "../core/task/task.ts";
import type { StopOptions, WorkerHandle, WorkOptions } from "../core/task/work-options.ts";
import type { ClaimedJob, NewSession } from "../core/worker-protocol.ts";
import type { Clock } from "../lib/clock.ts";
import { Assets } from "./assets.ts";
import type { EngineLink } from "./engine-link.ts";
import { type AttemptDirectories, ExecExecutor } from "./exec/exec-executor.ts";
import type { RunUser } from "./exec/run-user.ts";
import type { Executor } from "./executor.ts";
import { httpExecutor } from "./http/http-executor.ts";
import { PostgresExecutor } from "./postgres/postgres-executor.ts";
import { processName } from "./process-proof.ts";
import { checkWork, kindsOf } from "./work-options.ts";
import { Worker, type WorkerOptions } from "./worker.ts";

export interface WorkerParts {
  readonly link: EngineLink;
  readonly clock: Clock;
  /** Directories for commands; null if there are none: then the worker cannot run commands. */
  readonly directories: AttemptDirectories | null;
  readonly namespace: string;
  readonly log: WorkerOptions["log"];
  readonly tasks: readonly AnyTask[];
  readonly options: WorkOptions;
  /** The user that commands run as; null: the worker's own. */
  readonly user?: RunUser | null;
}

/** A worker with its executors. */
export interface BuiltWorker {
  start(): Promise<void>;
  /** Stops claiming, waits up to the grace time for running attempts, and returns the others to the queue. */
  stop(graceMs: number, force?: boolean): Promise<void>;
  /** The handle for the caller; `onStopped` is called when the worker was stopped through it, or drained. */
  handle(onStopped: () => unknown): WorkerHandle;
}

export function buildWorker(parts: WorkerParts): BuiltWorker {
  const { link, clock, directories, namespace, log, tasks, options, user = null } = parts;
  const { stopGraceMs, name, allowEnv, allowAddresses, onOutput, isolate, connections, ...checked } =
    checkWork(options);
  const kinds = kindsOf(tasks);
  const executors: Executor[] = [];
  let commands: ExecExecutor | null = null;
  if (tasks.includes(exec as AnyTask)) {
    if (directories === null) {
      const allowed = "a task other than exec: this worker has no directory for commands";
      throw new ConfigError({ path: "work.tasks", given: exec.kind, allowed });
    }
    const access = (job: ClaimedJob) => link.access?.(job) ?? {};
    const env = process.env;
    const assets = new Assets(link);
    commands = new ExecExecutor({ directories, assets, clock, env, allowEnv, access, onOutput, isolate, user, log });
    executors.push(commands);
  }
  if (tasks.includes(http as AnyTask)) executors.push(httpExecutor({ allow: allowAddresses, clock, log }));
  const sql = sqlExecutor(tasks, connections, clock);
  if (sql !== null) executors.push(sql);
  const worker = new Worker({
    ...{ link, clock, executors, stopGraceMs, log },
    tasks: tasks.filter((task) => !isBuiltin(task)),
    request: {
      ...checked,
      ...{ namespace, kinds, name: name ?? `${hostname()}-${process.pid}`, host: hostname() },
      ...{ pid: process.pid, process: processName() },
      ...defaultsOf(tasks),
    },
  });

  async function stop(graceMs: number, force = false): Promise<void> {
    await worker.stop(graceMs, force);
    await commands?.close();
    await sql?.close();
  }

  function handle(onStopped: () => unknown): WorkerHandle {
    const stopIt = async (given: StopOptions = {}) => {
      const { graceMs, force } = checkStop(given);
      await stop(graceMs, force);
      await onStopped();
    };
    const drained = worker.drained.then(() => stopIt({ grace: 0 }));
    drained.catch(() => {}); // no unhandled rejection if the caller does not use `drained`
    return {
      get session() {
        return worker.session;
      },
      get running() {
        return worker.running;
      },
      drained,
      stop: stopIt,
      [Symbol.asyncDispose]: () => stopIt(),
    };
  }

  return { start: () => worker.start(), stop, handle };
}

/** Run by an executor, not by their handler. */
function isBuiltin(task: AnyTask): boolean {
  return [exec, http, postgres].includes(task as never);
}

/** Null if the worker runs no SQL. */
function sqlExecutor(
  tasks: readonly AnyTask[],
  connections: ReadonlyMap<string, string>,
  clock: Clock,
): PostgresExecutor | null {
  const isServed = tasks.includes(postgres as AnyTask);
  if (isServed && connections.size === 0) {
    const problem = "the task postgres requires a connection";
    const fix = 'pass connections, as in { shop: "postgres://user:password@host/database" }';
    throw new ConfigError({ path: "work.connections", given: {}, problem, fix });
  }
  if (!isServed && connections.size > 0) {
    const problem = "connections require the task postgres";
    throw new ConfigError({
      path: "work.connections",
      given: [...connections.keys()],
      problem,
      fix: "add it to the tasks",
    });
  }
  return isServed ? new PostgresExecutor({ connections, clock }) : null;
}

/** The job options of its tasks, published for submits by name. The built-in ones have none. */
function defaultsOf(tasks: readonly AnyTask[]): Pick<NewSession, "defaults"> {
  const own = tasks.filter((task) => !isBuiltin(task));
  if (own.length === 0) return {};
  const published = own.map(({ kind, options }) => {
    const names = TASK_OPTION_NAMES.filter((name) => options[name] !== undefined);
    return [kind, Object.fromEntries(names.map((name) => [name, options[name]]))] as const;
  });
  return { defaults: Object.fromEntries(published.filter(([, values]) => Object.keys(values).length > 0)) };
}
