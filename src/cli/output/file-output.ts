/** Files of a job as output: copied to stdout (escaped on a terminal), or saved as a file, atomically. An existing file is
 *  kept unless it may be replaced. */

import { randomBytes } from "node:crypto";
import { link, lstat, open, rename, stat, unlink } from "node:fs/promises";
import type { CommandContext } from "../command.ts";
import { CliError, EXIT } from "../exit.ts";
import { TerminalStream } from "./terminal-text.ts";

const NEWLINE = 10;

/** Returns whether the last line was ended. */
export async function copyOut(
  bytes: AsyncIterable<Uint8Array> | null,
  { io, out }: Pick<CommandContext, "io" | "out">,
): Promise<boolean> {
  const terminal = new TerminalStream();
  let last = NEWLINE;
  for await (const chunk of bytes ?? []) {
    if (out.gone.aborted) return true;
    last = chunk.at(-1) ?? last;
    const isReady = io.stdout.write(io.isTTY ? terminal.text(chunk) : chunk);
    if (isReady) continue;
    await new Promise<void>((resolve) => {
      io.stdout.once("drain", resolve);
      out.gone.addEventListener("abort", () => resolve());
    });
  }
  if (io.isTTY) io.stdout.write(terminal.end());
  return last === NEWLINE;
}

interface FileDestination {
  /** The path as it was given, for messages. */
  readonly given: string;
  readonly path: string;
}

/** Returns the number of bytes. `read` is called only when they can be written, because an opened source must be read. */
export async function saveAs(
  read: () => Promise<AsyncIterable<Uint8Array>>,
  { given, path }: FileDestination,
  replace: boolean,
): Promise<number> {
  const found = await lstat(path).catch(() => null);
  if (found !== null && !replace) throw alreadyExists(given);
  if ((await stat(path).catch(() => null))?.isDirectory()) {
    throw new CliError(EXIT.failed, `${given} is a directory; pass the path of a file`);
  }
  const part = `${path}.${randomBytes(6).toString("hex")}.part`;
  try {
    const size = await write(read, part);
    if (replace) await rename(part, path);
    else await putNew(part, path, given);
    return size;
  } catch (error) {
    await unlink(part).catch(() => {});
    const { code, syscall, message } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    throw new CliError(EXIT.failed, `cannot save ${given}: ${code ?? message}`);
  }
}

async function write(read: () => Promise<AsyncIterable<Uint8Array>>, path: string): Promise<number> {
  const file = await open(path, "wx");
  let size = 0;
  try {
    for await (const chunk of await read()) {
      await file.writeFile(chunk);
      size += chunk.byteLength;
    }
  } finally {
    await file.close();
  }
  return size;
}

/** A link, unlike a rename, fails if a file was created meanwhile. */
async function putNew(part: string, path: string, given: string): Promise<void> {
  try {
    await link(part, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") throw alreadyExists(given);
    // Some file systems have no links.
    await rename(part, path);
    return;
  }
  await unlink(part);
}

function alreadyExists(given: string): CliError {
  return new CliError(EXIT.failed, `${given} already exists; use --force to overwrite`);
}
