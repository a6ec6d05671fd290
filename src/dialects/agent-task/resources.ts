/** `resources` as in a pod: what is requested is counted when a worker is chosen, a limit of memory ends what grows over it
 *  (`OOMKilled`), and a limit of cpu cannot be kept here. */
import { fieldPath } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import type { ResourcesInput } from "../../core/resources.ts";
import { fieldsOf } from "./check.ts";

export interface AgentResources {
  readonly requests: ResourcesInput;
  /** Bytes. */
  readonly memoryLimit: number | null;
}

const KINDS = ["cpu", "memory", "ephemeral-storage"] as const;
const MAX_CPUS = 100_000;
const MAX_BYTES = 2 ** 50;

export function readResources(value: unknown, path: string, notes: string[]): AgentResources {
  const { requests, limits, claims } = fieldsOf(value, path, ["requests", "limits", "claims"]);
  const requested = amounts(requests, fieldPath(path, "requests"), notes);
  const limited = amounts(limits, fieldPath(path, "limits"), notes);
  if (claims !== undefined) notes.push(`${path}.claims: workers have no devices to claim.`);
  if (limited.cpu !== undefined) {
    notes.push(
      `${path}.limits.cpu: it is counted when a worker is chosen; a command that takes more is not slowed down.`,
    );
  }
  // Kubernetes requests what a limit allows where nothing else is requested.
  return { requests: { ...limited, ...requested }, memoryLimit: limited.memory ?? null };
}

interface Amounts {
  cpu?: number;
  memory?: number;
}

function amounts(value: unknown, path: string, notes: string[]): Amounts {
  if (value === undefined) return {};
  const fields = fieldsOf(value, path, KINDS);
  if (fields["ephemeral-storage"] !== undefined) {
    notes.push(`${fieldPath(path, "ephemeral-storage")}: the disk of a worker is not counted.`);
  }
  return {
    ...(fields.cpu === undefined ? {} : { cpu: asCpus(fields.cpu, fieldPath(path, "cpu")) }),
    ...(fields.memory === undefined ? {} : { memory: asBytes(fields.memory, fieldPath(path, "memory")) }),
  };
}

/** `2`, `0.5` or `500m`, thousandths. */
function asCpus(value: unknown, path: string): number {
  const [, digits, milli] = /^(\d{1,9}(?:\.\d{1,9})?)(m?)$/.exec(String(value)) ?? [];
  const cpus = Number(digits ?? Number.NaN) / (milli === "m" ? 1_000 : 1);
  if (cpus > 0 && cpus <= MAX_CPUS) return cpus;
  throw new ConfigError({ path, given: value, allowed: 'cpus, as in 2, 0.5 or "500m"' });
}

const UNITS: Readonly<Record<string, number>> = {
  ...{ "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12 },
  ...{ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 },
};

/** Powers of 1000 without an `i`, of 1024 with one. */
function asBytes(value: unknown, path: string): number {
  const [, digits, unit = ""] = /^(\d{1,16}(?:\.\d{1,9})?)([kMGT]|[KMGT]i)?$/.exec(String(value)) ?? [];
  const bytes = Math.ceil(Number(digits ?? Number.NaN) * (UNITS[unit] as number));
  if (bytes >= 1 && bytes <= MAX_BYTES) return bytes;
  throw new ConfigError({ path, given: value, allowed: 'bytes, or text such as "512Mi", "2Gi" or "500M"' });
}
