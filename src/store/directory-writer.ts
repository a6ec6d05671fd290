/** Writes files of attempts into a directory. Writes only to plain files, never through a symbolic or hard link: a
 *  command may have created anything there. Does not protect against a command that changes folders during the write;
 *  it runs as the same user and could write there itself. */
import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readdir, rename, rmdir, unlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { PerdureError } from "../core/errors.ts";
import { flushFolders, makeFolderDurably } from "../files/durable.ts";
import {
  ARTIFACTS,
  type Blobs,
  checkedParts,
  checkPlace,
  checkUpload,
  FILES,
  INPUT_ATTEMPT,
  isRepeat,
  isTooLarge,
  isWhole,
  nameTaken,
  STAGED,
  tooLarge,
} from "./blobs.ts";

export function directoryWriter(root: string): Pick<Blobs, "write" | "remove"> {
  const tallies = new FolderTallies();
  const turns = new SerialWrites();

  const write: Blobs["write"] = async (jobId, attempt, name, offset, source, options = {}) => {
    const { maxBytes, length, upload } = options;
    const file = placeOf(jobId, attempt, name, upload);
    const folders = file.parts.slice(0, -1);
    const path = join(root, ...file.parts);
    if (offset > 0 && !(await isReal(root, ...folders))) return { size: 0 };
    const handle =
      offset > 0
        ? await openToWrite(path, name, false)
        : await withFolders(root, folders, name, () => openToWrite(path, name, true));
    if (handle === null) return { size: 0 };
    const dir = join(root, ...file.counted);
    const tally = maxBytes === undefined ? null : await tallies.enter(dir);
    const pieces = source[Symbol.asyncIterator]();
    // Acknowledged only when it survives a power cut: the bytes and the folders on the path. If the folders of staged
    // bytes are lost, the bytes are sent again.
    const flush = async (size: number, isNew = true) => {
      try {
        await Promise.all([handle.datasync(), isNew && upload === undefined ? flushFolders(root, folders) : null]);
      } catch (error) {
        // After a failed flush the kernel considers these bytes written, and a second flush would succeed without them:
        // they must be sent again.
        const left = offset > size ? 0 : offset;
        await handle.truncate(left);
        if (tally !== null) tally.bytes -= size - left;
        throw error;
      }
    };
    try {
      const { size } = await handle.stat();
      if (offset > size || isRepeat(offset, length, size)) {
        // The writer may have been interrupted before the flush, and nobody sends it again.
        if (size > 0) await flush(size);
        return { size };
      }
      // Truncate only when there are bytes to replace it: the caller may disconnect before sending any.
      let next = await pieces.next();
      await handle.truncate(offset);
      if (tally !== null) tally.bytes -= size - offset;
      let at = offset;
      for (; next.done !== true; next = await pieces.next()) {
        const piece = next.value;
        if (tally !== null && tally.bytes + piece.length > (maxBytes as number)) {
          throw tooLarge(name, maxBytes as number);
        }
        if (tally !== null) tally.bytes += piece.length;
        await writeAll(handle, piece, at);
        at += piece.length;
      }
      await flush(at, offset === 0);
      return { size: at };
    } catch (error) {
      throw explained(error, name);
    } finally {
      await pieces.return?.(); // do not keep the sender waiting
      if (tally !== null) tallies.leave(dir);
      await handle.close();
    }
  };

  /** Replaces the file with what an upload has staged, in one step. */
  async function publish(jobId: string, attempt: number, name: string, upload: number, maxBytes?: number) {
    const [from, to] = [placeOf(jobId, attempt, name, upload), placeOf(jobId, attempt, name)];
    const [staged, path] = [join(root, ...from.parts), join(root, ...to.parts)];
    const dir = join(root, ...to.counted);
    const { size } = await lstat(staged);
    const folders = to.parts.slice(0, -1);
    const before = await lstat(path).catch(() => null);
    if (before !== null && (!before.isFile() || before.nlink !== 1)) throw nameTaken(name);
    const tally = maxBytes === undefined ? null : await tallies.enter(dir);
    try {
      const grows = size - (before?.size ?? 0);
      if (tally !== null && tally.bytes + grows > (maxBytes as number)) throw tooLarge(name, maxBytes as number);
      await withFolders(root, folders, name, () => rename(staged, path));
      if (tally !== null) tally.bytes += grows;
      tallies.less(join(root, ...from.counted), size);
      await flushFolders(root, folders);
    } finally {
      if (tally !== null) tallies.leave(dir);
    }
    await removeEmpty(root, from.parts.slice(0, -1), 2);
  }

  const remove: Blobs["remove"] = async (jobId, attempt, name, { upload } = {}) => {
    const file = placeOf(jobId, attempt, name, upload);
    const folders = file.parts.slice(0, -1);
    if (!(await isReal(root, ...folders))) return;
    const path = join(root, ...file.parts);
    const found = await lstat(path).catch(() => null);
    if (found === null || found.isDirectory()) return;
    await unlink(path);
    tallies.less(join(root, ...file.counted), found.size);
    await removeEmpty(root, folders, upload === undefined ? 3 : 2);
  };

  // One write at a time for a file: a worker that got no reply sends a piece again while the first is still being
  // written.
  const turn = <T>(jobId: string, attempt: number, name: string, run: () => Promise<T>) =>
    turns.take(`${jobId}/${attempt}/${name}`, run);
  return {
    write: (jobId, attempt, name, offset, source, options = {}) => {
      checkPlace(attempt, offset);
      const { upload, last = false, maxBytes } = options;
      if (upload !== undefined) checkUpload(upload);
      return turn(jobId, attempt, name, async () => {
        if (upload === undefined) return write(jobId, attempt, name, offset, source, options);
        try {
          const answer = await write(jobId, attempt, name, offset, source, options);
          if (last && isWhole(answer.size, offset, options.length)) {
            await publish(jobId, attempt, name, upload, maxBytes);
          }
          return answer;
        } catch (error) {
          // It will never be complete.
          if (isTooLarge(error)) await remove(jobId, attempt, name, { upload });
          throw error;
        }
      });
    },
    remove: (jobId, attempt, name, options = {}) => {
      checkPlace(attempt, 0);
      if (options.upload !== undefined) checkUpload(options.upload);
      return turn(jobId, attempt, name, () => remove(jobId, attempt, name, options));
    },
  };
}

