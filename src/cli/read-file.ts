/** Reads a file that somebody named: a plain one, or what a shell puts in its place (`<(…)`, /dev/stdin). A named pipe that
 *  nobody writes to would be waited for without end, and a device has none: both are refused. */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";
import { usageError } from "./exit.ts";

/** Opens it for reading. `shown` is how people gave it. */
export function openPlainSync(path: string, shown: string): number {
  // Does not wait for the other end of a named pipe.
  const descriptor = openSync(path, constants.O_RDONLY | (isInherited(path) ? 0 : constants.O_NONBLOCK));
  const stat = fstatSync(descriptor);
  if (stat.isFile() || isInherited(path)) return descriptor;
  closeSync(descriptor);
  refuse(stat, shown);
}

/** No more than `limit` bytes of it. `check` throws for an open file that must not be read. */
export function readBounded(path: string, limit: number, shown: string, check?: (descriptor: number) => void): Buffer {
  const descriptor = openPlainSync(path, shown);
  try {
    check?.(descriptor);
    const stat = fstatSync(descriptor);
    const buffer = Buffer.alloc(Math.min(limit, stat.isFile() && stat.size > 0 ? stat.size + 1 : limit));
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read) {
      read = readSync(descriptor, buffer, length, buffer.length - length, null);
    }
    return buffer.subarray(0, length);
  } finally {
    closeSync(descriptor);
  }
}

/** The writer of such a pipe exists: whoever started this process has opened it. And /dev/null stands for an empty file. */
function isInherited(path: string): boolean {
  return /^\/(dev\/(fd\/\d+|stdin|null)|proc\/(self|\d+)\/fd\/\d+)$/.test(path);
}

function refuse(stat: Stats, shown: string): never {
  const what = stat.isFIFO()
    ? "a named pipe"
    : stat.isSocket()
      ? "a socket"
      : stat.isDirectory()
        ? "a directory"
        : "a device";
  throw usageError(`${shown}: it is ${what}; give a file`);
}
