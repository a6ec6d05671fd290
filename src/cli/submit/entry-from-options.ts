/** The options of `perdure submit` that describe a job, and the job they make. It is checked like a job of a file; errors
 *  name the option. */

import { isAbsolute, resolve } from "node:path";
import { ConfigError } from "../../core/errors.ts";
import { jsonFault } from "../../lib/json-text.ts";
import type { Arguments, CommandContext, CommandOption } from "../command.ts";
import { conflictError, missingFileError, requirementError, usageError, valueError } from "../exit.ts";
import { bytesOf, entryOf, type FileJob } from "../input/job-file.ts";
import { envOf, POLICY_OPTIONS, policyOf, timeOf } from "../input/shared-options.ts";
import { readYamlBytes, readYamlFile } from "../input/yaml-file.ts";
import { isThisMachine, type Target } from "../target/target.ts";

const text = (name: string, value: string, help: string): CommandOption => ({ name, type: "string", value, help });

export const INPUT_OPTIONS: readonly CommandOption[] = [
  text("input", "JSON", "The input of the job."),
  text("input-file", "FILE", "A file with the input, as JSON or YAML; - reads standard input."),
  {
    ...{ name: "param", short: "p", type: "string", value: "KEY=VALUE", multiple: true },
    help: "A field of the input, as text; KEY:=JSON for any other value.",
  },
];

export const JOB_OPTIONS: readonly CommandOption[] = [
  text("name", "NAME", "The name shown in lists. Default: its action, or what it runs."),
  text("key", "KEY", "At most one job has this key; the same key again finds that job."),
  text("queue", "NAME", "The queue of the job. Default: default."),
  text("priority", "N", "From 0, which runs first, to 9. Default: 5."),
  text("delay", "TIME", "Start it after this time at the earliest: 30s, 2h."),
  text("run-at", "INSTANT", "Start it at this instant at the earliest: 2026-11-16T09:00:00Z."),
  { name: "tag", type: "string", value: "TAG", multiple: true, help: "A tag to find the job by." },
  text("timeout", "TIME", "End an attempt that takes longer: 30s, 5m."),
  text("expire-in", "TIME", "How long the job may be due without being started."),
  text("deadline", "INSTANT", "No attempt may start after this instant."),
  { name: "label", type: "string", value: "NAME=VALUE", multiple: true, help: "A label that the worker must have." },
  text("cpu", "N", "CPUs that it takes of its worker: 0.5, 2."),
  text("memory", "SIZE", "Memory that it takes of its worker: 512m, 2g."),
  text("parent", "ID", "The parent of the job."),
  {
    ...{ name: "annotation", type: "string", value: "NAME=TEXT", multiple: true },
    help: "A text stored and shown with the job.",
  },
  text("retry", "JSON", 'The retry policy in full: 3, or {"preset":"agent","maxAttempts":5}.'),
  ...POLICY_OPTIONS.map((option) =>
    option.name === "max-attempts"
      ? { ...option, help: "Attempts in all, the first included. Default: 1, with another retry option 5." }
      : option,
  ),
];

/** The option that sets a field, for errors about the field. */
export const OPTION_OF: Readonly<Record<string, string>> = {
  ...{
    kind: "KIND",
    name: "--name",
    input: "--input",
    key: "--key",
    queue: "--queue",
    priority: "--priority",
    delay: "--delay",
  },
  ...{ runAt: "--run-at", tags: "--tag", timeout: "--timeout", expireIn: "--expire-in", deadline: "--deadline" },
  ...{ parent: "--parent", annotations: "--annotation", "resources.cpu": "--cpu", "resources.memory": "--memory" },
  ...{ labels: "--label", retry: "--retry", "retry.preset": "--preset", "retry.maxAttempts": "--max-attempts" },
  ...{ "retry.backoff.initial": "--backoff", "retry.backoff.factor": "--backoff-factor" },
  ...{ "retry.backoff.max": "--backoff-max", "retry.backoff.jitter": "--jitter" },
  ...{ "retry.retryWhen": "--retry-when", "retry.stopWhen": "--stop-when" },
};

type CliJobEntry = FileJob["entry"];

/** A job of a kind, with its input. */
export async function kindEntry({ given, io }: CommandContext): Promise<CliJobEntry> {
  const [kind] = given.positionals;
  given.atMost(1);
  for (const name of ["env", "cwd"]) {
    if (given.flag(name)) throw requirementError(`--${name}`, "a command after --; for a kind use its input");
  }
  const input = await inputOf({ given, io });
  const entry = checked(given, { kind, ...(input === undefined ? {} : { input }), ...givenFields(given) });
  if (input !== undefined) return entry;
  // No input is not the same as null: the handler sees the difference.
  const { input: _, ...rest } = entry;
  return rest;
}

/** A command. The current directory is not passed to workers on other machines. */
export function commandEntry({ given, io }: CommandContext, argv: readonly string[], target: Target): CliJobEntry {
  const extra = INPUT_OPTIONS.find(({ name }) => given.flag(name));
  if (extra !== undefined) throw conflictError(`--${extra.name}`, "a command after --");
  const isHere = target.kind === "store" || isThisMachine(target.url);
  const cwd = given.text("cwd") ?? (isHere && !isInAttempt(io) ? "." : undefined);
  if (cwd !== undefined && !isHere && !isAbsolute(cwd)) {
    throw valueError("--cwd", cwd, "the full path of a directory on the workers, as the server is on another machine");
  }
  const env = envOf(given.texts("env"), io.env);
  const place = cwd === undefined ? {} : { cwd: resolve(io.cwd, cwd) };
  return checked(given, { argv, env, ...place, ...givenFields(given) });
}

