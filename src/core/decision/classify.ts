/** Classifies a failure by the policy: whether it may be retried at all, and which rule, list or condition decides. Limits and
 *  delays are for `decide`. Pure, and never throws: an error in a condition means no retry. */
import { evaluateCondition } from "../expression/expression.ts";
import type { FailReason, Job } from "../job/job.ts";
import type { Policy, Rule } from "../policy/policy.ts";
import { type Failure, failure } from "./failure.ts";
import { findInLines } from "./line-phrases.ts";
import { listMatch, type Match, presetMatch, ruleMatch } from "./match.ts";
import { type FoundPart, findPart, findWord } from "./message-parts.ts";
import type { Outcome } from "./outcome.ts";
import { lineList, unknownLists } from "./phrase-lists.ts";

/** An outcome that may be a failure.
 *  @example
 *  const cause = failure({ kind: "exit", message: "exit code 7", exitCode: 7 });
 *  const outcome: FailureOutcome = { kind: "failed", failure: cause }; */
export type FailureOutcome = Extract<Outcome, { kind: "completed" | "failed" | "timeout" | "queue_timeout" }>;

/** Whether a failure may be retried, and by which part of the policy.
 *  @example
 *  const { kind, match }: Verdict = classify(running, outcome); */
export interface Verdict {
  readonly kind: "retry" | "fail" | "defer";
  /** Set when `kind` is "fail". */
  readonly reason: FailReason | null;
  /** The rule, list, condition or switch that decided. */
  readonly match: Match;
  /** The rule of the policy that matched, for its own limit and backoff; null for a fallback rule of the preset. */
  readonly rule: { readonly index: number; readonly rule: Rule } | null;
  readonly failure: Failure;
  /** The error of a condition that could not be evaluated. */
  readonly conditionError: string | null;
}

type JobFacts = Pick<Job, "id" | "kind" | "failures" | "losses" | "firstStartedAt" | "policy">;

/** `attempt` of rules and conditions: the number of this attempt among those that count, from 1 after each redrive. An attempt
 *  that was handed back, was deferred, waited for children or counts only for a rule repeats its number. The job's own
 *  `attempt`, which only grows, is the fencing number. */
export function countedNumber({ failures, losses }: Pick<Job, "failures" | "losses">): number {
  return failures + losses + 1;
}

/** Whether a failure may be retried at all by the policy of its job.
 *  @example
 *  const { kind, match } = classify(running, outcome);
 *  console.log(kind, match); // "fail", { by: "exitCodes", list: "noRetryOnExitCodes", code: 2 } */
export function classify(job: JobFacts, outcome: FailureOutcome): Verdict {
  const cause = failureOf(outcome);
  const verdict = judge(job, outcome, cause);
  // A job that no worker ever started is unschedulable, whatever decided.
  if (verdict.reason !== null && outcome.kind === "queue_timeout" && job.firstStartedAt === null) {
    return { ...verdict, reason: "unschedulable" };
  }
  return verdict;
}

const NOT_POLLED = { value: false, error: null } as const;

/** Whether a completed attempt runs again because its result matches `retryWhen`. An error is not a match. */
export function polled(
  job: JobFacts,
  outcome: Extract<Outcome, { kind: "completed" }>,
): { readonly value: boolean; readonly error: string | null } {
  const { retryWhen } = job.policy;
  return retryWhen === null ? NOT_POLLED : evaluateCondition(retryWhen, variables(job, outcome));
}

/** The failure of an outcome; queue timeouts and polled results, which have none, get one. */
export function failureOf(outcome: FailureOutcome): Failure {
  switch (outcome.kind) {
    case "failed":
    case "timeout":
      return outcome.failure;
    case "queue_timeout":
      return failure({ kind: "queue_timeout", message: "it was due for longer than expireIn and nobody started it" });
    case "completed":
      return failure({ kind: "result", message: "the result matched retryWhen" });
  }
}

