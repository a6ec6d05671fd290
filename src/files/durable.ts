/** Files and folders that are found again after a power cut. A written file lies in the memory of the system until it is
 *  flushed, and so does the entry that names it in its folder: both are flushed before anybody is told that it is stored.
 *  What it does not promise: anything of a disk that lies about its flushes, or of a system that cannot flush folders. */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** What systems answer that cannot flush a folder, or where it may be written to but not read: there is nothing better to do
 *  there. */
const NO_FOLDER_FLUSH = new Set(["EINVAL", "ENOTSUP", "EISDIR", "EPERM", "EACCES"]);

/** What file systems answer that have no links. */
const NO_LINKS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"]);

const FOLDER = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0);

export interface FileOwner {
  readonly uid: number;
  readonly gid: number;
}

export interface DurableWriteOptions {
  readonly replace: boolean;
  /** Who shall own it; default: this user. Only root can give a file away, and others get the error of the system. */
  readonly owner?: FileOwner | undefined;
}

/** Puts a small file in its place, for its owner alone: whole or not at all, whoever reads it and whatever happens. False:
 *  a file exists there and `replace` is not set. */
export function writeDurably(path: string, text: string, { replace, owner }: DurableWriteOptions): boolean {
  const part = join(dirname(path), `.${basename(path)}-${randomBytes(6).toString("hex")}`);
  const file = openSync(part, "wx", 0o600);
  let isMoved = false;
  try {
    try {
      fchmodSync(file, 0o600); // whatever the umask says
      // The group has no rights to it.
      if (owner !== undefined && owner.uid !== fstatSync(file).uid) fchownSync(file, owner.uid, owner.gid);
      writeSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    if (replace) {
      renameSync(part, path);
      isMoved = true;
    } else if (!linked(part, path)) return false;
  } finally {
    if (!isMoved) rmSync(part, { force: true });
  }
  flushFolderSync(dirname(path));
  return true;
}

/** A link fails where a file exists, which a rename would replace. */
function linked(part: string, path: string): boolean {
  try {
    try {
      linkSync(part, path);
    } catch (error) {
      if (!NO_LINKS.has(codeOf(error))) throw error;
      closeSync(openSync(path, "wx", 0o600)); // ours from here on
      renameSync(part, path);
    }
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** A file that exists already, as one whose writer was killed before it could flush it. */
export function flushFileSync(path: string): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  flushFolderSync(dirname(path));
}

export function flushFolderSync(path: string): void {
  let folder: number | null = null;
  try {
    folder = openSync(path, FOLDER);
    fsyncSync(folder);
  } catch (error) {
    if (!cannotFlush(error)) throw error;
  } finally {
    if (folder !== null) closeSync(folder);
  }
}

/** Makes a folder and those above it that are missing, for the owner alone, and flushes the entries of the new ones. */
export async function makeFolderDurably(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first !== undefined) await Promise.all(newEntries(path, first).map(flushFolder));
}

export function makeFolderDurablySync(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first !== undefined) for (const folder of newEntries(path, first)) flushFolderSync(folder);
}

/** The folders that have a new entry: from the one above `path` up to the one above the first that was made. */
function newEntries(path: string, first: string): string[] {
  const folders = [dirname(path)];
  for (let at = path; at !== first && dirname(at) !== at; at = dirname(at)) folders.push(dirname(dirname(at)));
  return folders;
}

/** These folders, one below the other, and the one that they are below. */
export async function flushFolders(root: string, folders: readonly string[]): Promise<void> {
  // At the same time: the file system then writes them together.
  await Promise.all([root, ...folders.map((_, i) => join(root, ...folders.slice(0, i + 1)))].map(flushFolder));
}

export async function flushFolder(path: string): Promise<void> {
  let folder: FileHandle | null = null;
  try {
    folder = await open(path, FOLDER);
    await folder.sync();
  } catch (error) {
    if (!cannotFlush(error)) throw error;
  } finally {
    await folder?.close();
  }
}

function cannotFlush(error: unknown): boolean {
  return NO_FOLDER_FLUSH.has(codeOf(error));
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? "";
}
