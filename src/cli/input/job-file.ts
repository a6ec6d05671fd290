/** Job files (`perdure submit -f job.yaml`): one job, or `jobs` with a list of them. Everything is checked here, also what
 *  the library or a server checks again, because only here an error has a line and a column. Whether a worker serves the job
 *  is not checked. */
import { resolve } from "node:path";
import { asList, asObject, checkKeys, type Fields, fieldPath, isPlain } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";
import { checkExecInput } from "../../core/input/exec-input.ts";
import { checkHttpInput } from "../../core/input/http-input.ts";
import type { SubmitEntry } from "../../core/task/task.ts";
import { LIMITS } from "../../engine/limits.ts";
import { isOver } from "../../lib/text.ts";
import type { YamlPath, YamlText } from "../../yaml/read.ts";
import { YAML_LIMITS } from "../../yaml/scan.ts";
import { missingFileError } from "../exit.ts";
import type { Io } from "../io.ts";
import { asName, OPTION_KEYS, optionsOf } from "./job-options.ts";
import { readYamlBytes, readYamlFile, yamlUsageError } from "./yaml-file.ts";

export interface FileJob {
  readonly entry: SubmitEntry & { readonly task: string };
  /** `job.yaml:3:5`, for later messages. */
  readonly where: string;
  /** The position of the parent's id, if the job has a parent. */
  readonly parentWhere?: string | undefined;
}

const JOB_KEYS = ["kind", "input", "argv", "command", ...OPTION_KEYS];
/** Fields of a command besides `command` and `argv`. */
const EXEC_KEYS = [
  ...["shell", "env", "cwd", "stdin", "files", "grace", "outputCap", "limits", "umask", "keep"],
  ...["ports", "fill", "resultStdout"],
];
/** All fields allowed at the top of a job file. */
export const TOP_KEYS: readonly string[] = [...JOB_KEYS, ...EXEC_KEYS, "jobs"];

/** Also for a file that contains only comments. */
export const EMPTY = "the file is empty; write a job, such as `argv: [./backup.sh]`";

/** `-` is standard input. */
export async function readJobFile(name: string, io: Pick<Io, "cwd">, stdin = process.stdin): Promise<FileJob[]> {
  if (name === "-") return jobsOf(readYamlBytes(await bytesOf(stdin), "stdin"));
  const file = readYamlFile(resolve(io.cwd, name), name);
  if (file === null) throw missingFileError(name, "pass another, or - for standard input");
  return jobsOf(file);
}

/** Reads at most one byte over the limit. */
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
  if (value === null) throw yamlUsageError(file, [], EMPTY);
  if (!isPlain(value)) {
    const got = Array.isArray(value) ? "a list" : show(value);
    throw yamlUsageError(
      file,
      [],
      `must be one job, such as \`argv: [./backup.sh]\`, or \`jobs:\` with a list of them; got ${got}`,
    );
  }
  try {
    if (!Object.hasOwn(value, "jobs")) return [jobOf(file, value, "")];
    const { jobs } = asObject(value, "", ["jobs"]);
    return asList(jobs, "jobs", (each, path) => jobOf(file, each, path), YAML_LIMITS.bytes, 1);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw yamlUsageError(file, stepsOf(error.path ?? ""), withQuotes(error));
  }
}

/** `path` names the job in errors: empty for the only job, else `jobs[2]`. */
function jobOf(file: YamlText, value: unknown, path: string): FileJob {
  const entry = entryOf(value, path);
  const parent = entry.options?.parent === undefined ? undefined : file.where(stepsOf(fieldPath(path, "parent")));
  return { entry, where: file.where(stepsOf(path)), parentWhere: parent };
}

/** One job, checked. The paths of errors are those of its fields. */
export function entryOf(value: unknown, path: string): FileJob["entry"] {
  const fields: Fields<string> = asObject(value, path);
  const isExec = fields.argv !== undefined || fields.command !== undefined;
  checkKeys(value as object, isExec ? [...JOB_KEYS, ...EXEC_KEYS] : JOB_KEYS, path);
  const [task, input] = isExec ? commandOf(fields, path) : workOf(fields, path);
  if (isOver(JSON.stringify(input), LIMITS.payloadBytes)) {
    const at = isExec ? path : fieldPath(path, "input");
    const allowed = `at most ${LIMITS.payloadBytes} bytes as JSON; store the data elsewhere and pass its address`;
    throw new ConfigError({ path: at, given: null, problem: "too much input", allowed });
  }
  return { task, input, options: optionsOf(fields, path) };
}

/** A job of any kind, with its input. */
function workOf({ kind, input = null }: Fields<string>, path: string): [string, unknown] {
  if (kind === undefined) {
    const fix = "set kind, such as exec, http or one of your own, or argv with a command";
    throw new ConfigError({ path: fieldPath(path, "kind"), given: undefined, problem: "is missing", fix });
  }
  const at = fieldPath(path, "input");
  const name = asName(kind, fieldPath(path, "kind"));
  if (name === "exec") checkExecInput(input, at);
  if (name === "http") checkHttpInput(input, at);
  return [name, input];
}

/** A command written at the top of a job: its fields are those of an `exec` input. */
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

/** The message; for a number or boolean in place of text it adds how to quote it, which YAML requires. */
export function withQuotes({ message, given, allowed }: ConfigError): string {
  const isBare = typeof given === "number" || typeof given === "boolean";
  return isBare && /^text\b/.test(allowed) ? `${message} Write "${given}" for the text` : message;
}

/** Splits the path of an error, `jobs[2].input["a b"]`, into its steps, up to the first part that cannot be parsed. */
export function stepsOf(path: string): YamlPath {
  const steps: (string | number)[] = [];
  for (const [, name, index, quoted] of path.matchAll(/\.?([A-Za-z_$][\w$]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/gy)) {
    if (quoted !== undefined) steps.push(JSON.parse(quoted) as string);
    else steps.push(index === undefined ? (name as string) : Number(index));
  }
  return steps;
}
