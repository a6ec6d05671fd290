/** Job files (`perdure submit -f job.yaml`): one job, or `jobs` with a list of them. All of it is checked here, also what the
 *  library or a server would check again, because only here a mistake still has a line and a column. Checked is what the file
 *  says; whether a worker for it exists, nobody knows. */
import { resolve } from "node:path";
import { asInteger, asList, asObject, asText, checkKeys, type Fields, fieldPath, isPlain } from "../core/check.ts";
import { asSpan, toMs } from "../core/duration.ts";
import { ConfigError, show } from "../core/errors.ts";
import { checkExecInput } from "../core/exec-input.ts";
import { checkHttpInput } from "../core/http-input.ts";
import type { PolicyInput } from "../core/policy.ts";
import { resolvePolicy } from "../core/resolve-policy.ts";
import type { SubmitEntry, SubmitOptions } from "../core/submit-options.ts";
import { LIMITS } from "../engine/limits.ts";
import { isOver } from "../lib/text.ts";
import { usageError } from "./exit.ts";
import type { Io } from "./io.ts";
import { type Path, readYamlBytes, readYamlFile, type YamlText } from "./yaml.ts";
import { YAML_LIMITS } from "./yaml-scan.ts";

export interface FileJob {
  readonly entry: SubmitEntry & { readonly task: string };
  /** `job.yaml:3:5`, for what is said of it later. */
  readonly where: string;
}

const OPTION_KEYS = [
  ...(["key", "queue", "priority", "delay", "runAt", "tags", "timeout", "expireIn", "deadline"] as const),
  ...(["retry", "labels"] as const),
];
const JOB_KEYS = ["kind", "input", "argv", "command", ...OPTION_KEYS];
/** Of a command, beside `command` or `argv`. */
const EXEC_KEYS = ["shell", "env", "cwd", "stdin", "files", "grace", "outputCap", "limits", "umask", "keep"];

/** `-` is standard input. */
export async function readJobFile(name: string, io: Pick<Io, "cwd">, stdin = process.stdin): Promise<FileJob[]> {
  if (name === "-") return jobsOf(readYamlBytes(await bytesOf(stdin), "stdin"));
  const file = readYamlFile(resolve(io.cwd, name), name);
  if (file === null) throw usageError(`there is no file ${show(name)}; name another, or - for standard input`);
  return jobsOf(file);
}

/** Reads no further than one byte too many. */
export async function bytesOf(stream: AsyncIterable<Buffer | string>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    const bytes = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
    chunks.push(bytes);
    length += bytes.length;
    if (length > YAML_LIMITS.bytes) break;
  }
  return Buffer.concat(chunks);
}

export function jobsOf(file: YamlText): FileJob[] {
  const { value } = file;
  if (!isPlain(value)) {
    const got = value === null ? "nothing" : Array.isArray(value) ? "a list" : show(value);
    throw file.error([], `got ${got}; give one job, such as \`argv: [./backup.sh]\`, or \`jobs:\` with a list of them`);
  }
  try {
    if (!Object.hasOwn(value, "jobs")) return [jobOf(file, value, "")];
    const { jobs } = asObject(value, "", ["jobs"]);
    return asList(jobs, "jobs", (each, path) => jobOf(file, each, path), YAML_LIMITS.bytes, 1);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw file.error(stepsOf(error.path ?? ""), error.message);
  }
}

/** `path` names the job in errors: nothing for the only one, else `jobs[2]`. */
function jobOf(file: YamlText, value: unknown, path: string): FileJob {
  return { entry: entryOf(value, path), where: file.where(stepsOf(path)) };
}

/** One job, checked. The paths of its errors are those of the fields. */
export function entryOf(value: unknown, path: string): FileJob["entry"] {
  const fields: Fields<string> = asObject(value, path);
  const isExec = fields.argv !== undefined || fields.command !== undefined;
  checkKeys(value as object, isExec ? [...JOB_KEYS, ...EXEC_KEYS] : JOB_KEYS, path);
  const [task, input] = isExec ? commandOf(fields, path) : workOf(fields, path);
  if (isOver(JSON.stringify(input), LIMITS.payloadBytes)) {
    const at = isExec ? path : fieldPath(path, "input");
    const allowed = `at most ${LIMITS.payloadBytes} bytes as JSON; store the data elsewhere and give its address`;
    throw new ConfigError({ path: at, given: null, problem: "too much input", allowed });
  }
  return { task, input, options: optionsOf(fields, path) };
}

