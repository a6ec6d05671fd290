/** Where the values of a job's policy came from, as its first event records them. Of two places that give a value the first
 *  of these counts: the submit, the defaults of the task, then the preset. A submit may itself come from an action, its pack or
 *  settings. The policy that is stored has no word of it: equal policies stay one. */

import { type PolicySource, TASK_OPTION_NAMES, type TaskValues } from "../task/submit-options.ts";
import type { PolicyInput } from "./policy.ts";

export interface PolicySources {
  /** By the name of the value; what is not in it is the preset's. */
  readonly from: Readonly<Record<string, PolicySource>>;
  /** Who published the defaults of the task: a session, and the name of its worker. */
  readonly session?: string;
  readonly worker?: string;
}

const PLAIN = TASK_OPTION_NAMES.filter((name) => name !== "retry");

/** The values that hold, and the place each came from. `retry` is taken as a whole: a submit that has one takes nothing of the
 *  task's. `said` names other sources of what the submit gives. */
export function chosenValues(
  submit: TaskValues,
  task: TaskValues,
  said: Readonly<Record<string, PolicySource>> = {},
): { readonly values: TaskValues; readonly from: Readonly<Record<string, PolicySource>> } {
  const from: Record<string, PolicySource> = {};
  const values: Record<string, unknown> = {};
  const retry = submit.retry ?? task.retry;
  if (retry !== undefined) {
    values.retry = retry;
    const source = submit.retry === undefined ? "task" : "submit";
    for (const field of policyFields(retry)) from[field] = sourceOf(field, source, said);
  }
  for (const name of PLAIN) {
    const value = submit[name] ?? task[name];
    if (value === undefined) continue;
    values[name] = value;
    const source = submit[name] === undefined ? "task" : "submit";
    // Where a job waits, and before whom, is no rule of its retries: told only where a submit did not say it.
    if (source === "task" || name === "timeout" || name === "expireIn") from[name] = sourceOf(name, source, said);
  }
  return { values: values as TaskValues, from };
}

function sourceOf(field: string, source: "submit" | "task", said: Readonly<Record<string, PolicySource>>) {
  return source === "submit" && Object.hasOwn(said, field) ? (said[field] as PolicySource) : source;
}

/** The fields that a policy gives itself. */
export function policyFields(retry: PolicyInput): readonly string[] {
  if (typeof retry !== "object" || retry === null) return ["maxAttempts"];
  const given = retry as Readonly<Record<string, unknown>>;
  return Object.keys(given).filter((field) => field !== "preset" && given[field] !== undefined);
}

const MAX_KEPT = 1_000;
const kept = new Map<string, PolicySources>();

/** Null where nothing is given. The same object for the same sources: jobs come in lists, and their events are written by it. */
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
