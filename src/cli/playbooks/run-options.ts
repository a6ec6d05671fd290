/** The options that describe a run, and what they make: its input and the options of the library. */

import type { RunOptions } from "../../core/api/runs.ts";
import { isPlain } from "../../core/check.ts";
import { PerdureError } from "../../core/errors.ts";
import { checkInputs } from "../../core/playbook/input-check.ts";
import type { InputRule } from "../../core/playbook/playbook.ts";
import type { Arguments, CommandContext, CommandOption } from "../command.ts";
import { usageError } from "../exit.ts";
import { timeOf } from "../input/shared-options.ts";
import { checkedOptions, INPUT_OPTIONS, inputOf, JOB_OPTIONS, pairsOf } from "../submit/entry-from-options.ts";

/** `--input`, `--input-file` and `-p`. */
export const RUN_INPUT: readonly CommandOption[] = INPUT_OPTIONS.map((option) => ({
  ...option,
  help: option.help.replace("of the job", "of the run").replace(", as text;", ", as its type in the playbook;"),
}));

const SHARED: Readonly<Record<string, string>> = {
  name: "The name shown in lists. Default: that of the playbook.",
  key: "At most one run has this key; the same key again finds that run.",
  queue: "The queue of steps that have none of their own. Default: default.",
  priority: "Of steps that have none of their own: from 0, which runs first, to 9. Default: 5.",
  tag: "A tag to find the run by.",
  label: "A label that the workers of its steps must have.",
  annotation: "A text stored and shown with the run.",
  timeout: "End the run after this time, waits included: 30m, 2h.",
};

export const RUN_OPTIONS: readonly CommandOption[] = JOB_OPTIONS.flatMap((option) => {
  const help = SHARED[option.name];
  return help === undefined ? [] : [{ ...option, help }];
});

/** Checked as those of a job; errors name the option. Options that the command does not have are left out. */
export function runOptionsOf(given: Arguments, names: readonly string[] = Object.keys(SHARED)): RunOptions {
  const has = (name: string) => names.includes(name) && given.flag(name);
  const { queue, priority } = {
    queue: has("queue") ? given.text("queue") : undefined,
    priority: has("priority") ? given.integer("priority", { min: 0, max: 9 }) : undefined,
  };
  const fields = {
    ...(has("name") ? { name: given.text("name") } : {}),
    ...(has("key") ? { key: given.text("key") } : {}),
    ...(queue === undefined ? {} : { queue }),
    ...(priority === undefined ? {} : { priority }),
    ...(has("tag") ? { tags: given.texts("tag") } : {}),
    ...(has("label") ? { labels: pairsOf(given, "label") } : {}),
    ...(has("annotation") ? { annotations: pairsOf(given, "annotation") } : {}),
    ...(has("timeout") ? { timeout: timeOf(given, "timeout") } : {}),
  };
  return Object.keys(fields).length === 0 ? {} : (checkedOptions(given, fields) as RunOptions);
}

export type RunInput = Readonly<Record<string, unknown>>;

/** Read before the playbook is known; `typedInput` finishes it. */
export async function givenInput(context: CommandContext): Promise<RunInput> {
  const input = (await inputOf(context)) ?? {};
  if (isPlain(input)) return input as RunInput;
  const option = context.given.flag("input") ? "--input" : "--input-file";
  throw usageError(`${option}: the input of a run must be an object, such as {"city":"Oslo"}`);
}

/** `-p days=3` gives a number where the playbook has one. What is not JSON stays a text, and the check of the input reports it. */
export function typedInput(
  given: Arguments,
  input: RunInput,
  rules: Readonly<Record<string, InputRule>> | null,
): RunInput {
  if (!given.flag("param") || rules === null) return input;
  return Object.fromEntries(
    Object.entries(input).map(([name, value]) => {
      const type = Object.hasOwn(rules, name) ? rules[name]?.type : undefined;
      return [name, typeof value === "string" && type !== undefined && type !== "string" ? jsonOr(value) : value];
    }),
  );
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** The input by the rules of a playbook that was read here: a mistake is reported before anything is opened. */
export function checkedInput(
  given: Arguments,
  input: RunInput,
  rules: Readonly<Record<string, InputRule>> | null,
): RunInput {
  const typed = typedInput(given, input, rules);
  const { problems } = checkInputs(rules, typed);
  if (problems.length === 0) return typed;
  throw usageError(`--${inputOption(given)}: ${problems.map(({ message }) => message).join("; ")}`);
}

function inputOption(given: Arguments): string {
  return ["param", "input", "input-file"].find((name) => given.offers(name) && given.flag(name)) ?? "param";
}

/** An input that the playbook does not accept is a mistake of the options. */
export function asInputError(error: unknown, given: Arguments): unknown {
  if (!(error instanceof PerdureError) || error.code !== "invalid_config" || error.path !== "input") return error;
  return usageError(`--${inputOption(given)}: ${error.message.replace(/^input: /, "")}`);
}
