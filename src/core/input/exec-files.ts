/** Files that a command finds in `inputs/`: given with the job, stored with a playbook, or added by the worker. */
import { asOneOf, fieldPath, isPlain } from "../check.ts";
import { ConfigError } from "../errors.ts";
import { CODE_FILE, RUNNER_FILE } from "./python-harness.ts";

/** A program of the worker's own that runs the job's code.
 *  @example
 *  const runner: Runner = "python"; */
export type Runner = (typeof RUNNERS)[number];

const RUNNERS = ["python"] as const;
const MAX_FILES = 20;
const MAX_NAME_BYTES = 255; // the limit of file systems

export function checkFiles(value: unknown, path: string): Record<string, string> {
  return eachFile(value, path, asBase64, "content in base64");
}

/** None may have the name of a file in `files`. */
export function checkAssets(
  value: unknown,
  path: string,
  files: Readonly<Record<string, string>>,
): Record<string, string> {
  const assets = eachFile(value, path, asSha256, "SHA-256");
  const twice = Object.keys(assets).find((name) => Object.hasOwn(files, name));
  if (twice === undefined) return assets;
  throw new ConfigError({
    path: fieldPath(path, twice),
    given: twice,
    problem: "is in files too",
    fix: "remove one of them",
  });
}

/** `files`: all files that the job has. */
export function checkRunner(value: unknown, path: string, files: Readonly<Record<string, string>>): Runner {
  const runner = asOneOf(value, RUNNERS, path);
  if (!Object.hasOwn(files, CODE_FILE)) {
    throw new ConfigError({ path, given: runner, problem: `requires the code as ${CODE_FILE} in files or assets` });
  }
  if (!Object.hasOwn(files, RUNNER_FILE)) return runner;
  throw new ConfigError({ path, given: runner, problem: `adds ${RUNNER_FILE} itself`, fix: "remove that file" });
}

function eachFile(
  value: unknown,
  path: string,
  check: (value: unknown, path: string) => string,
  what: string,
): Record<string, string> {
  if (!isPlain(value) || Object.keys(value).length > MAX_FILES) {
    const allowed = `an object of at most ${MAX_FILES} names, each with its ${what}`;
    throw new ConfigError({ path, given: value, allowed });
  }
  const files: Record<string, string> = Object.create(null);
  for (const [name, content] of Object.entries(value)) {
    const at = fieldPath(path, name);
    if (!isFileName(name)) {
      const allowed = `a plain name of 1 to ${MAX_NAME_BYTES} bytes, without folders and control characters, not "." or ".."`;
      throw new ConfigError({ path: at, given: name, allowed });
    }
    files[name] = check(content, at);
  }
  return files;
}

const CONTROL = /\p{Cc}/u;

function isFileName(name: string): boolean {
  if (name === "" || name === "." || name === ".." || /[/\\]/.test(name) || CONTROL.test(name)) return false;
  // Half of a surrogate pair would be written as another character, perhaps that of another file.
  return name.isWellFormed() && new TextEncoder().encode(name).length <= MAX_NAME_BYTES;
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Bytes as text, with the padding of RFC 4648. Characters that Node would skip silently are refused. */
export function asBase64(value: unknown, path: string): string {
  if (typeof value === "string" && value.length % 4 === 0 && BASE64.test(value)) return value;
  throw new ConfigError({ path, given: value, allowed: "base64: A-Z, a-z, 0-9, + and /, padded with =" });
}

export function asSha256(value: unknown, path: string): string {
  if (typeof value === "string" && /^[0-9a-f]{64}$/.test(value)) return value;
  throw new ConfigError({ path, given: value, allowed: "64 hexadecimal digits" });
}
