/** Where the values of a job's policy came from, as its first event records them: the submit, else the defaults of the task,
 *  else the preset. A submit may itself come from an action, its pack or settings. This is not part of the stored policy, so
 *  that equal policies are stored once. */

import { type PolicySource, TASK_OPTION_NAMES, type TaskValues } from "../task/submit-options.ts";
import type { PolicyInput } from "./policy.ts";

export interface PolicySources {
  /** By the name of the value; other values are the preset's. */
  readonly from: Readonly<Record<string, PolicySource>>;
  /** The session that published the defaults of the task, and the name of its worker. */
  readonly session?: string;
  readonly worker?: string;
}

const PLAIN = TASK_OPTION_NAMES.filter((name) => name !== "retry");

/** The values that apply, and the source of each. `retry` is one value: that of a submit replaces that of the task as a whole.
 *  `named` has other sources for values of the submit. */
export function chosenValues(
  submit: TaskValues,
  task: TaskValues,
  named: Readonly<Record<string, PolicySource>> = {},
): { readonly values: TaskValues; readonly from: Readonly<Record<string, PolicySource>> } {
  const from: Record<string, PolicySource> = {};
  const values: Record<string, unknown> = {};
  const retry = submit.retry ?? task.retry;
  if (retry !== undefined) {
    values.retry = retry;
    const source = submit.retry === undefined ? "task" : "submit";
    for (const field of policyFields(retry)) from[field] = sourceOf(field, source, named);
  }
  for (const name of PLAIN) {
    const value = submit[name] ?? task[name];
    if (value === undefined) continue;
    values[name] = value;
    const source = submit[name] === undefined ? "task" : "submit";
    // Queue and priority are not part of the policy: recorded only where they are defaults of the task.
    if (source === "task" || name === "timeout" || name === "expireIn") from[name] = sourceOf(name, source, named);
  }
  return { values: values as TaskValues, from };
}

function sourceOf(field: string, source: "submit" | "task", named: Readonly<Record<string, PolicySource>>) {
  return source === "submit" && Object.hasOwn(named, field) ? (named[field] as PolicySource) : source;
}

/** The fields that a policy sets. */
export function policyFields(retry: PolicyInput): readonly string[] {
  if (typeof retry !== "object" || retry === null) return ["maxAttempts"];
  const given = retry as Readonly<Record<string, unknown>>;
  return Object.keys(given).filter((field) => field !== "preset" && given[field] !== undefined);
}

const MAX_KEPT = 1_000;
const kept = new Map<string, PolicySources>();

/** Null where no value is given. Returns the same object for the same sources, as jobs are often submitted in lists. */
export function toSources(
  from: Readonly<Record<string, PolicySource>>,
  published: { readonly session: string; readonly worker: string } | null = null,
): PolicySources | null {
  const entries = Object.entries(from);
  if (entries.length === 0) return null;
  const isPublished = published !== null && entries.some(([, source]) => source === "task");
  const key = `${entries.join(" ")} ${isPublished ? `${published.session} ${published.worker}` : ""}`;
  let sources = kept.get(key);
  if (sources === undefined) {
    const by = isPublished ? { session: published.session, worker: published.worker } : {};
    sources = Object.freeze({ from: Object.freeze(Object.fromEntries(entries)), ...by });
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(key, sources);
  }
  return sources;
}
