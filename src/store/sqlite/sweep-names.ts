/** Deletes lanes and policies that no job names and nobody has used of late, a slice at a time: see `../names.ts`. The write lock
 *  is ours while a slice is looked at. */
import { MAX_CANDIDATES, NameSweep } from "../names.ts";
import type { Context } from "./context.ts";

/** Jobs of one call: about five milliseconds. */
const SLICE = 5_000;

export function nameSweeper({ db }: Context): (unusedBefore: number | undefined) => boolean {
  const unused = (table: "lane" | "policy") =>
    db.prepare(`select no from ${table} where used_at < ? order by no limit ${MAX_CANDIDATES}`);
  const [unusedLanes, unusedPolicies] = [unused("lane"), unused("policy")];
  const jobs = db.prepare(`select no, lane, policy from job not indexed where no > ? order by no limit ${SLICE}`);
  for (const statement of [unusedLanes, unusedPolicies, jobs]) statement.setReturnArrays(true);
  // Used again since the sweep began: then it stays.
  const drop = (table: "lane" | "policy") =>
    db.prepare(`delete from ${table} where no in (select value from json_each(?)) and used_at < ?`);
  const [dropLanes, dropPolicies] = [drop("lane"), drop("policy")];
  // Whoever still knows one of them asks for it: see `Interned.dropSwept`.
  const told = db.prepare(
    "insert into meta (name, value) values ('names_swept', 1) on conflict (name) do update set value = value + 1",
  );
  const numbers = (rows: unknown) => (rows as [number][]).map(([no]) => no);
  let sweep: NameSweep | null = null;

  /** Whether there is more to be looked at. */
  return (unusedBefore) => {
    if (unusedBefore === undefined) return false;
    // One that is under way is gone on with, whoever began it.
    sweep ??= new NameSweep(
      unusedBefore,
      numbers(unusedLanes.all(unusedBefore)),
      numbers(unusedPolicies.all(unusedBefore)),
    );
    const rows = sweep.isEmpty ? [] : (jobs.all(sweep.after) as unknown as [number, number, number][]);
    sweep.lanesMet(rows.map(([, lane]) => lane));
    sweep.policiesMet(rows.map(([, , policy]) => policy));
    sweep.after = rows.at(-1)?.[0] ?? sweep.after;
    if (!sweep.isEmpty && rows.length === SLICE) return true;
    const lanes = dropLanes.run(JSON.stringify([...sweep.lanes]), sweep.unusedBefore);
    const policies = dropPolicies.run(JSON.stringify([...sweep.policies]), sweep.unusedBefore);
    if (Number(lanes.changes) + Number(policies.changes) > 0) told.run();
    sweep = null;
    return false;
  };
}
