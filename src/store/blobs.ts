/** The port for what attempts leave behind: files, apart from the database. An attempt is named by its job and number, and
 *  what it left is never overwritten: numbers only grow, also when a job is redriven. */
import type { Readable } from "node:stream";

export interface BlobFile {
  /** With `/` between folders. Whoever wrote it chose it: print it with care. */
  readonly name: string;
  readonly size: number;
  readonly mime: string;
  readonly sha256: string;
}

export interface Blobs {
  /** Makes a place for an attempt on this machine. Says where the attempt before it lies, if there was one. */
  begin(
    jobId: string,
    attempt: number,
    keep: boolean,
  ): Promise<{ readonly dir: string; readonly previous: string | null }>;
  /** The numbers of the attempts that left something, in order. */
  attempts(jobId: string): Promise<number[]>;
  /** What an attempt left for the user; `more` were too many to list, or could not be read. */
  list(jobId: string, attempt: number): Promise<{ readonly files: readonly BlobFile[]; readonly more: number }>;
  /** `stdout.log`, `stderr.log`, `result.json`, or `artifacts/NAME`; null if it is not there. */
  get(jobId: string, attempt: number, name: string): Promise<Readable | null>;
  /** Removes scratch files of a job that has ended. */
  tidy(jobId: string): Promise<void>;
  /** Removes all that jobs left. */
  delete(jobIds: readonly string[]): Promise<void>;
}
