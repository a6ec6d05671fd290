/** Files with tokens: readable by their owner only, written atomically and durably. A file that others may read is refused,
 *  as its reader can do what the token allows. The first server of a database creates its first tokens here. */

import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, lstatSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import type { Scope } from "../../core/access.ts";
import { hashOf, newToken } from "../../server/tokens.ts";
import { flushFileSync, type Store, writeDurably } from "../../store/open.ts";
import { CliError, EXIT } from "../exit.ts";
import { NOTE_BYTES, openPlainSync, readOpen } from "../input/read-file.ts";

const OTHERS = 0o077;
const TOKEN = /^pdr_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}$/;
/** A power cut may leave a file empty or with zeros, if its bytes never reached the disk. */
const EMPTY = /^[\s\0]*$/;

type TokenFileCheck = (descriptor: number) => void;

/** The token in a file; null if the file does not exist. `advice` is for a file without a token. `check` receives the open
 *  file, and throws if it must not be trusted. */
export function readTokenFile(path: string, advice: string, check?: TokenFileCheck): string | null {
  const found = inspectTokenFile(path, check);
  if (found === "empty") throw new CliError(EXIT.usage, `${path} is empty; ${advice}`);
  return found?.token ?? null;
}

/** The same for callers that can create a new token: "empty" if the file has none. */
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

/** A credential that systemd passes to a service: it belongs to root, and its group bits are the mask of an access list. */
export function isCredential(path: string): boolean {
  const dir = process.env.CREDENTIALS_DIRECTORY;
  return dir !== undefined && isAbsolute(dir) && dirname(resolve(path)) === resolve(dir);
}

/** Writes a token if the file does not exist or is empty. Returns the token in the file afterwards, which may be that of a
 *  faster process. */
export function writeTokenFile(path: string, token: string, { replace = false } = {}): string {
  // Root must not take the file away from the user of the service.
  const owner = replace ? lstatSync(path, { throwIfNoEntry: false }) : undefined;
  if (writeDurably(path, `${token}\n`, { replace, owner })) return token;
  const there = inspectTokenFile(path);
  if (there === null || there === "empty") throw new CliError(EXIT.failed, `cannot write the token to ${path}`);
  return there.token;
}

/** Flushes a token file that was found: its server may have been killed before it could. */
function flushTokenFile(path: string): void {
  flushFileSync(path);
}

// The tokens that a server creates at its first start: an admin token for the person at this machine, and one for its own
// workers, both in the data directory. An empty file is replaced, because its former token is unknown here.

export const TOKEN_FILE = "token";
export const WORKER_TOKEN_FILE = "worker-token";

export interface OwnTokens {
  /** Null: another server of this database created the token, in its own directory. */
  readonly file: string | null;
  readonly workerFile: string | null;
}

interface OwnTokensRequest {
  readonly dir: string;
  readonly now: () => number;
  /** If several servers share a database, only the first creates tokens; else each new directory would add two. */
  readonly isShared: boolean;
  /** Its own workers always need a token. */
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

/** The token in a file, flushed before it is stored: a token that only the store knows would be useless. */
function inFile(file: string, log: OwnTokensRequest["log"]): string {
  const found = inspectTokenFile(file);
  if (found !== null && found !== "empty") {
    flushTokenFile(file);
    return found.token;
  }
  if (found === "empty") log("warn", `${file} was empty, as after a power cut: it has a new token now`);
  return writeTokenFile(file, newToken(randomBytes).token, { replace: found === "empty" });
}

/** Stores the token if its file exists but the store does not contain it, as after a change of the database. */
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
