/** The port for files of jobs, and the rules that every adapter shares: which names are allowed, how large a file may
 *  be, when an upload is a repeat. */
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { ConfigError, PerdureError } from "../core/errors.ts";
import type { BlobFile } from "../core/job/views.ts";

// The port for what attempts leave behind: files, apart from the rows of jobs. An attempt is named by its job and
// number; numbers only grow, also when a job is redriven, so what an earlier attempt left is never overwritten. What
// it does not promise: two writers of one file at a time. An attempt has one worker.

export type { BlobFile } from "../core/job/views.ts";

export interface Blobs {
  /** The numbers of the attempts that left something, in order. */
  attempts(jobId: string): Promise<number[]>;
  /** What an attempt left for the user; `more` were too many to list, or could not be read. */
  list(jobId: string, attempt: number): Promise<{ readonly files: readonly BlobFile[]; readonly more: number }>;
  /** `stdout.log`, `stderr.log`, `result.json`, or `artifacts/NAME`, from `offset` on; null if it is not there. Of attempt 0,
   *  `stdin`: what the job brought along, which stays until the job is deleted. */
  get(jobId: string, attempt: number, name: string, offset?: number): Promise<Readable | null>;
  /** Puts bytes at `offset` and ends the file behind them, so that a repeated call changes nothing. If the file is shorter
   *  than `offset` nothing is written; the answer is its size in any case. `maxBytes` is for all files of the attempt
   *  together: over it, an error with the code `output_too_large`. Where the `length` of the source is told, a piece that
   *  lies wholly within what is there is a repeat that came late, and changes nothing.
   *  With `upload`, the bytes are staged under its number: offsets and the answer are about those. The file stays as it is
   *  until the piece that is the `last`, and is then replaced as a whole. Staged bytes have a `maxBytes` of their own. */
  write(
    jobId: string,
    attempt: number,
    name: string,
    offset: number,
    source: AsyncIterable<Uint8Array>,
    options?: BlobWriteOptions,
  ): Promise<{ readonly size: number }>;
  /** Removes a file, or what an `upload` has staged for it. That it does not exist is no error. */
  remove(jobId: string, attempt: number, name: string, options?: { readonly upload?: number }): Promise<void>;
  /** Ids of jobs that have an input (`stdin` of attempt 0), in their order, after this one. It is written before its job is
   *  submitted, so that there may be no job yet, or never. */
  inputs(after: string, limit: number): Promise<string[]>;
  /** Removes scratch files of a job that has ended. */
  tidy(jobId: string): Promise<void>;
  /** Removes all that jobs left. */
  delete(jobIds: readonly string[]): Promise<void>;
}

interface BlobWriteOptions {
  readonly maxBytes?: number | undefined;
  readonly length?: number | undefined;
  readonly upload?: number | undefined;
  readonly last?: boolean | undefined;
}

/** A file of an attempt of which the disk did not take all. */
export interface Unflushed {
  readonly name: string;
  readonly error: Error;
}

/** Where an attempt can write by itself: a directory on this machine. */
export interface AttemptPlaces {
  /** Makes a place for an attempt. Says where the attempt before it lies, if there was one. */
  begin(
    jobId: string,
    attempt: number,
    keep: boolean,
  ): Promise<{ readonly dir: string; readonly previous: string | null }>;
  /** The input of a job, for its command to read from the start; null if there is none. */
  openStdin(jobId: string): Promise<FileHandle | null>;
  /** Puts what an attempt left on the disk, so that it is found again after a power cut: its output, its verdict and the
   *  artifacts that `list` names. The answer is what could not be put there. */
  flush(jobId: string, attempt: number): Promise<readonly Unflushed[]>;
}

// The names that files of an attempt may have, wherever they are kept.

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
