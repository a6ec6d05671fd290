/** Deletes what belongs to runs: the steps of a deleted run with their jobs, and definitions that nothing names. A run may have a
 *  hundred thousand steps, so they go in slices. Its job goes first: nobody can redrive a run of which a part is gone. */
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { PLAYBOOK_MARGIN_MS, PRUNED } from "../run-row.ts";
import type { SqliteContext } from "./context.ts";

/** Definitions deleted in one call. */
const PLAYBOOKS = 20;

export interface PrunedJob {
  readonly no: number;
  readonly id: string;
  readonly lane: number;
  readonly key: string | null;
}

export function runPruner({ db, interned }: SqliteContext) {
  const mark = db.prepare(`update run set phase = '${PRUNED}' where job in (select value from json_each(?))`);
  const of = (table: string, column: string, also = "") =>
    db.prepare(`delete from ${table} where ${column} in (select value from json_each(?))${also}`);
  const beside = [
    of("run_data", "run"),
    of("variable", "run"),
    of("inbox", "job", " and kept = 0"),
    of("timer", "job"),
  ];
  const next = db.prepare(`select job from run indexed by run_pruned where phase = '${PRUNED}' order by job limit 1`);
  const steps = db.prepare(
    `select s.n, j.no, j.id, j.lane, j.key from step s left join job j on j.id = s.job and j.run = s.run
     where s.run = ? order by s.n limit ?`,
  );
  const dropSteps = db.prepare("delete from step where run = ? and n <= ?");
  const dropRun = db.prepare("delete from run where job = ?");

  /** The jobs of runs among these are deleted: the rest of them follows. */
  function forget(jobs: readonly PrunedJob[]): void {
    const runs = jobs.filter(({ lane }) => interned.lane(lane).kind === RUN_KIND).map(({ no }) => no);
    if (runs.length === 0) return;
    const numbers = JSON.stringify(runs);
    mark.run(numbers);
    for (const statement of beside) statement.run(numbers);
  }

  /** Deletes steps of deleted runs: at most `limit`. `remove` deletes their jobs. */
  function drop(limit: number, remove: (jobs: readonly PrunedJob[]) => void): void {
    for (let left = limit; left > 0; ) {
      const run = (next.get() as { job: number } | undefined)?.job;
      if (run === undefined) return;
      const rows = steps.all(run, left) as (PrunedJob & { n: number })[];
      left -= Math.max(1, rows.length);
      const last = rows.at(-1);
      if (last === undefined) {
        dropRun.run(run);
        continue;
      }
      remove(rows.filter(({ no }) => no !== null));
      dropSteps.run(run, last.n);
    }
  }

  return { forget, drop, hasMore: () => next.get() !== undefined };
}

/** Deletes definitions that no run and no catalog entry names. Those of sub-playbooks are only named in the `pins` of a run, and
 *  were in use when it was submitted: so what was used since the oldest run was is kept. */
export function playbookSweeper({ db }: SqliteContext): (unusedBefore: number) => void {
  const oldest = db.prepare(
    "select j.submitted_at as at from run r cross join job j on j.no = r.job order by r.job limit 1",
  );
  const unused = db.prepare(
    `select no, body from playbook p where used_at < ?
       and not exists (select 1 from run indexed by run_playbook where run.playbook = p.no)
       and not exists (select 1 from catalog indexed by catalog_playbook where catalog.playbook = p.no)
     order by no limit ${PLAYBOOKS}`,
  );
  const drop = db.prepare("delete from playbook where no = ?");
  const assetsIn = db.prepare("select hash from asset where instr(?, hash) > 0");
  const isNamed = db.prepare("select 1 from playbook where instr(body, ?) > 0 limit 1");
  const dropAsset = db.prepare("delete from asset where hash = ?");
  const countSweep = db.prepare(
    "insert into meta (name, value) values ('names_swept', 1) on conflict (name) do update set value = value + 1",
  );

  return (unusedBefore) => {
    const first = (oldest.get() as { at: number } | undefined)?.at ?? Number.MAX_SAFE_INTEGER;
    const rows = unused.all(Math.min(unusedBefore, first - PLAYBOOK_MARGIN_MS)) as { no: number; body: string }[];
    if (rows.length === 0) return;
    for (const { no } of rows) drop.run(no);
    const assets = new Set(
      rows.flatMap(({ body }) => (assetsIn.all(body) as { hash: string }[]).map((row) => row.hash)),
    );
    for (const hash of assets) if (isNamed.get(hash) === undefined) dropAsset.run(hash);
    countSweep.run();
  };
}
