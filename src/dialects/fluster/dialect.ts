/** A fluster job as a document: the fields of its `submit()`. cpu and memory are counted when the job is claimed, and
 *  memory is the limit of its command; disks, devices, regions and environments are not supported, and a note reports
 *  them. */
import { asBoolean, asInteger, asList, asObject, asText, isPlain, reader } from "../../core/check.ts";
import { MAX_DURATION_MS } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import { type ResourcesInput, toBytes, toResources } from "../../core/input/resources.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { Dialect, ReadEntry, Reading } from "../dialect.ts";
import { asJobId } from "../shared.ts";
import { flusterWork } from "./entrypoint.ts";
import { FLUSTER_RETRY_FIELDS, flusterPolicy } from "./retry.ts";
import type { FlusterSettings } from "./settings.ts";
import { FLUSTER_NAME, FLUSTER_TAG, flusterKey, flusterStatus, isFlusterId } from "./view.ts";

export interface FlusterResources {
  readonly cpu?: number;
  /** `512m`, `2g`, `2GB`, or bytes; powers of 1024. A command that uses more is killed: exit code 137. */
  readonly memory?: string | number;
  readonly disk?: string | number;
  readonly device?: unknown;
  readonly gpu?: unknown;
  readonly tpu?: unknown;
  readonly replicas?: number;
  readonly preemptible?: boolean;
  readonly regions?: readonly string[];
}

const KEYS = [
  ...(["name", "entrypoint", "environment", "resources", "ports", "scheduling_timeout_seconds", "retry"] as const),
  "parent_job_id",
] as const;
const RESOURCE_KEYS = [
  ...(["cpu", "memory", "disk", "device", "gpu", "tpu", "replicas", "preemptible", "regions"] as const),
] as const;
/** Together with `entrypoint`, which Attune has too. */
const SIGNS = ["resources", "environment", "ports", "scheduling_timeout_seconds"];
const FOREIGN = ["runtime", "runner_type", "ref", "apiVersion"];

export const flusterDialect: Dialect = {
  name: "fluster",
  called: "a fluster job",

  recognises(document) {
    if (!isPlain(document)) return false;
    const has = (key: string) => Object.hasOwn(document, key);
    if (!has("entrypoint") || FOREIGN.some(has)) return false;
    const { retry } = document as { retry?: unknown };
    const words: readonly string[] = FLUSTER_RETRY_FIELDS;
    return SIGNS.some(has) || (isPlain(retry) && Object.keys(retry).some((word) => words.includes(word)));
  },

  signs: {
    text: "entrypoint with resources, environment, ports or fluster's fields in retry",
    fields: ["entrypoint", ...SIGNS],
    common: ["name"],
    retry: FLUSTER_RETRY_FIELDS,
  },
  read: (document, { settings }) => readFluster(document, settings.fluster),
  isSource: ({ annotations }) => annotations?.[FLUSTER_NAME] !== undefined,
  view: flusterStatus,
  keysOf: (reference) => (isFlusterId(reference) ? [flusterKey(reference)] : []),
  reference: "the name of a fluster job",
};

export function readFluster(document: unknown, settings: FlusterSettings): Reading {
  if (!isPlain(document)) {
    throw new ConfigError({ path: "job", given: document, allowed: `an object with ${KEYS.join(", ")}` });
  }
  const fields = asObject(withoutNulls(document), "", KEYS);
  const notes: string[] = [];
  const name = asText(fields.name, "name", 200);
  const { counted: resources, memory } = resourcesOf(fields.resources ?? {}, notes);
  const { task, input } = flusterWork(fields, memory, notes);
  const read = reader(fields, "");
  const timeout = read("scheduling_timeout_seconds", asSeconds, 0);
  const parent = read("parent_job_id", (given, at) => (given === "" ? null : asJobId(given, at)), null);
  const policy = flusterPolicy(fields.retry, "retry", settings, notes);
  resolvePolicy(policy, "retry");
  const job: ReadEntry = {
    task,
    ...(input === undefined ? {} : { input }),
    options: {
      retry: policy,
      ...(resources === null ? {} : { resources }),
      ...(timeout === 0 ? {} : { expireIn: `${timeout}s` }),
      ...(parent === null ? {} : { parent }),
      tags: [FLUSTER_TAG],
      annotations: { [FLUSTER_NAME]: name },
    },
  };
  return { jobs: [job], notes };
}

/** In fluster, `None` means that an argument was not given. */
function withoutNulls(document: object): object {
  return Object.fromEntries(Object.entries(document).filter(([, value]) => value !== null));
}

/** 0 is to wait for ever. */
function asSeconds(value: unknown, path: string): number {
  return asInteger(value, path, { min: 0, max: MAX_DURATION_MS / 1_000 });
}

interface FlusterNeeds {
  /** Null if the job uses nothing that is counted. */
  readonly counted: ResourcesInput | null;
  /** Bytes; 0 is no limit. */
  readonly memory: number;
}

function resourcesOf(value: unknown, notes: string[]): FlusterNeeds {
  const { cpu, memory, ...others } = asObject(value, "resources", RESOURCE_KEYS);
  const counted: { cpu?: unknown; memory?: unknown } = {};
  if (cpu !== undefined) counted.cpu = cpu;
  if (memory !== undefined) counted.memory = memory;
  const needs = toResources(counted, "resources");

  const note = (key: string, why: string) => notes.push(`resources.${key} is ignored: ${why}.`);
  const read = reader(others, "resources");
  if (read("disk", toBytes, 0) > 0) note("disk", "only cpu and memory are counted");
  for (const key of ["device", "gpu", "tpu"] as const) {
    const needsIt = read(key, (given) => (key === "device" ? !isCpuOnly(given) : given !== 0 && given !== ""), false);
    if (needsIt) note(key, "workers are not selected by devices");
  }
  if (read("replicas", (given, at) => asInteger(given, at, { min: 0, max: 1_000_000 }), 0) > 1) {
    note("replicas", "a job runs once at a time; submit it that many times");
  }
  if (read("preemptible", asBoolean, false)) note("preemptible", "workers are not selected by it");
  if (
    read("regions", (given, at) => asList(given, at, (each, path) => asText(each, path, 200), 1_000), []).length > 0
  ) {
    note("regions", "workers are not selected by them");
  }
  const takesNone = needs.cpu === 0 && needs.memory === 0;
  return { counted: takesNone ? null : (counted as ResourcesInput), memory: needs.memory };
}

/** `{ cpu: … }`, which every worker has. */
function isCpuOnly(device: unknown): boolean {
  return isPlain(device) && Object.keys(device).every((key) => key === "cpu");
}
