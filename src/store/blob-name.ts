/** The names that files of an attempt may have, wherever they are kept. */
import { ConfigError, PerdureError } from "../core/errors.ts";

export const FILES: ReadonlySet<string> = new Set(["result.json", "stdout.log", "stderr.log"]);
export const ARTIFACTS = "artifacts";
/** Beside them: what is to replace a file, and is not whole yet. No name of a file begins with it. */
export const STAGED = "staged";
/** What a job brings along is kept as the file of an attempt before the first. */
export const INPUT_ATTEMPT = 0;
export const STDIN = "stdin";

const MAX_PART_BYTES = 255;
const MAX_NAME_BYTES = 1_024;
const ALLOWED =
  `stdout.log, stderr.log, result.json, or ${ARTIFACTS}/PATH of at most ${MAX_NAME_BYTES} bytes, ${MAX_PART_BYTES} in each ` +
  "part, without empty parts, . and .., control characters and \\";

/** The parts of a name; null if nothing may be called that. */
export function partsOf(name: string, attempt: number): string[] | null {
  if (attempt === INPUT_ATTEMPT) return name === STDIN ? [name] : null;
  if (typeof name !== "string" || !name.isWellFormed() || /[\p{Cc}\\]/u.test(name)) return null;
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return null;
  const parts = name.split("/");
  const isKnown = parts.length === 1 ? FILES.has(name) : parts[0] === ARTIFACTS;
  return isKnown && parts.every(isPart) ? parts : null;
}

function isPart(part: string): boolean {
  return part !== "" && part !== "." && part !== ".." && Buffer.byteLength(part) <= MAX_PART_BYTES;
}

/** The same for whoever wants to write. */
export function checkedParts(name: string, attempt: number): string[] {
  const parts = partsOf(name, attempt);
  if (parts === null) throw new ConfigError({ path: "name", given: name, allowed: ALLOWED });
  return parts;
}

/** Something lies there that is no file of ours, or a file lies where a folder would have to be. */
export function nameTaken(name: string): ConfigError {
  const problem = "something else has this name, or that of a folder in it";
  return new ConfigError({ path: "name", given: name, allowed: "a name that is free, or that of a file", problem });
}

export function tooLarge(name: string, maxBytes: number): PerdureError {
  const message = `${name}: the files of this attempt together are over the limit of ${maxBytes} bytes`;
  return new PerdureError("output_too_large", message, { path: name });
}

export function isTooLarge(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "output_too_large";
}

/** Before anything is touched: a number that is none would become part of a path. */
export function checkPlace(attempt: number, offset: number): void {
  if (!Number.isSafeInteger(attempt) || attempt < INPUT_ATTEMPT)
    throw new TypeError(`not the number of an attempt: ${attempt}`);
  if (!Number.isSafeInteger(offset) || offset < 0) throw new TypeError(`not a place in a file: ${offset}`);
}

export function checkUpload(upload: number): void {
  if (!Number.isSafeInteger(upload) || upload < 1) throw new TypeError(`not the number of an upload: ${upload}`);
}

/** What is staged is whole behind the last piece: it was taken at its offset, or had been before. */
export function isWhole(size: number, offset: number, length: number | undefined): boolean {
  return length === undefined ? size >= offset : size === offset + length;
}

/** A piece of which all is there already. One without a length, or without a byte, is none: that ends the file there. */
export function isRepeat(offset: number, length: number | undefined, size: number): boolean {
  return length !== undefined && length > 0 && offset + length <= size;
}
