/** Files of jobs in a directory: reading, listing, moving, deleting, and flushing what a program wrote itself. Uploads
 *  are written by directory-writer.ts. */
import { lstat, mkdir, readdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { flushFolder, makeFolderDurably } from "../files/durable.ts";
import { listPlainFiles, MAX_FILES, namesBelow, openPlain, removeAll } from "../files/plain-files.ts";
import { isId } from "../lib/id.ts";
import { ARTIFACTS, type AttemptPlaces, type Blobs, FILES, INPUT_ATTEMPT, STDIN, type Unflushed } from "./blobs.ts";
import { directoryWriter, foldersOf, INPUTS, isReal } from "./directory-writer.ts";

// Flushes an attempt's directory before its outcome is reported. A command that left no files costs nothing: an empty
// log that is missing after a power cut reads as empty. Not flushed: scratch files, and artifacts beyond those that are
// listed.

/** Concurrent flushes: the file system groups them, and Node has four threads for all file work. */
const AT_ONCE = 4;

/** `folders` are the attempt's folders, relative to the root. */
async function flushAttempt(root: string, folders: readonly string[]): Promise<readonly Unflushed[]> {
  if (!(await isReal(root, ...folders))) return [];
  const dir = join(root, ...folders);
  const names = [...(await writtenLogs(dir)), ...(await artifactsIn(dir))];
  if (names.length === 0) return [];
  const work = new Map<string, () => Promise<void>>();
  for (const name of names) {
    work.set(name, () => flushPlain(join(dir, name)));
    for (let folder = dirname(name); folder !== "."; folder = dirname(folder)) {
      const path = join(dir, folder);
      work.set(`${folder}/`, () => flushFolder(path));
    }
  }
  for (let depth = 0; depth <= folders.length; depth++) {
    const path = join(root, ...folders.slice(0, depth));
    work.set(`${path}/`, () => flushFolder(path));
  }
  return doneAtOnce([...work]);
}

async function writtenLogs(dir: string): Promise<string[]> {
  const sizes = await Promise.all(
    [...FILES].map(async (name) => (await lstat(join(dir, name)).catch(() => null))?.size),
  );
  return [...FILES].filter((_, i) => (sizes[i] ?? 0) > 0);
}

async function artifactsIn(dir: string): Promise<string[]> {
  const names: string[] = [];
  for await (const name of namesBelow(join(dir, ARTIFACTS))) {
    if (name !== null) names.push(`${ARTIFACTS}/${name}`);
    if (names.length >= MAX_FILES) break;
  }
  return names;
}

async function doneAtOnce(work: (readonly [string, () => Promise<void>])[]): Promise<Unflushed[]> {
  const lacking: Unflushed[] = [];
  const next = async () => {
    for (let one = work.shift(); one !== undefined; one = work.shift()) {
      const [name, run] = one;
      await run().catch((error: Error) => lacking.push({ name, error }));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
  return lacking;
}

async function flushPlain(path: string): Promise<void> {
  const file = await openPlain(path);
  if (file === null) return; // unreadable files are not listed either
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
}

// Layout: <root>/<jobId>/attempt_<n>/{result.json,stdout.log,stderr.log,artifacts/} and <root>/inputs/<jobId>/stdin.
// Attempts write there directly, so nothing has to be moved and readers see output while it is written. Everything is
// private to the owner. Links are neither listed nor followed: the command created them.

const INPUT_FILES: ReadonlySet<string> = new Set([STDIN]);
const KEPT = new Set([...FILES, ARTIFACTS]);
const KEEP = ".keep";
const ATTEMPT = /^attempt_(\d+)$/;

interface DirectoryBlobs extends Blobs, AttemptPlaces {
  /** Flushes the files of an attempt that nobody runs any more, before its outcome is stored. Returns whether all of it
   *  was flushed. */
  keepAttempt(jobId: string, attempt: number): Promise<boolean>;
}

export function directoryBlobs(root: string): DirectoryBlobs {
  const jobDir = (jobId: string) => {
    if (!isId(jobId, "job")) throw new TypeError(`not a job id: ${jobId}`);
    return join(root, jobId);
  };
  const attemptDir = (jobId: string, attempt: number) => join(jobDir(jobId), `attempt_${attempt}`);

  async function attempts(jobId: string): Promise<number[]> {
    const names = await readdir(jobDir(jobId)).catch(orNothing);
    return names
      .flatMap((name) => ATTEMPT.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b);
  }

  const writer = directoryWriter(root);
  const flush: AttemptPlaces["flush"] = async (jobId, attempt) => {
    jobDir(jobId);
    return flushAttempt(root, foldersOf(jobId, attempt));
  };

  return {
    attempts,

    async begin(jobId, attempt, keep) {
      const before = (await attempts(jobId)).filter((n) => n < attempt).at(-1);
      const dir = attemptDir(jobId, attempt);
      await makeFolderDurably(root);
      await mkdir(jobDir(jobId), { recursive: true, mode: 0o700 });
      await mkdir(dir, { mode: 0o700 }).catch(async (error: NodeJS.ErrnoException) => {
        if (error.code !== "EEXIST") throw error;
        // After a restored backup attempt numbers repeat: the existing directory is from another history and is moved
        // aside.
        await moveAside(dir);
        await mkdir(dir, { mode: 0o700 });
      });
      await mkdir(join(dir, "artifacts"), { mode: 0o700 });
      if (keep) await writeFile(join(jobDir(jobId), KEEP), "", { mode: 0o600 });
      return { dir, previous: before === undefined ? null : attemptDir(jobId, before) };
    },

    async list(jobId, attempt) {
      if (!(await isReal(root, jobId, `attempt_${attempt}`))) return { files: [], more: 0 };
      return listPlainFiles(join(attemptDir(jobId, attempt), ARTIFACTS));
    },

    async get(jobId, attempt, name, offset = 0) {
      jobDir(jobId);
      const place = foldersOf(jobId, attempt);
      // Less strict than for writing: a command may have given a file any name.
      const parts = name.split("/");
      const known = attempt === INPUT_ATTEMPT ? INPUT_FILES : FILES;
      const isArtifact = parts[0] === ARTIFACTS && attempt !== INPUT_ATTEMPT;
      const isKnown = isArtifact ? parts.length > 1 : parts.length === 1 && known.has(name);
      if (!isKnown || name.includes("\0") || parts.some((part) => part === "" || part === "." || part === "..")) {
        return null;
      }
      const folders = [...place, ...parts.slice(0, -1)];
      return (await isReal(root, ...folders)) ? openFile(join(root, ...place, ...parts), offset) : null;
    },

    write: async (jobId, ...rest) => {
      jobDir(jobId);
      return writer.write(jobId, ...rest);
    },

    remove: async (jobId, ...rest) => {
      jobDir(jobId);
      return writer.remove(jobId, ...rest);
    },

    async inputs(after, limit) {
      const names = await readdir(join(root, INPUTS)).catch(orNothing);
      return names
        .filter((name) => isId(name, "job") && name > after)
        .sort()
        .slice(0, limit);
    },

    async openStdin(jobId) {
      jobDir(jobId);
      return openPlain(join(root, ...foldersOf(jobId, INPUT_ATTEMPT), STDIN));
    },

    flush,

    keepAttempt: async (jobId, attempt) => (await flush(jobId, attempt)).length === 0,

    async tidy(jobId) {
      if (!(await isReal(root, jobId))) return;
      const names = await readdir(jobDir(jobId)).catch(orNothing);
      if (names.includes(KEEP)) return;
      for (const name of names.filter((each) => ATTEMPT.test(each))) {
        if (!(await isReal(root, jobId, name))) continue;
        const dir = join(jobDir(jobId), name);
        for (const entry of await readdir(dir).catch(orNothing)) {
          if (!KEPT.has(entry)) await removeAll(join(dir, entry));
        }
      }
    },

    async delete(jobIds) {
      for (const jobId of jobIds) {
        await removeAll(jobDir(jobId));
        await removeAll(join(root, ...foldersOf(jobId, INPUT_ATTEMPT)));
      }
    },
  };
}

async function openFile(path: string, offset: number): Promise<Readable | null> {
  const file = await openPlain(path);
  return file === null ? null : file.createReadStream({ start: offset });
}

async function moveAside(dir: string): Promise<void> {
  for (let n = 1; ; n++) {
    const aside = `${dir}.${n}`;
    if ((await lstat(aside).catch(() => null)) === null) return rename(dir, aside);
  }
}

function orNothing(): string[] {
  return [];
}
