/** Converts a submit, from the library or a server, to the item that the engine takes: options checked, durations and
 *  instants in milliseconds, the policy resolved, inputs of the built-in kinds checked. Other payloads are JSON text
 *  and are not read. */

import { checkEntry } from "../core/api/jobs.ts";
import { checkKeys, type Mutable } from "../core/check.ts";
import type { PerdureError } from "../core/errors.ts";
import { resourceLabels } from "../core/input/resources.ts";
import { toPayload } from "../core/input/submit-check.ts";
import type { JobState } from "../core/job/job.ts";
import type { Policy, PolicyInput } from "../core/policy/policy.ts";
import { chosenValues, type PolicySources, toSources } from "../core/policy/policy-sources.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import {
  type CheckedOption,
  eachOption,
  type OptionName,
  SUBMIT_OPTIONS,
  type SubmitOptions,
  TASK_OPTION_NAMES,
  type TaskValues,
} from "../core/task/submit-options.ts";
import type { AnyTask, SubmitEntry, TaskOptions } from "../core/task/task.ts";
import { checkBuiltin, isBuiltin } from "./check-builtin.ts";

/** A job as the engine takes it: durations in milliseconds, the payload as JSON text, the policy resolved. */
export interface SubmitItem {
  readonly kind: string;
  readonly payload: string;
  readonly policy: Policy;
  readonly namespace?: string;
  readonly queue?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly priority?: number;
  /** An instant; not together with `delayMs`. */
  readonly runAt?: number;
  readonly delayMs?: number;
  readonly timeoutMs?: number | null;
  readonly expireInMs?: number | null;
  readonly deadlineAt?: number | null;
  readonly key?: string | null;
  /** Of a child: its key is unique in the whole namespace, not only among the children of its parent. */
  readonly isWideKey?: boolean;
  readonly tags?: readonly string[];
  /** Whose child it is; with an attempt, only while that one runs. Its key is unique among the children of its parent. */
  readonly parent?: { readonly id: string; readonly attempt: number | null } | null;
  readonly annotations?: Readonly<Record<string, string>>;
  /** For people; if missing, one is made. */
  readonly name?: string;
  /** The id of an upload, which becomes the job's. */
  readonly upload?: string;
  /** Where the values of its policy come from. */
  readonly sources?: PolicySources | null;
  /** A submit by kind name: the options it has. The others are filled in from what workers publish for the kind. */
  readonly open?: { readonly given: TaskValues; readonly named?: SubmitOptions["sources"] } | null;
  /** Its queue comes from what workers publish: its key belongs to the same job with this queue given, and with none. */
  readonly openQueue?: boolean;
  /** Whose quota its lane counts towards, if the lane is new. */
  readonly owner?: string;
  /** Who submits it, as far as it is known; in its first event. */
  readonly by?: string | null;
  /** The id of the token it is submitted with; in its first event. */
  readonly token?: string;
}

export type SubmitAnswer =
  /** `created` is false if this job already existed for the key. */
  | {
      readonly status: "ok";
      readonly id: string;
      readonly created: boolean;
      readonly chapter: number;
      readonly state: JobState;
    }
  | { readonly status: "refused"; readonly error: PerdureError };

interface SubmitRequest {
  readonly kind: string;
  /** JSON text, or `NO_INPUT`. */
  readonly payload: string;
  readonly options: SubmitOptions;
  readonly namespace: string;
  /** Defaults for missing options. Undefined if only the kind was named: then those that workers publish apply. */
  readonly taskOptions?: TaskOptions;
  /** The policy as given, if it is resolved already. */
  readonly retry?: PolicyInput;
  /** The resolved policy of the task, for options without one. */
  readonly policy?: Policy;
  /** Labels that its input requires: see `checkBuiltin`. */
  readonly required?: Readonly<Record<string, string>> | null;
}

const NO_OPTIONS: SubmitOptions & TaskOptions = Object.freeze({});
const DEFAULT_POLICY = resolvePolicy();

export function toSubmitItem(request: SubmitRequest): SubmitItem {
  const { options, taskOptions, retry, policy = DEFAULT_POLICY, required } = request;
  const item: Mutable<SubmitItem> = {
    kind: request.kind,
    payload: request.payload,
    policy,
    namespace: request.namespace,
  };
  let given: Mutable<TaskValues> | null = retry === undefined ? null : { retry };
  if (options !== NO_OPTIONS) {
    eachOption(options, (name, checked) => {
      putOption(item, name, checked);
      if (isTaskOption(name)) {
        given ??= {};
        given[name] = options[name] as never;
      }
    });
  }
  if (taskOptions !== undefined) putDefaults(item, taskOptions, given ?? NO_OPTIONS);
  if (required != null) item.labels = { ...item.labels, ...required };
  addSources(item, taskOptions, given, options.sources);
  return item;
}

type PutOption<K extends OptionName> = (item: Mutable<SubmitItem>, checked: CheckedOption<K>) => void;

