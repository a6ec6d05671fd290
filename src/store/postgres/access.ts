/** Tokens of access, and settings that all who use the store share. */
import type { AccessToken, Scope } from "../../core/access.ts";
import { PerdureError } from "../../core/errors.ts";
import type { Context } from "./context.ts";
import type { Row } from "./driver.ts";
import { explained } from "./trouble.ts";

export function tokenVerbs({ db, sql }: Context) {
  const insert = `insert into $s.access_token (id, name, hash, scopes, namespace, created_at, expires_at, revoked_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8)`;
  const add = sql("token_add", `${insert} returning id`);
  // After a try whose end is unknown: this very token may be there.
  const addAgain = sql(
    "token_add_again",
    `${insert} on conflict (id) do update set id = excluded.id where access_token.hash = excluded.hash returning id`,
  );
  const all = sql(
    "tokens",
    `select id, name, hash, scopes, namespace, created_at, expires_at, revoked_at
     from $s.access_token order by created_at, id`,
  );
  const revoke = sql(
    "token_revoke",
    "update $s.access_token set revoked_at = $2::bigint where id = $1 and revoked_at is null returning id",
  );
  const revokeAgain = sql(
    "token_revoke_again",
    `update $s.access_token set revoked_at = $2::bigint where id = $1 and coalesce(revoked_at, $2) = $2 returning id`,
  );

  return {
    async add(token: AccessToken): Promise<void> {
      const { id, name, hash, scopes, namespace, createdAt, expiresAt, revokedAt } = token;
      const values = [id, name, hash, JSON.stringify(scopes), namespace, createdAt, expiresAt, revokedAt];
      try {
        const added = await db.writeAs((tries) => (tries === 0 ? add : addAgain), values, { repeat: true });
        if (added.length === 0) throw new PerdureError("store_refused", `the id ${id} is taken by another token`);
      } catch (error) {
        throw explained(error);
      }
    },
    all: async (): Promise<AccessToken[]> => (await db.read(all)).map(toToken),
    async revoke(id: string, now: number): Promise<boolean> {
      const care = { repeat: true };
      return (await db.writeAs((tries) => (tries === 0 ? revoke : revokeAgain), [id, now], care)).length > 0;
    },
  };
}

function toToken(r: Row): AccessToken {
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

export function settingVerbs({ db, sql }: Context) {
  const find = sql("setting", "select value from $s.meta where name = 'setting.' || $1");
  const add = sql(
    "setting_add",
    "insert into $s.meta (name, value) values ('setting.' || $1, $2) on conflict (name) do nothing",
  );

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
  };
}
