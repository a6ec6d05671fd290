/** Converts a submit, from the library or a server, to the item that the engine takes: options checked, durations and
 *  instants in milliseconds, the policy resolved, inputs of the built-in kinds checked. Other payloads are JSON text
 *  and are not read. */

import { checkEntry } from "../core/api.ts";
import { asInteger, asText, checkKeys, type Mutable } from "../core/check.ts";
import { asSpan, toInstant, toMs } from "../core/duration.ts";
import { ConfigError, type PerdureError } from "../core/errors.ts";
import { exec, http } from "../core/input/builtin.ts";
import { checkExecInput } from "../core/input/exec-input.ts";
import { checkHttpInput } from "../core/input/http-input.ts";
import { RESOURCE_PREFIX, resourceLabels, toResources } from "../core/input/resources.ts";
import { checkSubmit, toPayload } from "../core/input/submit-check.ts";
import type { JobState } from "../core/job/job.ts";
import type { Policy, PolicyInput } from "../core/policy/policy.ts";
import {
  chosenValues,
  type PolicySource,
  type PolicySources,
  type PolicyValues,
  toSources,
} from "../core/policy/policy-sources.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import type { AnyTask, SubmitEntry, SubmitOptions, TaskOptions } from "../core/task/task.ts";

// What a submit says, in people's words, made into what the engine takes: options checked, durations and instants in
// milliseconds, the policy resolved. For the library and for a server. It does not look into the payload: that is
// JSON text already, and `submit` checks its size.

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
  /** Of a child: its key is unique in the whole namespace, and not only among the children of its parent. */
  readonly isWideKey?: boolean;
  readonly tags?: readonly string[];
  /** Whose child it is; with an attempt, only while that one runs. Its key is then one among those of its parent. */
  readonly parent?: { readonly id: string; readonly attempt: number | null } | null;
  readonly annotations?: Readonly<Record<string, string>>;
  /** For people; left out, one is made. */
  readonly name?: string;
  /** The id of an upload, which becomes the job's. */
  readonly upload?: string;
  /** Where the values of its policy came from. */
  readonly sources?: PolicySources | null;
  /** A submit by name: what it gives. The rest is filled in from what workers publish for the kind. */
  readonly open?: { readonly given: PolicyValues; readonly said?: Readonly<Record<string, PolicySource>> } | null;
  /** Its queue is what workers publish: its key names the same job with that queue given, and with none. */
  readonly openQueue?: boolean;
  /** Whose quota its lane counts for, where that is new. */
  readonly owner?: string;
  /** Who submits it, as far as it is known: told by its first event. */
  readonly by?: string | null;
  /** The id of the token with which it is submitted, in the same event. */
  readonly token?: string;
}

export type SubmitAnswer =
  /** `created` is false when the key already named this job. */
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
  /** What holds where the options say nothing. Left out, the kind was named, and what workers publish for it holds. */
  readonly taskOptions?: TaskOptions;
  /** The policy as it was given, where it is resolved already. */
  readonly retry?: PolicyInput;
  /** That of the task, resolved; it holds where the options have none. */
  readonly policy?: Policy;
}

const NO_OPTIONS: TaskOptions = Object.freeze({});
const DEFAULT_POLICY = resolvePolicy();

export function toSubmitItem(request: SubmitRequest): SubmitItem {
  const { options, taskOptions: defaults = NO_OPTIONS, policy = DEFAULT_POLICY } = request;
  checkSubmit(options);
  // An option that was given as undefined counts as not given.
  const { queue = defaults.queue, priority = defaults.priority, timeout = defaults.timeout } = options;
  const { expireIn = defaults.expireIn, delay, runAt, deadline, key, tags, labels } = options;
  const item: Mutable<SubmitItem> = {
    kind: request.kind,
    payload: request.payload,
    policy: options.retry === undefined ? policy : resolved(options.retry),
    namespace: request.namespace,
  };
  addSources(item, request);
  if (queue !== undefined) item.queue = queue;
  if (priority !== undefined) item.priority = priority;
  if (timeout !== undefined) item.timeoutMs = asSpan(timeout, "submit.timeout");
  if (expireIn !== undefined) item.expireInMs = asSpan(expireIn, "submit.expireIn");
  if (delay !== undefined) item.delayMs = toMs(delay, "submit.delay");
  if (runAt !== undefined) item.runAt = toInstant(runAt, "submit.runAt");
  if (deadline !== undefined) item.deadlineAt = toInstant(deadline, "submit.deadline");
  if (key !== undefined) item.key = key;
  if (tags !== undefined) item.tags = tags;
  if (labels !== undefined) item.labels = checkedLabels(labels);
  const { resources, annotations, parent, name } = options;
  if (name !== undefined) item.name = name;
  if (resources !== undefined) {
    item.labels = { ...item.labels, ...resourceLabels(toResources(resources, "submit.resources")) };
  }
  if (annotations !== undefined) item.annotations = annotations;
  if (parent !== undefined) item.parent = { id: parent, attempt: null };
  if (options.upload !== undefined) item.upload = options.upload;
  return item;
}

