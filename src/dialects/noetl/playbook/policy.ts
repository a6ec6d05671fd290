/** The retries of a step of NoETL: its `retry`, the retries in `case`, and the rules of `policy`. All become one policy of Perdure,
 *  decided by the engine. */
import { isPlain } from "../../../core/check.ts";
import type { PlaybookStep } from "../../../core/playbook/playbook.ts";
import type { SourcePath } from "../../../core/playbook/problem.ts";
import type { Policy } from "../../../core/policy/policy.ts";
import { resolvePolicy } from "../../../core/policy/resolve-policy.ts";
import { noetlPolicy, readNoetlRetry } from "../retry.ts";
import type { Draft, Raw } from "./draft.ts";
import { readSet } from "./flow.ts";
import { both, either, negated, readWhen } from "./when.ts";

export interface StepRetry {
  readonly policy: Policy;
  readonly onError: PlaybookStep["onError"];
  /** Values of ctx that its rules set after a success. */
  readonly set: Readonly<Record<string, unknown>>;
}

/** What of a step decides about retries. */
export interface RetryParts {
  /** With the place of each. */
  readonly retry: readonly { readonly value: unknown; readonly path: SourcePath; readonly when: string | null }[];
  readonly rules: { readonly value: unknown; readonly path: SourcePath } | null;
}

export function readRetry(
  draft: Draft,
  step: string,
  { retry, rules }: RetryParts,
  path: SourcePath,
  place: "step" | "pipeline" = "step",
): StepRetry {
  const ruled = rules === null ? NO_RULES : readRules(draft, rules.value, rules.path, place);
  const given = oneRetry(draft, [...retry, ...ruled.retry]);
  const at = given?.path ?? path;
  const policy = draft.checked(at, () => {
    const value = given === undefined ? null : withConditions(draft, given.value, given.when, ruled.stop, at);
    return resolvePolicy(noetlPolicy(readNoetlRetry(value, ""), step, ""));
  });
  return {
    policy: policy ?? resolvePolicy({ preset: "noetl", maxAttempts: 1 }),
    onError: ruled.onError,
    set: ruled.set,
  };
}

type GivenRetry = RetryParts["retry"][number];

/** Several rules that retry become one: for each of their conditions, with the most attempts and the delays of the first. */
function oneRetry(draft: Draft, given: readonly GivenRetry[]): GivenRetry | undefined {
  const [first, second] = given;
  if (first === undefined || second === undefined) return first;
  if (given.some(({ value, when }) => !isPlain(value) || when === null)) {
    draft.problem("invalid_value", second.path, "a second retry of the same step; write one");
    return first;
  }
  draft.note("several rules that retry the same tool become one, with the most attempts and the delays of the first");
  const attempts = given.map(({ value }) => (value as Raw).attempts ?? (value as Raw).max_attempts ?? DEFAULT_ATTEMPTS);
  // What is not a number is refused when it is read.
  const odd = attempts.find((each) => typeof each !== "number");
  const most = odd ?? Math.max(...(attempts as number[]));
  const { max_attempts: _, ...value } = first.value as Raw;
  return { ...first, value: { ...value, attempts: most }, when: either(given.map(({ when }) => when as string)) };
}

/** Of NoETL. */
const DEFAULT_ATTEMPTS = 3;

const SHORT: Readonly<Record<string, string>> = {
  attempts: "max_attempts",
  delay: "initial_delay",
  delay_seconds: "initial_delay",
  multiplier: "backoff_multiplier",
};

/** `retry` with its conditions as expressions of Perdure. Forms of later versions become the one of version 1. */
function withConditions(
  draft: Draft,
  value: unknown,
  when: string | null,
  stop: string | null,
  path: SourcePath,
): unknown {
  if (typeof value === "boolean" || typeof value === "number") {
    return when === null && stop === null
      ? value
      : withConditions(draft, value === true ? {} : { max_attempts: Number(value) }, when, stop, path);
  }
  if (!isPlain(value)) return value;
  const { on_error, on_success, backoff, when: own, ...rest } = value as Raw;
  if (on_success !== undefined) {
    draft.problem(
      "keyword_refused",
      [...path, "on_success"],
      "repeating after a success is not supported; use an arc back to the step",
    );
  }
  if (isPlain(on_error)) return withConditions(draft, { ...rest, ...(on_error as Raw) }, when, stop, path);
  const fields: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(rest))
    fields[Object.hasOwn(SHORT, name) ? (SHORT[name] as string) : name] = field;
  if (backoff === "fixed" || backoff === "linear") fields.backoff_multiplier ??= 1;
  const given = both(when, own === undefined ? null : readWhen(draft, own, [...path, "when"]));
  const retryWhen = both(given, readWhen(draft, fields.retry_when, [...path, "retry_when"]));
  const stopWhen = readWhen(draft, fields.stop_when, [...path, "stop_when"]);
  delete fields.retry_when;
  delete fields.stop_when;
  if (retryWhen !== null) fields.retry_when = retryWhen;
  if (stopWhen !== null || stop !== null) fields.stop_when = either([stopWhen, stop].filter((one) => one !== null));
  return fields;
}

interface Ruled {
  readonly retry: readonly { readonly value: unknown; readonly path: SourcePath; readonly when: string | null }[];
  readonly stop: string | null;
  readonly onError: PlaybookStep["onError"];
  readonly set: Readonly<Record<string, unknown>>;
}

