/** One step of NoETL as a job: a request (`http`), a command (`shell`) or a program (`python`). Templates are not filled in,
 *  since there is no playbook around it to fill them from: where one would be sent to somebody, or run by a shell, it is
 *  refused. */
import { asList, asObject, asOneOf, asText, fieldPath, isPlain } from "../../core/check.ts";
import { MAX_DURATION_MS } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkExecInput, type ExecInput } from "../../core/exec-input.ts";
import { noteCap } from "../cap-note.ts";
import type { ReadContext, ReadEntry } from "../dialect.ts";
import { NODE_TYPES, type NodeType, noetlAnnotations } from "./node.ts";
import { CODE_FILE, PYTHON_RUNNER, RUNNER_FILE } from "./python-runner.ts";
import { BODIES, noetlRequest } from "./request.ts";
import { type NoetlRetry, noetlPolicy, readNoetlRetry } from "./retry.ts";
import { type Given, hasTemplate, refuseTemplates, type Step, timeoutMs } from "./step.ts";

const COMMON = ["step", "desc", "type", "tool", "timeout", "retry", "next"] as const;
/** NoETL's names for what `main` gets, of which a step has one. */
const ARGUMENTS = ["args", "data", "input", "with", "payload"] as const;
const FIELDS = {
  http: [...COMMON, "url", "method", "headers", "params", ...BODIES],
  shell: [...COMMON, "command", "env"],
  python: [...COMMON, "code", "script", "env", ...ARGUMENTS],
} as const;

const MAX_TEXT = 131_072; // as an argument of a command

/** `path` leads to the step from the document's root; what cannot be done is added to `notes`. */
export function readNoetlTask(
  value: unknown,
  path: string,
  context: ReadContext,
  playbook: string | null,
  notes: string[],
): ReadEntry {
  const type = typeOf(asObject(value, path) as Given, path);
  const fields = asObject(value, path, FIELDS[type] as readonly string[]) as Given;
  const step = stepName(fields.step, path, context.file);
  const retry = readNoetlRetry(fields.retry, fieldPath(path, "retry"));
  if (fields.retry === null) notes.push(`${fieldPath(path, "retry")} is empty: the task is not retried`);
  if (retry !== null) noteDelays(retry, fieldPath(path, "retry"), notes);
  const desc = fields.desc === undefined ? null : asText(fields.desc, fieldPath(path, "desc"), 2_000);
  const options = {
    retry: noetlPolicy(retry, step, fieldPath(path, "retry")),
    annotations: noetlAnnotations({ step, type, retry, playbook, desc }),
  };
  const each: Step = { fields, path, context, notes };
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
  noteCap({ path, said: `initial_delay is ${initial_delay}`, ...delays, runs: max_attempts }, notes);
}

function typeOf({ type, tool }: Given, path: string): NodeType {
  if (type !== undefined && tool !== undefined) {
    throw new ConfigError({ path: fieldPath(path, "tool"), given: tool, allowed: "either type or tool, not both" });
  }
  if (type === undefined && tool === undefined) {
    const allowed = NODE_TYPES.map((each) => `"${each}"`).join(", ");
    throw new ConfigError({ path: fieldPath(path, "type"), given: type, allowed, problem: "neither type nor tool" });
  }
  return asOneOf(type ?? tool, NODE_TYPES, fieldPath(path, type === undefined ? "tool" : "type"));
}

/** A step without a name is called as its file. */
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

/** A list is a program with its arguments, and the way to give braces that are none of NoETL's. Text is for a shell: its author
 *  wrote it for one, and what it does with a template that nobody filled in is anybody's guess. */
function command({ fields, path, notes }: Step): ExecInput {
  const at = fieldPath(path, "command");
  const given = fields.command;
  const isList = Array.isArray(given);
  const what = isList ? { argv: asList(given, at, argument, 10_000, 1) } : shellText(given, at);
  if (isList) asText(given[0], `${at}[0]`, 4_096);
  if (isList && given.some(hasTemplate)) {
    notes.push(`${at} holds {{ or {%: it is run as it is, since templates are filled in by whole playbooks only`);
  }
  return checkedExec({ ...what, ...envOf(fields, path) }, path);
}

function shellText(value: unknown, path: string): ExecInput {
  if (typeof value !== "string") {
    const problem = value === undefined ? { problem: "no command" } : {};
    throw new ConfigError({ path, given: value, allowed: "text for a shell, or a list of texts", ...problem });
  }
  if (hasTemplate(value)) {
    const filled = "templates are filled in by whole playbooks, which are not supported yet";
    const list = 'Write a list, where they stand for themselves, as in [docker, ps, --format, "{{.ID}}"]';
    const allowed = `text without {{ and {%: ${filled}. ${list}`;
    throw new ConfigError({ path, given: "a template", allowed, problem: "got a template" });
  }
  return { command: asText(value, path, MAX_TEXT), shell: true };
}

function argument(value: unknown, path: string): string {
  if (typeof value === "string" && value.length <= MAX_TEXT && !value.includes("\0")) return value;
  throw new ConfigError({ path, given: value, allowed: `text of at most ${MAX_TEXT} characters, without NUL` });
}

/** Whether there is a `main` to call is decided where the code runs, by Python itself. */
function program({ fields, path, context }: Step): ExecInput {
  const { code, script } = fields;
  const at = fieldPath(path, code === undefined ? "script" : "code");
  if ((code === undefined) === (script === undefined)) {
    const problem = code === undefined ? "neither code nor script" : "both code and script";
    const allowed = "code, the program itself, or script, the path of a file beside this one";
    throw new ConfigError({ path: fieldPath(path, "code"), given: code, allowed, problem });
  }
  const bytes = code === undefined ? scriptBytes(script, at, context) : asText(code, at, 1_048_576);
  const files = { [CODE_FILE]: base64(bytes), [RUNNER_FILE]: base64(PYTHON_RUNNER) };
  const given = argumentsOf(fields, path);
  return checkedExec({ argv: ["python3", `inputs/${RUNNER_FILE}`], ...given, ...envOf(fields, path), files }, path);
}

/** What `main` is called with. It reaches the runner as standard input. */
function argumentsOf(fields: Given, path: string): Pick<ExecInput, "input"> {
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

/** As they are: Python reads of the file itself how it is encoded. */
function scriptBytes(value: unknown, path: string, context: ReadContext): Uint8Array {
  const name = asText(value, path, 4_096);
  const bytes = context.bytes(name);
  if (bytes !== null) return bytes;
  throw new ConfigError({ path, given: name, allowed: "the path of a file, from the folder of this one" });
}

function envOf({ env }: Given, path: string): Pick<ExecInput, "env"> {
  if (env === undefined) return {};
  refuseTemplates(env, fieldPath(path, "env"));
  return { env: env as Readonly<Record<string, string>> };
}

function checkedExec(input: ExecInput, path: string): ExecInput {
  checkExecInput(input, path);
  return input;
}
