/** The entrypoint of a fluster job as the input of a command or an HTTP request; a Python callable becomes a command. */

import { asList, asObject, asText, type Fields, fieldPath } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkEnv, checkPorts, portVariable } from "../../core/input/exec-env.ts";
import { checkExecInput, type ExecInput } from "../../core/input/exec-input.ts";
import { checkHttpInput } from "../../core/input/http-input.ts";

// fluster's own entrypoint, a pickled Python callable with its arguments, becomes a command: a program stored with the
// job loads and calls it, as fluster's worker does. A cloudpickle needs cloudpickle on the worker, and fluster only if
// the function uses it. The return value is dropped: fluster's status has no field for it.

/** The label of workers that have python3. */
export const PYTHON_LABEL = { "runtime/python": "yes" } as const;

const PROGRAM = "run_entrypoint.py";

/** Reads the bundle from standard input, if there is one. Exits with 1 wherever Python would: the job's retry config
 *  decides whether that is retried. */
const SOURCE = `"""Loads entrypoint.pkl, which lies beside this file, and calls what it holds."""
from io import BytesIO
from os import chdir, getcwd, path
from pickle import Unpickler
from sys import argv, exit, path as modules, stdin
from zipfile import ZipFile

HERE = path.dirname(path.abspath(__file__))


class Entrypoint:
    """In the place of fluster's own, where fluster is not installed."""


class Loader(Unpickler):
    def find_class(self, module, name):
        try:
            return super().find_class(module, name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").split(".")[0]
            if missing == "fluster" and module.split(".")[0] == "fluster" and name == "Entrypoint":
                return Entrypoint
            raise


def unpack_bundle():
    workspace = path.abspath("workspace")
    with ZipFile(BytesIO(stdin.buffer.read())) as bundle:
        bundle.extractall(workspace)
    chdir(workspace)
    modules[:0] = [workspace, path.join(workspace, "src")]


def load():
    with open(HERE + "/entrypoint.pkl", "rb") as file:
        loaded = Loader(file).load()
    if isinstance(loaded, tuple) and len(loaded) == 3 and callable(loaded[0]):
        return loaded
    if callable(getattr(loaded, "callable", None)):
        return loaded.callable, getattr(loaded, "args", ()), getattr(loaded, "kwargs", {})
    if callable(loaded):
        return loaded, (), {}
    raise TypeError(f"it holds a {type(loaded).__name__}, and not a callable with its args and kwargs")


def prepared():
    try:
        modules[0] = getcwd()
        if "--bundle" in argv[1:]:
            unpack_bundle()
        return load()
    except ModuleNotFoundError as error:
        package = (error.name or "it").split(".")[0]
        hint = f"pip install {package}, or send it in bundle_blob"
        exit(f"cannot load the entrypoint: python3 of this worker has no module {error.name!r}; {hint}")
    except Exception as error:
        exit(f"cannot load the entrypoint: {type(error).__name__}: {error}")


function, args, kwargs = prepared()
function(*args, **kwargs)
`;

/** `pickle` in base64; `hasBundle`: a zip of its modules is on standard input. */
export function pythonEntrypoint(pickle: string, hasBundle: boolean): Pick<ExecInput, "argv" | "files"> {
  const program = Buffer.from(SOURCE, "utf8").toString("base64");
  return {
    argv: ["python3", "-u", `inputs/${PROGRAM}`, ...(hasBundle ? ["--bundle"] : [])],
    files: { [PROGRAM]: program, "entrypoint.pkl": pickle },
  };
}

// What a fluster job runs, from its entrypoint, environment and ports: a command, or a task of a worker. A command has
// `FLUSTER_JOB_ID`, `FLUSTER_ATTEMPT_ID` (from 0) and `FLUSTER_PORT_<NAME>` in its environment; a task is a function of a
// running worker and has no environment of its own.

