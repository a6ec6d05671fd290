/** The secret with which servers of earlier versions signed, and which they kept in the table `meta`. */
import type { Context } from "./context.ts";
import type { Verb } from "./writer.ts";

const NAME = "signing_secret";

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
          drop table meta;
          alter table meta_kept rename to meta`);
      } finally {
        db.exec("pragma secure_delete = off");
      }
      return items.map(() => null);
    },
  };
}
