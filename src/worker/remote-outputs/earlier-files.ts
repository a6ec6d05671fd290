/** Fetches the files of the previous attempt, which may have run on another machine. */
import { type FileHandle, mkdir, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { openPlain } from "../../files/plain-files.ts";
import { sleep } from "../../lib/clock.ts";
import { CallBackoff, mayPass } from "../../wire/repeat.ts";
import { WireError } from "../../wire/wire-error.ts";
import type { RunningAttempt } from "../exec/exec-executor.ts";
import type { RemoteFile, SessionFiles } from "./session-files.ts";

/** More than this is not fetched. */
const MAX_BYTES = 1_073_741_824;
/** Few, since the job waits and may not even need the files. */
const TRIES = 4;
const OWN = ["result.json", "stdout.log", "stderr.log"];

export interface EarlierFiles {
  readonly attempt: number;
  readonly files: readonly RemoteFile[];
  /** Number of files that the server does not list: too many. */
  readonly more: number;
}

/** The latest earlier attempt that has files. */
export async function findEarlier(files: SessionFiles, running: RunningAttempt): Promise<EarlierFiles | null> {
  const { attempts } = await tried(files, running, () => files.listEarlier(running));
  const before = attempts.filter(({ attempt }) => attempt < running.job.attempt);
  return before.reduce<EarlierFiles | null>((last, each) => (last && last.attempt > each.attempt ? last : each), null);
}

/** Downloads its files into an empty directory. */
export async function fetchEarlier(
  files: SessionFiles,
  running: RunningAttempt,
  earlier: EarlierFiles,
  dir: string,
): Promise<void> {
  let bytesLeft = MAX_BYTES;
  if (earlier.files.reduce((sum, { size }) => sum + size, 0) > bytesLeft) throw tooMuch();
  await mkdir(join(dir, "artifacts"), { recursive: true, mode: 0o700 });
  if (earlier.more > 0) running.log(`${earlier.more} artifacts of the previous attempt were not fetched: too many`);
  const names = [...OWN, ...earlier.files.map(({ name }) => `artifacts/${checked(name)}`)];
  for (const name of names) {
    const path = join(dir, name);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    bytesLeft -= await fetchOne(files, running, { attempt: earlier.attempt, name, path, bytesLeft });
  }
}

/** The standard input of the job, in a file that is already unlinked. Unlike the files of an attempt it must exist: an error fails
 *  the attempt. */
export async function fetchStdin(
  files: SessionFiles,
  running: RunningAttempt,
  dir: string,
): Promise<FileHandle | null> {
  const path = join(dir, ".stdin");
  try {
    await fetchOne(files, running, { attempt: 0, name: "stdin", path, bytesLeft: MAX_BYTES });
    return await openPlain(path);
  } finally {
    await rm(path, { force: true });
  }
}

interface WantedFile {
  readonly attempt: number;
  readonly name: string;
  readonly path: string;
  readonly bytesLeft: number;
}

/** Returns its size. An interrupted download resumes at its offset. */
async function fetchOne(files: SessionFiles, running: RunningAttempt, wanted: WantedFile): Promise<number> {
  const { attempt, name, path, bytesLeft } = wanted;
  const file = await open(path, "wx", 0o600);
  let size = 0;
  try {
    await tried(files, running, async () => {
      for await (const chunk of files.readEarlier(running, attempt, name, size)) {
        if (size + chunk.length > bytesLeft) throw tooMuch();
        await file.write(chunk);
        size += chunk.length;
      }
    });
  } catch (error) {
    // Not every attempt has each of these files.
    if (!(error instanceof WireError && error.status === 404 && OWN.includes(name))) throw error;
    await rm(path, { force: true });
  } finally {
    await file.close();
  }
  return size;
}

async function tried<T>(files: SessionFiles, running: RunningAttempt, call: () => Promise<T>): Promise<T> {
  const { clock, random } = files.parts;
  const backoff = new CallBackoff(random);
  for (let left = TRIES - 1; ; left--) {
    try {
      return await call();
    } catch (error) {
      if (left === 0 || running.signal.aborted || !mayPass(error)) throw error;
      await sleep(clock, backoff.after(error), { signal: running.signal });
    }
  }
}

function tooMuch(): Error {
  return new Error(`more than ${MAX_BYTES} bytes`);
}

/** Names come from the server; they must stay below the directory. */
function checked(name: string): string {
  const isPlain = !name.includes("\0") && name.split("/").every((part) => part !== "" && part !== "." && part !== "..");
  if (!isPlain) throw new Error(`invalid file name: ${JSON.stringify(name)}`);
  return name;
}
