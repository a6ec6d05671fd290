/** Files that hold tokens: readable by their owner only, written whole or not at all. The first server of a database
 *  creates its first tokens here. */

import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, lstatSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import type { Scope } from "../../core/access.ts";
import { hashOf, newToken } from "../../server/tokens.ts";
import { flushFileSync, type Store, writeDurably } from "../../store/open.ts";
import { CliError, EXIT } from "../exit.ts";
import { NOTE_BYTES, openPlainSync, readOpen } from "../input/read-file.ts";

// The file that holds a token: for its owner alone, whole or not there at all, and found again after a power cut.
// Whoever can read it can do what the token allows, so a file that others may read is refused.

const OTHERS = 0o077;
const TOKEN = /^pdr_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}$/;
/** What a power cut leaves of a file whose bytes never reached the disk: nothing, or zeros, as the file system will have it. */
const EMPTY = /^[\s\0]*$/;

type TokenFileCheck = (descriptor: number) => void;

/** The token in a file; null if there is no such file. `advice` is for a file without one: what to do about it. `check` is called
 *  with the open file, and throws if it must not be believed. */
export function readTokenFile(path: string, advice: string, check?: TokenFileCheck): string | null {
  const found = inspectTokenFile(path, check);
  if (found === "empty") throw new CliError(EXIT.usage, `${path} is empty; ${advice}`);
  return found?.token ?? null;
}

/** The same, for whoever can make a new one: "empty" where nothing of it is left. */
function inspectTokenFile(path: string, check?: TokenFileCheck): { readonly token: string } | "empty" | null {
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
        `${path} can be read by others (mode ${shown}): run \`chmod 600 ${path}\`, and create a new token if somebody may have seen it`,
      );
    }
    const text = readOpen(file, NOTE_BYTES).toString("utf8");
    if (EMPTY.test(text)) return "empty";
    const token = text.trim();
    if (TOKEN.test(token)) return { token };
    throw new CliError(EXIT.usage, `${path} holds no token; remove it, and the next start creates a new one`);
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
  const there = inspectTokenFile(path);
  if (there === null || there === "empty") throw new CliError(EXIT.failed, `cannot write the token to ${path}`);
  return there.token;
}

/** A token that was found: its file may be of a server that was killed before it could flush it. */
function flushTokenFile(path: string): void {
  flushFileSync(path);
}

// The tokens that a server makes by itself at its first start: one that may do all, for the person at this machine,
// and one for its own workers. Both lie in the data directory, for their owner alone. A file of which a power cut
// left nothing is replaced: the token that was in it is known to nobody here.

export const TOKEN_FILE = "token";
export const WORKER_TOKEN_FILE = "worker-token";

export interface OwnTokens {
  /** Null: another server of this database has made one, and it lies there. */
  readonly file: string | null;
  readonly workerFile: string | null;
}

interface OwnTokensRequest {
  readonly dir: string;
  readonly now: () => number;
  /** Of many servers of one database only the first makes tokens: else each new directory would leave two more behind. */
  readonly isShared: boolean;
  /** Its own workers need one in any case. */
  readonly hasWorkers: boolean;
  readonly log: (level: "warn", message: string) => void;
}

export async function ownTokens(
  store: Store,
  { dir, now, isShared, hasWorkers, log }: OwnTokensRequest,
): Promise<OwnTokens> {
  const isFirst = !isShared || (await store.tokens.list()).every((token) => token.revokedAt !== null);
  const own = async (name: string, label: string, scopes: readonly Scope[], isWanted: boolean) => {
    const file = join(dir, name);
    if (!isWanted && inspectTokenFile(file) === null) return null;
    await ensure(store, inFile(file, log), label, scopes, now);
    return file;
  };
  return {
    file: await own(TOKEN_FILE, "first", ["admin"], isFirst),
    workerFile: await own(WORKER_TOKEN_FILE, "own-workers", ["work"], isFirst || hasWorkers),
  };
}

/** The token in a file, flushed before the store hears of it: a token that only the store knows would be of no use. */
function inFile(file: string, log: OwnTokensRequest["log"]): string {
  const found = inspectTokenFile(file);
  if (found !== null && found !== "empty") {
    flushTokenFile(file);
    return found.token;
  }
  if (found === "empty") log("warn", `${file} was empty, as after a power cut: it has a new token now`);
  return writeTokenFile(file, newToken(randomBytes).token, { replace: found === "empty" });
}

/** A token whose file is there but which the store does not know, as after a change of the database, is made known. */
async function ensure(store: Store, token: string, name: string, scopes: readonly Scope[], now: () => number) {
  const hash = hashOf(token);
  const isKnown = async () => (await store.tokens.list()).some((known) => known.hash === hash);
  if (await isKnown()) return;
  const id = token.split("_")[1] as string;
  const rest = { namespace: null, createdAt: now(), expiresAt: null, revokedAt: null };
  await store.tokens.add({ id, name, hash, scopes, ...rest }, "server").catch(async (error: unknown) => {
    if (!(await isKnown())) throw error; // another server on this directory was faster
  });
}