function judge(job: JobFacts, outcome: FailureOutcome, cause: Failure): Verdict {
  const no: FailAnswer = (reason, match, conditionError = null) => {
    return { kind: "fail", reason, match, rule: null, failure: cause, conditionError };
  };
  const yes: RetryAnswer = (match) => {
    return { kind: "retry", reason: null, match, rule: null, failure: cause, conditionError: null };
  };
  const { policy } = job;

  const attempt = countedNumber(job);
  if (cause.class === "logical" && !isRetriedByPreset(policy, cause, attempt)) {
    return no("rejected", { by: "task" });
  }
  if (cause.class === "invalid") return no("invalid", { by: "invalidInput" });

  const own = firstMatch(policy.rules, cause, attempt);
  if (own !== null) {
    const { index, rule, found } = own;
    const match = ruleMatch(index, found);
    if (rule.then === "fail") return no("rejected", match);
    return { ...yes(match), kind: rule.then, rule: { index, rule } };
  }

  const { stopWhen, retryWhen } = policy;
  const names = stopWhen !== null || retryWhen !== null ? variables(job, outcome) : {};
  if (stopWhen !== null) {
    const stop = evaluateCondition(stopWhen, names);
    if (stop.error !== null || stop.value) return no("rejected", STOP_WHEN, stop.error);
  }
  if (retryWhen !== null) {
    const retry = evaluateCondition(retryWhen, names);
    if (!retry.value) return no("rejected", RETRY_WHEN, retry.error);
  }

  if (outcome.kind === "timeout") {
    const match: Match = { by: "onTimeout" };
    return policy.onTimeout === "retry" ? yes(match) : no("timeout", match);
  }
  if (outcome.kind === "completed") return yes(RETRY_WHEN);
  const fallback = fallbackOf(policy, cause, attempt, yes, no);
  if (outcome.kind === "queue_timeout") return (retryWhen === null ? fallback : null) ?? yes({ by: "queueTimeout" });
  return judgeFailed(policy, cause, fallback, yes, no);
}

type RetryAnswer = (match: Match) => Verdict;
type FailAnswer = (reason: FailReason, match: Match, conditionError?: string | null) => Verdict;

const STOP_WHEN: Match = { by: "condition", condition: "stopWhen" };
const RETRY_WHEN: Match = { by: "condition", condition: "retryWhen" };

function firstMatch(rules: readonly Rule[], cause: Failure, attempt: number) {
  for (const [index, rule] of rules.entries()) {
    const found = matchOf(rule, cause, attempt);
    if (found !== null) return { index, rule, found: found.part === "" ? null : found };
  }
  return null;
}

/** The verdict of the preset's fallback rules; null if none matches. */
function fallbackOf(policy: Policy, cause: Failure, attempt: number, yes: RetryAnswer, no: FailAnswer): Verdict | null {
  const fallback = firstMatch(policy.fallback, cause, attempt);
  if (fallback === null) return null;
  const match = presetMatch(policy.preset, fallback.found);
  return fallback.rule.then === "fail" ? no("rejected", match) : yes(match);
}

/** A failure that the task reported is final, unless a fallback rule of the preset for the kind `result` retries it: some systems
 *  have reported reasons that may pass. The user's rules still come first. */
function isRetriedByPreset({ fallback }: Policy, cause: Failure, attempt: number): boolean {
  const rule = firstMatch(fallback, cause, attempt)?.rule;
  return rule?.then === "retry" && rule.if.kind?.includes("result") === true;
}

function judgeFailed(
  policy: Policy,
  cause: Failure,
  fallback: Verdict | null,
  yes: RetryAnswer,
  no: FailAnswer,
): Verdict {
  const { exitCode } = cause;
  if (exitCode !== null && policy.noRetryOnExitCodes.includes(exitCode)) {
    return no("rejected", { by: "exitCodes", list: "noRetryOnExitCodes", code: exitCode });
  }
  if (policy.retryOnExitCodes.length > 0) {
    const allowed = exitCode !== null && policy.retryOnExitCodes.includes(exitCode);
    if (!allowed) return no("rejected", { by: "exitCodes", list: "retryOnExitCodes" });
    return yes({ by: "exitCodes", list: "retryOnExitCodes", code: exitCode });
  }
  const { retryWhen, retryOn, noRetryOn } = policy;
  for (const text of [messageOf(cause), aroundOf(cause)]) {
    const denied = findPart(text, noRetryOn);
    if (denied !== null) return no("rejected", listMatch("noRetryOn", denied));
    const allowed = retryWhen === null ? findPart(text, retryOn) : null;
    if (allowed !== null) return yes(listMatch("retryOn", allowed));
  }
  if (retryWhen !== null) return yes(RETRY_WHEN);
  if (fallback !== null) return fallback;
  const lists = unknownLists(policy);
  const match: Match = lists.length === 0 ? { by: "onUnknown" } : { by: "onUnknown", unknownLists: lists };
  return policy.onUnknown === "retry" ? yes(match) : no("rejected", match);
}

