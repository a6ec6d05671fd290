/** The worker that runs the steps of a run in this process, where there is no server. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import type { Perdure } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import { fixedPaths, inlinePlaybooks } from "../../core/playbook/paths.ts";
import type { Playbook } from "../../core/playbook/playbook.ts";
import type { AnyTask } from "../../core/task/task.ts";
import type { WorkerHandle, WorkOptions } from "../../core/task/work-options.ts";
import { readYaml } from "../../yaml/read.ts";
import type { CommandContext } from "../command.ts";
import { upkeepConfig } from "../config/upkeep.ts";
import type { Io } from "../io.ts";
import { loadTasks, servedKinds } from "../serve/task-modules.ts";
import { type PlaybookTools, readDocument } from "./playbook-files.ts";

const KEYS = [
  ...(["worker.concurrency", "worker.tasks", "worker.kinds", "worker.labels", "worker.runtimes"] as const),
  ...(["worker.connections", "worker.allowAddresses", "worker.isolate"] as const),
] as const;
/** Steps run with the rights of the person who started them, and a step may be any command. */
const OWN_ADDRESSES = ["127.0.0.0/8", "::1"];

export interface LocalRunWorker {
  start(perdure: Perdure, queues: readonly string[]): Promise<WorkerHandle>;
}

/** Checks the settings of workers of this machine, and loads their tasks. */
export async function localRunWorker(context: Pick<CommandContext, "given" | "io">): Promise<LocalRunWorker> {
  const { io } = context;
  const config = upkeepConfig(context, KEYS);
  const tasks = await loadTasks(config.list("worker.tasks"), servedKinds(config), io.cwd);
  const runtimes = new Set(config.list("worker.runtimes"));
  if (isInstalled("python3", io)) runtimes.add("python");
  const options: WorkOptions = {
    concurrency: config.integer("worker.concurrency"),
    labels: config.labels("worker.labels"),
    runtimes: [...runtimes],
    connections: config.connections("worker.connections"),
    allowAddresses: [...new Set([...OWN_ADDRESSES, ...config.list("worker.allowAddresses")])],
    isolate: config.flag("worker.isolate"),
    allowEnv: ["*"],
  };
  return { start: (perdure, queues) => perdure.work(tasks as AnyTask[], { ...options, queues }) };
}

function isInstalled(program: string, { env }: Pick<Io, "env">): boolean {
  return (env.PATH ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return folder !== "";
    } catch {
      return false;
    }
  });
}

/** More are not read to find their queues. */
const MAX_READ = 100;

/** The queues that steps name, also in playbooks of the catalog that they name by a fixed path. */
export async function queuesOf(
  perdure: Perdure,
  roots: readonly Playbook[],
  tools: PlaybookTools,
): Promise<readonly string[]> {
  const queues = new Set<string>();
  const seen = new Set<string>();
  const waiting = [...roots];
  for (let playbook = waiting.pop(); playbook !== undefined; playbook = waiting.pop()) {
    for (const { options } of playbook.steps) if (options.queue !== null) queues.add(options.queue);
    for (const [, inline] of inlinePlaybooks(playbook)) waiting.push(inline);
    for (const path of fixedPaths(playbook)) {
      if (seen.has(path) || seen.size >= MAX_READ) continue;
      seen.add(path);
      const found = await inCatalog(perdure, path, tools);
      if (found !== null) waiting.push(found);
    }
  }
  return [...queues];
}

/** Null if it is a file, or does not exist: the start of the run reports that. */
export async function inCatalog(perdure: Perdure, path: string, tools: PlaybookTools): Promise<Playbook | null> {
  try {
    const { source } = await perdure.playbook(path);
    return readDocument(readYaml(source, path), tools).playbook;
  } catch (error) {
    if (error instanceof PerdureError) return null;
    throw error;
  }
}
