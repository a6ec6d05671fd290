/** The secret with which servers of earlier versions signed, and which they kept in the table `meta`. */
import type { Context } from "./context.ts";
import type { Database } from "./driver.ts";
import type { Verb } from "./writer.ts";

const NAME = "signing_secret";
/** In `meta` from the erase until the log is truncated: a crash, or a reader in another process, may come between them. */
const IN_LOG = "erased_secret_in_log";

export function formerSecretReader({ db }: Context): () => string | null {
  const find = db.prepare("select value from meta where name = ?");
  return () => (find.get(NAME) as { value: string } | undefined)?.value ?? null;
}

/** A deleted row leaves its bytes in its page. So the few others are copied into a new table, and the old one is dropped while
 *  SQLite overwrites what it frees with zeros. The write-ahead log has the page as it was until it is truncated. */
export function eraseSecretVerb({ db }: Context): Verb<null, null> {
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
