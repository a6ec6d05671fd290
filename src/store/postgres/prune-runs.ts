/** Deletes what is left of runs whose job was pruned: their steps with their jobs, a bounded number at a time. The row of such a run
 *  stays until then, in the phase `pruned`, which no run has otherwise: there is no job of it left to redrive. */
import { PRUNED } from "../run-row.ts";
import { bigints, ints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import { LONG } from "./driver.ts";

/** Deletes all rows of jobs, by their numbers and ids. */
export type DropJobs = (connection: PgConnection, numbers: readonly number[], ids: readonly string[]) => Promise<void>;

export function runPruner({ db, sql: statement }: PostgresContext, dropJobs: DropJobs) {
  const sql = (name: string, text: string) => statement(name, text, LONG);
  const mark = sql(
    "prune_run_mark",
    `update $s.run set phase = '${PRUNED}' where job = any ($1::bigint[]) returning job`,
  );
  const ofRun = [
    sql("prune_run_data", "delete from $s.run_data where run = any ($1::bigint[])"),
    sql("prune_run_variables", "delete from $s.variable where run = any ($1::bigint[])"),
    sql("prune_run_inbox", "delete from $s.inbox where job = any ($1::bigint[]) and kept = 0"),
    sql("prune_run_timers", "delete from $s.timer where job = any ($1::bigint[])"),
  ];
  const next = sql(
    "prune_run_next",
    `select job from $s.run where phase = '${PRUNED}' order by job limit 1 for update skip locked`,
  );
  const steps = sql("prune_run_steps", "select n, job from $s.step where run = $1 order by n limit $2");
  const dropSteps = sql("prune_run_step", "delete from $s.step where run = $1 and n = any ($2::int[])");
  const jobsOf = sql(
    "prune_run_jobs",
    `select j.no, b.id from $s.submission b join $s.job j on j.no = b.job
     where b.id = any ($2::text[]) and j.run = $1 and j.state + 0 >= 3 order by j.no for update of j`,
  );
  const drop = sql("prune_run_row", "delete from $s.run where job = $1");
  const left = sql("prune_run_left", `select exists (select from $s.run where phase = '${PRUNED}')`);

  /** To be called with pruned jobs; those that are runs keep their row until their steps are gone. */
  async function forget({ ask }: PgConnection, numbers: readonly number[]): Promise<void> {
    const runs = (await ask(mark, [bigints(numbers)])).map(([job]) => job as number);
    if (runs.length === 0) return;
    for (const each of ofRun) await ask(each, [bigints(runs)]);
  }

  async function pruneSome(connection: PgConnection, limit: number): Promise<string[] | null> {
    const [[run] = []] = await connection.ask(next);
    if (run === undefined) return null;
    const found = await connection.ask(steps, [run, limit]);
    const ids = found.flatMap(([, job]) => (job === null ? [] : [job as string]));
    const jobs = ids.length === 0 ? [] : await connection.ask(jobsOf, [run, texts(ids)]);
    const numbers = jobs.map(([no]) => no as number);
    const gone = jobs.map(([, id]) => id as string);
    if (numbers.length > 0) {
      await forget(connection, numbers);
      await dropJobs(connection, numbers, gone);
    }
    if (found.length > 0) await connection.ask(dropSteps, [run, ints(found.map(([n]) => n as number))]);
    if (found.length < limit) await connection.ask(drop, [run]);
    return gone;
  }

  return {
    forget,
    /** The ids of the deleted jobs, at most `limit`, and whether there is more. */
    async prune(limit: number): Promise<{ ids: string[]; more: boolean }> {
      const ids: string[] = [];
      for (let tries = 0; ids.length < limit && tries < limit; tries++) {
        const some = await db.transaction((connection) => pruneSome(connection, limit - ids.length), { repeat: true });
        if (some === null) break;
        ids.push(...some);
      }
      const [[more] = []] = await db.read(left);
      return { ids, more: more === true };
    },
  };
}
