/** Reads files that a person named or that were found: plain files only, up to a size limit. A file that was found by
 *  itself must belong to the user who runs the command or to root. */
import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, type Stats } from "node:fs";
import { CliError, EXIT, usageError } from "../exit.ts";

// Reads a file that somebody named: a plain one, or what a shell puts in its place (`<(…)`, /dev/stdin). A named pipe
// that nobody writes to would be waited for without end, and a device has none: both are refused.

/** Opens it for reading. `shown` is how people gave it, `advice` what to do about anything but a plain file. */
export function openPlainSync(path: string, shown: string, advice = "pass a file"): number {
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
  throw usageError(`${shown} is ${what}; ${advice}`);
}

// Whose file it is. A file that is found, because it lies in the working directory, is believed only if it belongs to
// the person who runs the command or to root, as git and ssh have it: anybody may have put it there, and it could
// choose which server is called and what is run. Root is no exception: in a directory of another user it believes
// that user's files only after `sudo` by that very user. What a person names by option or environment is that
// person's choice. Where a system has no user ids nothing is checked.

const BY_OTHERS = 0o002;
const STICKY = 0o1000;

/** The ids of those whose files are believed; null where there are no ids. */
export function believedOwners(env: Readonly<Record<string, string | undefined>> = process.env): number[] | null {
  const me = process.geteuid?.();
  if (me === undefined) return null;
  const sudo = me === 0 && /^\d+$/.test(env.SUDO_UID ?? "") ? [Number(env.SUDO_UID)] : [];
  return [me, 0, ...sudo];
}

function isBelieved({ uid }: Pick<Stats, "uid">): boolean {
  return believedOwners()?.includes(uid) ?? true;
}

/** Throws for an open file that was found and is another user's, or that everybody may change. `advice` says how to use it all
 *  the same. A link to it, of another user, is refused as well. */
export function requireOwned(descriptor: number, path: string, shown: string, advice: string): void {
  const file = fstatSync(descriptor);
  const entry = lstatSync(path, { throwIfNoEntry: false }) ?? file;
  for (const each of [file, entry]) {
    if (!isBelieved(each)) throw refused(`${shown} belongs to another user (uid ${each.uid}) and is not read`, advice);
  }
  if ((file.mode & BY_OTHERS) !== 0) {
    throw refused(
      `${shown} can be changed by every user (mode ${modeOf(file)}) and is not read`,
      `run \`chmod o-w ${shown}\``,
    );
  }
}

/** Throws for a directory in which everybody may replace files: those of its owner would prove nothing. */
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
