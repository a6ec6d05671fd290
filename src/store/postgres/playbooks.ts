/** Compiled playbooks, their assets, and the catalog of named versions. */
import { PerdureError } from "../../core/errors.ts";
import type { CatalogEntry, RunStore } from "../store.ts";
import { texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";

/** How exact the time of the last use is. */
const TOUCH_EVERY_MS = 60_000;

const ENTRY = "c.namespace, c.path, c.version, p.hash, c.source, c.at, c.pushed_by";
const ENTRIES = "$s.catalog c join $s.playbook p on p.no = c.playbook";

export type PlaybookStore = Pick<
  RunStore,
  "savePlaybooks" | "playbooks" | "asset" | "push" | "catalogEntry" | "catalog" | "versions" | "remove"
>;

export function playbookStore({ db, sql }: PostgresContext): PlaybookStore {
  const save = sql(
    "playbooks_save",
    `insert into $s.playbook (hash, body, used_at)
     select hash, body, $3::bigint from unnest($1::text[], $2::text[]) as m (hash, body) order by hash
     on conflict (hash) do update set used_at = excluded.used_at
       where playbook.used_at < excluded.used_at - ${TOUCH_EVERY_MS}`,
  );
  const saveAsset = sql(
    "asset_save",
    "insert into $s.asset (hash, body) values ($1, $2::bytea) on conflict (hash) do nothing",
  );
  const bodies = sql("playbooks", "select hash, body from $s.playbook where hash = any ($1::text[])");
  const assetBody = sql("asset", "select body from $s.asset where hash = $1");
  // Two pushes of one path wait for each other.
  const lockPath = sql(
    "catalog_lock",
    "select pg_advisory_xact_lock(hashtextextended('perdure catalog ' || $1::text || '/' || $2::text, 0))",
  );
  const latest = sql(
    "catalog_latest",
    `select ${ENTRY} from ${ENTRIES} where c.namespace = $1 and c.path = $2 order by c.version desc limit 1`,
  );
  const one = sql(
    "catalog_one",
    `select ${ENTRY} from ${ENTRIES} where c.namespace = $1 and c.path = $2 and c.version = $3`,
  );
  const add = sql(
    "catalog_add",
    `insert into $s.catalog (namespace, path, version, playbook, source, at, pushed_by)
     select $1, $2, $3, p.no, $5, $6, $7 from $s.playbook p where p.hash = $4 returning version`,
  );
  const list = sql(
    "catalog_list",
    `select distinct on (c.path) ${ENTRY} from ${ENTRIES} where c.namespace = $1 and ($2::text is null or c.path > $2)
     order by c.path, c.version desc limit $3`,
  );
  const all = sql(
    "catalog_versions",
    `select ${ENTRY} from ${ENTRIES} where c.namespace = $1 and c.path = $2 order by c.version`,
  );
  const drop = sql(
    "catalog_remove",
    `with gone as (
       delete from $s.catalog where namespace = $1 and path = $2 and ($3::int is null or version = $3) returning 1
     ) select count(*) from gone`,
  );

  return {
    async savePlaybooks(saved, assets, now) {
      const byHash = new Map(saved.map(({ hash, body }) => [hash, body]));
      if (byHash.size + assets.length === 0) return;
      await db.transaction(
        async ({ ask }) => {
          const inOrder = assets.toSorted((a, b) => (a.hash < b.hash ? -1 : 1));
          // Assets first: a sweep of those that no playbook names waits for the whole.
          for (const { hash, body } of inOrder) await ask(saveAsset, [hash, Buffer.from(body)]);
          if (byHash.size > 0) await ask(save, [texts([...byHash.keys()]), texts([...byHash.values()]), now]);
        },
        { repeat: true },
      );
    },
    async playbooks(hashes) {
      const found = new Map((await db.read(bodies, [texts(hashes)])).map(([hash, body]) => [hash, body as string]));
      return hashes.map((hash) => found.get(hash) ?? null);
    },
    async asset(hash) {
      const [row] = await db.read(assetBody, [hash]);
      return row === undefined ? null : Buffer.from((row[0] as string).slice(2), "hex");
    },
    async push({ namespace, path, playbook, source, at, by }) {
      return db.transaction(
        async ({ ask }) => {
          await ask(lockPath, [namespace, path]);
          const [row] = await ask(latest, [namespace, path]);
          const before = row === undefined ? null : toEntry(row);
          if (before !== null && before.source === source && before.playbook === playbook) return before;
          const version = (before?.version ?? 0) + 1;
          const added = await ask(add, [namespace, path, version, playbook, source, at, by]);
          if (added.length === 0) throw new PerdureError("store_refused", `playbook ${playbook} is not stored`);
          return { namespace, path, version, playbook, source, at, by };
        },
        { repeat: true },
      );
    },
    async catalogEntry(namespace, path, version) {
      const rows =
        version === null ? await db.read(latest, [namespace, path]) : await db.read(one, [namespace, path, version]);
      return rows[0] === undefined ? null : toEntry(rows[0]);
    },
    catalog: async ({ namespace, after, limit }) => (await db.read(list, [namespace, after, limit])).map(toEntry),
    versions: async (namespace, path) => (await db.read(all, [namespace, path])).map(toEntry),
    remove: async (namespace, path, version) => Number((await db.write(drop, [namespace, path, version]))[0]?.[0] ?? 0),
  };
}

function toEntry([namespace, path, version, playbook, source, at, by]: PgRow): CatalogEntry {
  return { namespace, path, version, playbook, source, at, by } as unknown as CatalogEntry;
}
