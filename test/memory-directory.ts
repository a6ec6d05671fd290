/** Tests make thousands of small files and flush each of them, which costs more than what they test. Where there is room, their
 *  temporary directory lies in memory; a kill of a process loses nothing there either. `npm run test:full` uses the disk. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const MEMORY = "/dev/shm";
const PREFIX = "perdure-tests-";
const GIB = 2 ** 30;
/** The tests together need less than one. */
const ROOM = 4 * GIB;

/** Sets TMPDIR for this process and those it starts, and removes the directory at the end. */
export function useMemoryDirectory(): void {
  if (process.platform !== "linux" || process.env.TMPDIR !== undefined || !hasRoom()) return;
  removeLeftovers();
  const dir = join(MEMORY, `${PREFIX}${process.pid}`);
  mkdirSync(dir);
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

/** A run that was killed could not remove its own. */
function removeLeftovers(): void {
  for (const name of readdirSync(MEMORY)) {
    const pid = name.startsWith(PREFIX) ? Number(name.slice(PREFIX.length)) : Number.NaN;
    if (Number.isInteger(pid) && !isAlive(pid)) rmSync(join(MEMORY, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Some machines mount it so that no program can be started from it. */
function canExecute(dir: string): boolean {
  const script = join(dir, "try");
  writeFileSync(script, "#!/bin/sh\n", { mode: 0o755 });
  return spawnSync(script).status === 0;
}
