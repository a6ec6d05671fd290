/** Attune's retries: the configuration in seconds, as in its files and its `RetryConfig`, the policy made from it, and
 *  the reason of a retry. Which failures are retriable is in preset `attune`. */
import { asBoolean, asInteger, asNumber, asObject, reader } from "../../core/check.ts";
import { matchLine, matchPart } from "../../core/decision/match.ts";
import { findPart } from "../../core/decision/message-parts.ts";
import { MAX_DURATION_MS } from "../../core/duration.ts";
import type { RetryRecord } from "../../core/explain/decision-text.ts";
import type { PolicyFields } from "../../core/policy/policy.ts";
import type { AttuneRetrySettings } from "./settings.ts";

/** The values of one place; missing ones come from the next: the action's, then the pack's, then the global ones. */
export interface AttuneRetryFields extends Partial<AttuneRetrySettings> {
  /** Besides the first attempt. */
  readonly maxRetries?: number;
}

const KEYS = [
  ...(["max_retries", "enabled", "base_backoff_secs", "max_backoff_secs"] as const),
  ...(["backoff_multiplier", "jitter_factor"] as const),
];

export const MAX_RETRIES = 100;
const MAX_SECS = MAX_DURATION_MS / 1_000;
/** As in a policy. */
const MAX_MULTIPLIER = 1_000;

export function readRetry(value: unknown, path: string): AttuneRetryFields {
  const read = reader(asObject(value, path, KEYS), path);
  const secs = (given: unknown, at: string) => asNumber(given, at, { min: 0, max: MAX_SECS });
  const words = {
    maxRetries: read("max_retries", asRetries, undefined),
    enabled: read("enabled", asBoolean, undefined),
    baseBackoffSecs: read("base_backoff_secs", secs, undefined),
    maxBackoffSecs: read("max_backoff_secs", secs, undefined),
    backoffMultiplier: read(
      "backoff_multiplier",
      (n, at) => asNumber(n, at, { min: 1, max: MAX_MULTIPLIER }),
      undefined,
    ),
    jitterFactor: read("jitter_factor", (n, at) => asNumber(n, at, { min: 0, below: 1 }), undefined),
  };
  return Object.fromEntries(Object.entries(words).filter(([, given]) => given !== undefined));
}

export function asRetries(value: unknown, path: string): number {
  return asInteger(value, path, { min: 0, max: MAX_RETRIES });
}

/** The effective values for an action. Without `max_retries` there are none: "default: 0". */
export type RetryInForce = AttuneRetrySettings & { readonly maxRetries: number };

/** The first in the list that has a field wins. */
export function retryInForce(...words: readonly [...AttuneRetryFields[], AttuneRetrySettings]): RetryInForce {
  return Object.assign({ maxRetries: 0 }, ...[...words].reverse()) as RetryInForce;
}

/** `max_retries` does not count the first attempt, `maxAttempts` does. If retries are disabled there are none, not
 *  even after a lost worker. */
export function retryPolicy(retry: RetryInForce): PolicyFields {
  if (!retry.enabled) return { preset: "attune", atMostOnce: true };
  return {
    preset: "attune",
    maxAttempts: retry.maxRetries + 1,
    backoff: {
      type: "exponential",
      initial: Math.round(retry.baseBackoffSecs * 1_000),
      factor: retry.backoffMultiplier,
      max: Math.round(retry.maxBackoffSecs * 1_000),
      jitter: retry.jitterFactor,
    },
  };
}

type AttuneRetrySource = "action" | "pack" | "settings";

/** The source of each field of the policy. For a backoff, whose parts may have several sources, the first place that
 *  sets a part. */
export function retrySources(
  inForce: RetryInForce,
  action: AttuneRetryFields,
  pack: AttuneRetryFields,
): Record<string, AttuneRetrySource> {
  const says = (place: AttuneRetryFields, names: readonly (keyof AttuneRetryFields)[]) =>
    names.some((name) => place[name] !== undefined);
  const sourceOf = (...names: (keyof AttuneRetryFields)[]): AttuneRetrySource =>
    says(action, names) ? "action" : says(pack, names) ? "pack" : "settings";
  if (!inForce.enabled) return { atMostOnce: sourceOf("enabled") };
  return {
    maxAttempts: sourceOf("maxRetries"),
    backoff: sourceOf("baseBackoffSecs", "maxBackoffSecs", "backoffMultiplier", "jitterFactor"),
  };
}

export type RetryReason =
  | "worker_unavailable"
  | "queue_timeout"
  | "worker_heartbeat_stale"
  | "transient_error"
  | "manual_retry"
  | "unknown";

/** Parts of messages, in lower case, and their meaning. The first match wins: "Execution timeout: worker did not pick
 *  up task" is about the queue. */
const SAID: readonly (readonly [RetryReason, readonly string[]])[] = [
  ["queue_timeout", ["queue ttl expired", "worker did not pick up task"]],
  ["worker_unavailable", ["worker unavailable"]],
  ["worker_heartbeat_stale", ["heartbeat ... stale"]],
  ["transient_error", ["timeout", "timed out", "etimedout", "transient", "temporary", "temporarily"]],
  ["transient_error", ["connection refused", "connection reset", "econnrefused", "econnreset"]],
];

/** By the error's message. */
export function reasonInText(text: string): RetryReason {
  return SAID.find(([, parts]) => findPart(text, parts) !== null)?.[0] ?? "unknown";
}

/** By how the previous execution ended, or because a person asked for another. */
export function reasonOf({ cause, match, failure }: RetryRecord): RetryReason {
  switch (cause) {
    case "redrive":
      return "manual_retry";
    case "queue_timeout":
      return "queue_timeout";
    case "lost":
      return match?.by === "loss" && match.why === "lease_expired" ? "worker_heartbeat_stale" : "worker_unavailable";
    case "timeout":
      return "transient_error";
    case "failure": {
      const found = match == null ? null : (matchLine(match) ?? matchPart(match));
      // The message, or the line with the matched pattern.
      const texts = [`${failure?.message ?? ""} ${failure?.code ?? ""}`, found ?? ""];
      const known = texts.map(reasonInText).find((reason) => reason !== "unknown");
      // A pattern of the policy's own.
      return known ?? (match?.by === "list" ? "transient_error" : "unknown");
    }
    default:
      return "unknown";
  }
}