interface FlusterWork {
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
/** Only the worker sets these. */
const OURS = /^FLUSTER_(JOB_ID|ATTEMPT_ID|PORT_.*)$/;

/** The inputs of a command. */
interface FlusterCommandParts {
  readonly env: Readonly<Record<string, string>>;
  readonly ports: readonly string[];
  /** Memory limit in bytes, for all its processes; 0 is no limit. */
  readonly memory: number;
}

/** `memory` in bytes, 0 for no limit. Adds unsupported requests to `notes`. */
export function flusterWork(
  fields: Fields<"entrypoint" | "environment" | "ports">,
  memory: number,
  notes: string[],
): FlusterWork {
  const env = envOf(fields.environment ?? {}, notes);
  const ports = portsOf(fields.ports ?? []);
  const parts: FlusterCommandParts = { env, ports, memory };
  const { entrypoint } = fields;
  if (Array.isArray(entrypoint)) return command({ argv: entrypoint }, "entrypoint", parts);
  if (typeof entrypoint !== "object" || entrypoint === null) throw noEntrypoint(entrypoint);

  const forms = asObject(entrypoint, "entrypoint", [...FORMS, "args"]);
  const given = FORMS.filter((form) => forms[form] !== undefined);
  const [form] = given;
  if (form === undefined || given.length > 1) throw noEntrypoint(entrypoint);
  if (forms.args !== undefined && form !== "task") {
    const allowed = "left out, unless a task takes them; the arguments of a command are part of it";
    throw new ConfigError({ path: "entrypoint.args", given: forms.args, allowed });
  }
  if (form === "command") return command({ argv: forms.command as string[] }, "entrypoint.command", parts);
  if (form === "shell") {
    const shell = true; // requested by the author
    return command({ command: forms.shell as string, shell }, "entrypoint.shell", parts);
  }
  refuseForTask("environment.env_vars", Object.keys(env));
  refuseForTask("ports", ports);
  const task = asText(forms.task, "entrypoint.task", 200);
  if (task === "exec") return { task, input: withinMemory(forms.args, memory) };
  if (task === "http") checkHttpInput(forms.args, "entrypoint.args");
  if (memory > 0) {
    notes.push(
      "resources.memory is not enforced: a task is a function of a running worker; memory is only counted when a worker is chosen.",
    );
  }
  return { task, input: forms.args };
}

/** The input of a command in Perdure's own format. If it has its own limit, the lower one applies. */
function withinMemory(args: unknown, memory: number): unknown {
  const { limits } = checkExecInput(args, "entrypoint.args");
  if (memory === 0 || (limits.memory ?? Number.POSITIVE_INFINITY) <= memory) return args;
  const input = args as ExecInput;
  return { ...input, limits: { ...input.limits, memory } };
}

/** Under fluster's names. */
function theirVariable(text: string): string {
  return text.replaceAll("PERDURE_PORT_", "FLUSTER_PORT_");
}

function portsOf(value: unknown): string[] {
  try {
    return checkPorts(value, "ports");
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { path, given, nearest } = error;
    throw new ConfigError({ path: path ?? "ports", given, nearest, problem: theirVariable(error.problem) });
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
  throw new ConfigError({ path, given, problem, fix: "pass what it needs in entrypoint.args" });
}

function command(
  run: Pick<ExecInput, "argv" | "command" | "shell">,
  path: string,
  { env, ports, memory }: FlusterCommandParts,
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

/** Maps a mistake in a command to its path in the document; everything else has been checked. */
function underTheirName(error: unknown, name: string): unknown {
  if (!(error instanceof ConfigError)) return error;
  const { path, given, nearest, problem } = error;
  const [, rest = ""] = /^input\.(?:argv|command)(.*)$/s.exec(path ?? "") ?? [];
  return new ConfigError({ path: name + rest, given, nearest, problem });
}

function envOf(value: unknown, notes: string[]): Record<string, string> {
  const fields = asObject(value, "environment", ENVIRONMENT_KEYS);
  for (const key of PREPARED) {
    const given = fields[key];
    if (given === undefined || given === null || given === "" || (Array.isArray(given) && given.length === 0)) continue;
    if (key === "workspace") asText(given, "environment.workspace", 4_096);
    else asList(given, `environment.${key}`, (each, path) => asText(each, path, 1_000), 1_000);
    notes.push(`environment.${key} is ignored: Perdure builds no environments; the command uses that of its worker.`);
  }
  const env = checkEnv(fields.env_vars ?? {}, "environment.env_vars");
  const ours = Object.keys(env).find((name) => OURS.test(name));
  if (ours === undefined) return env;
  const path = fieldPath("environment.env_vars", ours);
  throw new ConfigError({ path, given: ours, allowed: "another name: the worker sets this one" });
}
