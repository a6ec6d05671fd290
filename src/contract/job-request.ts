/** Builds the JSON text of a submit. The input is included as the JSON that an engine in this process would store, so that it is
 *  the same, byte for byte, wherever it is submitted. Names of options and plain values are checked here, with the same messages as
 *  there; policies, and inputs of commands and requests, are checked by the server. */

import { checkEntry } from "../core/api/jobs.ts";
import { asInteger, checkOptions, fieldPath, isPlain } from "../core/check.ts";
import { asSpan, toInstant } from "../core/duration.ts";
import { ConfigError } from "../core/errors.ts";
import { asGrant, REDRIVE_KEYS, toPayload } from "../core/input/submit-check.ts";
import type { RedriveChanges } from "../core/job/redrive.ts";
import { chosenValues } from "../core/policy/policy-sources.ts";
import {
  eachOption,
  type OptionName,
  SUBMIT_OPTIONS,
  type SubmitOptions,
  TASK_OPTION_NAMES,
} from "../core/task/submit-options.ts";
import type { SubmitEntry, TaskOptions } from "../core/task/task.ts";
import { NO_INPUT } from "../core/worker-protocol.ts";

const NO_OPTIONS: SubmitOptions & TaskOptions = Object.freeze({});

/** The JSON text of one submitted job. */
export function toRequest(given: SubmitEntry): string {
  const { task, input, options = NO_OPTIONS } = checkEntry(given);
  const [kind, defaults] = typeof task === "string" ? [task, NO_OPTIONS] : [task.kind, task.options];
  const payload = toPayload(input);
  const request: Record<string, unknown> = { kind };
  eachOption(options, (name, checked) => {
    if (name === "client") refuseClient(checked, "submit.client");
    if (name !== "sources") request[name] = toWire(name, options[name as keyof typeof options], checked);
  });
  for (const name of TASK_OPTION_NAMES) {
    const value = defaults[name];
    if (value === undefined || request[name] !== undefined) continue;
    request[name] = toWire(name, value, SUBMIT_OPTIONS[name].check(value, `submit.${name}`));
  }
  const sources = namedSources(options, defaults);
  if (sources !== null) request.sources = sources;
  const text = JSON.stringify(request);
  return payload === NO_INPUT ? text : `${text.slice(0, -1)},"input":${payload}}`;
}

/** The value as given, except a Date. */
function toWire(name: OptionName, value: unknown, checked: unknown): unknown {
  if (value instanceof Date) return checked;
  checkPlain(value, `submit.${name}`);
  return value;
}

/** The changes of a redrive in the form of a request. */
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

/** A server receives one list of values; this names those that are the task's. */
function namedSources(options: SubmitOptions, defaults: TaskOptions): Record<string, string> | null {
  const { from } = chosenValues(options, defaults, options.sources);
  const named = Object.entries(from).filter(([, source]) => source !== "submit");
  return named.length === 0 ? null : Object.fromEntries(named);
}

const MAX_DEPTH = 20;

/** Refuses values that JSON would drop or change: it omits a function silently, and turns Infinity into null. */
function checkPlain(value: unknown, path: string, depth = 0): void {
  if (value === undefined || value === null || typeof value === "boolean" || typeof value === "string") return;
  if (typeof value === "number" && Number.isFinite(value)) return;
  if (depth < MAX_DEPTH && Array.isArray(value)) {
    for (const [i, item] of value.entries()) checkPlain(item, `${path}[${i}]`, depth + 1);
  } else if (depth < MAX_DEPTH && isPlain(value)) {
    for (const [key, field] of Object.entries(value)) checkPlain(field, fieldPath(path, key), depth + 1);
  } else {
    throw new ConfigError({ path, given: value, allowed: "a JSON value" });
  }
}

export function refuseClient(client: unknown, path: string): void {
  if (client === undefined) return;
  const allowed = "left out: a server cannot take part in your transaction";
  throw new ConfigError({ path, given: "a client", allowed });
}
