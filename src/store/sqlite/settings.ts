/** Settings, and the signing secret that earlier versions kept in the table `meta`. */
import type { EngineRecord } from "../../core/job/event.ts";
import type { SettingStore } from "../store.ts";
import type { SqliteCalls } from "./calls.ts";
import type { SqliteContext } from "./context.ts";
import type { Database } from "./driver.ts";
import type { SqliteVerb } from "./writer.ts";

export function settingStore(context: SqliteContext, calls: SqliteCalls): SettingStore {
  const [setting, formerSecret] = [settingReader(context), formerSecretReader(context)];
  const [add, replace, erase] = [settingVerb(context), replaceSettingVerb(context), eraseSecretVerb(context)];
  return {
    get: (name) => calls.answer(() => setting(name)),
    setIfAbsent: (name, value) => calls.one(add, { name, value }),
    replace: (name, from, to, record) => calls.one(replace, { name, from, to, record }),
    formerSecret: () => calls.answer(formerSecret),
    async eraseFormerSecret() {
      await calls.one(erase, null);
      truncateErasedSecret(context.db);
    },
  };
}

function settingVerb({ db }: SqliteContext): SqliteVerb<{ name: string; value: string }, string> {
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

function replaceSettingVerb({ db, events }: SqliteContext): SqliteVerb<ReplacedSetting, boolean> {
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

/** A prefix keeps settings apart from the store's own values in `meta`. */
function settingName(name: string): string {
  return `setting.${name}`;
}

function settingReader({ db }: Pick<SqliteContext, "db">): (name: string) => string | null {
  const find = db.prepare("select value from meta where name = ?");
  return (name) => (find.get(settingName(name)) as { value: string } | undefined)?.value ?? null;
}

// Servers of earlier versions signed with this secret and stored it in the table `meta`.

const NAME = "signing_secret";
/** In `meta` from the erase until the log is truncated: a crash, or a reader in another process, may delay the
 *  truncation. */
const IN_LOG = "erased_secret_in_log";

function formerSecretReader({ db }: SqliteContext): () => string | null {
  const find = db.prepare("select value from meta where name = ?");
  return () => (find.get(NAME) as { value: string } | undefined)?.value ?? null;
}

/** A deleted row leaves its bytes in its page. So the few other rows are copied into a new table, and the old table is
 *  dropped while SQLite overwrites freed pages with zeros. The write-ahead log has the old page until it is truncated. */
function eraseSecretVerb({ db }: SqliteContext): SqliteVerb<null, null> {
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

/** Copies the write-ahead log into the file and truncates it, because an erased secret may still be in it. Called after
 *  the erase, and at each open until it has succeeded. Has no effect while another process reads or writes, or if the
 *  disk fails. */
export function truncateErasedSecret(db: Database): void {
  if (db.prepare("select 1 from meta where name = ?").get(IN_LOG) === undefined) return;
  try {
    const { busy } = db.prepare("pragma wal_checkpoint(truncate)").get() as { busy: number };
    if (busy === 0) db.prepare("delete from meta where name = ?").run(IN_LOG);
  } catch {
    // The next open tries again.
  }
}