/** Most submits give none of these: then all that is said of them is known, and made once. */
function addSources(item: Mutable<SubmitItem>, { options, taskOptions, retry = options.retry }: SubmitRequest): void {
  const { timeout, expireIn, queue, priority, sources: said } = options;
  const isBare = retry === undefined && timeout === undefined && expireIn === undefined;
  if (isBare && queue === undefined && priority === undefined) {
    if (taskOptions !== undefined) item.sources = taskSources(taskOptions);
    else if (!isBuiltin(item.kind)) item.open = NOTHING_GIVEN;
    return;
  }
  const given: Mutable<PolicyValues> = {};
  if (retry !== undefined) given.retry = retry;
  if (timeout !== undefined) given.timeout = timeout;
  if (expireIn !== undefined) given.expireIn = expireIn;
  if (queue !== undefined) given.queue = queue;
  if (priority !== undefined) given.priority = priority;
  item.sources = toSources(chosenValues(given, taskOptions ?? NO_OPTIONS, said).from);
  if (taskOptions === undefined && !isBuiltin(item.kind)) item.open = said === undefined ? { given } : { given, said };
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

/** Commands and requests are run by workers of ours, who have no defaults for them. */
function isBuiltin(kind: string): boolean {
  return kind === exec.kind || kind === http.kind;
}

function checkedLabels(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const reserved = Object.keys(labels).find((name) => name.startsWith(RESOURCE_PREFIX));
  if (reserved === undefined) return labels;
  const allowed = `names that do not begin with ${RESOURCE_PREFIX}; say it with resources`;
  throw new ConfigError({ path: "submit.labels", given: reserved, allowed });
}

const taskPolicies = new WeakMap<AnyTask, Policy>();

/** A task's policy, with the task's options checked: once. */
export function policyOf(task: AnyTask): Policy {
  let policy = taskPolicies.get(task);
  if (policy === undefined) {
    checkTask(task.kind, task.options);
    policy = resolvePolicy(task.options.retry, `task ${task.kind}: retry`);
    taskPolicies.set(task, policy);
  }
  return policy;
}

const TASK_KEYS = ["retry", "timeout", "queue", "priority", "expireIn", "schema"];

export function checkTask(kind: string, options: TaskOptions): void {
  const path = `task ${kind}`;
  checkKeys(options, TASK_KEYS, path);
  if (options.timeout !== undefined) asSpan(options.timeout, `${path}: timeout`);
  if (options.expireIn !== undefined) asSpan(options.expireIn, `${path}: expireIn`);
  if (options.queue !== undefined) asText(options.queue, `${path}: queue`, 200);
  if (options.priority !== undefined) asInteger(options.priority, `${path}: priority`, { min: 0, max: 9 });
}

const inputPolicies = new WeakMap<object, Policy>();

/** The same object given again, as in a loop of submits, is resolved once. */
function resolved(input: PolicyInput): Policy {
  if (typeof input !== "object" || input === null) return resolvePolicy(input, "submit.retry");
  let policy = inputPolicies.get(input);
  if (policy === undefined) {
    policy = resolvePolicy(input, "submit.retry");
    if (Object.isFrozen(input)) inputPolicies.set(input, policy);
  }
  return policy;
}

// The inputs of the built-in kinds, checked at submit: a mistake in a command or a request is told where it is
// submitted, not hours later where it would run.

/** Of a task, or a kind by its name. A task of the user's own may have the name of a built-in kind, and any input. */
export function checkBuiltin(task: AnyTask | string, input: unknown, upload?: string): void {
  if (typeof task === "string") checkBuiltinKind(task, input, upload);
  else if (task === exec || task === http) checkBuiltinKind(task.kind, input, upload);
  else if (upload !== undefined) throw uploadMisplaced(upload);
}

/** Of a kind by its name: who knows no more can mean only the built-in one. */
export function checkBuiltinKind(kind: string, input: unknown, upload?: string): void {
  if (kind === http.kind) checkHttpInput(input, "http");
  const stdinFile = kind === exec.kind ? checkExecInput(input, "exec").stdinFile : null;
  if (stdinFile === null && upload !== undefined) throw uploadMisplaced(upload);
  if (stdinFile === null || upload !== undefined) return;
  const problem = "the bytes of its standard input belong to another job, or were not uploaded";
  const allowed = "together with upload: upload them, and submit with the id of the upload";
  throw new ConfigError({ path: "exec.stdinFile", given: stdinFile.sha256, problem, allowed });
}

function uploadMisplaced(upload: string): ConfigError {
  const allowed = "only with a command whose input has stdinFile";
  return new ConfigError({ path: "submit.upload", given: upload, allowed });
}

// What a submit of the library says, made into what the engine takes: the kind and defaults of its task, its input as
// text.

const NO_ENTRY_OPTIONS: SubmitOptions = Object.freeze({});

export function toItem(entry: SubmitEntry, namespace: string): SubmitItem {
  const { task, input, options = NO_ENTRY_OPTIONS } = checkEntry(entry);
  checkBuiltin(task, input, (options as SubmitOptions | null)?.upload); // options are checked below
  const payload = toPayload(input);
  if (typeof task === "string") return toSubmitItem({ kind: task, payload, options, namespace });
  const { kind, options: taskOptions } = task;
  return toSubmitItem({ kind, payload, options, namespace, taskOptions, policy: policyOf(task) });
}
