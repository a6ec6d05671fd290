/** Differences between an applied AgentTask and the job of that name, with secrets hidden. */
import { isPlain } from "../../core/check.ts";
import { show } from "../../core/errors.ts";
import { resourceLabels, toResources } from "../../core/input/resources.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { presets } from "../../core/policy/presets.ts";
import type { Difference, NamedDocuments, ReadEntry } from "../dialect.ts";
import { RESUBMIT_OF } from "../shared.ts";
import { ANNOTATION, PREFIX, ROLE_FILE, ROLE_KIND, TASK_KIND } from "./fields.ts";
import { DEFAULT_NAMESPACE, taskKey } from "./metadata.ts";
import { type AgentValues, policyValues, readValues } from "./values.ts";
import { agentSpecOf, labelsOf } from "./view.ts";

// Differences are printed without values that may be secrets: those of variables and arguments, and credentials in URLs.

/** One value of a manifest or a job. */
interface ManifestValue {
  readonly value: unknown;
  /** Its source, if not the task itself. */
  readonly from?: string;
  readonly isSecret?: boolean;
  /** For seconds: printed as in manifests. */
  readonly isTime?: boolean;
}

function differenceText(path: string, a: ManifestValue | undefined, b: ManifestValue | undefined): string {
  const isSecret = a?.isSecret || b?.isSecret;
  const [before, after] = isSecret ? [present(a), present(b)] : [shown(a), shown(b)];
  return before === after ? `${path}: another value` : `${path}: ${before} -> ${after}`;
}

/** Arguments that are listed one by one. */
const MAX_ARGUMENTS = 5;

/** Compares by position. */
function commandDifferences(path: string, a: ManifestValue | undefined, b: ManifestValue | undefined): Difference[] {
  const [before, after] = [argumentsOf(a), argumentsOf(b)];
  const places = Array.from({ length: Math.max(before.length, after.length) }, (_, i) => i);
  const changed = places.filter((i) => before[i] !== after[i]);
  const listed = changed.slice(0, MAX_ARGUMENTS).map((i): Difference => {
    const at = `${path}[${i}]`;
    const factAt = (fact: ManifestValue | undefined, list: readonly unknown[]) =>
      fact === undefined || i >= list.length ? undefined : { ...fact, value: list[i], isSecret: true };
    return { path: at, text: differenceText(at, factAt(a, before), factAt(b, after)) };
  });
  const more = changed.length - listed.length;
  const rest = more === 1 ? "one more argument differs" : `${more} more arguments differ`;
  return more === 0 ? listed : [...listed, { path, text: `${path}: ${rest}` }];
}

function argumentsOf(fact: ManifestValue | undefined): readonly unknown[] {
  return Array.isArray(fact?.value) ? fact.value : [];
}

function present(fact: ManifestValue | undefined): string {
  return fact === undefined ? "none" : withSource("set", fact);
}

function shown(fact: ManifestValue | undefined): string {
  if (fact === undefined) return "none";
  const { value, isTime } = fact;
  return withSource(isTime && typeof value === "number" ? timeText(value) : show(withoutLogins(value)), fact);
}

function withSource(text: string, { from }: ManifestValue): string {
  return from === undefined ? text : `${text} (${from})`;
}

/** Searches from the slashes, so that long texts take linear time. */
const LOGIN = /:\/\/[^\s/?#]*@/g;

function withoutLogins(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll(LOGIN, "://***@");
  if (Array.isArray(value)) return value.map(withoutLogins);
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withoutLogins(each)]));
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;

/** `1d12h`, as in manifests. */
function timeText(seconds: number): string {
  let rest = Math.round(seconds * 1_000);
  const parts = UNITS.map(([unit, ms]) => {
    const count = Math.floor(rest / ms);
    rest -= count * ms;
    return count === 0 ? "" : `${count}${unit}`;
  });
  return parts.join("") || "0s";
}

// Compares a manifest with the job made from it, by the manifest's paths. Fields that Perdure does not support
// (`spec.image`, …) are not in the job and not compared; nor is the order of fields.

/** The compared parts of a job. */
type ComparedJob = Pick<JobInfo, "kind" | "payload" | "annotations" | "tags" | "labels"> &
  Partial<Pick<JobInfo, "policy" | "timeoutMs">>;

