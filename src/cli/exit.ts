/** Exit codes, the errors of the command line, and the sentences that all commands use for wrong options. */
import { nearest } from "../core/check.ts";
import { ERROR_CODES, type ErrorCode, show } from "../core/errors.ts";

export const EXIT = {
  done: 0,
  /** The job failed, or does not exist. */
  failed: 1,
  /** Wrong usage, or a configuration that cannot work. */
  usage: 2,
  /** EX_SOFTWARE of sysexits.h. */
  bug: 70,
} as const;

/** Ends the command with one line on stderr: what is wrong, where, and what to do. */
export class CliError extends Error {
  readonly exitCode: number;

  constructor(exitCode: number, message: string) {
    super(message);
    this.name = "CliError";
    this.exitCode = exitCode;
  }
}

export function usageError(message: string): CliError {
  return new CliError(EXIT.usage, message);
}

/** `missing ID. Usage: perdure get ID [OPTIONS]` */
export function missingArgument(name: string, usage: string): CliError {
  return usageError(`missing ${name}. Usage: ${usage}`);
}

/** `--db and --server cannot be used together` */
export function conflictError(one: string, other: string, why?: string): CliError {
  return usageError(`${one} and ${other} cannot be used together${why === undefined ? "" : `: ${why}`}`);
}

/** `--force requires --output` */
export function requirementError(option: string, required: string): CliError {
  return usageError(`${option} requires ${required}`);
}

/** `--limit: must be a whole number from 1 to 100; got "many"` */
export function valueError(name: string, given: unknown, allowed: string, hint = ""): CliError {
  return usageError(`${name}: must be ${allowed}; got ${show(given)}${hint}`);
}

/** `--state: must be one of queued, running; got "qeued". Did you mean "queued"?` */
export function choiceError(name: string, given: string, choices: readonly string[]): CliError {
  const near = nearest(given, choices);
  const hint = near === null ? "" : `. Did you mean ${show(near)}?`;
  return valueError(name, given, `one of ${choices.join(", ")}`, hint);
}

/** `file "job.yaml" does not exist; pass another` */
export function missingFileError(name: string, advice: string, option?: string): CliError {
  return usageError(`${option === undefined ? "" : `${option}: `}file ${show(name)} does not exist; ${advice}`);
}

/** Errors of the library that another option, file or version fixes. */
const WRONG_USE: readonly ErrorCode[] = [
  ...(["invalid_config", "invalid_payload", "invalid_cursor", "invalid_playbook"] as const),
  ...(["store_not_a_database", "store_newer", "store_driver_missing"] as const),
];

export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError) return error.exitCode;
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code !== "string" || !Object.hasOwn(ERROR_CODES, code)) return EXIT.bug;
  return WRONG_USE.includes(code as ErrorCode) ? EXIT.usage : EXIT.failed;
}
