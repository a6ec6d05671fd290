/** Outputs and uploads in the library's API: what attempts leave outside the database, and inputs that are stored before
 *  their job. */

import type { StdinFile } from "../input/exec-input.ts";
import type { BlobFile } from "../job/views.ts";

export interface OutputsApi {
  /** Stores up to 64 MiB for a command to read as its standard input, durably. It belongs to the job that is submitted with its
   *  id as `upload` within half an hour; without one it is removed after an hour. */
  upload(source: AsyncIterable<Uint8Array>): Promise<Uploaded>;
  /** What the attempts of a job left: their logs and files. */
  outputs(id: string): Promise<JobOutputs>;
}

/** What the attempts of a job left outside the database.
 *  @example
 *  const outputs: JobOutputs = await perdure.outputs(job.id);
 *  for (const attempt of outputs.attempts) console.log(await outputs.files(attempt)); */
export interface JobOutputs {
  /** The attempts that left something, in order. */
  readonly attempts: readonly number[];
  /** The files an attempt left in `artifacts/`; `more` are not listed: too many, or unreadable. */
  files(attempt: number): Promise<{ readonly files: readonly BlobFile[]; readonly more: number }>;
  /** `stdout.log`, `stderr.log`, `result.json`, or `artifacts/NAME`, from the byte `offset` on; null if it does not exist. */
  read(attempt: number, name: string, offset?: number): Promise<AsyncIterable<Uint8Array> | null>;
  /** What an attempt has logged (`ctx.log`), also while it runs, a page at a time: pass `next` as `after` to read on. The text
   *  is empty where nothing more has come yet. */
  log(attempt: number, after?: number): Promise<LogPage>;
}

/** A part of what an attempt has logged with `ctx.log`.
 *  @example
 *  const page: LogPage | null = await (await perdure.outputs(job.id)).log(1); */
export interface LogPage {
  readonly text: string;
  readonly next: number;
}

/** A stored input, for a job to be submitted with.
 *  @example
 *  const { id, bytes, sha256 }: Uploaded = await perdure.upload(createReadStream("dump.sql"));
 *  await perdure.submit(exec, { argv: ["psql"], stdinFile: { bytes, sha256 } }, { upload: id }); */
export interface Uploaded extends StdinFile {
  readonly id: string;
}
