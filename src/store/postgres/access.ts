/** Tokens of access, and settings that all who use the store share. */
import type { AccessToken, Scope } from "../../core/access.ts";
import { PerdureError } from "../../core/errors.ts";
import type { EngineRecord } from "../../core/job/event.ts";
import { createdToken, TOKEN_CREATED, TOKEN_REVOKED } from "../engine-events.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import { explained } from "./error-classes.ts";
import { writeEngineEvents } from "./events.ts";

/** As `revokedToken` says it, of the row itself. */
const REVOKED =
  "json_strip_nulls(json_build_object('v', 1, 'token', id, 'name', name, 'by', $3::text, 'namespace', namespace))::text";

export function tokenVerbs({ db, sql, wrote }: PostgresContext) {
  // The event in the same statement.
  const told = (write: string, at: string, name: string, data: string) =>
    `with changed as (${write} returning id, name, namespace), ${writeEngineEvents("changed", at, `'${name}'`, data)} select id from changed`;
  const insert = `insert into $s.access_token (id, name, hash, scopes, namespace, created_at, expires_at, revoked_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8)`;
  const add = sql("token_add", told(insert, "$6::bigint", TOKEN_CREATED, "$9::text"));
  // After a try whose end is unknown: this very token may be there.
  const addAgain = sql(
    "token_add_again",
    `with changed as (${insert} on conflict (id) do update set id = excluded.id
       where access_token.hash = excluded.hash returning id, (xmax = 0) as is_new),
     fresh as (select 1 from changed where is_new),
     ${writeEngineEvents("fresh", "$6::bigint", `'${TOKEN_CREATED}'`, "$9::text")} select id from changed`,
  );
  const all = sql(
    "tokens",
    `select id, name, hash, scopes, namespace, created_at, expires_at, revoked_at
     from $s.access_token order by created_at, id`,
  );
  const revoke = sql(
    "token_revoke",
    told(
      "update $s.access_token set revoked_at = $2::bigint where id = $1 and revoked_at is null",
      "$2::bigint",
      TOKEN_REVOKED,
      REVOKED,
    ),
  );
  const revokeAgain = sql(
    "token_revoke_again",
    `with before as (select revoked_at from $s.access_token where id = $1 for update),
     changed as (
       update $s.access_token set revoked_at = $2::bigint where id = $1 and coalesce(revoked_at, $2) = $2
       returning id, name, namespace
     ),
     fresh as (select changed.* from changed cross join before where before.revoked_at is null),
     ${writeEngineEvents("fresh", "$2::bigint", `'${TOKEN_REVOKED}'`, REVOKED)} select id from changed`,
  );

  return {
    async add(token: AccessToken, by: string | null): Promise<void> {
      const { id, name, hash, scopes, namespace, createdAt, expiresAt, revokedAt } = token;
      const values = [id, name, hash, JSON.stringify(scopes), namespace, createdAt, expiresAt, revokedAt];
      values.push(JSON.stringify(createdToken(token, by)));
      try {
        const added = await db.writeAs((tries) => (tries === 0 ? add : addAgain), values, { repeat: true });
        wrote();
        if (added.length === 0) throw new PerdureError("store_refused", `the id ${id} is taken by another token`);
      } catch (error) {
        throw explained(error);
      }
    },
    all: async (): Promise<AccessToken[]> => (await db.read(all)).map(toToken),
    async revoke(id: string, now: number, by: string | null): Promise<boolean> {
      const care = { repeat: true };
      const revoked = await db.writeAs((tries) => (tries === 0 ? revoke : revokeAgain), [id, now, by], care);
      wrote();
      return revoked.length > 0;
    },
  };
}

function toToken(r: PgRow): AccessToken {
  return {
    id: r[0] as string,
    name: r[1] as string,
    hash: r[2] as string,
    scopes: JSON.parse(r[3] as string) as Scope[],
    namespace: r[4] as string | null,
    createdAt: r[5] as number,
    expiresAt: r[6] as number | null,
    revokedAt: r[7] as number | null,
  };
}

export function settingVerbs({ db, sql, wrote }: PostgresContext) {
  const find = sql("setting", "select value from $s.meta where name = 'setting.' || $1");
  const add = sql(
    "setting_add",
    "insert into $s.meta (name, value) values ('setting.' || $1, $2) on conflict (name) do nothing",
  );

  const recorded = (write: string) =>
    `with changed as (${write} returning name),
     recorded as (select 1 from changed where $4::text is not null),
     ${writeEngineEvents("recorded", "$3::bigint", "$4::text", "$5::text")} select name from changed`;
  const change = sql(
    "setting_change",
    recorded("update $s.meta set value = $6 where name = 'setting.' || $1 and value = $2"),
  );
  const remove = sql("setting_remove", recorded("delete from $s.meta where name = 'setting.' || $1 and value = $2"));
  // With which servers of earlier versions signed. A deleted row stays in its page until the table is vacuumed.
  const secret = sql("former_secret", "select value from $s.meta where name = 'signing_secret'");
  const erase = sql("former_secret_erase", "delete from $s.meta where name = 'signing_secret'");

  async function get(name: string): Promise<string | null> {
    const [[value = null] = []] = await db.read(find, [name]);
    return value as string | null;
  }

  return {
    get,
    async setIfAbsent(name: string, value: string): Promise<string> {
      const there = await get(name);
      if (there !== null) return there;
      await db.write(add, [name, value], { repeat: true });
      return (await get(name)) as string;
    },
    /** Not repeated: after a try whose end is unknown, the value it found would be its own. */
    async replace(name: string, from: string, to: string | null, record?: EngineRecord): Promise<boolean> {
      const event = [record?.at ?? 0, record?.name ?? null, record === undefined ? null : JSON.stringify(record.data)];
      const values = [name, from, ...event];
      const done = to === null ? await db.write(remove, values) : await db.write(change, [...values, to]);
      if (record !== undefined) wrote();
      return done.length > 0;
    },
    async formerSecret(): Promise<string | null> {
      const [[value = null] = []] = await db.read(secret);
      return value as string | null;
    },
    async eraseFormerSecret(): Promise<void> {
      await db.write(erase, [], { repeat: true });
    },
  };
}