interface FilePlace {
  /** Relative to the root. */
  readonly parts: readonly string[];
  /** The folder whose size limit includes the file. */
  readonly counted: readonly string[];
}

function placeOf(jobId: string, attempt: number, name: string, upload?: number): FilePlace {
  const own = foldersOf(jobId, attempt);
  const parts = checkedParts(name, attempt);
  if (upload === undefined) return { parts: [...own, ...parts], counted: own };
  return { parts: [...own, STAGED, String(upload), ...parts], counted: [...own, STAGED] };
}

/** Removes these folders if empty, innermost first; the first `kept` of them stay. */
async function removeEmpty(root: string, folders: readonly string[], kept: number): Promise<void> {
  for (let n = folders.length; n > kept; n--) {
    const isGone = await rmdir(join(root, ...folders.slice(0, n))).then(
      () => true,
      () => false,
    );
    if (!isGone) return;
  }
}

/** Where the files of an attempt lie, relative to the root. Inputs have a folder of their own so that they can be
 *  listed. */
export function foldersOf(jobId: string, attempt: number): readonly [string, string] {
  return attempt === INPUT_ATTEMPT ? [INPUTS, jobId] : [jobId, `attempt_${attempt}`];
}

export const INPUTS = "inputs";

/** Runs calls for the same name one after another. */
class SerialWrites {
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

/** Whether these nested folders are real folders and not links, which a command may have created. */
export async function isReal(root: string, ...folders: readonly string[]): Promise<boolean> {
  let path = root;
  for (const folder of folders) {
    path = join(path, folder);
    const found = await lstat(path).catch(() => null);
    if (found === null || !found.isDirectory()) return false;
  }
  return true;
}

const MAX_TRIES = 50;

/** Creates the folders and runs something in them. Removing the last other file also removes the empty folders; if that
 *  happens in between, they are created again. */
async function withFolders<T>(root: string, folders: readonly string[], name: string, run: () => Promise<T>) {
  for (let tries = 1; ; tries++) {
    try {
      await makeFolders(root, folders, name);
      return await run();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || tries === MAX_TRIES) throw error;
    }
  }
}

async function makeFolders(root: string, folders: readonly string[], name: string): Promise<void> {
  await makeFolderDurably(root);
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

/** Null: it does not exist and must not be created. */
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
  return new PerdureError("store_full", `${name}: the disk for job outputs is full`, { cause: error });
}

/** Size of an attempt's files. Concurrent writers share one count, which is kept for the next writer: measuring again
 *  for each of many small files would be quadratic. */
interface FolderTally {
  bytes: number;
  writers: number;
  readonly measured: Promise<void>;
}

const MAX_TALLIES = 100;

class FolderTallies {
  readonly #byDir = new Map<string, FolderTally>();

  async enter(dir: string): Promise<FolderTally> {
    let tally = this.#byDir.get(dir);
    if (tally === undefined) {
      const fresh: FolderTally = {
        bytes: 0,
        writers: 0,
        measured: bytesIn(dir, isStaged(dir) ? () => true : isCounted).then((bytes) => {
          fresh.bytes = bytes;
        }),
      };
      this.#byDir.set(dir, fresh);
      tally = fresh;
    }
    tally.writers += 1;
    this.#byDir.delete(dir); // most recently used last
    this.#byDir.set(dir, tally);
    await tally.measured;
    return tally;
  }

  /** Subtracts removed bytes. */
  less(dir: string, bytes: number): void {
    const tally = this.#byDir.get(dir);
    if (tally !== undefined) tally.bytes -= bytes;
  }

  leave(dir: string): void {
    const tally = this.#byDir.get(dir) as FolderTally;
    tally.writers -= 1;
    if (this.#byDir.size <= MAX_TALLIES) return;
    for (const [each, { writers }] of this.#byDir) {
      if (writers > 0) continue;
      this.#byDir.delete(each);
      break;
    }
  }
}

const isStaged = (dir: string) => basename(dir) === STAGED;
const isCounted = (name: string) => name === ARTIFACTS || FILES.has(name);

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
