/** The tokens that a server makes by itself at its first start: one that may do all, for the person at this machine, and one
 *  for its own workers. Both lie in the data directory, for their owner alone. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Scope } from "../../core/access.ts";
import { hashOf, newToken } from "../../server/tokens.ts";
import type { Store } from "../../store/store.ts";
import { readTokenFile, writeTokenFile } from "./token-file.ts";

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
}

export async function ownTokens(store: Store, { dir, now, isShared, hasWorkers }: Wish): Promise<OwnTokens> {
  const isFirst = !isShared || (await store.tokens()).every((token) => token.revokedAt !== null);
  const own = async (name: string, label: string, scopes: readonly Scope[], isWanted: boolean) => {
    const file = join(dir, name);
    if (!isWanted && readTokenFile(file) === null) return null;
    await ensure(store, file, label, scopes, now);
    return file;
  };
  return {
    file: await own(TOKEN_FILE, "first", ["admin"], isFirst),
    workerFile: await own(WORKER_TOKEN_FILE, "own-workers", ["work"], isFirst || hasWorkers),
  };
}

/** A token whose file is there but which the store does not know, as after a change of the database, is made known. */
async function ensure(store: Store, file: string, name: string, scopes: readonly Scope[], now: () => number) {
  const token = readTokenFile(file) ?? writeTokenFile(file, newToken(randomBytes).token);
  const hash = hashOf(token);
  const isKnown = async () => (await store.tokens()).some((known) => known.hash === hash);
  if (await isKnown()) return;
  const id = token.split("_")[1] as string;
  const rest = { namespace: null, createdAt: now(), expiresAt: null, revokedAt: null };
  await store.addToken({ id, name, hash, scopes, ...rest }).catch(async (error: unknown) => {
    if (!(await isKnown())) throw error; // another server on this directory was faster
  });
}
