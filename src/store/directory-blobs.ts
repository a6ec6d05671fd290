/** Blobs in a directory:
 *
 *    <root>/<jobId>/attempt_<n>/result.json  stdout.log  stderr.log  artifacts/
 *
 *  Attempts write there themselves, so there is nothing to move, and a reader sees what is there already. All of it is
 *  for the owner alone. Links are neither listed nor followed: the command made them. */
import { createHash } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import { chmod, lstat, mkdir, open, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { isId } from "../lib/id.ts";
import type { BlobFile, Blobs } from "./blobs.ts";
import { mimeOf } from "./mime.ts";

const KEPT = new Set(["result.json", "stdout.log", "stderr.log", "artifacts"]);
const KEEP = ".keep";
const ATTEMPT = /^attempt_(\d+)$/;
const MAX_FILES = 1_000;

export function directoryBlobs(root: string): Blobs {
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

  return {
    attempts,

    async begin(jobId, attempt, keep) {
      const before = (await attempts(jobId)).filter((n) => n < attempt).at(-1);
      const dir = attemptDir(jobId, attempt);
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
      const files: BlobFile[] = [];
      if (!(await isReal(root, jobId, `attempt_${attempt}`, "artifacts"))) return { files, more: 0 };
      const more = await collect(join(attemptDir(jobId, attempt), "artifacts"), "", files);
      return { files, more };
    },

    async get(jobId, attempt, name) {
      const base = attemptDir(jobId, attempt);
      const parts = name.split("/");
      const isKnown = parts[0] === "artifacts" ? parts.length > 1 : parts.length === 1 && KEPT.has(name);
      if (!isKnown || name.includes("\0") || parts.some((part) => part === "" || part === "." || part === "..")) {
        return null;
      }
      const folders = [`attempt_${attempt}`, ...parts.slice(0, -1)];
      return (await isReal(root, jobId, ...folders)) ? openFile(join(base, ...parts)) : null;
    },

    async tidy(jobId) {
      if (!(await isReal(root, jobId))) return;
      const names = await readdir(jobDir(jobId)).catch(orNothing);
      if (names.includes(KEEP)) return;
      for (const name of names.filter((each) => ATTEMPT.test(each))) {
        if (!(await isReal(root, jobId, name))) continue;
        const dir = join(jobDir(jobId), name);
        for (const entry of await readdir(dir).catch(orNothing)) {
          if (!KEPT.has(entry)) await remove(join(dir, entry));
        }
      }
    },

    async delete(jobIds) {
      for (const jobId of jobIds) await remove(jobDir(jobId));
    },
  };
}

/** Whether these folders, one below the other, are folders and not links to some: the command may have put those there. */
async function isReal(root: string, ...folders: readonly string[]): Promise<boolean> {
  let path = root;
  for (const folder of folders) {
    path = join(path, folder);
    const found = await lstat(path).catch(() => null);
    if (found === null || !found.isDirectory()) return false;
  }
  return true;
}

/** Adds the files of a directory and below. Returns how many were left out. */
async function collect(dir: string, prefix: string, files: BlobFile[]): Promise<number> {
  let more = 0;
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => null);
  if (entries === null) return 1;
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const path = join(dir, entry.name);
    const name = prefix + entry.name;
    if (entry.isDirectory()) more += await collect(path, `${name}/`, files);
    else if (!entry.isFile() || files.length >= MAX_FILES) more += 1;
    else {
      const described = await describe(path, name).catch(() => null);
      if (described === null) more += 1;
      else files.push(described);
    }
  }
  return more;
}

async function describe(path: string, name: string): Promise<BlobFile | null> {
  const stream = await openFile(path);
  if (stream === null) return null;
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { name, size, mime: mimeOf(name), sha256: hash.digest("hex") };
}

async function openFile(path: string): Promise<Readable | null> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch(() => null);
  if (file === null) return null;
  if ((await file.stat()).isFile()) return createReadStream(path, { fd: file });
  await file.close();
  return null;
}

async function moveAside(dir: string): Promise<void> {
  for (let n = 1; ; n++) {
    const aside = `${dir}.${n}`;
    if ((await lstat(aside).catch(() => null)) === null) return rename(dir, aside);
  }
}

/** Also what the command made unreadable for itself. */
async function remove(path: string): Promise<void> {
  const options = { recursive: true, force: true, maxRetries: 2 };
  await rm(path, options).catch(async () => {
    await openUp(path);
    await rm(path, options).catch(() => {});
  });
}

async function openUp(path: string): Promise<void> {
  if (!(await lstat(path).catch(() => null))?.isDirectory()) return;
  await chmod(path, 0o700).catch(() => {});
  for (const entry of await readdir(path).catch(orNothing)) await openUp(join(path, entry));
}

function orNothing(): string[] {
  return [];
}
