/** From the rules people write to those that are stored: every condition a list or null, statuses as ranges, signals
 *  by their full names, message parts in lower case, so that matching is plain comparison. */
import { asInteger, asList, asObject, asOneOf, asText, fieldPath, nearest, reader } from "./check.ts";
import { ConfigError } from "./errors.ts";
import { FAILURE_KINDS, type FailureKind } from "./failure.ts";
import type { Rule, RuleCondition } from "./policy.ts";
import { type BackoffContext, MAX_COUNT, resolveBackoff } from "./resolve-backoff.ts";

export const MAX_RULES = 100;
const MAX_LIST = 100;
const MAX_PART = 200;

const RULE_FIELDS = ["if", "then", "maxRetries", "backoff"] as const;
const VERDICTS = ["retry", "fail", "defer"] as const;
const CONDITIONS = ["kind", "exitCode", "signal", "error", "message", "status", "attempt"] as const;
/** A lost worker is no failure of the job: `workerLost` rules there. */
const KINDS = FAILURE_KINDS.filter((kind) => kind !== "lost");

/** All that Linux, macOS, the BSDs and Windows under Node report, without their SIG. */
const SIGNALS: readonly string[] = (
  "HUP INT QUIT ILL TRAP ABRT IOT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM CHLD STKFLT CONT STOP TSTP TTIN TTOU URG " +
  "XCPU XFSZ VTALRM PROF WINCH IO POLL LOST PWR SYS INFO EMT BREAK"
).split(" ");

export function resolveRule(value: unknown, path: string, context: BackoffContext): Rule {
  const fields = asObject(value, path, RULE_FIELDS);
  const read = reader(fields, path);
  const condition = resolveCondition(fields.if, fieldPath(path, "if"));
  const verdict = asOneOf(fields.then, VERDICTS, fieldPath(path, "then"));
  for (const field of ["maxRetries", "backoff"] as const) {
    if (verdict !== "fail" || fields[field] === undefined) continue;
    const problem = `"${field}" says nothing where the rule fails the job`;
    throw new ConfigError({ path: fieldPath(path, field), given: fields[field], allowed: "no such field", problem });
  }
  return {
    if: condition,
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
    then: verdict,
    maxRetries: read("maxRetries", (given, at) => asInteger(given, at, { min: 0, max: MAX_COUNT }), null),
    backoff: read("backoff", (given, at) => resolveBackoff(given, at, context), null),
  };
}

function resolveCondition(value: unknown, path: string): RuleCondition {
  const fields = asObject(value, path, CONDITIONS);
  if (CONDITIONS.every((name) => fields[name] === undefined)) {
    // It would match every failure, and is more often a slip than meant; `kind` can list them all.
    throw new ConfigError({ path, given: value, allowed: `at least one of ${CONDITIONS.join(", ")}` });
  }
  const read = reader(fields, path);
  return {
    kind: read("kind", many(asKind), null),
    exitCode: read("exitCode", many(asExitCode), null),
    signal: read("signal", many(asSignal), null),
    error: read("error", many(asErrorName), null),
    message: read("message", many(asMessagePart), null),
    status: read("status", many(asStatusRange), null),
    attempt: read("attempt", many(asAttempt), null),
  };
}

type Check<T> = (value: unknown, path: string) => T;

/** One, or a list of at least one: an empty list would match nothing, ever. */
function many<T>(check: Check<T>): Check<T[]> {
  return (value, path) => (Array.isArray(value) ? asList(value, path, check, MAX_LIST, 1) : [check(value, path)]);
}

export function asExitCodes(value: unknown, path: string): number[] {
  return asList(value, path, asExitCode, MAX_LIST);
}

export function asMessageParts(value: unknown, path: string): string[] {
  return asList(value, path, asMessagePart, MAX_LIST);
}

function asKind(value: unknown, path: string): FailureKind {
  return asOneOf(value, KINDS, path);
}

function asExitCode(value: unknown, path: string): number {
  return asInteger(value, path, { min: 0, max: 255 });
}

function asErrorName(value: unknown, path: string): string {
  return asText(value, path, MAX_PART);
}

function asMessagePart(value: unknown, path: string): string {
  return asText(value, path, MAX_PART).toLowerCase();
}

function asAttempt(value: unknown, path: string): number {
  return asInteger(value, path, { min: 1, max: MAX_COUNT });
}

/** `"KILL"`, `"sigkill"` and `"SIGKILL"` are the same. */
function asSignal(value: unknown, path: string): string {
  const name = typeof value === "string" ? value.trim().toUpperCase().replace(/^SIG/, "") : "";
  if (SIGNALS.includes(name)) return `SIG${name}`;
  const near = nearest(name, SIGNALS);
  const allowed = "a signal such as SIGKILL, SIGTERM or SIGSEGV";
  throw new ConfigError({ path, given: value, allowed, nearest: near && `SIG${near}` });
}

/** `503`, `"503"`, `"5xx"` or `"500-504"` as an inclusive range. */
function asStatusRange(value: unknown, path: string): readonly [number, number] {
  const text = typeof value === "number" || typeof value === "string" ? String(value).trim() : "";
  const [, hundreds, from, to] = /^(?:([1-5])xx|([1-5]\d\d)(?:\s*-\s*([1-5]\d\d))?)$/i.exec(text) ?? [];
  if (hundreds !== undefined) return [Number(hundreds) * 100, Number(hundreds) * 100 + 99];
  const low = Number(from);
  const high = Number(to ?? from);
  // A text that did not match gives NaN here, which is in no order.
  if (low <= high) return [low, high];
  throw new ConfigError({ path, given: value, allowed: '100 to 599, "5xx", or a range like "500-504"' });
}
