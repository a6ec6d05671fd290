/** Loads tasks from modules of the user: every export made with `task()`, alone or in a list. */
import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { exec, http, postgres } from "../../core/input/builtin.ts";
import { type AnyTask, isTask } from "../../core/task/task.ts";
import type { Config } from "../config/config.ts";
import { missingFileError, usageError, valueError } from "../exit.ts";

const BUILT_IN: Readonly<Record<string, AnyTask>> = {
  exec: exec as AnyTask,
  http: http as AnyTask,
  postgres: postgres as AnyTask,
};

/** The built-in kinds that a worker runs. One with connections runs `postgres` too, unless kinds were chosen. */
export function servedKinds(config: Config): readonly string[] {
  const kinds = config.list("worker.kinds");
  const hasConnections = Object.keys(config.connections("worker.connections")).length > 0;
  if (!config.isSet("worker.kinds")) return hasConnections ? [...kinds, postgres.kind] : kinds;
  if (kinds.includes(postgres.kind) === hasConnections) return kinds;
  const advice = hasConnections
    ? `add --kind ${postgres.kind}, or remove the connections`
    : "pass --connection NAME=URL";
  throw usageError(`--kind: connections and the kind ${postgres.kind} require each other; ${advice}`);
}

/** The tasks of these modules and the built-in kinds, each kind once. */
export async function loadTasks(paths: readonly string[], kinds: readonly string[], cwd: string): Promise<AnyTask[]> {
  const tasks = new Map<string, AnyTask>();
  for (const kind of kinds) {
    const builtIn = BUILT_IN[kind];
    if (builtIn === undefined) {
      throw valueError("--kind", kind, "exec, http or postgres (other kinds are tasks of modules: --tasks ./tasks.js)");
    }
    tasks.set(kind, builtIn);
  }
  for (const path of paths) {
    const found = await tasksIn(path, cwd);
    if (found.length === 0) {
      throw usageError(`--tasks: ${path} exports no tasks; export the result of task("name", handler)`);
    }
    for (const each of found) {
      const other = tasks.get(each.kind);
      if (other !== undefined && other !== each) {
        throw usageError(`--tasks: ${path} has a task ${each.kind}, which already exists; rename one of them`);
      }
      tasks.set(each.kind, each);
    }
  }
  if (tasks.size === 0) throw usageError("no tasks: pass --tasks or --kind");
  return [...tasks.values()];
}

/** Checks that the modules exist; other errors appear when they are loaded. */
export function checkModules(paths: readonly string[], cwd: string): void {
  for (const path of paths) {
    const file = resolve(cwd, path);
    if (!existsSync(file)) throw missingFileError(path, "pass another", "--tasks");
    // Opening a named pipe could block for ever.
    if (!statSync(file).isFile()) throw usageError(`--tasks: ${path} is not a plain file; pass a module`);
  }
}

async function tasksIn(path: string, cwd: string): Promise<AnyTask[]> {
  const file = resolve(cwd, path);
  checkModules([path], cwd);
  let module: Readonly<Record<string, unknown>>;
  try {
    module = (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_UNKNOWN_FILE_EXTENSION") {
      const advice = "compile it, use Node 22.18 or later, or start with `node --import tsx` and the package tsx";
      throw usageError(`--tasks: this Node cannot read TypeScript, as in ${path}: ${advice}`);
    }
    throw usageError(`--tasks: ${path} cannot be loaded: ${(error as Error).message}${placeIn(error)}`);
  }
  return Object.values(module)
    .flatMap((value) => (Array.isArray(value) ? (value as unknown[]) : [value]))
    .filter(isTask);
}

/** The position of a syntax error, as `tasks.js:3`, from the first line of the stack. */
function placeIn(error: unknown): string {
  const place = /^(?:file:\/\/)?(\S+:\d+)$/m.exec((error as Error).stack ?? "")?.[1];
  return place === undefined ? "" : ` (${place})`;
}
