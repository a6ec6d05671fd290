/** The port for what attempts leave behind: files, apart from the rows of jobs. An attempt is named by its job and number;
 *  numbers only grow, also when a job is redriven, so what an earlier attempt left is never overwritten.
 *  What it does not promise: two writers of one file at a time. An attempt has one worker. */
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { BlobFile } from "../core/views.ts";

export type { BlobFile } from "../core/views.ts";

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
    options?: WriteOptions,
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

export interface WriteOptions {
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