const NO_RULES: Ruled = { retry: [], stop: null, onError: "fail", set: {} };
const RULE_FIELDS = [
  "when",
  "then",
  "else",
  "do",
  "attempts",
  "max_attempts",
  "backoff",
  "delay",
  "delay_seconds",
  "initial_delay",
  "max_delay",
  "jitter",
  "multiplier",
  "set_ctx",
  "set_iter",
  "set",
];
const THEN_FIELDS = RULE_FIELDS.filter((name) => name !== "when" && name !== "then" && name !== "else");
const RETRY_FIELDS = [
  "attempts",
  "max_attempts",
  "backoff",
  "delay",
  "delay_seconds",
  "initial_delay",
  "max_delay",
  "jitter",
  "multiplier",
];

/** `policy.rules`: the first that is true decides. do: retry, fail or continue. */
function readRules(draft: Draft, value: unknown, path: SourcePath, place: "step" | "pipeline"): Ruled {
  const fields = Array.isArray(value) ? { rules: value } : draft.object(value, path);
  if (fields === null) return NO_RULES;
  draft.known(fields as Raw, path, ["rules", "admit"]);
  const retry: Ruled["retry"][number][] = [];
  const stops: string[] = [];
  let onError: Ruled["onError"] = "fail";
  let set: Readonly<Record<string, unknown>> = {};
  let before: string | null = null;
  let namesError = false;
  let isAnyFailure = false;
  const rules = (fields as Raw).rules;
  for (const [i, one] of (rules === undefined ? [] : draft.list(rules, [...path, "rules"], 100)).entries()) {
    const at = [...path, "rules", i];
    const rule = draft.object(one, at);
    if (rule === null) continue;
    draft.known(rule, at, RULE_FIELDS);
    const action = { ...rule, ...(isPlain(rule.then) ? (rule.then as Raw) : {}), ...elseOf(rule.else) };
    const { when: _, then: __, else: ___, ...then } = action;
    draft.known(then, at, THEN_FIELDS);
    const own = ofAttempt(readWhen(draft, rule.when, [...at, "when"]));
    const when = both(before, own);
    const isError = own !== null && /\b(?:error|failure|success|status_code|exit_code)\b/.test(own);
    namesError ||= isError;
    const setsCtx = then.set_ctx !== undefined || then.set_iter !== undefined || then.set !== undefined;
    if (setsCtx && own !== null) {
      draft.problem(
        "keyword_refused",
        at,
        "set_ctx under a condition is not supported; use a ternary: `a if c else b`",
      );
    } else if (setsCtx) set = { ...set, ...readSet(draft, then, at, place) };
    const verb = then.do ?? "continue";
    if (verb === "retry") {
      retry.push({
        value: Object.fromEntries(
          RETRY_FIELDS.filter((name) => then[name] !== undefined).map((name) => [name, then[name]]),
        ),
        path: at,
        when,
      });
    } else if (verb === "fail") {
      if (when !== null) stops.push(when);
    } else if (verb === "continue") {
      if (isError || (own === null && !namesError)) onError = "continue";
      else if (own === null && !isAnyFailure) {
        draft.note(
          "do: continue without a condition counts after a success; a failure that no rule names fails the step",
        );
      }
    } else if (verb === "jump" || verb === "break") {
      draft.problem("keyword_refused", [...at, "do"], `do: ${verb} is not supported; use arcs in \`next\``);
    } else draft.invalid([...at, "do"], verb, '"retry", "fail" or "continue"');
    isAnyFailure ||= own === "(error != None)" && verb !== "continue";
    if (own !== null) before = both(before, negated(own));
  }
  return { retry, stop: stops.length === 0 ? null : either(stops), onError, set };
}

/** In rules, `output` and `outcome` are what the attempt returned. */
function ofAttempt(condition: string | null): string | null {
  if (condition === null) return null;
  return condition
    .split(/('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")/s)
    .map((part, i) =>
      i % 2 === 1 ? part : part.replace(/(?<![\w.])(?:outcome\.result|output|outcome|response|this)\b/g, "result"),
    )
    .join("");
}

function elseOf(value: unknown): Raw {
  if (!isPlain(value)) return {};
  const { then, ...rest } = value as Raw;
  return { ...rest, ...(isPlain(then) ? (then as Raw) : {}) };
}

/** `policy.admit.rules`: whether the step starts at all. Null: always. */
export function readAdmit(draft: Draft, value: unknown, path: SourcePath): string | null {
  const fields = draft.object(value, path);
  if (fields === null) return null;
  draft.known(fields, path, ["rules"]);
  const allowed: string[] = [];
  for (const [i, one] of draft.list(fields.rules ?? [], [...path, "rules"], 100).entries()) {
    const rule = draft.object(one, [...path, "rules", i]);
    if (rule === null) continue;
    const then = isPlain(rule.then) ? (rule.then as Raw) : rule;
    const when = readWhen(draft, rule.when, [...path, "rules", i, "when"]);
    if (then.allow === false) {
      if (when !== null) allowed.push(negated(when));
    } else if (when !== null) allowed.push(when);
  }
  return allowed.length === 0 ? null : either(allowed);
}
