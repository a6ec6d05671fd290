/** What a submit of the library says, made into what the engine takes: the kind and defaults of its task, its input as text. */
import { checkEntry } from "../core/face-options.ts";
import { toPayload } from "../core/submit-check.ts";
import type { SubmitEntry, SubmitOptions } from "../core/submit-options.ts";
import { checkBuiltin } from "../engine/check-builtin.ts";
import type { SubmitItem } from "../engine/submit.ts";
import { policyOf, toSubmitItem } from "../engine/submit-request.ts";

const NO_OPTIONS: SubmitOptions = Object.freeze({});

export function toItem(entry: SubmitEntry, namespace: string): SubmitItem {
  const { task, input, options = NO_OPTIONS } = checkEntry(entry);
  checkBuiltin(task, input, (options as SubmitOptions | null)?.upload); // options are checked below
  const payload = toPayload(input);
  if (typeof task === "string") return toSubmitItem({ kind: task, payload, options, namespace });
  const { kind, options: taskOptions } = task;
  return toSubmitItem({ kind, payload, options, namespace, taskOptions, policy: policyOf(task) });
}
