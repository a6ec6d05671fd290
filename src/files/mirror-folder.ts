/** A folder that a server fills with copies of its data for people and tools; it is never read back. Files are written
 *  atomically. A folder on the path that is a symbolic link, or not a folder, is refused: nothing is written or removed
 *  outside. The folder is identified by a mark file: without one, a folder that contains anything but our own folders
 *  is not ours.
 *
 *  Limits: copies do not survive a power cut (nothing is flushed), and a process of the same user may change folders
 *  during a write. */
import { randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, mkdir, open, opendir, readdir, rename, rm, statfs, writeFile } from "node:fs/promises";
import { dirname, join, sep } from "node:path";

/** Relative to the folder, as a list of names. */
export type MirrorPath = readonly string[];

export interface MirrorOptions {
  /** Relative to it, with slashes; always created. */
  readonly folders: readonly string[];
  /** The file that identifies the folder, and its text. */
  readonly mark: { readonly name: string; readonly text: string };
  /** Returns a function that releases the lock; null while another process holds it. */
  readonly lock: (path: string) => Promise<(() => void) | null>;
}

export interface MirrorFile {
  /** The modification time to set. */
  readonly modifiedAt?: number | undefined;
  /** Expected size in bytes, if known: refused if too little of the disk would stay free. */
  readonly size?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The folder cannot be used as it is. The message includes the fix. */
export class MirrorRefused extends Error {
  readonly code = "refused";
}

/** Files are written here first, on the same file system. */
const PARTS = ".parts";
const LOCK = ".lock";
const WRITABLE_BY_OTHERS = 0o022;
/** What a copy of known size must leave free: a share of the disk, but at most this many bytes. */
const FREE_SHARE = 0.05;
const FREE_BYTES = 256 * 1024 * 1024;

const NOT_ENTERED: Pick<Stats, "dev" | "ino"> = { dev: -1, ino: -1 };

export class MirrorFolder {
  readonly path: string;
  readonly #options: MirrorOptions;
  #unlock: (() => void) | null = null;
  #entered = NOT_ENTERED;

  private constructor(path: string, options: MirrorOptions) {
    this.path = path;
    this.#options = options;
  }

  /** Creates a private folder if it does not exist. Its parent must exist. */
  static async open(path: string, options: MirrorOptions): Promise<MirrorFolder> {
    const folder = new MirrorFolder(path, options);
    try {
      await folder.#enter();
      return folder;
    } catch (error) {
      folder.close();
      throw error;
    }
  }

  close(): void {
    this.#unlock?.();
    this.#unlock = null;
  }

