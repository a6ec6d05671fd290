/** Settings, and the signing secret that earlier versions kept in the table `meta`. */
import type { SettingStore } from "../store.ts";
import type { PostgresContext } from "./context.ts";
import { writeEngineEvents } from "./events.ts";

export function settingStore({ db, sql, wrote }: PostgresContext): SettingStore {
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
  // Servers of earlier versions signed with it. A deleted row stays in its page until the table is vacuumed.
  const secret = sql("former_secret", "select value from $s.meta where name = 'signing_secret'");
  const erase = sql("former_secret_erase", "delete from $s.meta where name = 'signing_secret'");

  async function get(name: string): Promise<string | null> {
    const [[value = null] = []] = await db.read(find, [name]);
    return value as string | null;
  }

  return {
    get,
    async setIfAbsent(name, value) {
      const there = await get(name);
      if (there !== null) return there;
      await db.write(add, [name, value], { repeat: true });
      return (await get(name)) as string;
    },
    /** Not retried: after a try with an unknown outcome it could find its own new value. */
    async replace(name, from, to, record) {
      const event = [record?.at ?? 0, record?.name ?? null, record === undefined ? null : JSON.stringify(record.data)];
      const values = [name, from, ...event];
      const done = to === null ? await db.write(remove, values) : await db.write(change, [...values, to]);
      if (record !== undefined) wrote();
      return done.length > 0;
    },
    async formerSecret() {
      const [[value = null] = []] = await db.read(secret);
      return value as string | null;
    },
    async eraseFormerSecret() {
      await db.write(erase, [], { repeat: true });
    },
  };
}
