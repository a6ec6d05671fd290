/** Standard input that was piped into `perdure`, for a command to read. All of it is read before anything is stored or run,
 *  into an unlinked temporary file, so nothing is left however this process ends. Pipes and files are read; a terminal,
 *  /dev/null, a socket and a closed input are not, as services and schedulers may leave a socket open for ever. */
import { createHash, randomBytes } from "node:crypto";
import { fstatSync, type Stats, statSync, unlinkSync, writeSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Uploaded } from "../../core/api/outputs.ts";
import type { Perdure } from "../../core/api.ts";
import { MAX_STDIN_BYTES, type StdinFile } from "../../core/input/exec-input.ts";
import type { CommandContext, CommandOption } from "../command.ts";
import { usageError } from "../exit.ts";

export const NO_STDIN: CommandOption = {
  ...{ name: "no-stdin", type: "boolean" },
  help: "Do not read standard input, even if it is a pipe or a file.",
};

export const STDIN: CommandOption = {
  ...{ name: "stdin", type: "boolean" },
  help: "Read standard input to its end, whatever it is, for the command.",
};

export interface PipedInput extends StdinFile {
  /** Stores it for a job that is about to be submitted. */
  upload(perdure: Perdure): Promise<Uploaded>;
  close(): Promise<void>;
}

/** After this time a note is printed: a person may not know that standard input is read. */
const PATIENCE_MS = 3_000;

/** Null if there is no input, or it is empty. `mode`: read it, do not read it, or decide by its type. */
export async function pipedInput(
  { io, out, given }: CommandContext,
  mode: "read" | "leave" | "if piped",
): Promise<PipedInput | null> {
  if (io.stdin === undefined || mode === "leave") return null;
  if (mode === "if piped" && !isPiped(io.stdin.fd)) return null;
  const problem = mode === "read" ? unreadable(io.stdin.fd) : null;
  if (problem !== null) {
    throw usageError(`--stdin: standard input is ${problem}; pipe the input, redirect a file, or leave --stdin out`);
  }
  const timer = setTimeout(() => {
    if (!given.flag("quiet")) {
      out.note("reading standard input until it ends; if the command does not need it, pass --no-stdin or < /dev/null");
    }
  }, PATIENCE_MS);
  try {
    return await spooled(io.stdin.open());
  } finally {
    clearTimeout(timer);
  }
}

function isPiped(fd: number): boolean {
  let stat: Stats;
  try {
    stat = fstatSync(fd);
  } catch {
    return false; // closed
  }
  return stat.isFIFO() || stat.isFile();
}

/** Why it cannot be read; null if it can. A closed input would otherwise be read as an empty one. */
function unreadable(fd: number): string | null {
  let stat: Stats;
  try {
    stat = fstatSync(fd);
  } catch {
    return "closed";
  }
  if (stat.isDirectory()) return "a directory";
  return stat.isCharacterDevice() && stat.rdev === statSync("/dev/null").rdev && isWritable(fd) ? "closed" : null;
}

/** For a closed input Node opens /dev/null for reading and writing; `< /dev/null` opens it for reading only. */
function isWritable(fd: number): boolean {
  try {
    writeSync(fd, "");
    return true;
  } catch {
    return false;
  }
}

async function spooled(source: AsyncIterable<Uint8Array>): Promise<PipedInput | null> {
  const file = await nameless();
  const hash = createHash("sha256");
  let bytes = 0;
  try {
    for await (const chunk of source) {
      bytes += chunk.length;
      if (bytes > MAX_STDIN_BYTES) {
        const limit = `${MAX_STDIN_BYTES / 1_048_576} MiB`;
        throw usageError(`standard input is over ${limit}; write it to a file, and pass its path to the command`);
      }
      hash.update(chunk);
      await file.write(chunk);
    }
  } catch (error) {
    await file.close();
    throw explained(error);
  }
  if (bytes === 0) {
    await file.close();
    return null;
  }
  const close = () => file.close();
  const upload = (perdure: Perdure) => perdure.upload(file.createReadStream({ start: 0, autoClose: false }));
  return { bytes, sha256: hash.digest("hex"), upload, close };
}

async function nameless(): Promise<FileHandle> {
  const path = join(tmpdir(), `perdure-stdin-${randomBytes(12).toString("hex")}`);
  try {
    const file = await open(path, "wx+", 0o600);
    unlinkSync(path);
    return file;
  } catch (error) {
    throw explained(error);
  }
}

function explained(error: unknown): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT")
    return usageError(`standard input: no space for it in ${tmpdir()} (${code})`);
  if (code === "EACCES" || code === "EROFS" || code === "ENOENT") {
    return usageError(`standard input: cannot write to ${tmpdir()} (${code}); set TMPDIR to another directory`);
  }
  return syscall === "read" ? usageError(`standard input cannot be read (${code})`) : error;
}