export function taskDifferences(before: JobInfo | ReadEntry, entry: ReadEntry): readonly Difference[] {
  return differencesOf("task" in before ? seenIn(before) : before, seenIn(entry));
}

/** The differences between a job and the one it was made from. */
export function jobDifferences(before: JobInfo, after: JobInfo): readonly Difference[] {
  return differencesOf(before, after);
}

function differencesOf(a: ComparedJob, b: ComparedJob): readonly Difference[] {
  const [before, after] = [factsOf(a), factsOf(b)];
  const paths = [...new Set([...before.keys(), ...after.keys()])];
  const found = paths.flatMap((path): Difference[] => {
    const [x, y] = [before.get(path), after.get(path)];
    if (JSON.stringify(x?.value) === JSON.stringify(y?.value)) return [];
    return path === "spec.command" ? commandDifferences(path, x, y) : [{ path, text: differenceText(path, x, y) }];
  });
  return [...found, ...roleDifferences(a, b, found)];
}

function seenIn({ task, input, options = {} }: ReadEntry): ComparedJob {
  const { annotations = {}, tags = [], resources } = options;
  const labels = resources === undefined ? {} : resourceLabels(toResources(resources, "resources"));
  return { kind: task, payload: input, annotations, tags, labels };
}

/** Fields of a spec that are compared by `values`, or are not only in the manifest. */
const NOT_COMPARED = { policy: presets.agent, timeoutMs: null, parentId: null, runId: null } as const;

function factsOf(seen: ComparedJob): Map<string, ManifestValue> {
  const facts = new Map<string, ManifestValue>();
  const put = (path: string, value: unknown, more: Omit<ManifestValue, "value"> = {}) => {
    if (value !== undefined) facts.set(path, { value, ...more });
  };
  const { annotations } = seen;
  put("kind of job", seen.kind);
  put("apiVersion", annotations[ANNOTATION.apiVersion]);
  put("metadata.name", annotations[ANNOTATION.name]);
  put("metadata.namespace", annotations[ANNOTATION.namespace]);
  for (const [name, text] of labelsOf(seen.tags)) put(`metadata.labels.${name}`, text);
  for (const [name, text] of Object.entries(annotations)) {
    if (!name.startsWith(PREFIX) && name !== RESUBMIT_OF) put(`metadata.annotations.${name}`, text);
  }
  const { env, model, resources, ...spec } = agentSpecOf({ ...seen, ...NOT_COMPARED });
  const values = readValues(seen) ?? unrecorded(seen);
  const from = (path: string) => sourceOf(values, path, annotations);
  for (const name of ["prompt", "command", "role", "tier"]) put(`spec.${name}`, spec[name], from(name));
  const models = typeof model === "string" ? { name: model } : ((model ?? {}) as object);
  for (const [name, text] of Object.entries(models)) put(`spec.model.${name}`, text, from(`model.${name}`));
  for (const [path, [value]] of Object.entries(values))
    put(`spec.${path}`, value ?? undefined, { ...from(path), isTime: path === "timeout" });
  for (const { name, value } of (env ?? []) as readonly { name: string; value: unknown }[]) {
    put(`spec.env.${name}`, value, { isSecret: true });
  }
  const asked = (resources ?? {}) as Record<string, object>;
  for (const [kind, amounts] of Object.entries(asked)) {
    for (const [name, text] of Object.entries(amounts)) put(`spec.resources.${kind}.${name}`, text);
  }
  return facts;
}

/** All values of a job stored by an earlier version, or submitted by a program, count as its own (`role.ts`). */
function unrecorded({ policy, timeoutMs = null }: ComparedJob): AgentValues {
  const values = policy === undefined ? {} : policyValues(policy, timeoutMs);
  return Object.fromEntries(Object.entries(values).map(([path, value]) => [path, [value, "spec"]]));
}

function sourceOf(
  values: AgentValues,
  path: string,
  annotations: ComparedJob["annotations"],
): Pick<ManifestValue, "from"> {
  switch (values[path]?.[1]) {
    case "role":
      return { from: `${ROLE_KIND} ${annotations[ANNOTATION.role]}` };
    case "tier":
      return { from: `setting agent.retry.${annotations[ANNOTATION.tier]}` };
    case "setting":
      return { from: `setting agent.${path}` };
    case "default":
      return { from: "default" };
    default:
      return {};
  }
}

