/** Resources: how much cpu and memory a job takes of its host. They travel as labels with reserved names, so that jobs of
 *  the same needs wait in one lane; a worker has what it can give under the same names, and beside it what its host has,
 *  which all workers there share. Counted, not enforced. */
import { asNumber, asObject, fieldPath } from "../check.ts";
import { ConfigError } from "../errors.ts";

/** As people write them: 0.5 or 2 cpus; bytes, or text such as `512m` or `2g` (powers of 1024).
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

/** Labels that begin so are not people's to give. */
export const RESOURCE_PREFIX = "resource/";
export const CPU_LABEL = "resource/cpu";
export const MEMORY_LABEL = "resource/memory";
/** What the host of a worker has, where the worker itself takes less. */
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

/** `512m`, `2g`, `1.5Gi`, `1024`: with or without an `i` and a `b` behind the letter, all powers of 1024. */
export function toBytes(value: unknown, path: string): number {
  const [, digits = "", unit = ""] =
    typeof value === "string" ? (/^(\d+(?:\.\d+)?) ?([kmgt]?)i?b?$/i.exec(value) ?? []) : [];
  const bytes = typeof value === "number" ? value : Number(digits || Number.NaN) * (UNITS[unit.toLowerCase()] ?? 1);
  if (Number.isFinite(bytes) && bytes >= 0 && bytes <= MAX_BYTES) return Math.ceil(bytes);
  throw new ConfigError({ path, given: value, allowed: 'bytes, or text such as "512m" or "2g"; at most 1024t' });
}

export function resourceLabels({ cpu, memory }: Resources): Record<string, string> {
  const labels: Record<string, string> = {};
  if (cpu > 0) labels[CPU_LABEL] = String(cpu);
  if (memory > 0) labels[MEMORY_LABEL] = String(memory);
  return labels;
}

/** The labels of a worker: what it takes itself, and what its host has where that is more. */
export function capacityLabels(own: Resources, host: Resources): Record<string, string> {
  const labels = resourceLabels(own);
  if (own.cpu > 0 && host.cpu > own.cpu) labels[HOST_CPU_LABEL] = String(host.cpu);
  if (own.memory > 0 && host.memory > own.memory) labels[HOST_MEMORY_LABEL] = String(host.memory);
  return labels;
}

/** What the host has for all of its workers, by the labels of one of them: never less than that one takes. */
export function hostResources(labels: Readonly<Record<string, string>>): Resources {
  const { cpu, memory } = resourcesIn(labels) ?? NO_RESOURCES;
  const { [HOST_CPU_LABEL]: hostCpu = "0", [HOST_MEMORY_LABEL]: hostMemory = "0" } = labels;
  return { cpu: atLeast(cpu, Number(hostCpu)), memory: atLeast(memory, Number(hostMemory)) };
}

/** A worker writes its own labels: one that is not a number counts for nothing. */
function atLeast(least: number, value: number): number {
  return value > least ? value : least;
}

export function takesResources(labels: Readonly<Record<string, string>>): boolean {
  return labels[CPU_LABEL] !== undefined || labels[MEMORY_LABEL] !== undefined;
}

/** What labels say of resources; null if they say nothing. */
export function resourcesIn(labels: Readonly<Record<string, string>>): Resources | null {
  const { [CPU_LABEL]: cpu, [MEMORY_LABEL]: memory } = labels;
  if (cpu === undefined && memory === undefined) return null;
  return { cpu: Number(cpu ?? 0), memory: Number(memory ?? 0) };
}

export function fits(needs: Resources, room: Resources): boolean {
  return needs.cpu <= room.cpu && needs.memory <= room.memory;
}

/** The smaller of each. */
export function lesser(a: Resources, b: Resources): Resources {
  return { cpu: Math.min(a.cpu, b.cpu), memory: Math.min(a.memory, b.memory) };
}

export function without(room: Resources, needs: Resources): Resources {
  return { cpu: Math.max(0, room.cpu - needs.cpu), memory: Math.max(0, room.memory - needs.memory) };
}

const MIB = 2 ** 20;

/** `1.5 cpus and 512 MiB of memory` */
export function showResources({ cpu, memory }: Resources): string {
  const cpus = cpu === 0 ? [] : [`${cpu / 1_000} ${cpu === 1_000 ? "cpu" : "cpus"}`];
  const bytes = memory === 0 ? [] : [`${Number((memory / MIB).toFixed(1))} MiB of memory`];
  return [...cpus, ...bytes].join(" and ");
}