/** How each option changes the item. Other options are read elsewhere. */
const PUT: { readonly [K in OptionName]?: PutOption<K> } = {
  name(item, name) {
    item.name = name;
  },
  key(item, key) {
    item.key = key;
  },
  queue(item, queue) {
    item.queue = queue;
  },
  priority(item, priority) {
    item.priority = priority;
  },
  delay(item, ms) {
    item.delayMs = ms;
  },
  runAt(item, at) {
    item.runAt = at;
  },
  tags(item, tags) {
    item.tags = tags;
  },
  timeout(item, ms) {
    item.timeoutMs = ms;
  },
  expireIn(item, ms) {
    item.expireInMs = ms;
  },
  deadline(item, at) {
    item.deadlineAt = at;
  },
  retry(item, retry) {
    item.policy = resolved(retry);
  },
  labels(item, labels) {
    item.labels = item.labels === undefined ? labels : { ...labels, ...item.labels };
  },
  resources(item, resources) {
    item.labels = { ...item.labels, ...resourceLabels(resources) };
  },
  annotations(item, annotations) {
    item.annotations = annotations;
  },
  parent(item, id) {
    item.parent = { id, attempt: null };
  },
  upload(item, id) {
    item.upload = id;
  },
};

function putOption(item: Mutable<SubmitItem>, name: OptionName, checked: unknown): void {
  PUT[name]?.(item, checked as never);
}

const TASK_OPTIONS: ReadonlySet<string> = new Set(TASK_OPTION_NAMES);

function isTaskOption(name: OptionName): name is (typeof TASK_OPTION_NAMES)[number] {
  return TASK_OPTIONS.has(name);
}

/** Sets the options that the task, or what workers publish for its kind, has and the submit does not. The policy is resolved
 *  elsewhere. */
export function putDefaults(item: Mutable<SubmitItem>, defaults: TaskValues, given: TaskValues): void {
  for (const [name, checked] of checkedDefaults(defaults))
    if (given[name] === undefined) putOption(item, name, checked);
}

type CheckedDefaults = readonly (readonly [keyof TaskValues, unknown])[];
const defaultsOfTasks = new WeakMap<TaskValues, CheckedDefaults>();

/** A task's options are checked once, not for each of its jobs. */
function checkedDefaults(defaults: TaskValues): CheckedDefaults {
  let checked = defaultsOfTasks.get(defaults);
  if (checked === undefined) {
    const names = TASK_OPTION_NAMES.filter((name) => name !== "retry" && defaults[name] !== undefined);
    checked = names.map((name) => [name, SUBMIT_OPTIONS[name].check(defaults[name], `submit.${name}`)] as const);
    defaultsOfTasks.set(defaults, checked);
  }
  return checked;
}

/** Most submits have none of these options: then the sources depend on the task alone, and are made once. */
function addSources(
  item: Mutable<SubmitItem>,
  taskOptions: TaskOptions | undefined,
  given: TaskValues | null,
  named: SubmitOptions["sources"],
): void {
  if (given === null) {
    if (taskOptions !== undefined) item.sources = taskSources(taskOptions);
    else if (!isBuiltin(item.kind)) item.open = NOTHING_GIVEN;
    return;
  }
  item.sources = toSources(chosenValues(given, taskOptions ?? NO_OPTIONS, named).from);
  if (taskOptions === undefined && !isBuiltin(item.kind))
    item.open = named === undefined ? { given } : { given, named };
}

const NOTHING_GIVEN = Object.freeze({ given: NO_OPTIONS });
const sourcesOfTasks = new WeakMap<TaskOptions, PolicySources | null>();

function taskSources(options: TaskOptions): PolicySources | null {
  let sources = sourcesOfTasks.get(options);
  if (sources === undefined) {
    sources = toSources(chosenValues(NO_OPTIONS, options).from);
    sourcesOfTasks.set(options, sources);
  }
  return sources;
}

const taskPolicies = new WeakMap<AnyTask, Policy>();

/** A task's policy. Checks the task's options, once. */
export function policyOf(task: AnyTask): Policy {
  let policy = taskPolicies.get(task);
  if (policy === undefined) {
    checkTask(task.kind, task.options);
    policy = resolvePolicy(task.options.retry, `task ${task.kind}: retry`);
    taskPolicies.set(task, policy);
  }
  return policy;
}

const TASK_KEYS = [...TASK_OPTION_NAMES, "schema"];

export function checkTask(kind: string, options: TaskOptions): void {
  const path = `task ${kind}`;
  checkKeys(options, TASK_KEYS, path);
  for (const name of TASK_OPTION_NAMES) {
    if (options[name] !== undefined) SUBMIT_OPTIONS[name].check(options[name], `${path}: ${name}`);
  }
}

const inputPolicies = new WeakMap<object, Policy>();

/** An object that is passed repeatedly, as in a loop of submits, is resolved once. */
function resolved(input: PolicyInput): Policy {
  if (typeof input !== "object" || input === null) return resolvePolicy(input, "submit.retry");
  let policy = inputPolicies.get(input);
  if (policy === undefined) {
    policy = resolvePolicy(input, "submit.retry");
    if (Object.isFrozen(input)) inputPolicies.set(input, policy);
  }
  return policy;
}

/** Converts a submit of the library: kind and defaults from its task, its input as text. */
export function toItem(entry: SubmitEntry, namespace: string): SubmitItem {
  const { task, input, options = NO_OPTIONS } = checkEntry(entry);
  const required = checkBuiltin(task, input, (options as SubmitOptions | null)?.upload); // options are checked below
  const payload = toPayload(input);
  if (typeof task === "string") return toSubmitItem({ kind: task, payload, options, namespace, required });
  const { kind, options: taskOptions } = task;
  return toSubmitItem({ kind, payload, options, namespace, required, taskOptions, policy: policyOf(task) });
}
