/** The file that holds a token: for its owner alone, whole or not there at all, and found again after a power cut. Whoever
 *  can read it can do what the token allows, so a file that others may read is refused. */
import { closeSync, fstatSync, lstatSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";
import { flushFileSync, writeDurably } from "../../store/open.ts";
import { CliError, EXIT } from "../exit.ts";
import { NOTE_BYTES, openPlainSync, readOpen } from "../read-file.ts";

const OTHERS = 0o077;
const TOKEN = /^pdr_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}$/;
/** What a power cut leaves of a file whose bytes never reached the disk: nothing, or zeros, as the file system will have it. */
const EMPTY = /^[\s\0]*$/;

type FileCheck = (descriptor: number) => void;

/** The token in a file; null if there is no such file. `advice` is for a file without one: what to do about it. `check` is called
 *  with the open file, and throws if it must not be believed. */
export function readTokenFile(path: string, advice: string, check?: FileCheck): string | null {
  const found = lookIntoTokenFile(path, check);
  if (found === "empty") throw new CliError(EXIT.usage, `${path} is empty; ${advice}`);
  return found?.token ?? null;
}

/** The same, for whoever can make a new one: "empty" where nothing of it is left. */
export function lookIntoTokenFile(path: string, check?: FileCheck): { readonly token: string } | "empty" | null {
  let file: number;
  try {
    file = openPlainSync(path, path);
  } catch (error) {
    if (error instanceof CliError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw new CliError(EXIT.failed, `cannot read the token in ${path}: ${message}`);
  }
  try {
    check?.(file);
    const { mode } = fstatSync(file);
    if ((mode & OTHERS) !== 0 && !isCredential(path)) {
      const shown = (mode & 0o777).toString(8).padStart(4, "0");
      throw new CliError(
        EXIT.usage,
        `${path} can be read by others (mode ${shown}): take the rights away with \`chmod 600 ${path}\`, and make a new token if somebody may have seen it`,
      );
    }
    const text = readOpen(file, NOTE_BYTES).toString("utf8");
    if (EMPTY.test(text)) return "empty";
    const token = text.trim();
    if (TOKEN.test(token)) return { token };
    throw new CliError(EXIT.usage, `${path} holds no token; remove it, and the next start makes a new one`);
  } finally {
    closeSync(file);
  }
}

/** One that systemd hands to a service: it belongs to root, and the rights of its group are the mask of an access list. */
export function isCredential(path: string): boolean {
  const dir = process.env.CREDENTIALS_DIRECTORY;
  return dir !== undefined && isAbsolute(dir) && dirname(resolve(path)) === resolve(dir);
}

/** Writes a token where there is no file, or an empty one. Returns what is there afterwards: if somebody was faster, theirs. */
export function writeTokenFile(path: string, token: string, { replace = false } = {}): string {
  // A root that starts the server of a service must not take the file away from it.
  const owner = replace ? lstatSync(path, { throwIfNoEntry: false }) : undefined;
  if (writeDurably(path, `${token}\n`, { replace, owner })) return token;
  const there = lookIntoTokenFile(path);
  if (there === null || there === "empty") throw new CliError(EXIT.failed, `cannot write the token to ${path}`);
  return there.token;
}

/** A token that was found: its file may be of a server that was killed before it could flush it. */
export function flushTokenFile(path: string): void {
  flushFileSync(path);
}
