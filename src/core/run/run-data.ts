/** The data of a run: its checked input, and its workload, which is filled once, at the start. Texts of the input are never
 *  templates. */
import { isPlain } from "../check.ts";
import { type Failure, failure } from "../decision/failure.ts";
import { showAt } from "../format.ts";
import { checkInputs } from "../playbook/input-check.ts";
import type { Playbook } from "../playbook/playbook.ts";
import { FillError, fillValue, type TemplateScope } from "../template/fill.ts";

export type JsonFields = Readonly<Record<string, unknown>>;

export interface RunData {
  readonly inputs: Readonly<Record<string, unknown>>;
  /** Null until the start. */
  readonly workload: Readonly<Record<string, unknown>> | null;
  /** Of a run below: the output of this step is its result. */
  readonly returnStep?: string;
}

/** A value with its templates filled, or why it could not be. */
export type Filled<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: Failure };

export function parseRunData(json: string): RunData {
  const { inputs, workload, returnStep } = JSON.parse(json) as Partial<RunData>;
  const data = { inputs: inputs ?? {}, workload: workload ?? null };
  return returnStep === undefined ? data : { ...data, returnStep };
}

/** `over` replaces values of `base`; objects in both are merged. */
export function mergedOver(
  base: Readonly<Record<string, unknown>>,
  over: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const merged: Record<string, unknown> = Object.create(null);
  for (const [key, value] of Object.entries(base)) merged[key] = value;
  for (const [key, value] of Object.entries(over)) {
    const before = merged[key];
    merged[key] = isRecord(before) && isRecord(value) ? mergedOver(before, value) : value;
  }
  return merged;
}

/** Fills the defaults one after another, so that one can use those above it, and merges the input over them. The input is checked
 *  here too, as that of a run below is made from templates. */
export function startRunData(playbook: Playbook, data: RunData, runId: string, now: number): Filled<RunData> {
  const { value: inputs, problems } = checkInputs(playbook.inputs, data.inputs);
  if (problems.length > 0) {
    return invalid("input", `the input is not valid: ${problems.map(({ message }) => message).join("; ")}`);
  }
  const workload: Record<string, unknown> = mergedOver({}, inputs);
  const scope: TemplateScope = (name) => {
    if (name === "inputs") return inputs;
    if (name === "workload") return workload;
    return runName(name, runId, now) ?? (Object.hasOwn(workload, name) ? workload[name] : undefined);
  };
  for (const [key, value] of Object.entries(playbook.workload)) {
    const given = Object.hasOwn(inputs, key) ? inputs[key] : undefined;
    if (given !== undefined && !(isRecord(given) && isRecord(value))) continue;
    const filled = fillPart(`workload.${key}`, () => fillValue(value, scope, { undefined: playbook.undefined }));
    if (!filled.ok) return filled;
    workload[key] = isRecord(given) && isRecord(filled.value) ? mergedOver(filled.value, given) : filled.value;
  }
  return { ok: true, value: { ...data, inputs, workload } };
}

/** Undefined for other names. */
export function runName(name: string, runId: string, now: number): unknown {
  if (name === "execution_id") return runId;
  if (name === "run") return { id: runId };
  return name === "now" ? showAt(now) : undefined;
}

/** `path`: of the part, for the message. */
export function fillPart<T>(path: string, fill: () => T): Filled<T> {
  try {
    return { ok: true, value: fill() };
  } catch (error) {
    if (!(error instanceof FillError)) throw error;
    const at = error.path.reduce<string>((text, key) => joined(text, key), path);
    return invalid(error.code, `${at === "" ? "" : `${at}: `}${error.message}`);
  }
}

function joined(path: string, key: string | number): string {
  if (typeof key === "number") return `${path}[${key}]`;
  const isPlainKey = /^[A-Za-z_][\w-]*$/.test(key);
  return isPlainKey ? (path === "" ? key : `${path}.${key}`) : `${path}[${JSON.stringify(key)}]`;
}

export function invalid(code: string, message: string): { readonly ok: false; readonly failure: Failure } {
  return { ok: false, failure: failure({ kind: "error", class: "invalid", code, message }) };
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return isPlain(value);
}
