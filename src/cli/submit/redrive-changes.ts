/** What `perdure redrive` may change of a job, from its options. What is not given stays as it is. */
import type { RedriveChanges } from "../../core/redrive.ts";
import type { Given } from "../arguments.ts";
import type { Option } from "../command.ts";
import { usageError } from "../exit.ts";
import { givenPolicyOf, POLICY_OPTIONS, timeOf } from "../run/policy.ts";
import { checkedOptions, jsonOf } from "./entry.ts";

const text = (name: string, value: string, help: string): Option => ({ name, type: "string", value, help });

export const REDRIVE_OPTIONS: readonly Option[] = [
  text("timeout", "TIME", "Another time that one attempt may take: 30s, 5m."),
  text("priority", "N", "Another priority: 0, the first, to 9."),
  text("expire-in", "TIME", "Another time that it may be due without being started."),
  text("deadline", "INSTANT", "Another instant after which no attempt may start."),
  text("retry", "JSON", 'Other fields of its retry policy: {"budget":{"costUsd":5}}. With a preset, all of it.'),
  // A redrive has no defaults: what is not given stays.
  ...POLICY_OPTIONS.map((option) => ({ ...option, help: option.help.replace(/ Default: .*$/, "") })),
];

export function redriveChangesOf(given: Given): RedriveChanges {
  const fields = {
    timeout: timeOf(given, "timeout"),
    priority: given.integer("priority", { min: 0, max: 9 }),
    expireIn: timeOf(given, "expire-in"),
    deadline: given.text("deadline"),
    retry: retryOf(given),
  };
  const said = Object.entries(fields).filter(([, value]) => value !== undefined);
  return said.length === 0 ? {} : (checkedOptions(given, Object.fromEntries(said)) as RedriveChanges);
}

function retryOf(given: Given): unknown {
  const other = POLICY_OPTIONS.find(({ name }) => given.flag(name));
  const json = given.text("retry");
  if (json === undefined) return other === undefined ? undefined : givenPolicyOf(given);
  if (other !== undefined) throw usageError(`--retry and --${other.name} cannot be used together`);
  return jsonOf(json, "--retry");
}
