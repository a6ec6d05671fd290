/** A task of NoETL as a job: a shell command, a Python function or an HTTP request. */
import { asList, asNumber, asObject, asOneOf, asText, fieldPath, isPlain } from "../../core/check.ts";
import { MAX_DURATION_MS } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkExecInput, type ExecInput } from "../../core/input/exec-input.ts";
import { checkHttpInput, type HttpInput } from "../../core/input/http-input.ts";
import { CODE_FILE, PYTHON_RUNNER, RUNNER_FILE } from "../../core/input/python-harness.ts";
import type { ReadContext, ReadEntry } from "../dialect.ts";
import { noteCap } from "../shared.ts";
import { NODE_TYPES, type NodeType, noetlAnnotations } from "./node.ts";
import { type NoetlRetry, noetlPolicy, readNoetlRetry } from "./retry.ts";

// Fields of a step of any type.

type NoetlFields = Readonly<Record<string, unknown>>;

interface NoetlStepFields {
  /** Only the fields of its type. */
  readonly fields: NoetlFields;
  /** The path from the document's root. */
  readonly path: string;
  readonly context: ReadContext;
  /** Unsupported requests are added here. */
  readonly notes: string[];
}

/** `timeout` in milliseconds; it is given in seconds. Null without one. */
function timeoutMs({ fields, path }: NoetlStepFields, maxMs: number): number | null {
  if (fields.timeout === undefined) return null;
  const bounds = { min: 0.001, max: maxMs / 1_000 };
  return Math.round(asNumber(fields.timeout, fieldPath(path, "timeout"), bounds) * 1_000);
}

