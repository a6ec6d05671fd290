/** Definitions, the assets they name, and the catalog: versions of definitions by path. */

import { PerdureError } from "../../core/errors.ts";
import type { Asset, CatalogEntry, NewCatalogEntry, PlaybookBody, RunStore } from "../store.ts";
import type { SqliteCalls } from "./calls.ts";
import type { SqliteContext } from "./context.ts";
import type { SqliteVerb } from "./writer.ts";

type CatalogStore = Pick<
  RunStore,
  "savePlaybooks" | "playbooks" | "asset" | "push" | "catalogEntry" | "catalog" | "versions" | "remove"
>;

const MAX_CATALOG = 1_000;

export function catalogStore(context: SqliteContext, calls: SqliteCalls): CatalogStore {
  const { db } = context;
  const save = saveVerb(context);
  const push = pushVerb(context);
  const remove = removeVerb(context);
  const bodyOf = db.prepare("select body from playbook where hash = ?");
  const assetOf = db.prepare("select body from asset where hash = ?");
  const read = catalogReader(context);
  return {
    async savePlaybooks(bodies, assets, now) {
      await calls.one(save, { bodies, assets, now });
    },
    playbooks: (hashes) =>
      calls.answer(() => hashes.map((hash) => (bodyOf.get(hash) as { body: string } | undefined)?.body ?? null)),
    asset: (hash) => calls.answer(() => (assetOf.get(hash) as { body: Uint8Array } | undefined)?.body ?? null),
    push: (entry) => calls.one(push, entry),
    catalogEntry: (namespace, path, version) => calls.answer(() => read.entry(namespace, path, version)),
    catalog: ({ namespace, after, limit }) =>
      calls.answer(() => read.latest(namespace, after ?? "", Math.min(limit, MAX_CATALOG))),
    versions: (namespace, path) => calls.answer(() => read.versions(namespace, path)),
    remove: (namespace, path, version) => calls.one(remove, { namespace, path, version }),
  };
}

interface SavedPlaybooks {
  readonly bodies: readonly PlaybookBody[];
  readonly assets: readonly Asset[];
  readonly now: number;
}

function saveVerb({ db, interned }: SqliteContext): SqliteVerb<SavedPlaybooks, null> {
  const add = db.prepare("insert into playbook (hash, used_at, body) values (?, ?, ?)");
  const addAsset = db.prepare("insert or ignore into asset (hash, body) values (?, ?)");

  function saveOne({ bodies, assets, now }: SavedPlaybooks): null {
    for (const { hash, body } of bodies) {
      if (interned.playbookNo(hash, now) === null) add.run(hash, now, body);
    }
    for (const { hash, body } of assets) addAsset.run(hash, body);
    return null;
  }

  // Before the submits that name them.
  return {
    order: 1,
    run(items) {
      interned.dropSwept();
      return items.map(saveOne);
    },
  };
}

const ENTRY = `c.namespace, c.path, c.version, p.hash as playbook, c.source, c.at, c.pushed_by as "by"
  from catalog c cross join playbook p on p.no = c.playbook`;

function catalogReader({ db }: SqliteContext) {
  const one = db.prepare(`select ${ENTRY} where c.namespace = ? and c.path = ? and c.version = ?`);
  const last = db.prepare(`select ${ENTRY} where c.namespace = ? and c.path = ? order by c.version desc limit 1`);
  const all = db.prepare(`select ${ENTRY} where c.namespace = ? and c.path = ? order by c.version`);
  const latest = db.prepare(
    `select ${ENTRY} where c.namespace = ? and c.path > ?
       and c.version = (select max(v.version) from catalog v where v.namespace = c.namespace and v.path = c.path)
     order by c.path limit ?`,
  );
  return {
    entry(namespace: string, path: string, version: number | null): CatalogEntry | null {
      const row = version === null ? last.get(namespace, path) : one.get(namespace, path, version);
      return (row as CatalogEntry | undefined) ?? null;
    },
    versions: (namespace: string, path: string) => all.all(namespace, path) as CatalogEntry[],
    latest: (namespace: string, after: string, limit: number) => latest.all(namespace, after, limit) as CatalogEntry[],
  };
}

function pushVerb(context: SqliteContext): SqliteVerb<NewCatalogEntry, CatalogEntry> {
  const { db, interned } = context;
  const read = catalogReader(context);
  const add = db.prepare(
    `insert into catalog (namespace, path, version, playbook, source, at, pushed_by) values (?, ?, ?, ?, ?, ?, ?)`,
  );

  function pushOne(entry: NewCatalogEntry): CatalogEntry {
    const { namespace, path, playbook, source, at, by } = entry;
    const last = read.entry(namespace, path, null);
    if (last !== null && last.source === source && last.playbook === playbook) return last;
    const no = interned.playbookNo(playbook, at);
    if (no === null) throw new PerdureError("store_refused", `playbook ${playbook} is not stored; save it first`);
    const version = (last?.version ?? 0) + 1;
    add.run(namespace, path, version, no, source, at, by);
    return { ...entry, version };
  }

  return {
    order: 2,
    run(items) {
      interned.dropSwept();
      return items.map(pushOne);
    },
  };
}

interface RemovedVersions {
  readonly namespace: string;
  readonly path: string;
  readonly version: number | null;
}

function removeVerb({ db }: SqliteContext): SqliteVerb<RemovedVersions, number> {
  const remove = db.prepare("delete from catalog where namespace = ?1 and path = ?2 and (?3 is null or version = ?3)");
  return {
    order: 3,
    run: (items) => items.map(({ namespace, path, version }) => Number(remove.run(namespace, path, version).changes)),
  };
}
