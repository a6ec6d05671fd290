/** Reads files that a person named or that were found in a directory: plain files only, up to a size limit. A named pipe
 *  without a writer and a device would never end, so both are refused, except what a shell passes (`<(…)`, /dev/stdin). */
import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, type Stats } from "node:fs";
import { CliError, EXIT, usageError } from "../exit.ts";

/** Opens a file for reading. `shown` is the path as it was given; `advice` is the advice if it is not a plain file. */
export function openPlainSync(path: string, shown: string, advice = "pass a file"): number {
  // Opening a named pipe must not block.
  const descriptor = openSync(path, constants.O_RDONLY | (isInherited(path) ? 0 : constants.O_NONBLOCK));
  const stat = fstatSync(descriptor);
  if (stat.isFile() || isInherited(path)) return descriptor;
  closeSync(descriptor);
  refuse(stat, shown, advice);
}

/** Reads at most `limit` bytes. `check` throws if the open file must not be read. */
export function readBounded(path: string, limit: number, shown: string, check?: (descriptor: number) => void): Buffer {
  const descriptor = openPlainSync(path, shown);
  try {
    check?.(descriptor);
    return readOpen(descriptor, limit);
  } finally {
    closeSync(descriptor);
  }
}

/** Reads at most `limit` bytes of an open file from its current position. */
export function readOpen(descriptor: number, limit: number): Buffer {
  const stat = fstatSync(descriptor);
  const buffer = Buffer.alloc(Math.min(limit, stat.isFile() && stat.size > 0 ? stat.size + 1 : limit));
  let length = 0;
  for (let read = -1; read !== 0 && length < buffer.length; length += read) {
    read = readSync(descriptor, buffer, length, buffer.length - length, null);
  }
  return buffer.subarray(0, length);
}

/** A small file that Perdure writes into a data directory; null if it does not exist or cannot be read. Anything but a plain
 *  file was put there by somebody else and is refused. */
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

/** Advice for a file that Perdure writes itself. */
export const OWN = "remove it";
/** Larger than any of these files. */
export const NOTE_BYTES = 65_536;

/** A pipe that was inherited has a writer: the process that started this one. /dev/null counts as an empty file. */
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
  throw usageError(`${shown} is ${what}; ${advice}`);
}

// A file that is found in the working directory may have been put there by anybody, and could choose which server is called
// and what is run. So it must belong to the user who runs the command or to root, as for git and ssh. Root trusts files of
// another user only after `sudo` by that user. Files named by option or environment are not checked, nor are systems without
// user ids.

const BY_OTHERS = 0o002;
const STICKY = 0o1000;

/** The ids of trusted owners; null on systems without user ids. */
export function trustedOwners(env: Readonly<Record<string, string | undefined>> = process.env): number[] | null {
  const me = process.geteuid?.();
  if (me === undefined) return null;
  const sudo = me === 0 && /^\d+$/.test(env.SUDO_UID ?? "") ? [Number(env.SUDO_UID)] : [];
  return [me, 0, ...sudo];
}

function isTrusted({ uid }: Pick<Stats, "uid">): boolean {
  return trustedOwners()?.includes(uid) ?? true;
}

/** Throws if an open file that was found belongs to another user or is writable by everybody, also for a link of another
 *  user. `advice` describes how to use the file anyway. */
export function requireOwned(descriptor: number, path: string, shown: string, advice: string): void {
  const file = fstatSync(descriptor);
  const entry = lstatSync(path, { throwIfNoEntry: false }) ?? file;
  for (const each of [file, entry]) {
    if (!isTrusted(each)) throw refused(`${shown} belongs to another user (uid ${each.uid}) and is not read`, advice);
  }
  if ((file.mode & BY_OTHERS) !== 0) {
    throw refused(
      `${shown} can be changed by every user (mode ${modeOf(file)}) and is not read`,
      `run \`chmod o-w ${shown}\``,
    );
  }
}

/** Throws for a directory in which everybody may replace files: their owner would prove nothing. */
export function requireClosed(directory: Pick<Stats, "mode">, shown: string): void {
  if ((directory.mode & BY_OTHERS) === 0 || (directory.mode & STICKY) !== 0) return;
  throw refused(`every user can change ${shown} (mode ${modeOf(directory)})`, `run \`chmod o-w ${shown}\``);
}

function refused(what: string, advice: string): CliError {
  return new CliError(EXIT.usage, `${what}: ${advice}`);
}

function modeOf({ mode }: Pick<Stats, "mode">): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}
