/** Deletes lanes and policies that no job names and nobody has used of late, a slice at a time: see `../names.ts`. What somebody's
 *  open transaction holds is no candidate: its jobs cannot be seen yet. */
import { MAX_CANDIDATES, NameSweep } from "../names.ts";
import { ints } from "./arrays.ts";
import type { Context } from "./context.ts";
import { LONG, type Row } from "./driver.ts";

/** Jobs of one call: some tens of milliseconds. */
const SLICE = 20_000;

export function nameSweeper({ db, sql }: Context): (unusedBefore: number | undefined) => Promise<boolean> {
  const unused = (table: "lane" | "policy", which = "true") =>
    sql(
      `sweep_${table}`,
      `select no from $s.${table} where used_at < $1 and ${which} order by no limit ${MAX_CANDIDATES}
       for update skip locked`,
      LONG,
    );
  // Lanes of single runs go with their jobs: see run-lanes.ts.
  const unusedLanes = unused("lane", "queue !~ '^run-[0-9a-f]{16}$'");
  const unusedPolicies = unused("policy");
  const jobs = sql(
    "sweep_jobs",
    `select max(no), count(*)::integer, array_to_json(array_agg(distinct lane))::text,
       array_to_json(array_agg(distinct policy))::text
     from (select no, lane, policy from $s.job where no > $1 order by no limit ${SLICE}) slice`,
    LONG,
  );
  // Used again since the sweep began: then it stays.
  const drop = (table: "lane" | "policy") =>
    sql(`sweep_drop_${table}`, `delete from $s.${table} where no = any ($1::int[]) and used_at < $2`, LONG);
  const [dropLanes, dropPolicies] = [drop("lane"), drop("policy")];
  const numbers = (rows: readonly Row[]) => rows.map(([no]) => no as number);
  let sweep: NameSweep | null = null;

  /** Whether there is more to be looked at. */
  return async (unusedBefore) => {
    if (unusedBefore === undefined) return false;
    // One that is under way is gone on with, whoever began it.
    if (sweep === null) {
      const lanes = numbers(await db.write(unusedLanes, [unusedBefore], { repeat: true }));
      const policies = numbers(await db.write(unusedPolicies, [unusedBefore], { repeat: true }));
      sweep = new NameSweep(unusedBefore, lanes, policies);
    }
    const mine = sweep;
    if (!mine.isEmpty) {
      const [[last, count, lanes, policies] = []] = await db.read(jobs, [mine.after]);
      mine.lanesMet(JSON.parse((lanes as string | null) ?? "[]") as number[]);
      mine.policiesMet(JSON.parse((policies as string | null) ?? "[]") as number[]);
      mine.after = (last as number | null) ?? mine.after;
      if (!mine.isEmpty && count === SLICE) return true;
    }
    if (mine.lanes.size > 0) await db.write(dropLanes, [ints([...mine.lanes]), mine.unusedBefore], { repeat: true });
    if (mine.policies.size > 0) {
      await db.write(dropPolicies, [ints([...mine.policies]), mine.unusedBefore], { repeat: true });
    }
    sweep = null;
    return false;
  };
}
