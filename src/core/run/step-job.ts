/** What a step becomes when it starts: the job of its type with its filled input, a run below, a wait, or nothing but its data for
 *  one that only routes. What cannot be filled or is not a valid input fails the step with the reason `invalid`. */
import type { Failure } from "../decision/failure.ts";
import { toMs } from "../duration.ts";
import { ConfigError } from "../errors.ts";
import { connectionLabels, connectionName } from "../input/connections.ts";
import { checkExecInput } from "../input/exec-input.ts";
import { checkHttpInput } from "../input/http-input.ts";
import { checkPostgresInput } from "../input/postgres-input.ts";
import { PYTHON_LABELS, pythonInput } from "../input/python-input.ts";
import type { PlaybookStep, StepAction } from "../playbook/playbook.ts";
import { fillText, fillValue, type TemplateScope } from "../template/fill.ts";
import { fillShell } from "../template/shell.ts";
import { fillSql } from "../template/sql.ts";
import { httpRequest } from "./http-request.ts";
import type { InputEdit } from "./run.ts";
import { type Filled, fillPart, invalid, isRecord, type JsonFields, type RunData } from "./run-data.ts";
import { arrivedData } from "./step-fill.ts";
import { MAX_FILLED, optionsOf, type ScopeSource, type StartPlace, scopeOf, tooMuch } from "./step-scope.ts";

export type StepPlan =
  | { readonly kind: "job"; readonly job: StepJob }
  /** `path`: in the catalog; of an inline playbook `#` and the index of its step. `data`: JSON of `RunData`. */
  | { readonly kind: "run"; readonly path: string; readonly data: string; readonly wait: boolean }
  | { readonly kind: "wait"; readonly dueAt: number }
  /** Ends at once. `result`: JSON of the data of its arrivals; null without any. */
  | { readonly kind: "route"; readonly result: string | null }
  | { readonly kind: "failed"; readonly failure: Failure };

export interface StepJob {
  readonly kind: string;
  /** JSON. */
  readonly payload: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** Of a step, or of the item of its loop at this place. */
export function planStep(source: ScopeSource, place: StartPlace, edits: readonly InputEdit[] = []): StepPlan {
  const planned = plan(source, place, edits);
  return planned.ok ? planned.value : { kind: "failed", failure: planned.failure };
}

function plan(source: ScopeSource, place: StartPlace, edits: readonly InputEdit[]): Filled<StepPlan> {
  const step = source.playbook.steps[place.step] as PlaybookStep;
  const trouble = tooMuch(source, place);
  if (trouble !== null) return invalid("too_large", trouble);
  const arrived = arrivedData(source, place);
  if (!arrived.ok) return arrived;
  try {
    const input = new StepInput(source, place, arrived.value, edits);
    const expected = step.assert?.expects.find((key) => !hasKey(input.data, key));
    if (expected !== undefined) {
      return invalid(
        "assert",
        `the input of step "${step.name}" has no "${expected}", which \`assert.expects\` requires`,
      );
    }
    const { action } = step;
    if (action === null) {
      const result = input.data === null ? null : jsonOf(input.data);
      return { ok: true, value: { kind: "route", result } };
    }
    return { ok: true, value: planOf(action, place.step, input, source.now) };
  } catch (error) {
    if (error instanceof InputError) return error.filled;
    if (error instanceof ConfigError) return invalid("input", error.message);
    throw error;
  }
}

/** Carries why an input is invalid out of the functions that make it. */
class InputError extends Error {
  readonly filled: { readonly ok: false; readonly failure: Failure };

  constructor(filled: { readonly ok: false; readonly failure: Failure }) {
    super(filled.failure.message);
    this.filled = filled;
  }
}

function refuse(code: string, message: string): never {
  throw new InputError(invalid(code, message));
}

/** The data of a step, and the fields of its action, filled with it. */
class StepInput {
  readonly data: JsonFields | null;
  readonly #source: ScopeSource;
  #scope: TemplateScope;
  readonly #edits: readonly InputEdit[];

