/** Options that several commands share: the retry policy, times, and `--env`. */
import type { Duration } from "../../core/duration.ts";
import { MAX_KEY, MAX_NAME } from "../../core/names.ts";
import type { PolicyFields, PresetName } from "../../core/policy/policy.ts";
import { PRESET_NAMES } from "../../core/policy/presets.ts";
import type { Arguments, CommandOption } from "../command.ts";
import { conflictError, usageError, valueError } from "../exit.ts";
import type { Io } from "../io.ts";

/** The rules for names and keys, for error messages. */
export const NAME_RULE = `1 to ${MAX_NAME} characters without control characters`;
export const KEY_RULE = `1 to ${MAX_KEY} characters without control characters`;

/** `perdure run` retries by default: without a number of attempts the first failure would be final. The preset `default` is
 *  what applies without one, so naming it changes nothing. */
const DEFAULT_ATTEMPTS = 5;
const MAX_ATTEMPTS = 1_000_000;

export const POLICY_OPTIONS: readonly CommandOption[] = [
  {
    name: "max-attempts",
    type: "string",
    value: "N",
    help: "Attempts in all, the first included. Default: 5, or that of a preset other than default.",
  },
  {
    name: "backoff",
    type: "string",
    value: "TIME",
    help: "Wait before the first retry: 500ms, 2s, 1m, none. Default: 1s.",
  },
  { name: "backoff-factor", type: "string", value: "X", help: "The factor between one wait and the next. Default: 2." },
  { name: "backoff-max", type: "string", value: "TIME", help: "The longest wait. Default: 1m." },
  {
    name: "jitter",
    type: "string",
    value: "RATIO",
    help: "Random variation of waits, from 0 to below 1. Default: 0.2.",
  },
  { name: "retry-on", type: "string", value: "CODES", help: "Retry only these exit codes: 1,75,100-110." },
  { name: "no-retry-on", type: "string", value: "CODES", help: "Never retry these exit codes." },
  { name: "retry-when", type: "string", value: "EXPR", help: "Retry only if true: '{{ exit_code == 75 }}'." },
  {
    name: "stop-when",
    type: "string",
    value: "EXPR",
    help: "Give up if true: '{{ attempt > 2 and exit_code == 1 }}'.",
  },
  { name: "preset", type: "string", value: "NAME", help: `The policy to start from: ${PRESET_NAMES.join(", ")}.` },
];

/** The policy of a new job. */
export function policyOf(given: Arguments): PolicyFields {
  const policy = givenPolicyOf(given);
  const isDefault = policy.preset === undefined || policy.preset === "default";
  if (policy.maxAttempts === undefined && isDefault) policy.maxAttempts = DEFAULT_ATTEMPTS;
  return policy;
}

/** Only what the options set, for a job that has a policy. */
export function givenPolicyOf(given: Arguments): PolicyFields {
  const preset = given.text("preset");
  const attempts = given.integer("max-attempts", { min: 1, max: MAX_ATTEMPTS });
  const policy: PolicyFields = { backoff: backoffOf(given) };
  if (preset !== undefined) policy.preset = preset as PresetName;
  if (attempts !== undefined) policy.maxAttempts = attempts;
  if (policy.backoff !== undefined && Object.keys(policy.backoff).length === 0) delete policy.backoff;
  const [only, never] = [codesOf(given, "retry-on"), codesOf(given, "no-retry-on")];
  if (only !== null) policy.retryOnExitCodes = only;
  if (never !== null) policy.noRetryOnExitCodes = never;
  const both = only?.find((code) => never?.includes(code));
  if (both !== undefined) throw usageError(`--no-retry-on: ${both} is also in --retry-on; remove it from one of them`);
  const [retryWhen, stopWhen] = [given.text("retry-when"), given.text("stop-when")];
  if (retryWhen !== undefined) policy.retryWhen = retryWhen;
  if (stopWhen !== undefined) policy.stopWhen = stopWhen;
  return policy;
}

function backoffOf(given: Arguments): NonNullable<PolicyFields["backoff"]> {
  if (given.text("backoff") === "none") {
    const other = ["backoff-factor", "backoff-max", "jitter"].find((name) => given.text(name) !== undefined);
    if (other !== undefined) throw conflictError(`--${other}`, "--backoff none");
    return { type: "none" };
  }
  const [initial, max] = [timeOf(given, "backoff"), timeOf(given, "backoff-max")];
  const [factor, jitter] = [
    numberOf(given, "backoff-factor", "a number, 1 or more, such as 1.5"),
    numberOf(given, "jitter", "a number from 0 to below 1, such as 0.2"),
  ];
  return {
    ...(initial === undefined ? {} : { initial }),
    ...(max === undefined ? {} : { max }),
    ...(factor === undefined ? {} : { factor }),
    ...(jitter === undefined ? {} : { jitter }),
  };
}

/** A duration as text, checked. */
export type TimeText = Extract<Duration, string>;

/** A time with its unit: a bare number would be ambiguous. */
export function timeOf(given: Arguments, name: string): TimeText | undefined {
  const text = given.text(name);
  if (text === undefined || /^\d{1,15}(\.\d{1,6})?\s*(ms|s|m|h|d)$/.test(text.trim())) return text as TimeText;
  throw valueError(`--${name}`, text, "a time with its unit, such as 500ms, 30s, 5m, 2h or 1d");
}

function numberOf(given: Arguments, name: string, allowed: string): number | undefined {
  const text = given.text(name);
  if (text === undefined) return undefined;
  if (/^\d{1,9}(\.\d{1,9})?$/.test(text)) return Number(text);
  throw valueError(`--${name}`, text, allowed);
}

/** `1,75,100-110`; null if the option was not given. */
function codesOf(given: Arguments, name: string): number[] | null {
  const text = given.text(name);
  if (text === undefined) return null;
  return text.split(",").flatMap((part) => {
    const [, first, last = first] = /^\s*(\d{1,3})(?:-(\d{1,3}))?\s*$/.exec(part) ?? [];
    const [from, to] = [Number(first), Number(last)];
    if (!(from >= 1 && from <= to && to <= 255)) {
      throw valueError(`--${name}`, part, "exit codes from 1 to 255, as in 1,75,100-110");
    }
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });
}

export const ENV: CommandOption = {
  ...{ name: "env", type: "string", value: "NAME[=VALUE]", multiple: true },
  help: "Set or pass on an environment variable; it is stored with the job.",
};

/** `NAME=VALUE` sets a variable, `NAME` copies it from this environment. */
export function envOf(words: readonly string[], from: Io["env"]): Record<string, string> {
  const env: Record<string, string> = {};
  for (const word of words) {
    const at = word.indexOf("=");
    const name = at < 0 ? word : word.slice(0, at);
    const value = at < 0 ? from[name] : word.slice(at + 1);
    if (!/^[A-Za-z_]\w*$/.test(name)) {
      const rule = "where NAME has letters, digits and _, and does not begin with a digit";
      throw valueError("--env", word, `NAME or NAME=VALUE, ${rule}`);
    }
    if (value === undefined) throw usageError(`--env ${name}: not set in this environment; pass ${name}=VALUE`);
    env[name] = value;
  }
  return env;
}
