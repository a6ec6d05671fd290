/** What a submit says, in people's words, made into what the engine takes: options checked, durations and instants in
 *  milliseconds, the policy resolved. For the library and for a server. It does not look into the payload: that is JSON
 *  text already, and `submit` checks its size. */
import { exec, http } from "../core/builtin.ts";
import { asInteger, asText, checkKeys } from "../core/check.ts";
import { asSpan, toMs } from "../core/duration.ts";
import { ConfigError } from "../core/errors.ts";
import { toInstant } from "../core/instant.ts";
import type { Mutable } from "../core/mutable.ts";
import type { Policy, PolicyInput } from "../core/policy.ts";
import { chosenValues, type PolicySources, toSources, type Wish } from "../core/policy-sources.ts";
import { resolvePolicy } from "../core/resolve-policy.ts";
import { RESOURCE_PREFIX, resourceLabels, toResources } from "../core/resources.ts";
import { checkSubmit } from "../core/submit-check.ts";
import type { SubmitOptions } from "../core/submit-options.ts";
import type { AnyTask, TaskOptions } from "../core/task.ts";
import type { SubmitItem } from "./submit.ts";

export interface SubmitRequest {
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
  const given: Mutable<Wish> = {};
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