  /** False if the folder or one of its subfolders had been removed: it was just created again and has missing files. */
  async isWhole(): Promise<boolean> {
    const found = await statOf(this.path);
    const isSame = found?.dev === this.#entered.dev && found.ino === this.#entered.ino;
    if (!isSame || !(await this.#hasMark())) {
      this.close();
      this.#entered = NOT_ENTERED;
      await this.#enter();
      return false;
    }
    // Something in the way of a folder is reported when a file is written there.
    return !(await this.#makeFolders((error) => error instanceof MirrorRefused));
  }

  async write(path: MirrorPath, content: string | AsyncIterable<Uint8Array>, file: MirrorFile = {}): Promise<void> {
    const { modifiedAt, size, signal } = file;
    if (size !== undefined) await this.checkSpace(size);
    const [part, target] = [await this.#partOf(), await this.#placeOf(path)];
    try {
      const handle = await open(part, "wx", 0o600);
      try {
        for await (const piece of typeof content === "string" ? [content] : content) {
          signal?.throwIfAborted();
          await handle.writeFile(piece);
        }
        if (modifiedAt !== undefined) await handle.utimes(modifiedAt / 1_000, modifiedAt / 1_000);
      } finally {
        await handle.close();
      }
      await rename(part, target);
    } catch (error) {
      await rm(part, { force: true }).catch(() => {});
      throw error;
    }
  }

  /** Appends whole lines. A file that would exceed `maxBytes` is first renamed to `older`, replacing that one. */
  async append(path: MirrorPath, text: string, maxBytes: number, older: MirrorPath): Promise<void> {
    const target = await this.#placeOf(path);
    const bytes = Buffer.from(text);
    let file = await openToAppend(target);
    try {
      let { size } = await file.stat();
      if (size > 0 && size + bytes.length > maxBytes) {
        await file.close();
        await rename(target, await this.#placeOf(older));
        file = await openToAppend(target);
        size = 0;
      }
      await file.appendFile(bytes).catch(async (error: unknown) => {
        await file.truncate(size).catch(() => {}); // leave no partial line
        throw error;
      });
    } finally {
      await file.close();
    }
  }

  /** Rejects if a copy of this size would leave too little of the disk free. */
  async checkSpace(bytes: number): Promise<void> {
    const { bavail, blocks, bsize } = await statfs(this.path);
    const kept = Math.min(FREE_BYTES, Math.floor(blocks * bsize * FREE_SHARE));
    if (bavail * bsize - bytes >= kept) return;
    const problem = `not enough disk space for a copy of ${bytes} bytes: ${bavail * bsize} bytes are free`;
    const most = kept === FREE_BYTES ? "256 MiB" : `${kept} bytes (5 % of the disk)`;
    throw Object.assign(new Error(`${problem}, and ${most} must stay free`), { code: "low_space" });
  }

  async makeFolder(path: MirrorPath): Promise<void> {
    await this.#makeReal(path);
  }

  /** The modification time of a regular file; null for anything else. */
  async modifiedAt(path: MirrorPath): Promise<number | null> {
    const folder = await this.#existing(path.slice(0, -1));
    const found = folder === null ? null : await statOf(join(folder, checked(path.at(-1))));
    return found?.isFile() ? Math.round(found.mtimeMs) : null;
  }

  /** The names in a folder; empty if it does not exist. */
  async *names(path: MirrorPath): AsyncGenerator<string, void, void> {
    const folder = await this.#existing(path);
    if (folder === null) return;
    for await (const { name } of await opendir(folder)) yield name;
  }

  /** Removes a file, or a folder with its contents. Succeeds if it does not exist. */
  async remove(path: MirrorPath): Promise<void> {
    const folder = await this.#existing(path.slice(0, -1));
    if (folder === null) return;
    await rm(join(folder, checked(path.at(-1))), { recursive: true, force: true }); // removes a link, not its target
  }

  async #enter(): Promise<void> {
    const { mark, lock } = this.#options;
    const { path } = this;
    await mkdir(path, { mode: 0o700 }).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw await cannotMake(path, error);
    });
    const found = await lstat(path);
    checkOwn(path, found);
    if (!(await this.#hasMark())) {
      await this.#checkOnlyOwn();
      // Another server may have created it meanwhile: the lock decides.
      await writeFile(join(path, mark.name), mark.text, { flag: "wx", mode: 0o600 }).catch(async (error: unknown) => {
        if (!(await this.#hasMark())) throw error;
      });
    }
    const lockFile = join(path, LOCK);
    if ((await statOf(lockFile))?.isFile() === false) throw new MirrorRefused(`${lockFile} is not a file; remove it`);
    this.#unlock = await lock(lockFile);
    if (this.#unlock === null) {
      throw new MirrorRefused(
        `${path} is in use by another server; stop that server first, or choose another directory`,
      );
    }
    await rm(join(path, PARTS), { recursive: true, force: true }); // left by a killed process
    await this.#makeFolders();
    this.#entered = found;
  }

  async #hasMark(): Promise<boolean> {
    return (await statOf(join(this.path, this.#options.mark.name)))?.isFile() === true;
  }

  /** A removal that ran during a write may leave some of our folders without the mark. */
  async #checkOnlyOwn(): Promise<void> {
    const { mark, folders } = this.#options;
    const paths = folders.map((folder) => folder.split("/"));
    const check = async (above: MirrorPath, own: (name: string) => "file" | "directory" | null) => {
      const at = join(this.path, ...above);
      for (const name of (await statOf(at)) === null ? [] : await readdir(at)) {
        const found = await statOf(join(at, name));
        const kind = found?.isFile() ? "file" : found?.isDirectory() ? "directory" : "other";
        if (found === null || own(name) === kind) continue;
        const problem = `${this.path} has files that this server did not write, such as ${JSON.stringify([...above, name].join("/"))}`;
        throw new MirrorRefused(`${problem}; move them away, or choose an empty or new directory`);
      }
    };
    await check([], (name) => {
      if (name === mark.name || name === LOCK) return "file";
      return name === PARTS || paths.some(([top]) => top === name) ? "directory" : null;
    });
    for (const path of paths.filter(({ length }) => length > 1)) {
      await check(path.slice(0, 1), (name) => (paths.some((each) => each[1] === name) ? "directory" : null));
    }
  }

  /** Returns whether any was missing. A folder whose error `isPassedOver` accepts is skipped. */
  async #makeFolders(isPassedOver = (_error: unknown) => false): Promise<boolean> {
    let isNew = false;
    for (const folder of [PARTS, ...this.#options.folders]) {
      try {
        isNew = (await this.#makeReal(folder.split("/"))) || isNew;
      } catch (error) {
        if (!isPassedOver(error)) throw error;
      }
    }
    return isNew;
  }

  async #makeReal(folders: MirrorPath): Promise<boolean> {
    let path = this.path;
    let isNew = false;
    for (const name of folders) {
      path = join(path, checked(name));
      let found = await statOf(path);
      if (found === null) {
        // Do not create it again while it is being removed.
        if (!(await this.#hasMark())) throw this.#gone();
        await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
          if (error.code !== "EEXIST") throw error; // another copy created it
        });
        isNew = true;
        found = await lstat(path);
      }
      checkFolder(path, found);
    }
    return isNew;
  }

  /** Checks a folder and its parents; null if it does not exist. */
  async #existing(folders: MirrorPath): Promise<string | null> {
    let path = this.path;
    for (const name of folders) {
      path = join(path, checked(name));
      const found = await statOf(path);
      if (found === null) return null;
      checkFolder(path, found);
    }
    return path;
  }

  async #placeOf(path: MirrorPath): Promise<string> {
    await this.#makeReal(path.slice(0, -1));
    return join(this.path, ...path.map((name) => checked(name)));
  }

  async #partOf(): Promise<string> {
    await this.#makeReal([PARTS]);
    return join(this.path, PARTS, randomBytes(8).toString("hex"));
  }

  #gone(): Error {
    return Object.assign(new Error(`${this.path} was deleted`), { code: "ENOENT" });
  }
}

/** Null if nothing exists at the path. */
async function statOf(path: string): Promise<Stats | null> {
  return lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
}

function checkFolder(path: string, found: Stats): void {
  if (!found.isDirectory()) throw new MirrorRefused(`${path} is ${kindOf(found)} instead of a directory; remove it`);
}

function checkOwn(path: string, found: Stats): void {
  if (!found.isDirectory()) {
    throw new MirrorRefused(`${path} is ${kindOf(found)}, not a directory; choose a directory`);
  }
  const user = process.getuid?.();
  if (user !== undefined && found.uid !== user) {
    const whose = `${path} belongs to the user with the id ${found.uid}, and this process runs as ${user}`;
    throw new MirrorRefused(`${whose}; choose a directory that this user owns`);
  }
  if (process.platform !== "win32" && (found.mode & WRITABLE_BY_OTHERS) !== 0) {
    throw new MirrorRefused(`other users may write to ${path}; run chmod go-w ${path}`);
  }
}

async function cannotMake(path: string, { code, message }: NodeJS.ErrnoException): Promise<Error> {
  const hasParent = (await statOf(dirname(path)).catch(() => null)) !== null;
  if (code === "ENOENT" && !hasParent) return new MirrorRefused(`${dirname(path)} does not exist; create it first`);
  return new MirrorRefused(`${path} cannot be created (${code ?? message}); choose another directory`);
}

async function openToAppend(path: string): Promise<FileHandle> {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = await open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
  const found = await file.stat();
  if (found.isFile() && found.nlink === 1) return file;
  await file.close();
  throw new MirrorRefused(`${path} is not a regular file, or has hard links; remove it`);
}

function kindOf(found: Stats): string {
  if (found.isSymbolicLink()) return "a symbolic link";
  return found.isFile() ? "a file" : "a special file";
}

/** Rejects names that are not plain file names: they come from ids and from files of commands. */
function checked(name: string | undefined): string {
  const isName = name !== undefined && name !== "" && name !== "." && name !== ".." && !/[/\0]/.test(name);
  if (isName && !name.includes(sep)) return name;
  throw new MirrorRefused(`${JSON.stringify(name)} is not a valid file name`);
}
