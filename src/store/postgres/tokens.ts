/** Access tokens: their hashes, and an event for each that is created or revoked, in the same statement. */
import type { AccessToken, Scope } from "../../core/access.ts";
import { PerdureError } from "../../core/errors.ts";
import { createdToken, TOKEN_CREATED, TOKEN_REVOKED } from "../engine-events.ts";
import type { TokenStore } from "../store.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import { explained } from "./error-classes.ts";
import { writeEngineEvents } from "./events.ts";

/** Like `revokedToken`, built from the row itself. */
const REVOKED =
  "json_strip_nulls(json_build_object('v', 1, 'token', id, 'name', name, 'by', $3::text, 'namespace', namespace))::text";

export function tokenStore({ db, sql, wrote }: PostgresContext): TokenStore {
  // Writes the event in the same statement.
  const withEvent = (write: string, at: string, name: string, data: string) =>
    `with changed as (${write} returning id, name, namespace), ${writeEngineEvents("changed", at, `'${name}'`, data)} select id from changed`;
  const insert = `insert into $s.access_token (id, name, hash, scopes, namespace, created_at, expires_at, revoked_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8)`;
  const add = sql("token_add", withEvent(insert, "$6::bigint", TOKEN_CREATED, "$9::text"));
  // After a try with an unknown outcome: the same token may exist.
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
    withEvent(
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
    async add(token, by = null) {
      const { id, name, hash, scopes, namespace, createdAt, expiresAt, revokedAt } = token;
      const values = [id, name, hash, JSON.stringify(scopes), namespace, createdAt, expiresAt, revokedAt];
      values.push(JSON.stringify(createdToken(token, by)));
      try {
        const added = await db.writeAs((tries) => (tries === 0 ? add : addAgain), values, { repeat: true });
        wrote();
        if (added.length === 0) throw new PerdureError("store_refused", `a token with the id ${id} already exists`);
      } catch (error) {
        throw explained(error);
      }
    },
    list: async () => (await db.read(all)).map(toToken),
    async revoke(id, now, by = null) {
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
