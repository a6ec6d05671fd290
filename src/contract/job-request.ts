/** What a submit says, made into the text of a request. The input is put into it as the JSON that an engine in this process
 *  would store, so that it is the same, byte for byte, wherever it is submitted. Spelling and plain values are checked here,
 *  with the same words as there; policies, and inputs of commands and requests, are checked by the server. */

import { checkEntry } from "../core/api.ts";
import { asInteger, checkOptions, fieldPath, isPlain } from "../core/check.ts";
import { asSpan, toInstant, toMs } from "../core/duration.ts";
import { ConfigError } from "../core/errors.ts";
import { asGrant, checkSubmit, REDRIVE_KEYS, toPayload } from "../core/input/submit-check.ts";
import type { RedriveChanges } from "../core/job/redrive.ts";
import { chosenValues } from "../core/policy/policy-sources.ts";
import type { SubmitEntry, SubmitOptions, TaskOptions } from "../core/task/task.ts";
import { NO_INPUT } from "../core/worker-protocol.ts";

const NO_OPTIONS: SubmitOptions & TaskOptions = Object.freeze({});

/** The JSON text of one job to be submitted. */
export function toRequest(given: SubmitEntry): string {
  const { task, input, options = NO_OPTIONS } = checkEntry(given);
  const [kind, defaults] = typeof task === "string" ? [task, NO_OPTIONS] : [task.kind, task.options];
  const payload = toPayload(input);
  checkSubmit(options);
  refuseClient((options as SubmitOptions).client, "submit.client");
  // An option that was given as undefined counts as not given.
  const { retry = defaults.retry, queue = defaults.queue, priority = defaults.priority } = options;
  const { timeout = defaults.timeout, expireIn = defaults.expireIn, runAt, deadline } = options;
  const { key, delay, tags, labels, resources, annotations, name } = options;
  const { parent, upload } = options as SubmitOptions;
  const sources = saidSources(options, defaults);
  if (delay !== undefined) toMs(delay, "submit.delay");
  if (timeout !== undefined) asSpan(timeout, "submit.timeout");
  if (expireIn !== undefined) asSpan(expireIn, "submit.expireIn");
  checkPlain(retry, "submit.retry");
  checkPlain(labels, "submit.labels");
  checkPlain(annotations, "submit.annotations");
  const request = {
    ...{
      kind,
      name,
      key,
      queue,
      priority,
      delay,
      tags,
      timeout,
      expireIn,
      retry,
      labels,
      resources,
      annotations,
      parent,
      upload,
    },
    ...(sources === null ? {} : { sources }),
    runAt: runAt === undefined ? undefined : toInstant(runAt, "submit.runAt"),
    deadline: deadline === undefined ? undefined : toInstant(deadline, "submit.deadline"),
  };
  const text = JSON.stringify(request);
  return payload === NO_INPUT ? text : `${text.slice(0, -1)},"input":${payload}}`;
}

/** What a redrive changes, as the server takes it. */
export function toRedriveRequest(changes: RedriveChanges, path: string): object {
  checkOptions(changes, REDRIVE_KEYS, path);
  const { retry, timeout, priority, expireIn, deadline, budget } = changes;
  if (timeout !== undefined) asSpan(timeout, `${path}.timeout`);
  if (expireIn !== undefined) asSpan(expireIn, `${path}.expireIn`);
  if (priority !== undefined) asInteger(priority, `${path}.priority`, { min: 0, max: 9 });
  checkPlain(retry, `${path}.retry`);
  const at = deadline === undefined ? undefined : toInstant(deadline, `${path}.deadline`);
  if (budget !== undefined) asGrant(budget, `${path}.budget`);
  return { retry, timeout, priority, expireIn, deadline: at, budget };
}

/** A server sees one list of values: it is told which of them are the task's. */
function saidSources(options: SubmitOptions & TaskOptions, defaults: TaskOptions): Record<string, string> | null {
  const { retry, timeout, expireIn, queue, priority, sources } = options;
  const given = { retry, timeout, expireIn, queue, priority } as TaskOptions;
  const said = Object.entries(chosenValues(given, defaults, sources).from).filter(([, source]) => source !== "submit");
  return said.length === 0 ? null : Object.fromEntries(said);
}

const MAX_DEPTH = 20;

/** Nothing may get lost on the way: JSON leaves out a function without a word, and makes null of Infinity. */
function checkPlain(value: unknown, path: string, depth = 0): void {
  if (value === undefined || value === null || typeof value === "boolean" || typeof value === "string") return;
  if (typeof value === "number" && Number.isFinite(value)) return;
  if (depth < MAX_DEPTH && Array.isArray(value)) {
    for (const [i, item] of value.entries()) checkPlain(item, `${path}[${i}]`, depth + 1);
  } else if (depth < MAX_DEPTH && isPlain(value)) {
    for (const [key, field] of Object.entries(value)) checkPlain(field, fieldPath(path, key), depth + 1);
  } else {
    throw new ConfigError({ path, given: value, allowed: "what JSON can say" });
  }
}

export function refuseClient(client: unknown, path: string): void {
  if (client === undefined) return;
  const allowed = "nothing: a server cannot take part in a transaction of yours";
  throw new ConfigError({ path, given: "a client", allowed });
}
