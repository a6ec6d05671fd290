/** Resources: how much cpu and memory a job takes of its host. They are stored as labels with reserved names, so that jobs
 *  with the same needs wait in one lane. A worker has labels of the same names for its capacity and, where that is more, for
 *  the capacity of its host, which all workers there share. Resources are counted, not enforced. */
import { asNumber, asObject, fieldPath } from "../check.ts";
import { ConfigError } from "../errors.ts";

export const MIB = 2 ** 20;

/** 0.5 or 2 cpus; bytes, or text such as `512m` or `2g` (powers of 1024).
 *  @example
 *  const resources: ResourcesInput = { cpu: 2, memory: "512m" };
 *  await perdure.submit(resize, { url }, { resources }); */
export interface ResourcesInput {
  cpu?: number;
  memory?: number | string;
}

export interface Resources {
  /** Thousandths of a cpu. */
  readonly cpu: number;
  /** Bytes. */
  readonly memory: number;
}

/** The prefix of reserved labels. */
export const RESOURCE_PREFIX = "resource/";
/** Prefix of the labels of a worker's runtimes; jobs that need a runtime require the label. */
export const RUNTIME_PREFIX = "runtime/";
export const CPU_LABEL = "resource/cpu";
export const MEMORY_LABEL = "resource/memory";
/** The capacity of the host, where the worker has less. */
const HOST_CPU_LABEL = "resource/host-cpu";
const HOST_MEMORY_LABEL = "resource/host-memory";

export const NO_RESOURCES: Resources = Object.freeze({ cpu: 0, memory: 0 });

const MAX_CPUS = 100_000;
const MAX_BYTES = 2 ** 50; // 1024t
const UNITS: Readonly<Record<string, number>> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

export function toResources(value: unknown, path: string): Resources {
  const { cpu, memory } = asObject(value, path, ["cpu", "memory"]);
  return {
    cpu: cpu === undefined ? 0 : Math.ceil(asNumber(cpu, fieldPath(path, "cpu"), { min: 0, max: MAX_CPUS }) * 1_000),
    memory: memory === undefined ? 0 : toBytes(memory, fieldPath(path, "memory")),
  };
}

/** `512m`, `2g`, `1.5Gi`, `1024`: with or without `i` and `b` after the letter, all powers of 1024. */
export function toBytes(value: unknown, path: string): number {
  const [, digits = "", unit = ""] =
    typeof value === "string" ? (/^(\d+(?:\.\d+)?) ?([kmgt]?)i?b?$/i.exec(value) ?? []) : [];
  const bytes = typeof value === "number" ? value : Number(digits || Number.NaN) * (UNITS[unit.toLowerCase()] ?? 1);
  if (Number.isFinite(bytes) && bytes >= 0 && bytes <= MAX_BYTES) return Math.ceil(bytes);
  throw new ConfigError({ path, given: value, allowed: 'bytes, or text such as "512m" or "2g", at most 1024t' });
}

export function resourceLabels({ cpu, memory }: Resources): Record<string, string> {
  const labels: Record<string, string> = {};
  if (cpu > 0) labels[CPU_LABEL] = String(cpu);
  if (memory > 0) labels[MEMORY_LABEL] = String(memory);
  return labels;
}

/** The labels of a worker: its own capacity, and that of its host where that is more. */
export function capacityLabels(own: Resources, host: Resources): Record<string, string> {
  const labels = resourceLabels(own);
  if (own.cpu > 0 && host.cpu > own.cpu) labels[HOST_CPU_LABEL] = String(host.cpu);
  if (own.memory > 0 && host.memory > own.memory) labels[HOST_MEMORY_LABEL] = String(host.memory);
  return labels;
}

/** The capacity of the host by the labels of one of its workers: never less than that worker has. */
export function hostResources(labels: Readonly<Record<string, string>>): Resources {
  const { cpu, memory } = resourcesIn(labels) ?? NO_RESOURCES;
  const { [HOST_CPU_LABEL]: hostCpu = "0", [HOST_MEMORY_LABEL]: hostMemory = "0" } = labels;
  return { cpu: atLeast(cpu, Number(hostCpu)), memory: atLeast(memory, Number(hostMemory)) };
}

/** A worker writes its own labels, so one that is not a number is ignored. */
function atLeast(least: number, value: number): number {
  return value > least ? value : least;
}

export function takesResources(labels: Readonly<Record<string, string>>): boolean {
  return labels[CPU_LABEL] !== undefined || labels[MEMORY_LABEL] !== undefined;
}

/** The resources in labels; null if there are none. */
export function resourcesIn(labels: Readonly<Record<string, string>>): Resources | null {
  const { [CPU_LABEL]: cpu, [MEMORY_LABEL]: memory } = labels;
  if (cpu === undefined && memory === undefined) return null;
  return { cpu: Number(cpu ?? 0), memory: Number(memory ?? 0) };
}

export function fits(needs: Resources, capacity: Resources): boolean {
  return needs.cpu <= capacity.cpu && needs.memory <= capacity.memory;
}

/** The smaller of each. */
export function lesser(a: Resources, b: Resources): Resources {
  return { cpu: Math.min(a.cpu, b.cpu), memory: Math.min(a.memory, b.memory) };
}

export function without(capacity: Resources, needs: Resources): Resources {
  return { cpu: Math.max(0, capacity.cpu - needs.cpu), memory: Math.max(0, capacity.memory - needs.memory) };
}

/** `1.5 cpus and 512 MiB of memory` */
export function showResources({ cpu, memory }: Resources): string {
  const cpus = cpu === 0 ? [] : [`${cpu / 1_000} ${cpu === 1_000 ? "cpu" : "cpus"}`];
  const bytes = memory === 0 ? [] : [`${Number((memory / MIB).toFixed(1))} MiB of memory`];
  return [...cpus, ...bytes].join(" and ");
}
