/** The port for files of jobs, and the rules every adapter shares: allowed names, size limits, and when an upload is a
 *  repeat. */
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { ConfigError, PerdureError } from "../core/errors.ts";
import type { BlobFile } from "../core/job/views.ts";

// Files of attempts are stored apart from the rows of jobs, by job and attempt number. Attempt numbers only grow, also
// after a redrive, so an earlier attempt's files are never overwritten. Concurrent writers of one file are not
// supported: an attempt has one worker.

export type { BlobFile } from "../core/job/views.ts";

export interface Blobs {
  /** The numbers of the attempts that have files, in ascending order. */
  attempts(jobId: string): Promise<number[]>;
  /** The files of an attempt; `more` is how many were not listed, because there were too many or they could not be
   *  read. */
  list(jobId: string, attempt: number): Promise<{ readonly files: readonly BlobFile[]; readonly more: number }>;
  /** `stdout.log`, `stderr.log`, `result.json`, or `artifacts/NAME`, from `offset`; null if it does not exist. For
   *  attempt 0: `stdin`, the input of the job, which is kept until the job is deleted. */
  get(jobId: string, attempt: number, name: string, offset?: number): Promise<Readable | null>;
  /** Writes bytes at `offset` and truncates the file after them, so a repeated call changes nothing. If the file is
   *  shorter than `offset`, nothing is written; returns the size of the file in any case. `maxBytes` limits all files
   *  of the attempt together; beyond it the call fails with `output_too_large`. If `length` is set, a piece that lies
   *  wholly within the file is a late repeat and changes nothing.
   *  With `upload`, bytes are staged under that number, and offsets and the returned size refer to the staged bytes.
   *  The file is replaced as a whole when the piece marked `last` arrives. Staged bytes have their own `maxBytes`. */
  write(
    jobId: string,
    attempt: number,
    name: string,
    offset: number,
    source: AsyncIterable<Uint8Array>,
    options?: BlobWriteOptions,
  ): Promise<{ readonly size: number }>;
  /** Removes a file, or what an `upload` has staged for it. Succeeds if it does not exist. */
  remove(jobId: string, attempt: number, name: string, options?: { readonly upload?: number }): Promise<void>;
  /** Ids of jobs with an input (`stdin` of attempt 0), in ascending order, after this one. An input is written before
   *  its job is submitted, so the job may not exist yet, or never. */
  inputs(after: string, limit: number): Promise<string[]>;
  /** Removes scratch files of a job that has ended. */
  tidy(jobId: string): Promise<void>;
  /** Removes all files of these jobs. */
  delete(jobIds: readonly string[]): Promise<void>;
}

interface BlobWriteOptions {
  readonly maxBytes?: number | undefined;
  readonly length?: number | undefined;
  readonly upload?: number | undefined;
  readonly last?: boolean | undefined;
}

/** A file of an attempt that could not be flushed. */
export interface Unflushed {
  readonly name: string;
  readonly error: Error;
}

/** Where an attempt writes its files directly: a directory on this machine. */
export interface AttemptPlaces {
  /** Creates the directory of an attempt. `previous` is the directory of the attempt before it, if there is one. */
  begin(
    jobId: string,
    attempt: number,
    keep: boolean,
  ): Promise<{ readonly dir: string; readonly previous: string | null }>;
  /** The input of a job, open for reading from the start; null if it has none. */
  openStdin(jobId: string): Promise<FileHandle | null>;
  /** Flushes the files of an attempt so that they survive a power cut: output, verdict and the artifacts that `list`
   *  returns. Returns the files that could not be flushed. */
  flush(jobId: string, attempt: number): Promise<readonly Unflushed[]>;
}

// File names that an attempt may use, the same for every adapter.

export const FILES: ReadonlySet<string> = new Set(["result.json", "stdout.log", "stderr.log"]);
export const ARTIFACTS = "artifacts";
/** Folder for incomplete replacements of files. No file name begins with it. */
export const STAGED = "staged";
/** A job's input is stored as a file of an attempt before the first. */
export const INPUT_ATTEMPT = 0;
export const STDIN = "stdin";

const MAX_PART_BYTES = 255;
const MAX_NAME_BYTES = 1_024;
const ALLOWED =
  `stdout.log, stderr.log, result.json, or ${ARTIFACTS}/PATH of at most ${MAX_NAME_BYTES} bytes, ${MAX_PART_BYTES} in each ` +
  "part; empty parts, . and .., control characters and \\ are not allowed";

/** The parts of a file name; null if the name is not allowed. */
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

/** Like `partsOf`, but throws if the name is not allowed. */
export function checkedParts(name: string, attempt: number): string[] {
  const parts = partsOf(name, attempt);
  if (parts === null) throw new ConfigError({ path: "name", given: name, allowed: ALLOWED });
  return parts;
}

/** The name, or a folder in it, is taken by something that is not our file. */
export function nameTaken(name: string): ConfigError {
  const problem = "the name, or a folder in it, is taken by something else";
  return new ConfigError({
    path: "name",
    given: name,
    allowed: "an unused name, or the name of an existing file",
    problem,
  });
}

export function tooLarge(name: string, maxBytes: number): PerdureError {
  const message = `${name}: the files of this attempt exceed the limit of ${maxBytes} bytes`;
  return new PerdureError("output_too_large", message, { path: name });
}

export function isTooLarge(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "output_too_large";
}

/** Call before touching any file: the attempt number becomes part of a path. */
export function checkPlace(attempt: number, offset: number): void {
  if (!Number.isSafeInteger(attempt) || attempt < INPUT_ATTEMPT)
    throw new TypeError(`not an attempt number: ${attempt}`);
  if (!Number.isSafeInteger(offset) || offset < 0) throw new TypeError(`not a file offset: ${offset}`);
}

export function checkUpload(upload: number): void {
  if (!Number.isSafeInteger(upload) || upload < 1) throw new TypeError(`not an upload number: ${upload}`);
}

/** Whether staged bytes are complete after the last piece: it was just written at its offset, or had been before. */
export function isWhole(size: number, offset: number, length: number | undefined): boolean {
  return length === undefined ? size >= offset : size === offset + length;
}

/** Whether a piece was written before. A piece without a length or without bytes never is: it truncates the file. */
export function isRepeat(offset: number, length: number | undefined, size: number): boolean {
  return length !== undefined && length > 0 && offset + length <= size;
}
