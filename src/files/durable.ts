/** Files and folders that survive a power cut. A written file is in the system's memory until it is flushed, and so is
 *  its folder entry: both are flushed before a caller learns that it is stored. Does not help on disks that ignore
 *  flushes, or on systems that cannot flush folders. */
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

/** Errors of systems that cannot flush a folder, or of folders that are writable but not readable. They are ignored. */
const NO_FOLDER_FLUSH = new Set(["EINVAL", "ENOTSUP", "EISDIR", "EPERM", "EACCES"]);

/** Errors of file systems without hard links. */
const NO_LINKS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"]);

const FOLDER = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0);

export interface FileOwner {
  readonly uid: number;
  readonly gid: number;
}

export interface DurableWriteOptions {
  readonly replace: boolean;
  /** The owner of the file; default: this user. Only root can change it; others get the system's error. */
  readonly owner?: FileOwner | undefined;
}

/** Writes a small private file atomically: readers see all of it or nothing, also after a crash. False: the file exists
 *  and `replace` is not set. */
export function writeDurably(path: string, text: string, { replace, owner }: DurableWriteOptions): boolean {
  const part = join(dirname(path), `.${basename(path)}-${randomBytes(6).toString("hex")}`);
  const file = openSync(part, "wx", 0o600);
  let isMoved = false;
  try {
    try {
      fchmodSync(file, 0o600); // regardless of the umask
      // The group gets no access.
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

/** A link fails if the file exists; a rename would replace it. */
function linked(part: string, path: string): boolean {
  try {
    try {
      linkSync(part, path);
    } catch (error) {
      if (!NO_LINKS.has(codeOf(error))) throw error;
      closeSync(openSync(path, "wx", 0o600)); // created by us
      renameSync(part, path);
    }
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** For an existing file, whose writer may have been killed before it flushed. */
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

/** Creates a private folder and its missing parents, and flushes the entries of the new ones. */
export async function makeFolderDurably(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first !== undefined) await Promise.all(newEntries(path, first).map(flushFolder));
}

export function makeFolderDurablySync(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first !== undefined) for (const folder of newEntries(path, first)) flushFolderSync(folder);
}

/** The folders with a new entry: from the parent of `path` up to the parent of the first that was created. */
function newEntries(path: string, first: string): string[] {
  const folders = [dirname(path)];
  for (let at = path; at !== first && dirname(at) !== at; at = dirname(at)) folders.push(dirname(dirname(at)));
  return folders;
}

/** Flushes these nested folders and the root above them. */
export async function flushFolders(root: string, folders: readonly string[]): Promise<void> {
  // Concurrently: the file system groups the writes.
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
