/** Tokens of access, and settings that all who use the store share. */
import type { AccessToken, Scope } from "../../core/access.ts";
import type { EngineRecord } from "../../core/event.ts";
import { createdToken, revokedToken, TOKEN_CREATED, TOKEN_REVOKED } from "../token-events.ts";
import type { Context } from "./context.ts";
import type { Verb } from "./writer.ts";

export function addTokenVerb({ db, events }: Context): Verb<{ token: AccessToken; by: string | null }, null> {
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

export function revokeTokenVerb({
  db,
  events,
}: Context): Verb<{ id: string; now: number; by: string | null }, boolean> {
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

export function settingVerb({ db }: Context): Verb<{ name: string; value: string }, string> {
  const add = db.prepare("insert into meta (name, value) values (?, ?) on conflict do nothing");
  const read = settingReader({ db });
  return {
    order: 6,
    run: (items) =>
      items.map(({ name, value }) => {
        add.run(settingName(name), value);
        return read(name) as string;
      }),
  };
}

interface Replaced {
  readonly name: string;
  readonly from: string;
  readonly to: string | null;
  readonly record: EngineRecord | undefined;
}

export function replaceSettingVerb({ db, events }: Context): Verb<Replaced, boolean> {
  const change = db.prepare("update meta set value = ? where name = ? and value = ?");
  const remove = db.prepare("delete from meta where name = ? and value = ?");
  return {
    order: 6,
    run: (items) =>
      items.map(({ name, from, to, record }) => {
        const place = settingName(name);
        const { changes } = to === null ? remove.run(place, from) : change.run(to, place, from);
        if (Number(changes) === 0) return false;
        if (record !== undefined) {
          events.add(null, 0, record.at, record.name, record.data);
          events.flush();
        }
        return true;
      }),
  };
}

/** Beside what the store keeps there for itself. */
function settingName(name: string): string {
  return `setting.${name}`;
}

export function settingReader({ db }: Pick<Context, "db">): (name: string) => string | null {
  const find = db.prepare("select value from meta where name = ?");
  return (name) => (find.get(settingName(name)) as { value: string } | undefined)?.value ?? null;
}

export function tokenReader({ db }: Context): () => AccessToken[] {
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
