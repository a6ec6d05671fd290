/** Loops of NoETL: `loop` with `in` or `collection`, and steps of the type `iterator`. */
import { isPlain } from "../../../core/check.ts";
import { PLAYBOOK_LIMITS, type StepLoop } from "../../../core/playbook/playbook.ts";
import type { SourcePath } from "../../../core/playbook/problem.ts";
import type { Draft, Raw, Refusal } from "./draft.ts";
import { readWhen } from "./when.ts";

export const LOOP_FIELDS = [
  ...[
    "in",
    "collection",
    "items",
    "iterator",
    "element",
    "mode",
    "concurrency",
    "where",
    "limit",
    "spec",
    "on_item_failure",
  ],
];

export const LOOP_REFUSED: Readonly<Record<string, Refusal>> = {
  order_by: ["loop_option", "order_by is not supported; sort the list with the filter `sort`, or in a step before"],
  chunk: ["loop_option", "chunk is not supported; make a list of lists in a step before"],
  enumerate: ["loop_option", "enumerate is not supported; use loop.index"],
  until: ["loop_option", "until is not supported; end the loop with `where`, or use an arc back to the step"],
  cursor: ["keyword_refused", "loop.cursor is not supported; write pagination as an arc back to the step"],
};

export function readLoop(draft: Draft, value: unknown, path: SourcePath): StepLoop | null {
  const fields = draft.object(value, path);
  if (fields === null) return null;
  if (fields.cursor !== undefined) {
    draft.problem("keyword_refused", [...path, "cursor"], (LOOP_REFUSED.cursor as Refusal)[1]);
    return null;
  }
  draft.known(fields, path, LOOP_FIELDS, LOOP_REFUSED);
  return loopOf(draft, fields, path);
}

/** Of the fields of a loop, wherever they stand. */
export function loopOf(draft: Draft, fields: Raw, path: SourcePath): StepLoop | null {
  const list = draft.one(fields, path, ["in", "collection", "items"]);
  const element = draft.one(fields, path, ["iterator", "element"]);
  if (list === null) {
    draft.problem("invalid_value", [...path, "in"], "is missing; a loop needs a list");
    return null;
  }
  if (!Array.isArray(list.value) && typeof list.value !== "string") {
    draft.invalid([...path, list.name], list.value, "a list, or a template that gives one");
    return null;
  }
  const iterator = element === null ? "item" : draft.text(element.value, [...path, element.name], 100);
  if (iterator === null) return null;
  if (!/^[A-Za-z_]\w*$/.test(iterator)) {
    draft.invalid([...path, element?.name ?? "iterator"], iterator, "a name of letters, digits and _");
    return null;
  }
  const spec = isPlain(fields.spec) ? (fields.spec as Raw) : {};
  draft.known(spec, [...path, "spec"], ["mode", "max_in_flight", "concurrency"], LOOP_REFUSED);
  const { where, limit } = fields;
  draft.aliases[`iter.${iterator}`] = iterator;
  return {
    in: list.value,
    iterator,
    concurrency: concurrencyOf(draft, fields, spec, path),
    where: where === undefined ? null : readWhen(draft, where, [...path, "where"]),
    limit:
      limit === undefined || limit === null ? null : draft.whole(limit, [...path, "limit"], 0, PLAYBOOK_LIMITS.items),
    onItemFailure: "fail",
    maxFailures: null,
  };
}

/** One after another, unless the mode asks for more. */
function concurrencyOf(draft: Draft, fields: Raw, spec: Raw, path: SourcePath): number {
  const mode = fields.mode ?? spec.mode;
  const given = fields.concurrency ?? spec.max_in_flight ?? spec.concurrency;
  const modes = ["sequential", "parallel", "async"];
  if (mode !== undefined && mode !== null && !modes.includes(mode as string)) {
    draft.invalid([...path, fields.mode === undefined ? "spec" : "mode"], mode, '"sequential", "parallel" or "async"');
  }
  if (given !== undefined && given !== null) {
    const at = [...path, fields.concurrency === undefined ? "spec" : "concurrency"];
    const count = draft.whole(given, at, 1, PLAYBOOK_LIMITS.highestParallel);
    return mode === "sequential" ? 1 : (count ?? 1);
  }
  return mode === "parallel" || mode === "async" ? PLAYBOOK_LIMITS.concurrency : 1;
}
