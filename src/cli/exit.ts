/** How the command line ends: exit codes, and which error means which. */
import { ERROR_CODES, type ErrorCode } from "../core/errors.ts";

export const EXIT = {
  done: 0,
  /** What was asked about failed, or is not there. */
  failed: 1,
  /** Wrong use, or a configuration that cannot work. */
  usage: 2,
  /** Ours: EX_SOFTWARE of sysexits.h. */
  bug: 70,
} as const;

/** An end with one line for the person: what is wrong, where, and what to do. */
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

/** Errors of the library that another option, file or version mends. */
const WRONG_USE: readonly ErrorCode[] = [
  ...(["invalid_config", "invalid_payload", "invalid_cursor"] as const),
  ...(["store_not_a_database", "store_newer", "store_driver_missing"] as const),
];

export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError) return error.exitCode;
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code !== "string" || !Object.hasOwn(ERROR_CODES, code)) return EXIT.bug;
  return WRONG_USE.includes(code as ErrorCode) ? EXIT.usage : EXIT.failed;
}
