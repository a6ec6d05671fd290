/** Reads a file that somebody named: a plain one, or what a shell puts in its place (`<(…)`, /dev/stdin). A named pipe that
 *  nobody writes to would be waited for without end, and a device has none: both are refused. */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";
import { CliError, usageError } from "./exit.ts";

/** Opens it for reading. `shown` is how people gave it, `advice` what to do about anything but a plain file. */
export function openPlainSync(path: string, shown: string, advice = "give a file"): number {
  // Does not wait for the other end of a named pipe.
  const descriptor = openSync(path, constants.O_RDONLY | (isInherited(path) ? 0 : constants.O_NONBLOCK));
  const stat = fstatSync(descriptor);
  if (stat.isFile() || isInherited(path)) return descriptor;
  closeSync(descriptor);
  refuse(stat, shown, advice);
}

/** No more than `limit` bytes of it. `check` throws for an open file that must not be read. */
export function readBounded(path: string, limit: number, shown: string, check?: (descriptor: number) => void): Buffer {
  const descriptor = openPlainSync(path, shown);
  try {
    check?.(descriptor);
    return readOpen(descriptor, limit);
  } finally {
    closeSync(descriptor);
  }
}

/** No more than `limit` bytes of an open file, from where it stands. */
export function readOpen(descriptor: number, limit: number): Buffer {
  const stat = fstatSync(descriptor);
  const buffer = Buffer.alloc(Math.min(limit, stat.isFile() && stat.size > 0 ? stat.size + 1 : limit));
  let length = 0;
  for (let read = -1; read !== 0 && length < buffer.length; length += read) {
    read = readSync(descriptor, buffer, length, buffer.length - length, null);
  }
  return buffer.subarray(0, length);
}

/** A small file that programs of ours write into a data directory; null if it does not exist or cannot be read. What is not a
 *  plain file was put there by somebody else and is refused. */
export function readNote(path: string): string | null {
  try {
    const descriptor = openPlainSync(path, path, OWN);
    try {
      return readOpen(descriptor, NOTE_BYTES).toString("utf8");
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    if (error instanceof CliError) throw error;
    return null;
  }
}

/** About a file that nobody names: Perdure writes it. */
export const OWN = "remove it";
/** Far more than any of them has. */
export const NOTE_BYTES = 65_536;

/** The writer of such a pipe exists: whoever started this process has opened it. And /dev/null stands for an empty file. */
function isInherited(path: string): boolean {
  return /^\/(dev\/(fd\/\d+|stdin|null)|proc\/(self|\d+)\/fd\/\d+)$/.test(path);
}

function refuse(stat: Stats, shown: string, advice: string): never {
  const what = stat.isFIFO()
    ? "a named pipe"
    : stat.isSocket()
      ? "a socket"
      : stat.isDirectory()
        ? "a directory"
        : "a device";
  throw usageError(`${shown}: it is ${what}; ${advice}`);
}