/** Any kind, with an input. */
function workOf({ kind, input = null }: Fields<string>, path: string): [string, unknown] {
  if (kind === undefined) {
    const allowed = "kind, such as exec, http or one of your own, or argv with a command";
    throw new ConfigError({ path: fieldPath(path, "kind"), given: undefined, problem: "it is missing", allowed });
  }
  const at = fieldPath(path, "input");
  const name = asName(kind, fieldPath(path, "kind"));
  if (name === "exec") checkExecInput(input, at);
  if (name === "http") checkHttpInput(input, at);
  return [name, input];
}

/** A command at the top of a job: its fields are those of an `exec` input. */
function commandOf(fields: Fields<string>, path: string): [string, unknown] {
  const { kind } = fields;
  if (kind !== undefined && kind !== "exec") {
    const allowed = "exec, or no kind: argv and command are commands";
    throw new ConfigError({ path: fieldPath(path, "kind"), given: kind, allowed });
  }
  const names = ["argv", "command", "input", ...EXEC_KEYS].filter((name) => fields[name] !== undefined);
  const input = Object.fromEntries(names.map((name) => [name, fields[name]]));
  checkExecInput(input, path);
  return ["exec", input];
}

type Check<T> = (value: unknown, path: string) => T;
type Checks = { [K in (typeof OPTION_KEYS)[number]]: Check<NonNullable<SubmitOptions[K]>> };

/** As the library takes them. */
const CHECKS: Checks = {
  key: (value, path) => asName(value, path, LIMITS.key),
  queue: asName,
  priority: (value, path) => asInteger(value, path, { min: 0, max: 9 }),
  delay: toMs,
  runAt: asInstant,
  tags: (value, path) => asList(value, path, asName, LIMITS.tags),
  timeout: asSpan,
  expireIn: asSpan,
  deadline: asInstant,
  retry: (value, path) => {
    resolvePolicy(value as PolicyInput, path);
    return value as PolicyInput;
  },
  labels: asLabels,
};

function optionsOf(fields: Fields<string>, path: string): NonNullable<SubmitEntry["options"]> {
  if (fields.delay !== undefined && fields.runAt !== undefined) {
    const allowed = "either delay or runAt, not both";
    throw new ConfigError({ path: fieldPath(path, "delay"), given: fields.delay, allowed });
  }
  const given = OPTION_KEYS.filter((name) => fields[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, CHECKS[name](fields[name], fieldPath(path, name))]));
}

function asName(value: unknown, path: string, limit: number = LIMITS.name): string {
  const text = asText(value, path, limit);
  if (/^[^\p{Cc}\p{Cs}]+$/u.test(text)) return text;
  throw new ConfigError({ path, given: value, allowed: "text without control characters" });
}

function asLabels(value: unknown, path: string): Record<string, string> {
  const entries = Object.entries(asObject(value, path));
  if (entries.length > LIMITS.labels) {
    throw new ConfigError({ path, given: entries.length, allowed: `at most ${LIMITS.labels} labels` });
  }
  const labels: Record<string, string> = Object.create(null);
  for (const [name, text] of entries) {
    labels[asName(name, fieldPath(path, name))] = asName(text, fieldPath(path, name));
  }
  return labels;
}

const INSTANT = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;

/** With its zone: without one it would mean another instant on another machine. */
export function asInstant(value: unknown, path: string): number {
  const [text, day] = typeof value === "string" ? (INSTANT.exec(value) ?? []) : [];
  const ms = typeof value === "number" ? value : text === undefined || !isDay(day) ? Number.NaN : Date.parse(text);
  if (Number.isFinite(ms) && ms >= 0 && ms <= 8.64e15) return Math.round(ms);
  const allowed = "an instant with its zone, such as 2026-11-16T09:00:00Z or …+01:00, or milliseconds since 1970";
  throw new ConfigError({ path, given: value, allowed });
}

/** JavaScript takes 30 February for 2 March. */
function isDay(day: string | undefined): boolean {
  const at = Date.parse(`${day}T00:00:00Z`);
  return Number.isFinite(at) && new Date(at).toISOString().startsWith(`${day}T`);
}

/** From the path of an error, `jobs[2].input["a b"]`, to the steps of it. What cannot be read ends it early. */
function stepsOf(path: string): Path {
  const steps: (string | number)[] = [];
  for (const [, name, index, quoted] of path.matchAll(/\.?([A-Za-z_$][\w$]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/gy)) {
    if (quoted !== undefined) steps.push(JSON.parse(quoted) as string);
    else steps.push(index === undefined ? (name as string) : Number(index));
  }
  return steps;
}
