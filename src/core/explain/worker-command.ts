/** What a job that no live worker takes needs: the options of a worker for it, and a sentence with the command to start. */
import { quoted, shellWord, showText } from "../format.ts";
import { CONNECTION_PREFIX } from "../input/connections.ts";
import { RESOURCE_PREFIX, RUNTIME_PREFIX, resourcesIn, showResources } from "../input/resources.ts";
import { isRunQueue } from "../names.ts";

type Labels = Readonly<Record<string, string>>;

/** ` --runtime python --label zone=b`: the options that give a worker these labels; the needs of cpu and memory are left out. */
export function labelOptions(labels: Labels): string {
  return labelsBesideSize(labels).map(labelOption).join("");
}

function labelOption([name, value]: [string, string]): string {
  if (value === "yes" && name.startsWith(RUNTIME_PREFIX)) {
    return ` --runtime ${shellWord(name.slice(RUNTIME_PREFIX.length))}`;
  }
  // Without the address: only the operator of the worker knows it.
  if (value === "yes" && name.startsWith(CONNECTION_PREFIX)) {
    return ` --connection ${shellWord(name.slice(CONNECTION_PREFIX.length))}=URL`;
  }
  return ` --label ${shellWord(`${name}=${value}`)}`;
}

export function labelsBesideSize(labels: Labels): [string, string][] {
  return Object.entries(labels).filter(([name]) => !name.startsWith(RESOURCE_PREFIX));
}

function labelText([name, value]: [string, string]): string {
  if (value === "yes" && name.startsWith(CONNECTION_PREFIX)) {
    return `connection ${quoted(name.slice(CONNECTION_PREFIX.length))}`;
  }
  return `label ${quoted(`${name}=${value}`)}`;
}

interface UntakenJob {
  readonly namespace: string;
  readonly kind: string;
  readonly queue: string;
  readonly labels: Labels;
}

/** `No live worker takes this job (kind "exec", queue "mail"). Start one: perdure worker --queue mail (without a server: perdure up).` A job may be too large
 *  for every worker of its kind, which the number of workers alone does not show. */
export function noWorkerText({ kind, queue, labels, namespace }: UntakenJob): string {
  const needs = resourcesIn(labels);
  const named = labelsBesideSize(labels).map(labelText);
  const size = needs === null ? [] : [showResources(needs)];
  const job = [`kind ${quoted(kind)}`, `queue ${quoted(queue)}`, ...named, ...size].join(", ");
  const none = `No live worker takes this job (${job}).`;
  const tasks = BUILT_IN.has(kind) ? "" : " --tasks FILE";
  // A worker without --queue takes the queues of `perdure run` too.
  const from = queue === "default" || isRunQueue(queue) ? "" : ` --queue ${shellWord(queue)}`;
  const within = namespace === "default" ? "" : ` --namespace ${shellWord(namespace)}`;
  const options = `${from}${within}${labelOptions(labels)}`;
  const start = needs === null ? "Start one" : "Start one that is large enough";
  return `${none} ${start}: perdure worker${tasks}${showText(options, 1_000)} (without a server: perdure up).`;
}

/** Kinds that every worker takes unless it is set to others, or with a connection; any other is a task of a module. */
const BUILT_IN: ReadonlySet<string> = new Set(["exec", "http", "postgres"]);
