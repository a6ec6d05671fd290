/** The input of a job of kind `exec`: a command and how to run it. Checked at submit, and again before it runs. */
import { asBoolean, asInteger, asList, asObject, asText, type Fields, fieldPath, reader } from "../check.ts";
import { type Duration, toMs } from "../duration.ts";
import { ConfigError } from "../errors.ts";
import { asArgument, checkEnv, checkFill, checkPorts, type Fill, MAX_ARGUMENT } from "./exec-env.ts";
import { asSha256, checkAssets, checkFiles, checkRunner, type Runner } from "./exec-files.ts";
import { MIB, toBytes } from "./resources.ts";

/** A command and what it gets: arguments, environment, files, limits.
 *  @example
 *  const input: ExecInput = { argv: ["ffmpeg", "-i", "inputs/a.mov", "artifacts/a.mp4"], limits: { openFiles: 256 } }; */
export interface ExecInput {
  /** The program and its arguments, without a shell. */
  argv?: readonly string[];
  /** Text for `/bin/sh -c`; requires `shell: true`. Put values into `env`, never into this text. */
  command?: string;
  shell?: boolean;
  /** Added to the minimal environment. Names such as PATH or LD_PRELOAD must be allowed by the worker. */
  env?: Readonly<Record<string, string>>;
  /** Default: a directory of the attempt's own. */
  cwd?: string;
  /** Text for its standard input; without it and without `input` there is none. */
  stdin?: string;
  /** A JSON value for its standard input. */
  input?: unknown;
  /** Bytes for its standard input that were uploaded before: see the option `upload`. Each attempt reads them from the start. */
  stdinFile?: StdinFile;
  /** Files by name, with their content in base64, in `inputs/` of the attempt's directory (`$PERDURE_OUTPUT_DIR/inputs/NAME`).
   *  They count as payload, and are deleted with the other scratch files. */
  files?: Readonly<Record<string, string>>;
  /** More files in `inputs/`, by name, with the SHA-256 of their content, which was stored with a playbook. The worker fetches
   *  them before the start. */
  assets?: Readonly<Record<string, string>>;
  /** `python`: the worker adds the program `inputs/run_task.py`, which calls `main` of `inputs/task.py` with the JSON object on its
   *  standard input, and writes what it returns to result.json. */
  runner?: Runner;
  /** Names of ports. Each attempt gets a free port for each: `PERDURE_PORT_HTTP` for the name `http`. */
  ports?: readonly string[];
  /** More variables, filled in by the worker: `jobId`, `attempt` (from 1), `attemptIndex` (from 0), `port.NAME`. For programs
   *  that expect these values under other names. */
  fill?: Readonly<Record<string, string>>;
  /** The time between SIGTERM and SIGKILL. Default: 10 s. */
  grace?: Duration;
  /** Bytes kept of stdout, and of stderr, or text such as `4m`: half from the beginning, half from the end. Default: 1 MiB. */
  outputCap?: number | string;
  /** Adds the beginning of stdout as text, at most 64 KiB of it, to the result of the job, whatever `outputCap` is. */
  resultStdout?: boolean;
  limits?: ExecLimits;
  /** For the files it creates, as in 0o077. Default: the worker's. Only the owner can read its own directory in any case. */
  umask?: number;
  /** Keeps the scratch files after the job has ended. */
  keep?: boolean;
}

/** An upload by its content, so that jobs with one key always have the same bytes.
 *  @example
 *  const { id, bytes, sha256 } = await perdure.upload(createReadStream("dump.sql"));
 *  const stdinFile: StdinFile = { bytes, sha256 };
 *  await perdure.submit(exec, { argv: ["psql"], stdinFile }, { upload: id }); */
