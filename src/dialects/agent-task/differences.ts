/** What a manifest has other than the job that was made from it before, by the paths of the manifest. What a manifest has and
 *  Perdure cannot do (`spec.image`, …) is not in the job, and no difference. Neither is the order of fields. */
import { isPlain } from "../../core/check.ts";
import { presets } from "../../core/presets.ts";
import { resourceLabels, toResources } from "../../core/resources.ts";
import type { JobInfo } from "../../core/views.ts";
import type { Difference, ReadEntry } from "../dialect.ts";
import { RESUBMIT_OF } from "../origin.ts";
import { commandDifferences, differenceText, type Fact } from "./difference-text.ts";
import { type AgentValues, policyValues, readValues } from "./values.ts";
import { agentSpecOf, labelsOf } from "./view.ts";
import { ANNOTATION, PREFIX, ROLE_FILE, ROLE_KIND } from "./words.ts";

/** What of a job is compared. */
type Seen = Pick<JobInfo, "kind" | "payload" | "annotations" | "tags" | "labels"> &
  Partial<Pick<JobInfo, "policy" | "timeoutMs">>;

export function taskDifferences(before: JobInfo | ReadEntry, entry: ReadEntry): readonly Difference[] {
  return differencesOf("task" in before ? seenIn(before) : before, seenIn(entry));
}

/** What a job has other than the one it was made from. */
export function jobDifferences(before: JobInfo, after: JobInfo): readonly Difference[] {
  return differencesOf(before, after);
}

function differencesOf(a: Seen, b: Seen): readonly Difference[] {
  const [before, after] = [factsOf(a), factsOf(b)];
  const paths = [...new Set([...before.keys(), ...after.keys()])];
  const found = paths.flatMap((path): Difference[] => {
    const [x, y] = [before.get(path), after.get(path)];
    if (JSON.stringify(x?.value) === JSON.stringify(y?.value)) return [];
    return path === "spec.command" ? commandDifferences(path, x, y) : [{ path, text: differenceText(path, x, y) }];
  });
  return [...found, ...roleDifferences(a, b, found)];
}

function seenIn({ task, input, options = {} }: ReadEntry): Seen {
  const { annotations = {}, tags = [], resources } = options;
  const labels = resources === undefined ? {} : resourceLabels(toResources(resources, "resources"));
  return { kind: task, payload: input, annotations, tags, labels };
}

/** What of a spec is compared by `values`, or is not of the manifest alone. */
const NOT_COMPARED = { policy: presets.agent, timeoutMs: null, parentId: null } as const;

function factsOf(seen: Seen): Map<string, Fact> {
  const facts = new Map<string, Fact>();
  const put = (path: string, value: unknown, more: Omit<Fact, "value"> = {}) => {
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

/** All that a job has which an earlier version stored, or a program submitted, counts as its own (`role-change.ts`). */
function unrecorded({ policy, timeoutMs = null }: Seen): AgentValues {
  const values = policy === undefined ? {} : policyValues(policy, timeoutMs);
  return Object.fromEntries(Object.entries(values).map(([path, value]) => [path, [value, "spec"]]));
}

function sourceOf(values: AgentValues, path: string, annotations: Seen["annotations"]): Pick<Fact, "from"> {
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

/** A role's own document is for the agent to read. What of it has changed a value of the task is listed already. */
function roleDifferences(a: Seen, b: Seen, found: readonly Difference[]): Difference[] {
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

function factOf(value: unknown): Fact | undefined {
  return value === undefined ? undefined : { value };
}

function roleIn({ payload }: Seen): Record<string, unknown> | null {
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
