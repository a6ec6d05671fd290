/** File descriptors of a command: named pipes for its output, which scripts can open as /dev/stderr, and files that
 *  this process inherited and that no command may get. */

import { execFile } from "node:child_process";
import { closeSync, constants, lchownSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import type { RunUser } from "./run-user.ts";

// Files that this process was given by whoever started it, and that every child would get from it. Node's own are not
// among them: they are closed when another program starts.

const CLOEXEC = 0o2000000;
let cached: readonly number[] | null = null;
let nothing: number | null = null;

/** Places in a child's table of files that must be filled with something harmless. */
export function inheritedFiles(): readonly number[] {
  cached ??= look();
  return cached;
}

/** /dev/null. */
export function nothingFile(): number {
  nothing ??= openSync("/dev/null", "r+");
  return nothing;
}

function look(): number[] {
  const found: number[] = [];
  try {
    for (const name of readdirSync("/proc/self/fdinfo")) {
      if (Number(name) <= 2) continue;
      try {
        const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${name}`, "latin1"))?.[1];
        if (flags !== undefined && (Number.parseInt(flags, 8) & CLOEXEC) === 0) found.push(Number(name));
      } catch {
        // the one that was opened to read the list
      }
    }
  } catch {
    // no /proc here
  }
  return found;
}

// Pipes for the output of a command. What Node gives a child is a pair of sockets, and those cannot be opened by
// name: a script that writes to /dev/stderr would fail. So they are made as named pipes, whose names are gone before
// it starts.

interface OutputPipe {
  /** For the child; to be closed here once it has it. */
  readonly write: number;
  readonly read: Socket;
}

/** Null where they cannot be made. */
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

/** First the end to read from: without a reader the other could not be opened. */
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