function hasTemplate(text: unknown): boolean {
  return typeof text === "string" && /\{\{|\{%/.test(text);
}

/** The value is not shown: it may be a secret. */
function refuseTemplates(value: unknown, path: string): void {
  if (hasTemplate(value)) {
    const allowed =
      "text without {{ and {%: templates are only filled in whole playbooks, and this is read as a single task";
    throw new ConfigError({ path, given: "a template", allowed, problem: "got a template" });
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) refuseTemplates(item, `${path}[${index}]`);
  } else if (isPlain(value)) {
    for (const [key, item] of Object.entries(value)) refuseTemplates(item, fieldPath(path, key));
  }
}

// A step that makes a request: `url`, `method`, `headers`, `params` for the query, and a body, called `data`, `payload`
// or `body`. Messages show no values: they may be secrets.

const BODIES = ["data", "payload", "body"] as const;
const MAX_PARAMS = 100;
const MAX_TIMEOUT_MS = 3_600_000; // the limit of any request

function noetlRequest(step: NoetlStepFields): HttpInput {
  const { fields, path } = step;
  const { url, method, headers } = fields;
  for (const name of ["url", "method", "headers", "params", ...BODIES]) {
    refuseTemplates(fields[name], fieldPath(path, name));
  }
  const timeout = timeoutMs(step, MAX_TIMEOUT_MS);
  const bodies = BODIES.filter((name) => fields[name] !== undefined);
  const [named, second] = bodies;
  if (second !== undefined) {
    const allowed = `one of ${BODIES.join(", ")}`;
    throw new ConfigError({ path: fieldPath(path, second), given: second, allowed, problem: "a second body" });
  }
  if (named !== undefined && /^(get|head)$/i.test(String(method ?? "GET"))) {
    const allowed = "a method such as POST; use params for the query";
    throw new ConfigError({ path: fieldPath(path, named), given: named, allowed, problem: "a body with GET" });
  }
  const input = {
    url: fields.params === undefined ? url : withParams(url, fields.params, fieldPath(path, "params")),
    ...(method === undefined ? {} : { method }),
    ...(headers === undefined ? {} : { headers }),
    ...(named === undefined ? {} : { body: fields[named] }),
    ...(timeout === null ? {} : { timeout }),
  } as HttpInput;
  checkHttpInput(input, path);
  return input;
}

function withParams(url: unknown, value: unknown, path: string): unknown {
  const params = asObject(value, path) as NoetlFields;
  const pairs = Object.entries(params).flatMap(([name, given]): [string, string][] => {
    const at = fieldPath(path, name);
    if (!Array.isArray(given)) return [[name, paramText(given, at)]];
    return asList(given, at, paramText, MAX_PARAMS).map((text) => [name, text]);
  });
  if (pairs.length > MAX_PARAMS) {
    throw new ConfigError({ path, given: value, allowed: `at most ${MAX_PARAMS}`, problem: `got ${pairs.length}` });
  }
  if (typeof url !== "string" || !URL.canParse(url)) return url; // refused later, with a better message
  const address = new URL(url);
  const added = new URLSearchParams(pairs).toString();
  address.search = [address.search.slice(1), added].filter((part) => part !== "").join("&");
  return address.href;
}

function paramText(value: unknown, path: string): string {
  if (typeof value === "string" || typeof value === "boolean" || Number.isFinite(value)) return String(value);
  throw new ConfigError({ path, given: value, allowed: "text, a number, true or false, or a list of these" });
}

// A step as a job: a request (`http`), a command (`shell`) or a program (`python`). Templates are not filled in, because
// there is no playbook to fill them from: a template that would be sent, or run by a shell, is refused.

const COMMON = ["step", "desc", "type", "tool", "timeout", "retry", "next"] as const;
/** NoETL's names for the arguments of `main`; a step has one of them. */
const ARGUMENTS = ["args", "data", "input", "with", "payload"] as const;
const FIELDS = {
  http: [...COMMON, "url", "method", "headers", "params", ...BODIES],
  shell: [...COMMON, "command", "env"],
  python: [...COMMON, "code", "script", "env", ...ARGUMENTS],
} as const;

const MAX_TEXT = 131_072; // as one argument of a command

/** `path` is the step's path from the document's root; unsupported requests are added to `notes`. */
export function readNoetlTask(
  value: unknown,
  path: string,
  context: ReadContext,
  playbook: string | null,
  notes: string[],
): ReadEntry {
  const type = typeOf(asObject(value, path) as NoetlFields, path);
  const fields = asObject(value, path, FIELDS[type] as readonly string[]) as NoetlFields;
  const step = stepName(fields.step, path, context.file);
  const retry = readNoetlRetry(fields.retry, fieldPath(path, "retry"));
  if (fields.retry === null) notes.push(`${fieldPath(path, "retry")} is empty: the task is not retried`);
  if (retry !== null) noteDelays(retry, fieldPath(path, "retry"), notes);
  const desc = fields.desc === undefined ? null : asText(fields.desc, fieldPath(path, "desc"), 2_000);
  const options = {
    retry: noetlPolicy(retry, step, fieldPath(path, "retry")),
    annotations: noetlAnnotations({ step, type, retry, playbook, desc }),
  };
  const each: NoetlStepFields = { fields, path, context, notes };
  if (type === "http") return { task: "http", input: noetlRequest(each), options };
  const timeout = timeoutMs(each, MAX_DURATION_MS);
  return {
    task: "exec",
    input: type === "shell" ? command(each) : program(each),
    options: {
      ...options,
      ...(timeout === null ? {} : { timeout }),
      ...(type === "python" ? { labels: { "runtime/python": "yes" } } : {}),
    },
  };
}

function noteDelays({ initial_delay, max_delay, max_attempts }: NoetlRetry, path: string, notes: string[]): void {
  const delays = { initialMs: initial_delay * 1_000, capMs: max_delay * 1_000 };
  noteCap({ path, field: `initial_delay is ${initial_delay}`, ...delays, attempts: max_attempts }, notes);
}

function typeOf({ type, tool }: NoetlFields, path: string): NodeType {
  if (type !== undefined && tool !== undefined) {
    throw new ConfigError({ path: fieldPath(path, "tool"), given: tool, allowed: "either type or tool, not both" });
  }
  if (type === undefined && tool === undefined) {
    const allowed = NODE_TYPES.map((each) => `"${each}"`).join(", ");
    throw new ConfigError({ path: fieldPath(path, "type"), given: type, allowed, problem: "neither type nor tool" });
  }
  return asOneOf(type ?? tool, NODE_TYPES, fieldPath(path, type === undefined ? "tool" : "type"));
}

/** A step without a name has that of its file. */
function stepName(value: unknown, path: string, file: string): string {
  if (value === undefined) {
    const base = (file.split(/[/\\]/).at(-1) as string).replace(/\.[^.]*$/, "").slice(0, 200);
    return /^[^\p{Cc}]*[^\p{Cc}\s]/u.test(base) ? base : "task";
  }
  const at = fieldPath(path, "step");
  const name = asText(value, at, 200);
  if (/\p{Cc}/u.test(name)) throw new ConfigError({ path: at, given: name, allowed: "a name on one line" });
  return name;
}

/** A list is a program with its arguments, and may contain braces that are not NoETL's. A text is for a shell, where a
 *  template that is not filled in could do anything. */
function command({ fields, path, notes }: NoetlStepFields): ExecInput {
  const at = fieldPath(path, "command");
  const given = fields.command;
  const isList = Array.isArray(given);
  const what = isList ? { argv: asList(given, at, argument, 10_000, 1) } : shellText(given, at);
  if (isList) asText(given[0], `${at}[0]`, 4_096);
  if (isList && given.some(hasTemplate)) {
    notes.push(`${at} has {{ or {%: it is run unchanged, because templates are only filled in whole playbooks`);
  }
  return checkedExec({ ...what, ...envOf(fields, path) }, path);
}

function shellText(value: unknown, path: string): ExecInput {
  if (typeof value !== "string") {
    const problem = value === undefined ? { problem: "no command" } : {};
    throw new ConfigError({ path, given: value, allowed: "text for a shell, or a list of texts", ...problem });
  }
  if (hasTemplate(value)) {
    const filled = "templates are only filled in whole playbooks, and this is read as a single task";
    const list = 'Use a list, in which braces are literal, as in [docker, ps, --format, "{{.ID}}"]';
    const allowed = `text without {{ and {%: ${filled}. ${list}`;
    throw new ConfigError({ path, given: "a template", allowed, problem: "got a template" });
  }
  return { command: asText(value, path, MAX_TEXT), shell: true };
}

function argument(value: unknown, path: string): string {
  if (typeof value === "string" && value.length <= MAX_TEXT && !value.includes("\0")) return value;
  throw new ConfigError({ path, given: value, allowed: `text of at most ${MAX_TEXT} characters, without NUL` });
}

/** Python decides at run time whether there is a `main` to call. */
function program({ fields, path, context }: NoetlStepFields): ExecInput {
  const { code, script } = fields;
  const at = fieldPath(path, code === undefined ? "script" : "code");
  if ((code === undefined) === (script === undefined)) {
    const problem = code === undefined ? "neither code nor script" : "both code and script";
    const allowed = "code, the program itself, or script, the path of a file in this folder";
    throw new ConfigError({ path: fieldPath(path, "code"), given: code, allowed, problem });
  }
  const bytes = code === undefined ? scriptBytes(script, at, context) : asText(code, at, 1_048_576);
  const files = { [CODE_FILE]: base64(bytes), [RUNNER_FILE]: base64(PYTHON_RUNNER) };
  const given = argumentsOf(fields, path);
  return checkedExec({ argv: ["python3", `inputs/${RUNNER_FILE}`], ...given, ...envOf(fields, path), files }, path);
}

/** The arguments of `main`, passed to the runner on standard input. */
function argumentsOf(fields: NoetlFields, path: string): Pick<ExecInput, "input"> {
  const [name, second] = ARGUMENTS.filter((each) => (fields[each] ?? null) !== null);
  if (name === undefined) return {};
  if (second !== undefined) {
    const problem = `both ${name} and ${second}`;
    const allowed = `one of ${ARGUMENTS.join(", ")}`;
    throw new ConfigError({ path: fieldPath(path, second), given: second, allowed, problem });
  }
  const at = fieldPath(path, name);
  const given = fields[name];
  if (!isPlain(given)) {
    throw new ConfigError({ path: at, given, allowed: "the arguments of main by their names, as in { city: Paris }" });
  }
  refuseTemplates(given, at);
  return { input: given };
}

function base64(content: string | Uint8Array): string {
  return Buffer.from(content as string).toString("base64");
}

/** As bytes: Python reads the encoding from the file itself. */
function scriptBytes(value: unknown, path: string, context: ReadContext): Uint8Array {
  const name = asText(value, path, 4_096);
  const bytes = context.bytes(name);
  if (bytes !== null) return bytes;
  throw new ConfigError({ path, given: name, allowed: "the path of a file, relative to this one" });
}

function envOf({ env }: NoetlFields, path: string): Pick<ExecInput, "env"> {
  if (env === undefined) return {};
  refuseTemplates(env, fieldPath(path, "env"));
  return { env: env as Readonly<Record<string, string>> };
}

function checkedExec(input: ExecInput, path: string): ExecInput {
  checkExecInput(input, path);
  return input;
}
