/** Tests create thousands of small files and flush each of them, which costs more than the tests themselves. If there
 *  is space, their temporary directory is in memory; killing a process loses nothing there either. `npm run test:full`
 *  uses the disk. */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

const MEMORY = "/dev/shm";
const PREFIX = "perdure-tests-";
const GIB = 2 ** 30;
const DAY_MS = 86_400_000;
/** All tests together need less than 1 GiB. */
const ROOM = 4 * GIB;

/** Sets TMPDIR for this process and those it starts, and removes the directory at the end. */
export function useMemoryDirectory(): void {
  if (process.platform !== "linux" || process.env.TMPDIR !== undefined || !hasRoom()) return;
  removeLeftovers();
  const dir = mkdtempSync(join(MEMORY, PREFIX));
  chmodSync(dir, 0o755); // PostgreSQL is another user where this is root
  if (!canExecute(dir)) {
    rmSync(dir, { recursive: true });
    return;
  }
  process.env.TMPDIR = dir;
  process.on("exit", () => rmSync(dir, { recursive: true, force: true }));
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    const available = Number(/^MemAvailable: *(\d+) kB$/m.exec(readFileSync("/proc/meminfo", "utf8"))?.[1]) * 1_024;
    return bavail * bsize >= ROOM && available >= ROOM;
  } catch {
    return false;
  }
}

/** A killed run could not remove its directory. No run takes a day. */
function removeLeftovers(): void {
  for (const name of readdirSync(MEMORY)) {
    if (!name.startsWith(PREFIX)) continue;
    const path = join(MEMORY, name);
    try {
      if (statSync(path).mtimeMs < Date.now() - DAY_MS) rmSync(path, { recursive: true, force: true });
    } catch {
      // of another user, or removed by another run
    }
  }
}

/** Some machines mount it without permission to execute programs. */
function canExecute(dir: string): boolean {
  const script = join(dir, "try");
  writeFileSync(script, "#!/bin/sh\n", { mode: 0o755 });
  return spawnSync(script).status === 0;
}
