/** What `perdure redrive` changes of a job, from its options. What is not set stays as it is. */
import type { RedriveChanges } from "../../core/job/redrive.ts";
import type { Arguments, CommandOption } from "../command.ts";
import { conflictError, valueError } from "../exit.ts";
import { givenPolicyOf, POLICY_OPTIONS, timeOf } from "../input/shared-options.ts";
import { checkedOptions, jsonOf } from "./entry-from-options.ts";

const text = (name: string, value: string, help: string): CommandOption => ({ name, type: "string", value, help });

export const REDRIVE_OPTIONS: readonly CommandOption[] = [
  text("timeout", "TIME", "Change the timeout of an attempt: 30s, 5m."),
  text("priority", "N", "Change the priority: from 0, which runs first, to 9."),
  text("expire-in", "TIME", "Change how long the job may be due without being started."),
  text("deadline", "INSTANT", "Change the instant after which no attempt may start."),
  text("retry", "JSON", 'Change fields of the retry policy: {"budget":{"costUsd":5}}; with a preset in it, all of it.'),
  text("budget", "USD", "Add to all budgets that apply to the job: 0.5, tokens=2000, or usd=0.5,tokens=2000."),
  // A redrive has no defaults: values that are not given stay.
  ...POLICY_OPTIONS.map((option) => ({ ...option, help: option.help.replace(/ Default: .*$/, "") })),
];

export function redriveChangesOf(given: Arguments): RedriveChanges {
  const fields = {
    timeout: timeOf(given, "timeout"),
    priority: given.integer("priority", { min: 0, max: 9 }),
    expireIn: timeOf(given, "expire-in"),
    deadline: given.text("deadline"),
    retry: retryOf(given),
  };
  const said = Object.entries(fields).filter(([, value]) => value !== undefined);
  const changes = said.length === 0 ? {} : (checkedOptions(given, Object.fromEntries(said)) as RedriveChanges);
  const budget = given.text("budget");
  return budget === undefined ? changes : { ...changes, budget: grantOf(budget) };
}

const GRANT = /^(?:(usd|tokens)=)?(\d{1,15}(?:\.\d{1,9})?)$/;

/** A bare number is USD. */
export function grantOf(text: string): NonNullable<RedriveChanges["budget"]> {
  const budget: NonNullable<RedriveChanges["budget"]> = {};
  for (const part of text.split(",")) {
    const [, name = "usd", digits = ""] = GRANT.exec(part.trim()) ?? [];
    const field = name === "usd" ? "costUsd" : "tokens";
    const amount = Number(digits);
    if (digits === "" || amount <= 0 || (field === "tokens" && !Number.isInteger(amount)) || field in budget) {
      throw valueError("--budget", text, "USD such as 0.5, tokens=2000, or usd=0.5,tokens=2000");
    }
    budget[field] = amount;
  }
  return budget;
}

function retryOf(given: Arguments): unknown {
  const other = POLICY_OPTIONS.find(({ name }) => given.flag(name));
  const json = given.text("retry");
  if (json === undefined) return other === undefined ? undefined : givenPolicyOf(given);
  if (other !== undefined) throw conflictError("--retry", `--${other.name}`);
  return jsonOf(json, "--retry");
}
