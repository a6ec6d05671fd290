/** The tokens that a server makes by itself at its first start: one that may do all, for the person at this machine, and one
 *  for its own workers. Both lie in the data directory, for their owner alone. A file of which a power cut left nothing is
 *  replaced: the token that was in it is known to nobody here. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Scope } from "../../core/access.ts";
import { hashOf, newToken } from "../../server/tokens.ts";
import type { Store } from "../../store/store.ts";
import { flushTokenFile, lookIntoTokenFile, writeTokenFile } from "./token-file.ts";

export const TOKEN_FILE = "token";
export const WORKER_TOKEN_FILE = "worker-token";

export interface OwnTokens {
  /** Null: another server of this database has made one, and it lies there. */
  readonly file: string | null;
  readonly workerFile: string | null;
}

export interface Wish {
  readonly dir: string;
  readonly now: () => number;
  /** Of many servers of one database only the first makes tokens: else each new directory would leave two more behind. */
  readonly isShared: boolean;
  /** Its own workers need one in any case. */
  readonly hasWorkers: boolean;
  readonly log: (level: "warn", message: string) => void;
}

export async function ownTokens(store: Store, { dir, now, isShared, hasWorkers, log }: Wish): Promise<OwnTokens> {
  const isFirst = !isShared || (await store.tokens()).every((token) => token.revokedAt !== null);
  const own = async (name: string, label: string, scopes: readonly Scope[], isWanted: boolean) => {
    const file = join(dir, name);
    if (!isWanted && lookIntoTokenFile(file) === null) return null;
    await ensure(store, inFile(file, log), label, scopes, now);
    return file;
  };
  return {
    file: await own(TOKEN_FILE, "first", ["admin"], isFirst),
    workerFile: await own(WORKER_TOKEN_FILE, "own-workers", ["work"], isFirst || hasWorkers),
  };
}

/** The token in a file, flushed before the store hears of it: a token that only the store knows would be of no use. */
function inFile(file: string, log: Wish["log"]): string {
  const found = lookIntoTokenFile(file);
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
  const isKnown = async () => (await store.tokens()).some((known) => known.hash === hash);
  if (await isKnown()) return;
  const id = token.split("_")[1] as string;
  const rest = { namespace: null, createdAt: now(), expiresAt: null, revokedAt: null };
  await store.addToken({ id, name, hash, scopes, ...rest }, "server").catch(async (error: unknown) => {
    if (!(await isKnown())) throw error; // another server on this directory was faster
  });
}
