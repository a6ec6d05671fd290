/** File descriptors of a command: named pipes for its output, which scripts can open as /dev/stderr, and the inherited files of
 *  this process, which must not be passed on. */

import { execFile } from "node:child_process";
import { closeSync, constants, lchownSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import type { RunUser } from "./run-user.ts";

const CLOEXEC = 0o2000000;
let cached: readonly number[] | null = null;
let nullFile: number | null = null;

/** Descriptors that this process inherited and every child would inherit too; to be replaced by /dev/null. Those that Node
 *  opens are not among them: they are closed on exec. */
export function inheritedFiles(): readonly number[] {
  cached ??= findInherited();
  return cached;
}

/** A descriptor of /dev/null. */
export function devNull(): number {
  nullFile ??= openSync("/dev/null", "r+");
  return nullFile;
}

function findInherited(): number[] {
  const found: number[] = [];
  try {
    for (const name of readdirSync("/proc/self/fdinfo")) {
      if (Number(name) <= 2) continue;
      try {
        const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${name}`, "latin1"))?.[1];
        if (flags !== undefined && (Number.parseInt(flags, 8) & CLOEXEC) === 0) found.push(Number(name));
      } catch {
        // the descriptor of the directory listing itself, closed since
      }
    }
  } catch {
    // no /proc
  }
  return found;
}

interface OutputPipe {
  /** The end for the child; to be closed here after the start. */
  readonly write: number;
  readonly read: Socket;
}

/** Pipes for stdout and stderr. Node would use sockets, which cannot be opened by name, so that a script that writes to
 *  /dev/stderr would fail. These are named pipes, whose names are removed before the command starts. Null if they cannot be
 *  created. */
export async function outputPipes(
  dir: string,
  user: Pick<RunUser, "uid" | "gid"> | null = null,
): Promise<readonly [OutputPipe, OutputPipe] | null> {
  const paths = [join(dir, ".stdout"), join(dir, ".stderr")] as const;
  try {
    await new Promise<void>((resolve, reject) => {
      execFile("mkfifo", ["-m", "600", ...paths], { timeout: 10_000 }, (error) => (error ? reject(error) : resolve()));
    });
    // A command may open its own output again, by /dev/stdout.
    if (user !== null) for (const path of paths) lchownSync(path, user.uid, user.gid);
    return [openPipe(paths[0]), openPipe(paths[1])];
  } catch {
    return null;
  } finally {
    for (const path of paths) rmSync(path, { force: true });
  }
}

/** Opens the read end first: the write end cannot be opened without a reader. */
function openPipe(path: string): OutputPipe {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  let write: number;
  try {
    write = openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  return { write, read: new Socket({ fd, readable: true, writable: false }) };
}