/** The options of a job whose task and input come from elsewhere, from JOB_OPTIONS. */
export function givenOptions(given: Arguments): NonNullable<CliJobEntry["options"]> {
  return checkedOptions(given, givenFields(given));
}

/** The same from fields that were read before; errors name the option. */
export function checkedOptions(given: Arguments, fields: object): NonNullable<CliJobEntry["options"]> {
  return checked(given, { kind: "any", ...fields }).options ?? {};
}

/** The directory of an attempt is deleted with it, and the next attempt has another, so a child must not depend on it. */
function isInAttempt({ env, cwd }: CommandContext["io"]): boolean {
  const { PERDURE_OUTPUT_DIR: dir } = env;
  return dir !== undefined && (cwd === dir || cwd.startsWith(`${dir}/`));
}

function checked(given: Arguments, fields: object): CliJobEntry {
  try {
    return entryOf(fields, "");
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw usageError(inTermsOfOptions(error, given));
  }
}

/** Replaces the field that an error names by the option that sets it. */
function inTermsOfOptions({ path, message }: ConfigError, given: Arguments): string {
  const at = path ?? "";
  const [top = ""] = /^\w+/.exec(at) ?? [];
  const rest = message.startsWith(`${at}:`) ? message.slice(at.length + 1).trimStart() : message;
  const argument = /^argv\[(\d+)\]/.exec(at)?.[1];
  if (argument !== undefined) return `${argument === "0" ? "COMMAND" : `argument ${argument}`}: ${rest}`;
  if (top === "argv") return `COMMAND: ${rest}`;
  const exact = top === "retry" && given.flag("retry") ? undefined : OPTION_OF[at];
  if (exact !== undefined) return `${exact}: ${rest}`;
  const option = top === "input" ? inputOption(given) : OPTION_OF[top];
  return option === undefined ? message : `${option}: ${at === top ? rest : message}`;
}

function inputOption(given: Arguments): string {
  const found = INPUT_OPTIONS.find(({ name }) => given.flag(name));
  return `--${found?.name ?? "input"}`;
}

function givenFields(given: Arguments): Record<string, unknown> {
  const fields: Record<string, unknown> = {
    name: given.text("name"),
    key: given.text("key"),
    queue: given.text("queue"),
    priority: given.integer("priority", { min: 0, max: 9 }),
    delay: timeOf(given, "delay"),
    runAt: given.text("run-at"),
    timeout: timeOf(given, "timeout"),
    expireIn: timeOf(given, "expire-in"),
    deadline: given.text("deadline"),
    retry: retryOf(given),
    tags: given.flag("tag") ? given.texts("tag") : undefined,
    labels: given.flag("label") ? pairsOf(given, "label") : undefined,
    annotations: given.flag("annotation") ? pairsOf(given, "annotation") : undefined,
    parent: given.text("parent"),
    resources: resourcesOf(given),
  };
  if (given.flag("delay") && given.flag("run-at")) throw conflictError("--delay", "--run-at");
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function resourcesOf(given: Arguments): Record<string, unknown> | undefined {
  const [cpu, memory] = [given.text("cpu"), given.text("memory")];
  if (cpu === undefined && memory === undefined) return undefined;
  // Text that is not a number is reported by the check of the field.
  const cpus = cpu === undefined ? {} : { cpu: /^\d{1,6}(\.\d{1,3})?$/.test(cpu) ? Number(cpu) : cpu };
  return { ...cpus, ...(memory === undefined ? {} : { memory }) };
}

function retryOf(given: Arguments): unknown {
  const other = POLICY_OPTIONS.find(({ name }) => given.flag(name));
  const text = given.text("retry");
  if (text === undefined) return other === undefined ? undefined : policyOf(given);
  if (other !== undefined) throw conflictError("--retry", `--${other.name}`, "--retry is the whole policy");
  return jsonOf(text, "--retry");
}

/** The value of INPUT_OPTIONS; undefined if none is given. */
export async function inputOf({ given, io }: Pick<CommandContext, "given" | "io">): Promise<unknown> {
  const ways = INPUT_OPTIONS.filter(({ name }) => given.flag(name)).map(({ name }) => `--${name}`);
  if (ways.length > 1) throw usageError(`${ways.join(" and ")} cannot be used together`);
  const [text, file] = [given.text("input"), given.text("input-file")];
  if (text !== undefined) return jsonOf(text, "--input");
  if (file === "-") return readYamlBytes(await bytesOf(process.stdin), "stdin").value;
  if (file !== undefined) {
    const found = readYamlFile(resolve(io.cwd, file), file);
    if (found === null) throw missingFileError(file, "pass another, or - for standard input", "--input-file");
    return found.value;
  }
  return given.flag("param") ? pairsOf(given, "param") : undefined;
}

export function jsonOf(text: string, option: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw usageError(`${option}: not JSON: ${jsonFault(text)}`);
  }
}

/** `NAME=VALUE`, each name once; for a parameter also `NAME:=JSON`. */
export function pairsOf(given: Arguments, option: "param" | "label" | "annotation"): Record<string, unknown> {
  const pairs: Record<string, unknown> = Object.create(null);
  for (const word of given.texts(option)) {
    const at = word.indexOf("=");
    const isJson = option === "param" && at > 1 && word[at - 1] === ":";
    const name = word.slice(0, Math.max(0, isJson ? at - 1 : at));
    if (at < 0 || name === "") throw valueError(`--${option}`, word, "NAME=VALUE");
    if (name in pairs) throw usageError(`--${option}: ${name} can be used only once`);
    const value = word.slice(at + 1);
    pairs[name] = isJson ? jsonOf(value, `--${option} ${name}`) : value;
  }
  return pairs;
}
