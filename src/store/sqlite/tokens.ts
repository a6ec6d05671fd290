/** Access tokens: their hashes, and an event for each that is created or revoked. */
import type { AccessToken, Scope } from "../../core/access.ts";
import { createdToken, revokedToken, TOKEN_CREATED, TOKEN_REVOKED } from "../engine-events.ts";
import type { TokenStore } from "../store.ts";
import type { SqliteCalls } from "./calls.ts";
import type { SqliteContext } from "./context.ts";
import type { SqliteVerb } from "./writer.ts";

export function tokenStore(context: SqliteContext, calls: SqliteCalls): TokenStore {
  const [add, revoke, list] = [addTokenVerb(context), revokeTokenVerb(context), tokenReader(context)];
  return {
    async add(token, by = null) {
      await calls.one(add, { token, by });
    },
    list: () => calls.answer(list),
    revoke: (id, now, by = null) => calls.one(revoke, { id, now, by }),
  };
}

function addTokenVerb({ db, events }: SqliteContext): SqliteVerb<{ token: AccessToken; by: string | null }, null> {
  const add = db.prepare(
    `insert into access_token (id, name, hash, scopes, namespace, created_at, expires_at, revoked_at)
     values (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  return {
    order: 6,
    run: (items) =>
      items.map(({ token, by }) => {
        const { id, name, hash, scopes, namespace, createdAt, expiresAt, revokedAt } = token;
        add.run(id, name, hash, JSON.stringify(scopes), namespace, createdAt, expiresAt, revokedAt);
        events.add(null, 0, createdAt, TOKEN_CREATED, createdToken(token, by));
        events.flush();
        return null;
      }),
  };
}

function revokeTokenVerb({
  db,
  events,
}: SqliteContext): SqliteVerb<{ id: string; now: number; by: string | null }, boolean> {
  const revoke = db.prepare(
    "update access_token set revoked_at = ? where id = ? and revoked_at is null returning id, name, namespace",
  );
  return {
    order: 6,
    run: (items) =>
      items.map(({ id, now, by }) => {
        const [row] = revoke.all(now, id) as { id: string; name: string; namespace: string | null }[];
        if (row === undefined) return false;
        events.add(null, 0, now, TOKEN_REVOKED, revokedToken(row, by));
        events.flush();
        return true;
      }),
  };
}

function tokenReader({ db }: SqliteContext): () => AccessToken[] {
  const all = db.prepare("select * from access_token order by created_at, id");
  return () => (all.all() as Record<string, unknown>[]).map(toToken);
}

function toToken(row: Record<string, unknown>): AccessToken {
  return {
    id: row.id as string,
    name: row.name as string,
    hash: row.hash as string,
    scopes: JSON.parse(row.scopes as string) as Scope[],
    namespace: row.namespace as string | null,
    createdAt: row.created_at as number,
    expiresAt: row.expires_at as number | null,
    revokedAt: row.revoked_at as number | null,
  };
}
