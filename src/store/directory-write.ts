/** Writes files of attempts into a directory. Nothing is written through a link, symbolic or hard, and into nothing but
 *  plain files: a command may have put other things there. What it does not stop: a command that changes folders while they
 *  are walked through; it runs as the same user and could write there itself. */
import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { PerdureError } from "../core/errors.ts";
import { ARTIFACTS, checkedParts, checkPlace, FILES, isRepeat, nameTaken, tooLarge } from "./blob-name.ts";
import type { Blobs } from "./blobs.ts";

export function directoryWriter(root: string): Blobs["write"] {
  const tallies = new Tallies();
  const turns = new Turns();

  const write: Blobs["write"] = async (jobId, attempt, name, offset, source, { maxBytes, length } = {}) => {
    const parts = checkedParts(name);
    const place = [jobId, `attempt_${attempt}`];
    const folders = [...place, ...parts.slice(0, -1)];
    if (offset === 0) await makeFolders(root, folders, name);
    else if (!(await isReal(root, ...folders))) return { size: 0 };
    const file = await openToWrite(join(root, ...folders, parts.at(-1) as string), name, offset === 0);
    if (file === null) return { size: 0 };
    const dir = join(root, ...place);
    const tally = maxBytes === undefined ? null : await tallies.enter(dir);
    const pieces = source[Symbol.asyncIterator]();
    try {
      const { size } = await file.stat();
      if (offset > size || isRepeat(offset, length, size)) return { size };
      // Only when something is there to take its place: a caller may be gone before it has sent a byte.
      let next = await pieces.next();
      await file.truncate(offset);
      if (tally !== null) tally.bytes -= size - offset;
      let at = offset;
      for (; next.done !== true; next = await pieces.next()) {
        const piece = next.value;
        if (tally !== null && tally.bytes + piece.length > (maxBytes as number)) {
          throw tooLarge(name, maxBytes as number);
        }
        if (tally !== null) tally.bytes += piece.length;
        await writeAll(file, piece, at);
        at += piece.length;
      }
      await file.datasync();
      return { size: at };
    } catch (error) {
      throw explained(error, name);
    } finally {
      await pieces.return?.(); // whoever sends the rest is not kept waiting
      if (tally !== null) tallies.leave(dir);
      await file.close();
    }
  };

  // One at a time for a file: a worker that heard nothing sends a piece again while the first is still being written.
  return (jobId, attempt, name, offset, source, options) => {
    checkPlace(attempt, offset);
    return turns.take(`${jobId}/${attempt}/${name}`, () => write(jobId, attempt, name, offset, source, options));
  };
}

/** Lets calls of one name go one after the other. */
class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  take<T>(name: string, run: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name) ?? Promise.resolve();
    const mine = before.then(run, run);
    const settled = mine
      .catch(() => {})
      .then(() => {
        if (this.#last.get(name) === settled) this.#last.delete(name);
      });
    this.#last.set(name, settled);
    return mine;
  }
}

/** Whether these folders, one below the other, are folders and not links to some: the command may have put those there. */
export async function isReal(root: string, ...folders: readonly string[]): Promise<boolean> {
  let path = root;
  for (const folder of folders) {
    path = join(path, folder);
    const found = await lstat(path).catch(() => null);
    if (found === null || !found.isDirectory()) return false;
  }
  return true;
}

async function makeFolders(root: string, folders: readonly string[], name: string): Promise<void> {
  await mkdir(root, { recursive: true, mode: 0o700 });
  let path = root;
  for (const folder of folders) {
    path = join(path, folder);
    await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw explained(error, name);
    });
    if (!(await lstat(path)).isDirectory()) throw nameTaken(name);
  }
}

const ODD = new Set(["ELOOP", "EISDIR", "ENOTDIR", "ENXIO", "EMLINK"]);

/** Null: it is not there, and not to be made. */
async function openToWrite(path: string, name: string, create: boolean): Promise<FileHandle | null> {
  const flags = constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | (create ? constants.O_CREAT : 0);
  let file: FileHandle;
  try {
    file = await open(path, flags, 0o600);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (code === "ENOENT" && !create) return null;
    throw ODD.has(code) ? nameTaken(name) : explained(error, name);
  }
  const found = await file.stat();
  if (found.isFile() && found.nlink === 1) return file;
  await file.close();
  throw nameTaken(name);
}

async function writeAll(file: FileHandle, piece: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < piece.length; ) {
    const { bytesWritten } = await file.write(piece, done, piece.length - done, at + done);
    done += bytesWritten;
  }
}

function explained(error: unknown, name: string): unknown {
  const { code } = (error ?? {}) as { code?: unknown };
  if (code !== "ENOSPC" && code !== "EDQUOT") return error;
  return new PerdureError("store_full", `${name}: the disk for the outputs of jobs is full`, { cause: error });
}

/** The bytes of an attempt's files: those who write at the same time share one count, and who comes next has it still.
 *  Measuring anew for each of many small files would cost the square of their number. */
interface Tally {
  bytes: number;
  writers: number;
  readonly measured: Promise<void>;
}

const MAX_TALLIES = 100;

class Tallies {
  readonly #byDir = new Map<string, Tally>();

  async enter(dir: string): Promise<Tally> {
    let tally = this.#byDir.get(dir);
    if (tally === undefined) {
      const fresh: Tally = {
        bytes: 0,
        writers: 0,
        measured: bytesIn(dir, (name) => name === ARTIFACTS || FILES.has(name)).then((bytes) => {
          fresh.bytes = bytes;
        }),
      };
      this.#byDir.set(dir, fresh);
      tally = fresh;
    }
    tally.writers += 1;
    this.#byDir.delete(dir); // the one used last comes last
    this.#byDir.set(dir, tally);
    await tally.measured;
    return tally;
  }

  leave(dir: string): void {
    const tally = this.#byDir.get(dir) as Tally;
    tally.writers -= 1;
    if (this.#byDir.size <= MAX_TALLIES) return;
    for (const [each, { writers }] of this.#byDir) {
      if (writers > 0) continue;
      this.#byDir.delete(each);
      break;
    }
  }
}

async function bytesIn(dir: string, counts: (name: string) => boolean = () => true): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(dir, { withFileTypes: true }).catch(() => [])) {
    const path = join(dir, entry.name);
    if (!counts(entry.name)) continue;
    if (entry.isDirectory()) bytes += await bytesIn(path);
    else if (entry.isFile()) bytes += (await lstat(path).catch(() => null))?.size ?? 0;
  }
  return bytes;
}
