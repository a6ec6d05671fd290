/** Access tokens and settings, and the signing secret that earlier versions kept in the table `meta`. */
import type { AccessToken, Scope } from "../../core/access.ts";
import type { EngineRecord } from "../../core/job/event.ts";
import { createdToken, revokedToken, TOKEN_CREATED, TOKEN_REVOKED } from "../engine-events.ts";
import type { SqliteContext } from "./context.ts";
import type { Database } from "./driver.ts";
import type { SqliteVerb } from "./writer.ts";

// Tokens of access, and settings that all who use the store share.

export function addTokenVerb({
  db,
  events,
}: SqliteContext): SqliteVerb<{ token: AccessToken; by: string | null }, null> {
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

export function settingVerb({ db }: SqliteContext): SqliteVerb<{ name: string; value: string }, string> {
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

interface ReplacedSetting {
  readonly name: string;
  readonly from: string;
  readonly to: string | null;
  readonly record: EngineRecord | undefined;
}

export function replaceSettingVerb({ db, events }: SqliteContext): SqliteVerb<ReplacedSetting, boolean> {
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

export function settingReader({ db }: Pick<SqliteContext, "db">): (name: string) => string | null {
  const find = db.prepare("select value from meta where name = ?");
  return (name) => (find.get(settingName(name)) as { value: string } | undefined)?.value ?? null;
}

export function tokenReader({ db }: SqliteContext): () => AccessToken[] {
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

// The secret with which servers of earlier versions signed, and which they kept in the table `meta`.

const NAME = "signing_secret";
/** In `meta` from the erase until the log is truncated: a crash, or a reader in another process, may come between them. */
const IN_LOG = "erased_secret_in_log";

export function formerSecretReader({ db }: SqliteContext): () => string | null {
  const find = db.prepare("select value from meta where name = ?");
  return () => (find.get(NAME) as { value: string } | undefined)?.value ?? null;
}

/** A deleted row leaves its bytes in its page. So the few others are copied into a new table, and the old one is dropped while
 *  SQLite overwrites what it frees with zeros. The write-ahead log has the page as it was until it is truncated. */
export function eraseSecretVerb({ db }: SqliteContext): SqliteVerb<null, null> {
  return {
    order: 6,
    run(items) {
      db.exec("pragma secure_delete = on");
      try {
        db.exec(`create table meta_kept (name text primary key, value) without rowid;
          insert into meta_kept select name, value from meta where name <> '${NAME}';
          insert or replace into meta_kept values ('${IN_LOG}', 1);
          drop table meta;
          alter table meta_kept rename to meta`);
      } finally {
        db.exec("pragma secure_delete = off");
      }
      return items.map(() => null);
    },
  };
}

/** Copies the write-ahead log into the file and truncates it, where an erased secret may still be in it. Called after the erase,
 *  and at each open until it has succeeded. It changes nothing while another process reads or writes, or where the disk fails. */
export function truncateErasedSecret(db: Database): void {
  if (db.prepare("select 1 from meta where name = ?").get(IN_LOG) === undefined) return;
  try {
    const { busy } = db.prepare("pragma wal_checkpoint(truncate)").get() as { busy: number };
    if (busy === 0) db.prepare("delete from meta where name = ?").run(IN_LOG);
  } catch {
    // The next open tries again.
  }
}
