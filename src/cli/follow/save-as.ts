/** Saves bytes as a file: whole or not at all. What is there already stays, unless it is to be replaced. */
import { randomBytes } from "node:crypto";
import { link, lstat, open, rename, stat, unlink } from "node:fs/promises";
import { CliError, EXIT } from "../exit.ts";

export interface Place {
  /** As the person wrote it, for messages. */
  readonly given: string;
  readonly path: string;
}

/** The answer is the number of bytes. They are asked for when they can be written: what is opened must be read. */
export async function saveAs(
  read: () => Promise<AsyncIterable<Uint8Array>>,
  { given, path }: Place,
  replace: boolean,
): Promise<number> {
  const found = await lstat(path).catch(() => null);
  if (found !== null && !replace) throw isThere(given);
  if ((await stat(path).catch(() => null))?.isDirectory()) {
    throw new CliError(EXIT.failed, `${given} is a directory; give the name of a file`);
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

/** A link fails where a file has appeared meanwhile, which a rename would replace. */
async function putNew(part: string, path: string, given: string): Promise<void> {
  try {
    await link(part, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") throw isThere(given);
    // There are file systems without links.
    await rename(part, path);
    return;
  }
  await unlink(part);
}

function isThere(given: string): CliError {
  return new CliError(EXIT.failed, `${given} is there already; replace it with --force, or give another name`);
}
