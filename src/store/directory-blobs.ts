/** Blobs in a directory:
 *
 *    <root>/<jobId>/attempt_<n>/result.json  stdout.log  stderr.log  artifacts/
 *    <root>/inputs/<jobId>/stdin
 *
 *  Attempts write there themselves, so there is nothing to move, and a reader sees what is there already. All of it is
 *  for the owner alone. Links are neither listed nor followed: the command made them. */
import { lstat, mkdir, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { makeFolderDurably } from "../files/durable.ts";
import { listPlainFiles, openPlain, removeAll } from "../files/plain-files.ts";
import { isId } from "../lib/id.ts";
import { ARTIFACTS, FILES, INPUT_ATTEMPT, STDIN } from "./blob-name.ts";
import type { AttemptPlaces, Blobs } from "./blobs.ts";
import { flushAttempt } from "./directory-flush.ts";
import { directoryWriter, foldersOf, INPUTS, isReal } from "./directory-write.ts";

const INPUT_FILES: ReadonlySet<string> = new Set([STDIN]);
const KEPT = new Set([...FILES, ARTIFACTS]);
const KEEP = ".keep";
const ATTEMPT = /^attempt_(\d+)$/;

export interface DirectoryBlobs extends Blobs, AttemptPlaces {
  /** For an attempt that nobody runs any more: before it counts, what it left is flushed. Whether all of it was. */
  keepAttempt(jobId: string, attempt: number): Promise<boolean>;
}

export function directoryBlobs(root: string): DirectoryBlobs {
  const jobDir = (jobId: string) => {
    if (!isId(jobId, "job")) throw new TypeError(`not the id of a job: ${jobId}`);
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
        // A restored backup counts again: what lies there belongs to another time, and is kept beside.
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
      // Looser than for those who write: a command may have given a file any name.
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