  constructor(source: ScopeSource, place: StartPlace, arrived: JsonFields | null, edits: readonly InputEdit[]) {
    const { action } = source.playbook.steps[place.step] as PlaybookStep;
    this.#source = source;
    this.#edits = edits;
    this.#scope = scopeOf(source, place, arrived);
    const own = action === null ? null : action.data;
    if (own === null || own === undefined || isRecord(own)) {
      const filled = isRecord(own) ? (this.fill("data", own) as JsonFields) : null;
      const data = this.#edited("data", filled === null && arrived === null ? null : { ...filled, ...arrived });
      if (data !== null && !isRecord(data)) refuse("redrive_set", "data: must be an object");
      this.data = data;
    } else this.data = arrived; // a task may have data of any kind
    this.#scope = scopeOf(source, place, this.data);
  }

  fill(field: string, value: unknown): unknown {
    return this.#made(field, () => fillValue(value, this.#scope, optionsOf(this.#source)));
  }

  /** A field of the action, filled, with the edits of a redrive. */
  field(name: string, value: unknown): unknown {
    return this.#edited(name, value === null || value === undefined ? value : this.fill(name, value));
  }

  /** A command for a shell. */
  shell(name: string, command: string): unknown {
    const filled = this.#made(name, () => fillShell(command, this.#scope, optionsOf(this.#source)));
    return this.#edited(name, filled);
  }

  sql(name: string, command: string) {
    return this.#made(name, () => fillSql(command, this.#scope, optionsOf(this.#source)));
  }

  text(name: string, template: string): unknown {
    return this.#edited(
      name,
      this.#made(name, () => fillText(template, this.#scope, optionsOf(this.#source))),
    );
  }

  /** Edits of fields that this type of step does not have. */
  checkEdits(known: readonly string[]): void {
    const unknown = this.#edits.find(({ path }) => !known.includes(path.split(".")[0] as string));
    if (unknown === undefined) return;
    refuse("redrive_set", `cannot set "${unknown.path}": the input of the step has ${known.join(", ")}`);
  }

  #made<T>(field: string, fill: () => T): T {
    const filled = fillPart(field, fill);
    if (filled.ok) return filled.value;
    throw new InputError(filled);
  }

  #edited(name: string, value: unknown): unknown {
    let edited = value;
    for (const { path, value: next } of this.#edits) {
      const [first, ...rest] = path.split(".");
      if (first === name) edited = withPath(edited, rest, next);
    }
    return edited;
  }
}

/** A copy with another value at a path; objects that are missing are made. */
function withPath(value: unknown, path: readonly string[], next: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return next;
  if (Array.isArray(value) && /^\d{1,6}$/.test(key) && Number(key) <= value.length) {
    const list = [...value];
    list[Number(key)] = withPath(list[Number(key)], rest, next);
    return list;
  }
  const copy: Record<string, unknown> = Object.assign(Object.create(null), isRecord(value) ? value : {});
  copy[key] = withPath(copy[key], rest, next);
  return copy;
}

