/** The directory of one worker process below the one that all share, so that nobody takes another's files for leftovers.
 *  What processes left that are gone is removed when the next one starts. */
import { lstat, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../../core/errors.ts";
import { removeAll } from "../../files/plain-files.ts";
import { hasEnded, processName } from "../process-proof.ts";

const NAME = /^worker-(\d+)-/;
/** Tells which process it belongs to, beyond its number, which is used again. */
const OWNER = ".process";
let made = 0;

/** Makes it; `startedAt` tells it from those of earlier processes with the same number. */
export async function makeWorkerDirectory(root: string, startedAt: number): Promise<string> {
  await mkdir(root, { recursive: true, mode: 0o700 });
  const found = await lstat(root);
  // In a directory for everybody somebody else may have been first, and would own what commands write.
  if (!found.isDirectory() || (process.getuid !== undefined && found.uid !== process.getuid())) {
    throw new ConfigError({ path: "dir", given: root, allowed: "a directory that belongs to this user" });
  }
  await removeLeftovers(root);
  made += 1;
  const own = join(root, `worker-${process.pid}-${Math.round(startedAt)}-${made}`);
  await mkdir(own, { mode: 0o700 });
  await writeFile(join(own, OWNER), processName() ?? "", { mode: 0o600 });
  return own;
}

async function removeLeftovers(root: string): Promise<void> {
  for (const name of await readdir(root)) {
    const pid = Number(NAME.exec(name)?.[1] ?? 0);
    if (pid === 0 || pid === process.pid) continue;
    const owner = await readFile(join(root, name, OWNER), "utf8").catch(() => "");
    if (isGone(pid, owner)) await removeAll(join(root, name));
  }
}

function isGone(pid: number, owner: string): boolean {
  if (owner !== "" && hasEnded({ pid, process: owner })) return true;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    // Another container may have a process of this number; nobody can tell from here, but it shares no directory of ours.
    return (error as { code?: string }).code === "ESRCH";
  }
}