function variables(job: JobFacts, outcome: FailureOutcome): Record<string, unknown> {
  const done = outcome.kind === "completed";
  const cause = done ? null : failureOf(outcome);
  const result = done ? outcome.result : null;
  return {
    result: cause === null ? result : resultOf(cause),
    data: done && outcome.data !== undefined ? outcome.data : result,
    status_code: done ? (outcome.statusCode ?? statusIn(result)) : (cause?.status ?? null),
    error: cause?.message ?? null,
    success: done,
    attempt: countedNumber(job),
    job_id: job.id,
    kind: job.kind,
    execution_id: job.id,
    node_id: job.kind,
    exit_code: cause?.exitCode ?? null,
    signal: cause?.signal ?? null,
    failure: cause,
  };
}

/** The `result` of a failed attempt in conditions. */
function resultOf({ status, message, exitCode, signal }: Failure): Record<string, unknown> {
  return { status_code: status, error: message, success: false, exit_code: exitCode, signal };
}

/** A function that polls an API may return `{ status_code: 202 }` for conditions. */
function statusIn(result: unknown): number | null {
  if (typeof result !== "object" || result === null || !Object.hasOwn(result, "status_code")) return null;
  const code = (result as { status_code: unknown }).status_code;
  return typeof code === "number" ? code : null;
}

/** The conditions of the rule with the values that matched, and the line of the message part; null if it does not match. The time
 *  is linear in the texts. */
export function matchOf({ if: wanted }: Rule, cause: Failure, attempt: number): FoundPart | null {
  const parts: string[] = [];
  const has = <T>(name: string, values: readonly T[] | null, found: T | null): boolean => {
    if (values === null) return true;
    if (found === null || !values.includes(found)) return false;
    parts.push(`${name} ${found}`);
    return true;
  };
  if (!has("kind", wanted.kind, cause.kind)) return null;
  if (!has("exitCode", wanted.exitCode, cause.exitCode)) return null;
  if (!has("signal", wanted.signal, cause.signal)) return null;
  if (!has("error", wanted.error, cause.name)) return null;
  if (!has("attempt", wanted.attempt, attempt)) return null;
  if (wanted.status !== null) {
    const { status } = cause;
    const range = status === null ? undefined : wanted.status.find(([low, high]) => status >= low && status <= high);
    if (range === undefined) return null;
    parts.push(`status ${range[0] === range[1] ? range[0] : range.join("-")}`);
  }
  let line: string | null = null;
  if (wanted.message !== null) {
    const found = findPart(messageOf(cause), wanted.message);
    if (found === null) return null;
    parts.push(`message ${JSON.stringify(found.part)}`);
    line = found.line;
  }
  if (wanted.words !== undefined) {
    const found = findWord(messageOf(cause), wanted.words);
    if (found === null) return null;
    parts.push(`message ${JSON.stringify(found.part)}`);
    line = found.line;
  }
  if (wanted.lines !== undefined) {
    const list = lineList(wanted.lines);
    const found = list === null ? null : findInLines(linesOf(cause), list);
    if (found === null) return null;
    parts.push(`lines ${JSON.stringify(found.part)}`);
    line = found.line;
  }
  return { part: parts.join(", "), line };
}

/** The text for parts: the message and the code, which may be the only place of `ECONNRESET`. */
function messageOf({ message, code }: Failure): string {
  return `${message} ${code ?? ""}`;
}

/** The last lines of a command and then the message, which is the line of the error itself. */
function linesOf(cause: Failure): string[] {
  const { name } = cause;
  const message = name === null || name === "Error" ? messageOf(cause) : `${name}: ${messageOf(cause)}`;
  return [...aroundOf(cause).split("\n"), ...message.split("\n")];
}

/** The last lines of stderr, which lists search after the message, as the error of a command may have several lines. Stacks of
 *  errors contain file names and are not searched. */
function aroundOf({ kind, stack }: Failure): string {
  const isCommand = kind === "exit" || kind === "signal" || kind === "oom";
  return isCommand && stack !== null ? stack : "";
}
