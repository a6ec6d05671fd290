/** What `{{ step }}` is: a value made from the stored result, by the type of the step, and names beside it. Own keys of the value
 *  come before these names, so that `step.status` of a step that returns `{status: …}` is what it returned. */
import { isPlain } from "../check.ts";
import { type Failure, failure } from "../decision/failure.ts";
import { showAt } from "../format.ts";
import type { PlaybookStep, StepType } from "../playbook/playbook.ts";
import { Layered } from "../template/fill.ts";
import type { StoredOutput } from "./run.ts";
import { endedOf, errorText } from "./step-end.ts";

export interface StepOutput {
  readonly value: unknown;
  /** Names that are read where the value has no such key. */
  readonly members: Readonly<Record<string, unknown>>;
}

/** `items`: of a loop, unless nothing reads its results. */
export function outputOf(
  step: PlaybookStep,
  stored: StoredOutput,
  items: readonly StoredOutput[] | null = null,
): StepOutput {
  // A step without a job returns what is stored as it is: also one that an operator takes as done.
  if (stored.step.job === null && stored.result !== null) return { value: parsed(stored), members: NO_MEMBERS };
  if (step.loop !== null) return loopOutput(step, stored, items ?? []);
  return outputValue(step.action?.type ?? null, stored);
}

/** The value as templates read it: `x.y`, `x.data.y`, `x.result.y` and `x.result.data.y` are the same unless the value itself has
 *  these keys. */
export function layered(output: StepOutput, stored: StoredOutput, visits: number): Layered {
  const { step, attempt } = stored;
  const end = endedOf(stored);
  const same = { data: output.value, ...output.members };
  return new Layered(output.value, {
    ...same,
    result: new Layered(output.value, same),
    status: end.status,
    error: errorText(end),
    attempt,
    visits,
    started_at: showAt(step.at),
    ended_at: step.endedAt === null ? null : showAt(step.endedAt),
  });
}

/** `data` of an output: its own key, else all of it. */
export function dataOf({ value, members }: StepOutput): unknown {
  if (isPlain(value) && Object.hasOwn(value, "data")) return (value as { data: unknown }).data;
  return Object.hasOwn(members, "data") ? members.data : value;
}

const NO_MEMBERS: Readonly<Record<string, unknown>> = Object.freeze({});

function outputValue(type: StepType | null, stored: StoredOutput): StepOutput {
  const result = parsed(stored);
  if (endedOf(stored).status !== "succeeded") return { value: null, members: NO_MEMBERS };
  switch (type) {
    case "http":
      return isPlain(result) && Object.hasOwn(result, "body")
        ? { value: { ...result, data: (result as { body: unknown }).body }, members: NO_MEMBERS }
        : { value: result, members: NO_MEMBERS };
    case "python":
      return { value: outputIn(result) ?? null, members: commandMembers(result) };
    case "shell":
    case "exec":
      return { value: outputIn(result) ?? stdoutValue(result), members: commandMembers(result) };
    default:
      return { value: result, members: NO_MEMBERS };
  }
}

function outputIn(result: unknown): unknown {
  return isPlain(result) ? (result as { output?: unknown }).output : undefined;
}

function stdoutOf(result: unknown): { readonly text: string; readonly isCut: boolean } {
  const stdout = isPlain(result) ? (result as { stdout?: unknown }).stdout : null;
  const { text, textCut } = (isPlain(stdout) ? stdout : {}) as { text?: unknown; textCut?: unknown };
  return { text: typeof text === "string" ? text : "", isCut: textCut === true };
}

/** JSON, if all of it is; else the text without line breaks at its end, as `$(…)` of a shell. */
function stdoutValue(result: unknown): unknown {
  const { text, isCut } = stdoutOf(result);
  const trimmed = text.replace(/[\r\n]{1,1000}$/, "");
  if (isCut || !/^\s*[[{"\d\-tfn]/.test(trimmed)) return trimmed;
  try {
    return JSON.parse(trimmed);
  } catch {
    return trimmed;
  }
}

function commandMembers(result: unknown): Record<string, unknown> {
  const exitCode = isPlain(result) ? (result as { exitCode?: unknown }).exitCode : null;
  return { stdout: stdoutOf(result).text, exit_code: typeof exitCode === "number" ? exitCode : null };
}

/** In the order of the list; null for an item that failed, or never started. */
function loopOutput(step: PlaybookStep, stored: StoredOutput, items: readonly StoredOutput[]): StepOutput {
  if (endedOf(stored).status === "skipped") return { value: null, members: NO_MEMBERS };
  const results: unknown[] = [];
  const errors: object[] = [];
  for (const item of items) {
    const index = item.step.item;
    while (results.length <= index) results.push(null);
    const end = endedOf(item);
    if (end.status === "succeeded") results[index] = outputValue(step.action?.type ?? null, item).value;
    else errors.push({ index, reason: end.failure?.kind ?? end.status, message: errorText(end) });
  }
  return { value: results, members: { results, errors } };
}

/** Outputs never change, so each is parsed once while it is held. */
const values = new WeakMap<StoredOutput, { readonly value: unknown }>();

function parsed(stored: StoredOutput): unknown {
  if (stored.result === null) return null;
  let kept = values.get(stored);
  if (kept === undefined) {
    kept = { value: JSON.parse(stored.result) };
    values.set(stored, kept);
  }
  return kept.value;
}

/** `assert.returns`: the first path that the output does not have. */
export function returnsTrouble({ name, assert }: PlaybookStep, output: StepOutput): Failure | null {
  const missing = assert?.returns.find((path) => !hasPath(output, path));
  if (missing === undefined) return null;
  const message = `the output of step "${name}" has no "${missing}", which \`assert.returns\` requires`;
  return failure({ kind: "error", class: "invalid", code: "assert", message });
}

function hasPath(output: StepOutput, path: string): boolean {
  const [first = "", ...rest] = path.split(".");
  let value: unknown =
    isPlain(output.value) && Object.hasOwn(output.value, first)
      ? (output.value as Record<string, unknown>)[first]
      : first === "data"
        ? dataOf(output)
        : first === "result"
          ? output.value
          : output.members[first];
  for (const key of rest) {
    const isHeld = typeof value === "object" && value !== null && Object.hasOwn(value, key);
    value = isHeld ? (value as Record<string, unknown>)[key] : undefined;
  }
  return value !== undefined;
}
