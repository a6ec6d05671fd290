/** What `perdure resubmit` changes of any job, from its options: queue, timeout, retry policy, budget and variables. What is
 *  not set stays as it is. */
import { isPlain } from "../../core/check.ts";
import { checkExecInput } from "../../core/input/exec-input.ts";
import type { PolicyFields, PolicyInput } from "../../core/policy/policy.ts";
import { withPolicyFields } from "../../core/policy/policy-input.ts";
import { MAX_COUNT } from "../../core/policy/resolve-backoff.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { ReadEntry } from "../../dialects/dialect.ts";
import type { Arguments, CommandContext, CommandOption } from "../command.ts";
import { usageError, valueError } from "../exit.ts";
import { ENV, envOf, timeOf } from "../input/shared-options.ts";
import { checkedOptions, jsonOf } from "./entry-from-options.ts";

const text = (name: string, value: string, help: string): CommandOption => ({ name, type: "string", value, help });

export const CHANGE_OPTIONS: readonly CommandOption[] = [
  text("queue", "NAME", "Another queue."),
  text("timeout", "TIME", "Another timeout of an attempt: 30s, 5m."),
  text("max-attempts", "N", "Another number of attempts in all, the first included."),
  text("retry", "JSON", 'Change fields of the retry policy: {"budget":{"costUsd":5}}; with a preset in it, all of it.'),
  { ...ENV, help: "Set or pass on a variable of a command; the others stay." },
];

export type ResubmitChange = (entry: ReadEntry) => ReadEntry;

/** Checks all options now; the resulting policy is checked when the job is known. */
export function changeOf({ given, io }: Pick<CommandContext, "given" | "io">): ResubmitChange {
  const fields = { queue: given.text("queue"), timeout: timeOf(given, "timeout") };
  const said = Object.entries(fields).filter(([, value]) => value !== undefined);
  const options = checkedOptions(given, Object.fromEntries(said));
  const retry = retryOf(given);
  const env = envOf(given.texts("env"), io.env);
  return (entry) => ({
    ...entry,
    ...(Object.keys(env).length === 0 ? {} : { input: withEnv(entry, env) }),
    options: { ...entry.options, ...options, ...(retry === null ? {} : { retry: retry(entry.options?.retry) }) },
  });
}

function withEnv({ task, input }: ReadEntry, env: Readonly<Record<string, string>>): unknown {
  if (task !== "exec" || !isPlain(input)) throw usageError(`--env: only a command has variables, not the kind ${task}`);
  const { env: own } = input as { env?: unknown };
  const changed = { ...input, env: { ...(isPlain(own) ? own : {}), ...env } };
  checkExecInput(changed, "");
  return changed;
}

/** Null: the policy stays. */
function retryOf(given: Arguments): ((own: PolicyInput | undefined) => PolicyInput) | null {
  const json = given.text("retry");
  const attempts = given.integer("max-attempts", { min: 1, max: MAX_COUNT });
  if (json === undefined && attempts === undefined) return null;
  const changed = json === undefined ? {} : fieldsOf(jsonOf(json, "--retry"));
  return (own) => {
    const merged = withPolicyFields((isPlain(own) ? own : {}) as PolicyFields, changed);
    const policy = attempts === undefined ? merged : { ...merged, maxAttempts: attempts };
    resolvePolicy(policy, "--retry");
    return policy;
  };
}

/** A bare number is the number of attempts, as in a submit. */
function fieldsOf(value: unknown): PolicyFields {
  if (isPlain(value)) return value as PolicyFields;
  if (typeof value === "number") return { maxAttempts: value };
  throw valueError("--retry", value, "an object with fields of the policy, or a number of attempts");
}
