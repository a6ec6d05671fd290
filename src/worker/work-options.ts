/** Checks the options of a worker. A misspelt option is an error that suggests the nearest name, never ignored. */
import { availableParallelism, totalmem } from "node:os";
import { asBoolean, asInteger, asList, asObject, asText, checkOptions } from "../core/check.ts";
import { toMs } from "../core/duration.ts";
import { ConfigError, show } from "../core/errors.ts";
import { CONNECTION_PREFIX, checkConnections, connectionLabels } from "../core/input/connections.ts";
import {
  capacityLabels,
  RESOURCE_PREFIX,
  type Resources,
  type ResourcesInput,
  RUNTIME_PREFIX,
  toResources,
} from "../core/input/resources.ts";
import { type AnyTask, isTask } from "../core/task/task.ts";
import type { WorkOptions } from "../core/task/work-options.ts";

const WORK_KEYS = [
  ...["concurrency", "queues", "name", "labels", "runtimes", "stopGrace", "allowEnv", "isolate", "allowAddresses"],
  ...["onOutput", "resources", "connections"],
];

export function checkWork(options: WorkOptions) {
  checkOptions(options, WORK_KEYS, "work");
  const { concurrency = 10, queues, name, labels = {}, runtimes = [], stopGrace = "5s", onOutput } = options;
  const { allowEnv = [], allowAddresses = [], isolate = false, resources, connections = {} } = options;
  const addresses = checkConnections(connections, "work.connections");
  if (onOutput !== undefined && typeof onOutput !== "function") {
    throw new ConfigError({ path: "work.onOutput", given: onOutput, allowed: "a function that takes an output chunk" });
  }
  return {
    onOutput,
    connections: addresses,
    isolate: asBoolean(isolate, "work.isolate"),
    allowEnv: asList(allowEnv, "work.allowEnv", (each, path) => asText(each, path, 200), 1_000),
    allowAddresses: asList(allowAddresses, "work.allowAddresses", (each, path) => asText(each, path, 200), 1_000),
    slots: asInteger(concurrency, "work.concurrency", { min: 1, max: 100_000 }),
    queues: queues === undefined ? null : asList(queues, "work.queues", (q, path) => asText(q, path, 200), 1_000, 1),
    name: name === undefined ? null : asText(name, "work.name", 200),
    labels: {
      ...checkedLabels(labels),
      ...runtimeLabels(runtimes),
      ...Object.assign({}, ...[...addresses.keys()].map(connectionLabels)),
      ...capacityLabels(capacityOf(resources), machineResources()),
    },
    stopGraceMs: toMs(stopGrace, "work.stopGrace"),
  };
}

/** Label prefixes that are set by an option instead. */
const RESERVED = {
  [RUNTIME_PREFIX]: "runtimes",
  [RESOURCE_PREFIX]: "resources",
  [CONNECTION_PREFIX]: "connections",
};

/** The resources that jobs may take here; default: all of this machine. */
export function capacityOf(given: ResourcesInput = {}): Resources {
  const { cpu, memory } = toResources(given, "work.resources");
  const machine = machineResources();
  return {
    cpu: given.cpu === undefined ? machine.cpu : cpu,
    memory: given.memory === undefined ? machine.memory : memory,
  };
}

/** The CPUs and the memory that this process may use; in a container, the container's limits. */
export function machineResources(): Resources {
  const limit = process.constrainedMemory?.() ?? 0;
  return { cpu: availableParallelism() * 1_000, memory: limit > 0 ? Math.min(limit, totalmem()) : totalmem() };
}

function checkedLabels(labels: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(asObject(labels, "work.labels"));
  for (const [prefix, option] of Object.entries(RESERVED)) {
    const reserved = entries.find(([name]) => name.startsWith(prefix));
    if (reserved === undefined) continue;
    const problem = `${show(reserved[0])} is reserved`;
    throw new ConfigError({ path: "work.labels", given: reserved[0], problem, fix: `use the option ${option}` });
  }
  return Object.fromEntries(entries.map(([name, value]) => [name, asText(value, `work.labels.${name}`, 200)]));
}

function runtimeLabels(runtimes: readonly string[]): Record<string, string> {
  // The limit applies to the label name, which includes the prefix.
  const names = asList(runtimes, "work.runtimes", (each, path) => asText(each, path, 200 - RUNTIME_PREFIX.length), 100);
  return Object.fromEntries(names.map((name) => [`${RUNTIME_PREFIX}${name}`, "yes"]));
}

/** The kinds of these tasks. */
export function kindsOf(tasks: readonly AnyTask[]): string[] {
  if (!Array.isArray(tasks) || tasks.length === 0 || !tasks.every(isTask)) {
    throw new ConfigError({ path: "work.tasks", given: tasks, allowed: "a list of tasks made with task()" });
  }
  const kinds = tasks.map((task) => task.kind);
  const twice = kinds.find((kind, i) => kinds.indexOf(kind) !== i);
  if (twice !== undefined)
    throw new ConfigError({ path: "work.tasks", given: twice, problem: `has the kind ${show(twice)} twice` });
  return kinds;
}