export interface StdinFile {
  readonly bytes: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** Limits of the command with all its descendants; `openFiles` and `fileSize` apply to each process.
 *  @example
 *  const limits: ExecLimits = { openFiles: 256, fileSize: 100_000_000 }; */
export interface ExecLimits {
  /** Bytes of memory, or text such as `512m` or `2g`. Checked ten times a second, so fast growth may exceed it for a moment. */
  memory?: number | string;
  processes?: number;
  /** Bytes of any file it writes, or text such as `512m` or `2g`. */
  fileSize?: number | string;
  openFiles?: number;
}

/** In bytes, where a limit is a size. */
export type CheckedLimits = { readonly [K in keyof ExecLimits]: number };

export interface CheckedExec {
  readonly argv: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | null;
  readonly stdin: string | null;
  /** Not together with `stdin`. */
  readonly stdinFile: StdinFile | null;
  /** Names that are safe to write in one directory, and base64. */
  readonly files: Readonly<Record<string, string>>;
  /** The same, and a SHA-256 each. None has a name of `files`. */
  readonly assets: Readonly<Record<string, string>>;
  readonly runner: Runner | null;
  /** Names, each with a variable of its own. */
  readonly ports: readonly string[];
  /** Its ports are in `ports`. */
  readonly fill: Readonly<Record<string, Fill>>;
  readonly graceMs: number;
  readonly outputCap: number;
  readonly resultStdout: boolean;
  readonly limits: CheckedLimits;
  readonly umask: number | null;
  readonly keep: boolean;
}

const KEYS = [
  "argv",
  "command",
  "shell",
  "env",
  "cwd",
  "stdin",
  "input",
  "stdinFile",
  "files",
  "assets",
  "runner",
  "ports",
  "fill",
  "grace",
  "outputCap",
  "resultStdout",
  "limits",
  "umask",
  "keep",
] as const;
const LIMIT_KEYS = ["memory", "processes", "fileSize", "openFiles"] as const;

const DEFAULT_GRACE_MS = 10_000;
const MAX_GRACE_MS = 3_600_000;
const DEFAULT_CAP = MIB;
const MAX_CAP = 64 * MIB;
/** The limit of an upload. */
export const MAX_STDIN_BYTES = 64 * MIB;
const MAX_ARGS = 10_000;

export function checkExecInput(value: unknown, path: string): CheckedExec {
  const fields = asObject(value, path, KEYS);
  const read = reader(fields, path);
  const env = read("env", checkEnv, {});
  const ports = read("ports", checkPorts, []);
  const files = read("files", checkFiles, {});
  const assets = read("assets", (value, at) => checkAssets(value, at, files), {});
  return {
    argv: argvOf(fields, path),
    env,
    cwd: read("cwd", (text, at) => asText(text, at, 4_096), null),
    stdin: stdinOf(fields, path),
    stdinFile: read("stdinFile", (value, at) => checkStdinFile(value, at, fields), null),
    files,
    assets,
    runner: read("runner", (value, at) => checkRunner(value, at, { ...files, ...assets }), null),
    ports,
    fill: read("fill", (value, at) => checkFill(value, at, { ports, env }), {}),
    graceMs: read("grace", graceOf, DEFAULT_GRACE_MS),
    outputCap: read("outputCap", (n, at) => asInteger(bytesIn(n, at), at, { min: 1_024, max: MAX_CAP }), DEFAULT_CAP),
    resultStdout: read("resultStdout", asBoolean, false),
    limits: read("limits", checkLimits, {}),
    umask: read("umask", (n, at) => asInteger(n, at, { min: 0, max: 0o777 }), null),
    keep: read("keep", asBoolean, false),
  };
}

function argvOf(fields: Fields<string>, path: string): [string, ...string[]] {
  const { argv, command } = fields;
  const shell = fields.shell === undefined ? false : asBoolean(fields.shell, fieldPath(path, "shell"));
  if ((argv === undefined) === (command === undefined)) {
    const problem = argv === undefined ? "has no command" : "argv and command cannot be used together";
    const fix = 'set either argv, as in ["./flaky.sh", "--fast"], or command with shell set to true';
    throw new ConfigError({ path, given: fields, problem, fix });
  }
  if (command !== undefined) {
    const at = fieldPath(path, "command");
    if (!shell) {
      throw new ConfigError({
        path: at,
        given: command,
        problem: "requires shell to be true",
        fix: "set it, or use argv",
      });
    }
    return ["/bin/sh", "-c", asText(command, at, MAX_ARGUMENT)];
  }
  if (shell) {
    const problem = "requires command, a text for the shell, instead of argv";
    throw new ConfigError({ path: fieldPath(path, "shell"), given: true, problem });
  }
  // Any argument but the first may be empty.
  const list = asList(argv, fieldPath(path, "argv"), asArgument, MAX_ARGS, 1);
  asText(list[0], `${fieldPath(path, "argv")}[0]`, 4_096);
  return list as [string, ...string[]];
}

function stdinOf(fields: Fields<string>, path: string): string | null {
  const { stdin, input } = fields;
  if (stdin !== undefined && input !== undefined) {
    const problem = "cannot be used together with input";
    throw new ConfigError({ path: fieldPath(path, "stdin"), given: stdin, problem });
  }
  if (input !== undefined) return jsonOf(input, fieldPath(path, "input"));
  if (stdin === undefined) return null;
  if (typeof stdin === "string") return stdin;
  throw new ConfigError({ path: fieldPath(path, "stdin"), given: stdin, allowed: "text" });
}

function checkStdinFile(value: unknown, path: string, { stdin, input }: Fields<string>): StdinFile {
  if (stdin !== undefined || input !== undefined) {
    throw new ConfigError({ path, given: "a file", problem: "cannot be used together with stdin or input" });
  }
  const { bytes, sha256 } = asObject(value, path, ["bytes", "sha256"]);
  const size = asInteger(bytes, fieldPath(path, "bytes"), { min: 0, max: MAX_STDIN_BYTES });
  return { bytes: size, sha256: asSha256(sha256, fieldPath(path, "sha256")) };
}

function jsonOf(value: unknown, path: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    text = undefined; // circular, a BigInt, too deep, or a toJSON that throws
  }
  if (text !== undefined) return text;
  throw new ConfigError({ path, given: typeof value, allowed: "a JSON value", shown: `a ${typeof value}` });
}

function graceOf(value: unknown, path: string): number {
  const ms = toMs(value, path);
  if (ms <= MAX_GRACE_MS) return ms;
  throw new ConfigError({ path, given: value, allowed: "at most 1h" });
}

function checkLimits(value: unknown, path: string): CheckedLimits {
  const fields = asObject(value, path, LIMIT_KEYS);
  const limits: { -readonly [K in keyof CheckedLimits]: CheckedLimits[K] } = {};
  for (const key of LIMIT_KEYS) {
    if (fields[key] === undefined) continue;
    const at = fieldPath(path, key);
    const isSize = key === "memory" || key === "fileSize";
    limits[key] = asInteger(isSize ? bytesIn(fields[key], at) : fields[key], at, { min: 1 });
  }
  return limits;
}

/** Text such as `512m` in bytes; anything else as it is. */
function bytesIn(value: unknown, path: string): unknown {
  return typeof value === "string" ? toBytes(value, path) : value;
}
