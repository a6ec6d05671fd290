/** What a fluster job runs, from its entrypoint, its environment and its ports: a command, or a task of a worker. A command
 *  finds `FLUSTER_JOB_ID`, `FLUSTER_ATTEMPT_ID` (from 0) and `FLUSTER_PORT_<NAME>` in its environment; a task is a function
 *  of a running worker and has no environment of its own. Python functions cannot be run: name a task, or the command that
 *  runs them. */
import { asList, asObject, asText, type Fields, fieldPath } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkEnv, checkPorts, portVariable } from "../../core/exec-env.ts";
import { checkExecInput, type ExecInput } from "../../core/exec-input.ts";
import { checkHttpInput } from "../../core/http-input.ts";

export interface FlusterWork {
  readonly task: string;
  /** Undefined for a task without arguments. */
  readonly input: unknown;
}

export type FlusterEntrypoint =
  | readonly string[]
  | { readonly command: readonly string[] }
  /** A line for `/bin/sh -c`. */
  | { readonly shell: string }
  | { readonly task: string; readonly args?: unknown };

export interface FlusterEnvironment {
  readonly env_vars?: Readonly<Record<string, string>>;
  readonly workspace?: string;
  readonly pip_packages?: readonly string[];
  readonly extras?: readonly string[];
}

const FORMS = ["command", "shell", "task"] as const;
const ENVIRONMENT_KEYS = ["env_vars", "workspace", "pip_packages", "extras"] as const;
const PREPARED = ["workspace", "pip_packages", "extras"] as const;
/** Set by the worker, and no one else's. */
const OURS = /^FLUSTER_(JOB_ID|ATTEMPT_ID|PORT_.*)$/;

/** What a command is run with. */
interface CommandParts {
  readonly env: Readonly<Record<string, string>>;
  readonly ports: readonly string[];
  /** Bytes that it may use, with all its processes; 0 is no limit. */
  readonly memory: number;
}

/** `memory` in bytes, 0 for no limit. Adds to `notes` what cannot be done. */
export function flusterWork(
  fields: Fields<"entrypoint" | "environment" | "ports">,
  memory: number,
  notes: string[],
): FlusterWork {
  const env = envOf(fields.environment ?? {}, notes);
  const ports = portsOf(fields.ports ?? []);
  const parts: CommandParts = { env, ports, memory };
  const { entrypoint } = fields;
  if (Array.isArray(entrypoint)) return command({ argv: entrypoint }, "entrypoint", parts);
  if (typeof entrypoint !== "object" || entrypoint === null) throw noEntrypoint(entrypoint);

  const forms = asObject(entrypoint, "entrypoint", [...FORMS, "args"]);
  const given = FORMS.filter((form) => forms[form] !== undefined);
  const [form] = given;
  if (form === undefined || given.length > 1) throw noEntrypoint(entrypoint);
  if (forms.args !== undefined && form !== "task") {
    const allowed = "no such field, or a task that takes them; the arguments of a command belong to it";
    throw new ConfigError({ path: "entrypoint.args", given: forms.args, allowed });
  }
  if (form === "command") return command({ argv: forms.command as string[] }, "entrypoint.command", parts);
  if (form === "shell") {
    const shell = true; // the author says so
    return command({ command: forms.shell as string, shell }, "entrypoint.shell", parts);
  }
  refuseForTask("environment.env_vars", Object.keys(env));
  refuseForTask("ports", ports);
  const task = asText(forms.task, "entrypoint.task", 200);
  if (task === "exec") return { task, input: withinMemory(forms.args, memory) };
  if (task === "http") checkHttpInput(forms.args, "entrypoint.args");
  if (memory > 0) {
    notes.push(
      "resources.memory is not enforced: a task is a function of a running worker; it is counted when a worker is chosen.",
    );
  }
  return { task, input: forms.args };
}

/** The input of a command as Perdure's own files have it. Where it has a limit of its own, the lower one counts. */
function withinMemory(args: unknown, memory: number): unknown {
  const { limits } = checkExecInput(args, "entrypoint.args");
  if (memory === 0 || (limits.memory ?? Number.POSITIVE_INFINITY) <= memory) return args;
  const input = args as ExecInput;
  return { ...input, limits: { ...input.limits, memory } };
}

/** Under the names that fluster's jobs know. */
function theirVariable(text: string): string {
  return text.replaceAll("PERDURE_PORT_", "FLUSTER_PORT_");
}

function portsOf(value: unknown): string[] {
  try {
    return checkPorts(value, "ports");
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { path: found, message, given, allowed, nearest } = error;
    const path = found ?? "ports";
    const problem = theirVariable(message.slice(`${path}: `.length, message.indexOf("; allowed: ")));
    throw new ConfigError({ path, given, allowed, nearest, problem });
  }
}

function noEntrypoint(given: unknown): ConfigError {
  const allowed =
    'a command as a list, as in ["python", "train.py"], or an object with one of command (such a list), shell (a line for a shell) and task (a kind that a worker runs, with its args)';
  return new ConfigError({ path: "entrypoint", given, allowed });
}

function refuseForTask(path: string, given: readonly string[]): void {
  if (given.length === 0) return;
  const problem = "a task is a function of a running worker, which has its own environment";
  throw new ConfigError({ path, given, allowed: "none; give what it needs in entrypoint.args", problem });
}

function command(
  run: Pick<ExecInput, "argv" | "command" | "shell">,
  path: string,
  { env, ports, memory }: CommandParts,
): FlusterWork {
  const fill: Record<string, string> = { FLUSTER_JOB_ID: "jobId", FLUSTER_ATTEMPT_ID: "attemptIndex" };
  for (const port of ports) fill[theirVariable(portVariable(port))] = `port.${port}`;
  const input: ExecInput = {
    ...run,
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(ports.length === 0 ? {} : { ports }),
    ...(memory === 0 ? {} : { limits: { memory } }),
    fill,
  };
  try {
    checkExecInput(input, "input");
  } catch (error) {
    throw underTheirName(error, path);
  }
  return { task: "exec", input };
}

/** A mistake in a command, by its place in the document: all else of it has been checked. */
function underTheirName(error: unknown, name: string): unknown {
  if (!(error instanceof ConfigError)) return error;
  const { path, message, given, allowed, nearest } = error;
  const [, rest = ""] = /^input\.(?:argv|command)(.*)$/s.exec(path ?? "") ?? [];
  const problem = message.slice(`${path}: `.length, message.indexOf("; allowed: "));
  return new ConfigError({ path: name + rest, given, allowed, nearest, problem });
}

function envOf(value: unknown, notes: string[]): Record<string, string> {
  const fields = asObject(value, "environment", ENVIRONMENT_KEYS);
  for (const key of PREPARED) {
    const given = fields[key];
    if (given === undefined || given === null || given === "" || (Array.isArray(given) && given.length === 0)) continue;
    if (key === "workspace") asText(given, "environment.workspace", 4_096);
    else asList(given, `environment.${key}`, (each, path) => asText(each, path, 1_000), 1_000);
    notes.push(
      `environment.${key} is not prepared: Perdure builds no environments; the command runs with what its worker has.`,
    );
  }
  const env = checkEnv(fields.env_vars ?? {}, "environment.env_vars");
  const ours = Object.keys(env).find((name) => OURS.test(name));
  if (ours === undefined) return env;
  const path = fieldPath("environment.env_vars", ours);
  throw new ConfigError({ path, given: ours, allowed: "other names: the worker sets this one" });
}
