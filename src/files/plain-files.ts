/** Lists and opens regular files of a directory without following links, and derives a media type from a file name. */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { chmod, type FileHandle, lstat, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/** Media types by file extension. */
const TYPES: Readonly<Record<string, string>> = {
  ...{ txt: "text/plain", log: "text/plain", md: "text/markdown", csv: "text/csv", html: "text/html", css: "text/css" },
  ...{ json: "application/json", jsonl: "application/jsonl", xml: "application/xml", pdf: "application/pdf" },
  ...{ yaml: "application/yaml", yml: "application/yaml", js: "text/javascript", wasm: "application/wasm" },
  ...{ png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", svg: "image/svg+xml" },
  ...{ webp: "image/webp", mp3: "audio/mpeg", wav: "audio/wav", mp4: "video/mp4", webm: "video/webm" },
  ...{
    zip: "application/zip",
    gz: "application/gzip",
    tar: "application/x-tar",
    parquet: "application/vnd.apache.parquet",
  },
};

export function mimeOf(name: string): string {
  const end = name.slice(name.lastIndexOf(".") + 1).toLowerCase();
  return Object.hasOwn(TYPES, end) ? (TYPES[end] as string) : "application/octet-stream";
}

// Files that a command left in a directory, which may contain anything: links are neither listed nor followed, and only
// regular files are included.

interface PlainFile {
  /** Relative to the directory, with slashes. */
  readonly name: string;
  readonly size: number;
  readonly mime: string;
  readonly sha256: string;
}

/** How many files of an attempt are listed. */
export const MAX_FILES = 1_000;

/** Opens a regular file for reading; null for anything else. With `owner`, also null for a file of another user: if a
 *  command runs as a different user, a directory on the path may have become a link to files that only we can read. */
export async function openPlain(path: string, owner?: number): Promise<FileHandle | null> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch(() => null);
  if (file === null) return null;
  const found = await file.stat();
  if (found.isFile() && (owner === undefined || found.uid === owner)) return file;
  await file.close();
  return null;
}

/** The names of regular files in a directory and below, in order; null for anything else. */
export async function* namesBelow(dir: string, prefix = ""): AsyncGenerator<string | null> {
  const isReal = (await lstat(dir).catch(() => null))?.isDirectory() === true;
  if (!isReal && prefix === "") return;
  const entries = isReal ? await readdir(dir, { withFileTypes: true }).catch(() => null) : null;
  if (entries === null) {
    yield null;
    return;
  }
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const name = prefix + entry.name;
    if (entry.isDirectory()) yield* namesBelow(join(dir, entry.name), `${name}/`);
    else yield entry.isFile() ? name : null;
  }
}

/** The files of a directory and below; `more` is how many were not listed, because there were too many or they could
 *  not be read. */
export async function listPlainFiles(
  dir: string,
  owner?: number,
): Promise<{ readonly files: PlainFile[]; readonly more: number }> {
  const files: PlainFile[] = [];
  let more = 0;
  for await (const name of namesBelow(dir)) {
    const file = name === null || files.length >= MAX_FILES ? null : await described(join(dir, name), name, owner);
    if (file === null) more += 1;
    else files.push(file);
  }
  return { files, more };
}

async function described(path: string, name: string, owner?: number): Promise<PlainFile | null> {
  const file = await openPlain(path, owner);
  if (file === null) return null;
  try {
    const { dev, ino, size, mtimeNs } = await file.stat({ bigint: true });
    const sha256 = await hashed(`${dev} ${ino} ${size} ${mtimeNs}`, file);
    return { name, size: Number(size), mime: mimeOf(name), sha256 };
  } catch {
    return null;
  } finally {
    await file.close().catch(() => {});
  }
}

const MAX_HASHES = 10_000;
/** Cache by the identity of a file's state. Lists are requested often, and hashing gigabytes for each would dominate a
 *  server's work; concurrent requests share one reading. */
const hashes = new Map<string, Promise<string>>();

function hashed(identity: string, file: FileHandle): Promise<string> {
  const known = hashes.get(identity);
  if (known !== undefined) return known;
  const hash = hashOf(file);
  hashes.set(identity, hash);
  hash.catch(() => hashes.delete(identity));
  if (hashes.size > MAX_HASHES) hashes.delete(hashes.keys().next().value as string);
  return hash;
}

async function hashOf(file: FileHandle): Promise<string> {
  const hash = createHash("sha256");
  const stream = file.createReadStream({ start: 0, autoClose: false });
  for await (const chunk of stream as AsyncIterable<Buffer>) hash.update(chunk);
  return hash.digest("hex");
}

/** The total size of all files below a directory, without following links; null if it has more than a number of
 *  entries. */
export async function sizeBelow(
  dir: string,
  mostEntries: number,
): Promise<{ readonly bytes: number; readonly entries: number } | null> {
  let [bytes, entries] = [0, 0];
  const folders = [dir];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
      entries += 1;
      if (entries > mostEntries) return null;
      const path = join(folder, entry.name);
      if (entry.isDirectory()) folders.push(path);
      else bytes += (await lstat(path).catch(() => null))?.size ?? 0;
    }
  }
  return { bytes, entries };
}

/** Removes a file or a directory with its contents, including what a command made unreadable. */
export async function removeAll(path: string): Promise<void> {
  const options = { recursive: true, force: true, maxRetries: 2 };
  await rm(path, options).catch(async () => {
    await openUp(path);
    await rm(path, options).catch(() => {});
  });
}

async function openUp(path: string): Promise<void> {
  if (!(await lstat(path).catch(() => null))?.isDirectory()) return;
  await chmod(path, 0o700).catch(() => {});
  for (const entry of await readdir(path).catch(() => [])) await openUp(join(path, entry));
}