/** The role's document is data for the agent. Changed defaults are listed already. */
function roleDifferences(a: ComparedJob, b: ComparedJob, found: readonly Difference[]): Difference[] {
  const name = b.annotations[ANNOTATION.role];
  if (name === undefined || a.annotations[ANNOTATION.role] !== name) return [];
  const [before, after] = [roleIn(a), roleIn(b)];
  const path = `${ROLE_KIND} ${name}`;
  if (before === null || after === null) {
    return before === after ? [] : [{ path, text: `${path}: ${before === null ? "none -> given" : "given -> none"}` }];
  }
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return fields.flatMap((field): Difference[] => {
    const [x, y] = [before[field], after[field]];
    const listed = `spec.${field === "defaultModel" ? "model" : field}`;
    const isListed = found.some((each) => each.path === listed || each.path.startsWith(`${listed}.`));
    if (isListed || JSON.stringify(x) === JSON.stringify(y)) return [];
    const at = `${path}: spec.${field}`;
    return [{ path: at, text: differenceText(at, factOf(x), factOf(y)) }];
  });
}

function factOf(value: unknown): ManifestValue | undefined {
  return value === undefined ? undefined : { value };
}

function roleIn({ payload }: ComparedJob): Record<string, unknown> | null {
  const { files } = (isPlain(payload) ? payload : {}) as { files?: unknown };
  const file = isPlain(files) ? (files as Record<string, unknown>)[ROLE_FILE] : undefined;
  if (typeof file !== "string") return null;
  try {
    const spec: unknown = JSON.parse(Buffer.from(file, "base64").toString("utf8"));
    return isPlain(spec) ? (spec as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

// A manifest that is applied again is the same task, by its namespace and name, as in Kubernetes. It is never updated: a
// manifest that differs from its job is refused with the differences.

export const namedTasks: NamedDocuments = {
  key: ({ options }) => keyIn(options?.annotations ?? {}),
  called: (entry) => `${TASK_KIND} ${shortName(entry)}`,
  reference,
  differences: taskDifferences,
  instead,
  isNameKey: ({ annotations }, key) => key === keyIn(annotations),
};

function keyIn(annotations: JobInfo["annotations"]): string {
  return taskKey(...partsOf(annotations));
}

function partsOf(annotations: JobInfo["annotations"]): [name: string, namespace: string] {
  const { [ANNOTATION.name]: name = "", [ANNOTATION.namespace]: namespace } = annotations;
  return [name, namespace ?? DEFAULT_NAMESPACE];
}

function shortName(entry: ReadEntry): string {
  const [name, namespace] = partsOf(entry.options?.annotations ?? {});
  return namespace === DEFAULT_NAMESPACE ? name : `${namespace}/${name}`;
}

/** The task's name if it is unambiguous and needs no quotes, else the job's id. */
function reference(job: JobInfo, entry: ReadEntry): string {
  const name = shortName(entry);
  return job.key === keyIn(entry.options?.annotations ?? {}) && /^[\w./-]+$/.test(name) ? name : job.id;
}

/** Which option of `perdure resubmit` changes which value. */
const OPTIONS: readonly (readonly [path: RegExp, option: string])[] = [
  [/^spec\.role$/, "--role NAME"],
  [/^spec\.prompt$/, "--prompt TEXT"],
  [/^spec\.model\.name$/, "--model NAME"],
  [/^spec\.retry\.maxAttempts$/, "--max-attempts N"],
  [/^spec\.(retry\.(b|maxB)ackoffSeconds|budget\.)/, "--retry JSON"],
  [/^spec\.timeout$/, "--timeout TIME"],
  [/^spec\.env\b/, "--env NAME=VALUE"],
  [/^spec\.command\b/, "-- COMMAND"],
];

function instead(job: JobInfo | null, entry: ReadEntry, differences: readonly Difference[]): string {
  const others = "use another metadata.name or pass --key KEY";
  const options = OPTIONS.filter(([path]) => differences.some((each) => path.test(each.path))).map(([, text]) => text);
  return job === null || options.length === 0
    ? others
    : `${others}, or submit a changed copy: perdure resubmit ${reference(job, entry)} ${options.join(" ")}`;
}
