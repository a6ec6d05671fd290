/** Fetches what the attempt before this one left: it may have run on another machine. */
import { type FileHandle, mkdir, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { openPlain } from "../../files/plain-files.ts";
import { sleep } from "../../lib/clock.ts";
import { CallBackoff, mayPass } from "../../wire/repeat.ts";
import { WireError } from "../../wire/wire-error.ts";
import type { AttemptDirectory } from "../exec/exec-executor.ts";
import type { RemoteFile, SessionFiles } from "./session-files.ts";

/** More than this is left where it is. */
const MAX_BYTES = 1_073_741_824;
/** A job should not wait for long for what it may not even look at. */
const TRIES = 4;
const OWN = ["result.json", "stdout.log", "stderr.log"];

export interface EarlierFiles {
  readonly attempt: number;
  readonly files: readonly RemoteFile[];
  /** Files that the server does not list: too many. */
  readonly more: number;
}

/** The latest attempt before this one that left something. */
export async function findEarlier(files: SessionFiles, placed: AttemptDirectory): Promise<EarlierFiles | null> {
  const { attempts } = await tried(files, placed, () => files.listEarlier(placed));
  const before = attempts.filter(({ attempt }) => attempt < placed.job.attempt);
  return before.reduce<EarlierFiles | null>((last, each) => (last && last.attempt > each.attempt ? last : each), null);
}

/** Puts its files into an empty directory. */
export async function fetchEarlier(
  files: SessionFiles,
  placed: AttemptDirectory,
  earlier: EarlierFiles,
  dir: string,
): Promise<void> {
  let room = MAX_BYTES;
  if (earlier.files.reduce((sum, { size }) => sum + size, 0) > room) throw tooMuch();
  await mkdir(join(dir, "artifacts"), { recursive: true, mode: 0o700 });
  if (earlier.more > 0) placed.log(`${earlier.more} artifacts of the attempt before were not fetched: too many`);
  const names = [...OWN, ...earlier.files.map(({ name }) => `artifacts/${checked(name)}`)];
  for (const name of names) {
    const path = join(dir, name);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    room -= await fetchOne(files, placed, { attempt: earlier.attempt, name, path, room });
  }
}

/** The input that the job brought along, in a file that has no name any more. Unlike what an attempt left, it must be there: the
 *  error is the attempt's. */
export async function fetchStdin(
  files: SessionFiles,
  placed: AttemptDirectory,
  dir: string,
): Promise<FileHandle | null> {
  const path = join(dir, ".stdin");
  try {
    await fetchOne(files, placed, { attempt: 0, name: "stdin", path, room: MAX_BYTES });
    return await openPlain(path);
  } finally {
    await rm(path, { force: true });
  }
}

interface WantedFile {
  readonly attempt: number;
  readonly name: string;
  readonly path: string;
  readonly room: number;
}

/** Returns its size. What broke off goes on where it was. */
async function fetchOne(files: SessionFiles, placed: AttemptDirectory, wanted: WantedFile): Promise<number> {
  const { attempt, name, path, room } = wanted;
  const file = await open(path, "wx", 0o600);
  let size = 0;
  try {
    await tried(files, placed, async () => {
      for await (const chunk of files.readEarlier(placed, attempt, name, size)) {
        if (size + chunk.length > room) throw tooMuch();
        await file.write(chunk);
        size += chunk.length;
      }
    });
  } catch (error) {
    // Not every attempt leaves every file.
    if (!(error instanceof WireError && error.status === 404 && OWN.includes(name))) throw error;
    await rm(path, { force: true });
  } finally {
    await file.close();
  }
  return size;
}

async function tried<T>(files: SessionFiles, placed: AttemptDirectory, call: () => Promise<T>): Promise<T> {
  const { clock, random } = files.parts;
  const backoff = new CallBackoff(random);
  for (let left = TRIES - 1; ; left--) {
    try {
      return await call();
    } catch (error) {
      if (left === 0 || placed.signal.aborted || !mayPass(error)) throw error;
      await sleep(clock, backoff.after(error), { signal: placed.signal });
    }
  }
}

function tooMuch(): Error {
  return new Error(`they are over ${MAX_BYTES} bytes`);
}

/** Whoever wrote the names, they stay below the directory. */
function checked(name: string): string {
  const isPlain = !name.includes("\0") && name.split("/").every((part) => part !== "" && part !== "." && part !== "..");
  if (!isPlain) throw new Error(`a file has a name that is none: ${JSON.stringify(name)}`);
  return name;
}
