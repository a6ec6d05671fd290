/** Deletes compiled playbooks that nothing names: neither a run, nor the sub-playbooks that a run is pinned to, nor the catalog; and
 *  then the assets that no playbook names. Pins are read a slice at a time, as each run has its own. */
import { texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import { LONG } from "./driver.ts";

/** Playbooks in one sweep, and runs scanned per call. */
const MAX_CANDIDATES = 1_000;
const SLICE = 20_000;

interface PlaybookSweep {
  readonly unusedBefore: number;
  readonly hashes: Set<string>;
  after: number;
}

export function playbookSweeper({ db, sql: statement }: PostgresContext) {
  const sql = (name: string, text: string) => statement(name, text, LONG);
  const unnamed = `p.used_at < $1 and not exists (select from $s.catalog c where c.playbook = p.no)
    and not exists (select from $s.run r where r.playbook = p.no)`;
  const unused = sql(
    "sweep_playbooks",
    `select p.hash from $s.playbook p where ${unnamed} order by p.no limit ${MAX_CANDIDATES}`,
  );
  const pinned = sql(
    "sweep_pins",
    `select max(d.run), count(distinct d.run)::int, string_agg(distinct p.value, ' ')
     from (select run, pins from $s.run_data where run > $1 order by run limit ${SLICE}) d
     left join lateral json_each_text(d.pins::json) p on true`,
  );
  // Whoever saves a playbook with assets waits for this, or was first and is seen.
  const lock = sql("sweep_lock_assets", "lock table $s.asset in share row exclusive mode");
  const drop = sql(
    "sweep_drop_playbooks",
    `delete from $s.playbook p where ${unnamed} and p.hash = any ($2::text[]) returning p.body`,
  );
  const dropAssets = sql(
    "sweep_drop_assets",
    `delete from $s.asset a where exists (select from unnest($1::text[]) as gone (body) where position(a.hash in gone.body) > 0)
     and not exists (select from $s.playbook p where position(a.hash in p.body) > 0)`,
  );
  let sweep: PlaybookSweep | null = null;

  /** Returns whether more remains to be scanned. */
  return async (unusedBefore: number | undefined): Promise<boolean> => {
    if (unusedBefore === undefined) return false;
    if (sweep === null) {
      const hashes = (await db.read(unused, [unusedBefore])).map(([hash]) => hash as string);
      sweep = { unusedBefore, hashes: new Set(hashes), after: 0 };
    }
    const mine = sweep;
    if (mine.hashes.size > 0) {
      const [[last, runs, named] = []] = await db.read(pinned, [mine.after]);
      for (const hash of String(named ?? "").split(" ")) mine.hashes.delete(hash);
      mine.after = (last as number | null) ?? mine.after;
      if (mine.hashes.size > 0 && runs === SLICE) return true;
    }
    sweep = null;
    if (mine.hashes.size === 0) return false;
    await db.transaction(
      async ({ ask }) => {
        await ask(lock);
        const bodies = await ask(drop, [mine.unusedBefore, texts([...mine.hashes])]);
        if (bodies.length > 0) await ask(dropAssets, [texts(bodies.map(([body]) => body as string))]);
      },
      { repeat: true },
    );
    return false;
  };
}