function hasKey(data: JsonFields | null, path: string): boolean {
  let value: unknown = data;
  for (const key of path.split(".")) {
    value = isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value !== undefined;
}

const NO_LABELS: Readonly<Record<string, string>> = Object.freeze({});

function planOf(action: StepAction, step: number, input: StepInput, now: number): StepPlan {
  switch (action.type) {
    case "http": {
      input.checkEdits([...Object.keys(action.request), "url", "method", "headers", "params", "body", "data"]);
      const names = new Set([...Object.keys(action.request), "url", "method", "headers", "params", "body"]);
      const fields: Record<string, unknown> = {};
      for (const name of names) fields[name] = input.field(name, action.request[name]);
      const request = httpRequest(fields, input.data);
      checkHttpInput(request, "");
      return job("http", request);
    }
    case "python": {
      input.checkEdits(["data", "env"]);
      const env = textsOf("env", input.field("env", action.env));
      return job("exec", pythonInput({ codeHash: action.code, data: input.data, env }), PYTHON_LABELS);
    }
    case "shell": {
      input.checkEdits(["command", "env", "cwd", "data"]);
      const command = input.shell("command", action.command);
      const env = textsOf("env", input.field("env", action.env));
      const cwd = input.field("cwd", action.cwd);
      return commandJob({ command, env, cwd: cwd ?? undefined, resultStdout: true }, true);
    }
    case "exec": {
      input.checkEdits([...Object.keys(action.input), "argv", "env", "cwd", "stdin", "input", "data"]);
      const fields: Record<string, unknown> = {};
      for (const name of new Set([...Object.keys(action.input), "argv", "env", "cwd", "stdin", "input"])) {
        fields[name] = input.field(name, action.input[name]);
      }
      const { argv, env, cwd, stdin, ...rest } = fields;
      const list = Array.isArray(argv) ? argv.map((each, i) => textOf(`argv[${i}]`, each)) : argv;
      const text = stdin === undefined ? undefined : textOf("stdin", stdin);
      const shown = { ...rest, argv: list, cwd: cwd ?? undefined, env: textsOf("env", env ?? {}), stdin: text };
      return commandJob({ resultStdout: true, ...shown });
    }
    case "postgres": {
      input.checkEdits(["connection", "data"]);
      const connection = connectionName(input.text("connection", action.connection), "connection");
      const { maxRows, maxBytes } = action;
      const statements = input.sql("command", action.command);
      const caps = { ...(maxRows === null ? {} : { maxRows }), ...(maxBytes === null ? {} : { maxBytes }) };
      const payload = { connection, statements, ...caps };
      checkPostgresInput(payload, "");
      return job("postgres", payload, connectionLabels(connection));
    }
    case "task": {
      input.checkEdits(["data"]);
      const { data } = action;
      if (data === null || data === undefined || isRecord(data)) return job(action.task, input.data);
      const own = input.field("data", data);
      if (input.data === null) return job(action.task, own);
      if (!isRecord(own)) refuse("input", "data: arcs bring data for this step, so its own data must be an object");
      return job(action.task, { ...own, ...input.data });
    }
    case "playbook": {
      input.checkEdits(["path", "data"]);
      const path = action.inline === null ? input.text("path", action.path ?? "") : `#${step}`;
      if (typeof path !== "string" || path === "") refuse("input", "path: must be the path of a playbook");
      const { returnStep } = action;
      const data: RunData = {
        inputs: input.data ?? {},
        workload: null,
        ...(returnStep === null ? {} : { returnStep }),
      };
      return { kind: "run", path, data: jsonOf(data), wait: action.wait };
    }
    case "wait":
      input.checkEdits(["for", "until", "data"]);
      return { kind: "wait", dueAt: dueAt(input.field("for", action.for), input.field("until", action.until), now) };
  }
}

function commandJob(input: Record<string, unknown>, isShell = false): StepPlan {
  const given = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
  if (isShell) given.shell = isShell;
  if (isRecord(given.env) && Object.keys(given.env).length === 0) delete given.env;
  checkExecInput(given, "");
  return job("exec", given);
}

function job(kind: string, payload: unknown, labels = NO_LABELS): StepPlan {
  return { kind: "job", job: { kind, payload: jsonOf(payload), labels } };
}

function jsonOf(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  if (text.length > MAX_FILLED) {
    refuse("too_large", `the filled input has ${text.length} characters; at most ${MAX_FILLED} are allowed`);
  }
  return text;
}

/** Variables and arguments are texts; numbers, lists and objects are written as JSON. */
function textsOf(field: string, value: unknown): Record<string, string> {
  if (!isRecord(value)) refuse("input", `${field}: must be an object of texts`);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, textOf(`${field}.${name}`, each)]));
}

function textOf(path: string, value: unknown): string {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) refuse("undefined", `${path}: is None, which is not text`);
  return JSON.stringify(value);
}

/** A time without a zone is in UTC. One in the past is due at once. */
function dueAt(span: unknown, until: unknown, now: number): number {
  if (until === null || until === undefined) return now + toMs(span, "for");
  const text = typeof until === "string" ? until.trim() : until;
  const iso = typeof text === "string" && /T\d\d:\d\d(:\d\d(\.\d{1,9})?)?$/.test(text) ? `${text}Z` : text;
  const at = typeof iso === "string" && ISO.test(iso) ? Date.parse(iso) : typeof iso === "number" ? iso : Number.NaN;
  if (Number.isFinite(at) && at >= 0 && at <= MAX_INSTANT) return Math.max(now, Math.round(at));
  return refuse("input", "until: must be an instant such as 2026-03-01T09:00:00Z, or milliseconds since 1970");
}

const ISO = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d))?$/;
const MAX_INSTANT = 8.64e15;
