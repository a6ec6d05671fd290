/** Flushes what an attempt left in its directory, before anybody hears of its end. A command that left nothing costs nothing:
 *  an empty log that is missing after a power cut reads as an empty one. What it does not flush: scratch files, which are
 *  promised to nobody, and artifacts beyond those that are listed. */
import { lstat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { flushFolder } from "../files/durable.ts";
import { MAX_FILES, namesBelow, openPlain } from "../files/plain-files.ts";
import { ARTIFACTS, FILES } from "./blob-name.ts";
import type { Unflushed } from "./blobs.ts";
import { isReal } from "./directory-write.ts";

/** Flushes at a time: the file system writes those together, and Node has four threads for all that we do with files. */
const AT_ONCE = 4;

/** `folders` are those of the attempt, below the root. */
export async function flushAttempt(root: string, folders: readonly string[]): Promise<readonly Unflushed[]> {
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
  if (file === null) return; // what cannot be read is not listed either
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
}
