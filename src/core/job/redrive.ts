/** The terms that a redrive may change: the retry policy, time limits, priority and budget. Input, queue and labels never
 *  change: a job with others is another job (`resubmit`). */

import { asInteger, asObject, checkOptions, deepFreeze } from "../check.ts";
import { showBackoff } from "../decision/backoff.ts";
import { type Amount, hasBudget, raised } from "../decision/budget.ts";
import { asSpan, type Duration, showMs, toInstant } from "../duration.ts";
import { ConfigError } from "../errors.ts";
import { quoted, showAt, showText } from "../format.ts";
import { asGrant, REDRIVE_KEYS } from "../input/submit-check.ts";
import type { Backoff, Policy, PolicyFields, PolicyInput } from "../policy/policy.ts";
import { toPolicyInput, withPolicyFields } from "../policy/policy-input.ts";
import { resolvePolicy } from "../policy/resolve-policy.ts";
import type { Job } from "./job.ts";

/** Changes of a redrive. Terms that are not named stay as they are.
 *  @example
 *  const changes: RedriveChanges = { timeout: "2h", retry: 9 };
 *  await perdure.redrive(job.id, changes); */
export interface RedriveChanges {
  /** Fields of the retry policy that replace those of the job. A preset replaces the whole policy. */
  retry?: PolicyInput;
  /** How long one attempt may take. */
  timeout?: Duration;
  /** 0 (first) to 9. */
  priority?: number;
  /** How long it may be due without being started. */
  expireIn?: Duration;
  /** No attempt may start after this instant. */
  deadline?: Date | number;
  /** The amount to add to every budget that covers the job. */
  budget?: { tokens?: number; costUsd?: number };
}

/** The checked changes, as part of a command.
 *  @example
 *  const changes: RedriveTerms = { timeoutMs: 7_200_000 };
 *  decideCommand(running, { kind: "redrive", changes }, Date.now()); */
export interface RedriveTerms {
  readonly retry?: PolicyFields;
  readonly timeoutMs?: number;
  readonly priority?: number;
  readonly expireInMs?: number;
  readonly deadlineAt?: number;
  readonly budget?: Partial<Amount>;
}

/** The fields of a job that a redrive may change.
 *  @example
 *  const termsOf = ({ policy, timeoutMs, priority, expireInMs, deadlineAt }: Job): JobTerms => ({
 *    ...{ policy, timeoutMs, priority, expireInMs, deadlineAt },
 *  }); */
export type JobTerms = Pick<Job, "policy" | "timeoutMs" | "priority" | "expireInMs" | "deadlineAt">;

/** The changed terms in an event: their new values, and the changed fields of the policy.
 *  @example
 *  const changed: ChangedTerms = { timeoutMs: 7_200_000 }; */
export interface ChangedTerms extends Partial<Omit<JobTerms, "policy">> {
  readonly policy?: Partial<Policy>;
}

/** Checks names and values. Whether the policy can be merged with that of the job is checked by `redrivenTerms`. */
export function toRedriveTerms(changes: RedriveChanges, path = "redrive"): RedriveTerms {
  checkOptions(changes, REDRIVE_KEYS, path);
  const { retry, timeout, priority, expireIn, deadline, budget } = changes;
  return {
    ...(retry === undefined ? {} : { retry: fieldsOf(retry, `${path}.retry`) }),
    ...(timeout === undefined ? {} : { timeoutMs: asSpan(timeout, `${path}.timeout`) }),
    ...(priority === undefined ? {} : { priority: asInteger(priority, `${path}.priority`, { min: 0, max: 9 }) }),
    ...(expireIn === undefined ? {} : { expireInMs: asSpan(expireIn, `${path}.expireIn`) }),
    ...(deadline === undefined ? {} : { deadlineAt: toInstant(deadline, `${path}.deadline`) }),
    ...(budget === undefined ? {} : { budget: asGrant(budget, `${path}.budget`) }),
  };
}

/** A number alone is `maxAttempts`, as in a submit; false is one attempt. */
function fieldsOf(retry: PolicyInput, path: string): PolicyFields {
  resolvePolicy(retry, path);
  if (typeof retry === "number") return { maxAttempts: retry };
  return retry === false ? { maxAttempts: 1 } : (asObject(retry, path) as PolicyFields);
}

/** The terms of the job after the redrive, or the error as text. */
export function redrivenTerms(job: JobTerms, { retry, budget, ...others }: RedriveTerms): JobTerms | string {
  const { timeoutMs, priority, expireInMs, deadlineAt } = { ...job, ...others };
  const terms = { timeoutMs, priority, expireInMs, deadlineAt };
  const more = (policy: Policy) => (budget === undefined || !hasBudget(policy) ? policy : withGrant(policy, budget));
  if (retry === undefined) return { policy: more(job.policy), ...terms };
  try {
    return { policy: more(resolvePolicy(withPolicyFields(toPolicyInput(job.policy), retry))), ...terms };
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
}

function withGrant(policy: Policy, budget: Partial<Amount>): Policy {
  return deepFreeze({ ...policy, budget: { ...policy.budget, ...raised(policy.budget, budget) } });
}

const PLAIN = ["timeoutMs", "priority", "expireInMs", "deadlineAt"] as const;

/** The terms that changed; null where none did. */
export function changedTerms(before: JobTerms, after: JobTerms): ChangedTerms | null {
  const isOther = (name: keyof Policy) => JSON.stringify(after.policy[name]) !== JSON.stringify(before.policy[name]);
  const fields = (Object.keys(after.policy) as (keyof Policy)[]).filter(isOther);
  const changed: Record<string, unknown> = Object.fromEntries(
    PLAIN.filter((name) => after[name] !== before[name]).map((name) => [name, after[name]]),
  );
  if (fields.length > 0) changed.policy = Object.fromEntries(fields.map((name) => [name, after.policy[name]]));
  return Object.keys(changed).length === 0 ? null : changed;
}

/** `maxAttempts 1, timeout 1 s`, for a sentence. */
export function showTerms({ policy = {}, timeoutMs, priority, expireInMs, deadlineAt }: ChangedTerms): string {
  const span = (name: string, ms: number | null | undefined) => (ms == null ? [] : [`${name} ${showMs(ms)}`]);
  return [
    ...Object.entries(policy).map(([name, value]) =>
      name === "backoff" && policy.backoff !== undefined
        ? `backoff (${showBackoff(policy.backoff)}${showSpread(policy.backoff)})`
        : showField(name, value),
    ),
    ...span("timeout", timeoutMs),
    ...(priority === undefined ? [] : [`priority ${priority}`]),
    ...span("expireIn", expireInMs),
    ...(deadlineAt == null ? [] : [`deadline ${showAt(deadlineAt)}`]),
  ].join(", ");
}

/** What `showBackoff` leaves out, and a redrive may have changed. */
function showSpread(backoff: Backoff): string {
  if (backoff.type === "none") return "";
  const jitter = backoff.jitter === 0 ? "" : `, jitter ${Math.round(backoff.jitter * 100)} %`;
  return `${jitter}${backoff.minMs > 0 ? `, at least ${showMs(backoff.minMs)}` : ""}`;
}

function showField(name: string, value: unknown): string {
  if (name.endsWith("Ms") && typeof value === "number") return `${name.slice(0, -2)} ${showMs(value)}`;
  return `${name} ${typeof value === "string" ? quoted(value) : showText(JSON.stringify(value))}`;
}
