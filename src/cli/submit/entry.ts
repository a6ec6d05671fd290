/** The job that the words of `perdure submit` describe, checked as one of a file is, with mistakes told of the options. */
import { isAbsolute, resolve } from "node:path";
import { ConfigError, show } from "../../core/errors.ts";
import { jsonFault } from "../../lib/json-fault.ts";
import type { Given } from "../arguments.ts";
import type { Context } from "../command.ts";
import { envOf } from "../env-option.ts";
import { usageError } from "../exit.ts";
import { bytesOf, entryOf, type FileJob } from "../job-file.ts";
import { POLICY_OPTIONS, policyOf, timeOf } from "../run/policy.ts";
import { isThisMachine, type Target } from "../target.ts";
import { readYamlBytes, readYamlFile } from "../yaml.ts";
import { INPUT_OPTIONS, OPTION_OF } from "./options.ts";

type Entry = FileJob["entry"];

/** Of a kind, with its input. */
export async function kindEntry({ given, io }: Context): Promise<Entry> {
  const [kind] = given.positionals;
  given.atMost(1);
  for (const name of ["env", "cwd"]) {
    if (given.flag(name)) throw usageError(`--${name}: it is for a command after --; a kind has its input`);
  }
  const input = await inputOf({ given, io });
  const entry = checked(given, { kind, ...(input === undefined ? {} : { input }), ...wishes(given) });
  if (input !== undefined) return entry;
  // Without an input, not with null: its handler sees the difference.
  const { input: _, ...rest } = entry;
  return rest;
}

/** A command. Where we are means nothing to workers on other machines. */
export function commandEntry({ given, io }: Context, argv: readonly string[], target: Target): Entry {
  const extra = INPUT_OPTIONS.find(({ name }) => given.flag(name));
  if (extra !== undefined) throw usageError(`--${extra.name}: a command after -- has no other input`);
  const isHere = target.kind === "store" || isThisMachine(target.url);
  const cwd = given.text("cwd") ?? (isHere && !isInAttempt(io) ? "." : undefined);
  if (cwd !== undefined && !isHere && !isAbsolute(cwd)) {
    throw usageError(`--cwd: got ${show(cwd)}; for workers on other machines give a directory from the root on`);
  }
  const env = envOf(given.texts("env"), io.env);
  const place = cwd === undefined ? {} : { cwd: resolve(io.cwd, cwd) };
  return checked(given, { argv, env, ...place, ...wishes(given) });
}

/** What WISH_OPTIONS say, for a job that is described elsewhere. */
export function wishedOptions(given: Given): NonNullable<Entry["options"]> {
  return checkedOptions(given, wishes(given));
}

/** Options of a job that is described elsewhere, with mistakes told of the words that were typed. */
export function checkedOptions(given: Given, fields: object): NonNullable<Entry["options"]> {
  return checked(given, { kind: "any", ...fields }).options ?? {};
}

/** The directory of an attempt goes with it, and the next attempt has another: a child is not to depend on it. */
function isInAttempt({ env, cwd }: Context["io"]): boolean {
  const { PERDURE_OUTPUT_DIR: dir } = env;
  return dir !== undefined && (cwd === dir || cwd.startsWith(`${dir}/`));
}

function checked(given: Given, fields: object): Entry {
  try {
    return entryOf(fields, "");
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw usageError(inTheWordsOfOptions(error, given));
  }
}

/** A mistake names the field; who typed it knows the option. */
function inTheWordsOfOptions({ path, message }: ConfigError, given: Given): string {
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

function inputOption(given: Given): string {
  const found = INPUT_OPTIONS.find(({ name }) => given.flag(name));
  return `--${found?.name ?? "input"}`;
}

function wishes(given: Given): Record<string, unknown> {
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
  if (given.flag("delay") && given.flag("run-at")) throw usageError("--delay and --run-at cannot be used together");
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function resourcesOf(given: Given): Record<string, unknown> | undefined {
  const [cpu, memory] = [given.text("cpu"), given.text("memory")];
  if (cpu === undefined && memory === undefined) return undefined;
  // What is no number is told of by who checks it.
  const cpus = cpu === undefined ? {} : { cpu: /^\d{1,6}(\.\d{1,3})?$/.test(cpu) ? Number(cpu) : cpu };
  return { ...cpus, ...(memory === undefined ? {} : { memory }) };
}

function retryOf(given: Given): unknown {
  const other = POLICY_OPTIONS.find(({ name }) => given.flag(name));
  const text = given.text("retry");
  if (text === undefined) return other === undefined ? undefined : policyOf(given);
  if (other !== undefined)
    throw usageError(`--retry and --${other.name} cannot be used together: --retry is the whole policy`);
  return jsonOf(text, "--retry");
}

/** What INPUT_OPTIONS say; undefined if they say nothing. */
export async function inputOf({ given, io }: Pick<Context, "given" | "io">): Promise<unknown> {
  const ways = INPUT_OPTIONS.filter(({ name }) => given.flag(name)).map(({ name }) => `--${name}`);
  if (ways.length > 1) throw usageError(`${ways.join(" and ")} cannot be used together`);
  const [text, file] = [given.text("input"), given.text("input-file")];
  if (text !== undefined) return jsonOf(text, "--input");
  if (file === "-") return readYamlBytes(await bytesOf(process.stdin), "stdin").value;
  if (file !== undefined) {
    const found = readYamlFile(resolve(io.cwd, file), file);
    if (found === null) throw usageError(`--input-file: there is no file ${show(file)}`);
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

/** `NAME=VALUE`, each name once; of a parameter also `NAME:=JSON`. */
export function pairsOf(given: Given, option: "param" | "label" | "annotation"): Record<string, unknown> {
  const pairs: Record<string, unknown> = Object.create(null);
  for (const word of given.texts(option)) {
    const at = word.indexOf("=");
    const isJson = option === "param" && at > 1 && word[at - 1] === ":";
    const name = word.slice(0, Math.max(0, isJson ? at - 1 : at));
    if (at < 0 || name === "") throw usageError(`--${option}: got ${show(word)}; write NAME=VALUE`);
    if (name in pairs) throw usageError(`--${option}: ${name} is given twice; give it once`);
    const value = word.slice(at + 1);
    pairs[name] = isJson ? jsonOf(value, `--${option} ${name}`) : value;
  }
  return pairs;
}
