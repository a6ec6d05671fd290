/** What limits the due jobs that a claim may start: budgets above them, and cpu and memory held by running jobs of the
 *  host. */

import type { Resources } from "../../core/input/resources.ts";
import { startJob } from "../../core/job/lifecycle.ts";
import { hostName, type TakenResources } from "../lane-fairness.ts";
import { Ledgers } from "../ledger.ts";
import type { OverBudgetJob } from "../store.ts";
import type { SqliteContext } from "./context.ts";
import { JOB_COLUMNS, ledgerBook, progressValues, toJob, UPDATE_PROGRESS } from "./rows.ts";

// Before due jobs start, those covered by a budget reserve their estimated spending, or fail if a budget above them has
// too little left. Jobs without a budget cost no read.

type BudgetedRow = readonly [no: number, runAt: number, streak: number, budget: number | null];

interface SqliteAdmitted<Row> {
  readonly may: readonly Row[];
  readonly overBudget: readonly OverBudgetJob[];
}

const NONE: readonly OverBudgetJob[] = [];

export function admission({ db, interned, events }: SqliteContext) {
  const book = ledgerBook({ db });
  const byNo = db.prepare(`select ${JOB_COLUMNS} from job where no = ?`);
  byNo.setReturnArrays(true);
  const update = db.prepare(UPDATE_PROGRESS);

  return <Row extends BudgetedRow>(found: readonly Row[], now: number): SqliteAdmitted<Row> => {
    if (found.every(([, , , budget]) => budget === null)) return { may: found, overBudget: NONE };
    const ledgers = new Ledgers();
    const overBudget: OverBudgetJob[] = [];
    const may = found.filter(([no, , , budget]) => {
      if (budget === null) return true;
      const job = toJob(byNo.get(no), interned);
      book.learn(ledgers, budget);
      const ended = startJob(job, now, ledgers.budgets(budget));
      if (ended === null) {
        ledgers.start(job);
        return true;
      }
      update.run(...progressValues(job, ended.next, null));
      events.record(job, ended, now);
      overBudget.push({ jobId: job.id, parentId: job.parentId });
      return false;
    });
    book.write(ledgers);
    return { may, overBudget };
  };
}

// Cpu and memory held on a host: one row per running job with needs, written by its claim. A row counts only while its
// job runs that attempt, so code that ends attempts need not delete it.

/** The session that claims. */
interface HoldingSession {
  readonly no: number;
  readonly id: string;
  readonly namespace: string;
  readonly host: string;
}

export function holdKeeper({ db }: SqliteContext) {
  const sum = db.prepare(
    `select coalesce(sum(h.cpu), 0), coalesce(sum(h.memory), 0),
       coalesce(sum(iif(h.session = ?1, h.cpu, 0)), 0), coalesce(sum(iif(h.session = ?1, h.memory, 0)), 0)
     from hold h indexed by hold_host cross join job j on j.no = h.job
     where h.host = ?2 and j.state = 1 and j.attempt = h.attempt`,
  );
  sum.setReturnArrays(true);
  const dropEnded = db.prepare(
    `delete from hold indexed by hold_host where host = ? and not exists (
       select 1 from job j where j.no = hold.job and j.state = 1 and j.attempt = hold.attempt)`,
  );
  const add = db.prepare(
    `insert or replace into hold (job, attempt, session, host, cpu, memory)
     select no, attempt, ?, ?, ?, ? from job where no in (select value from json_each(?))`,
  );

  return {
    taken(holder: HoldingSession): TakenResources {
      const row = sum.get(holder.no, hostName(holder)) as [number, number, number, number];
      return { byHost: { cpu: row[0], memory: row[1] }, bySession: { cpu: row[2], memory: row[3] } };
    },
    /** Records the needs of jobs that were just started. */
    hold(holder: HoldingSession, jobs: readonly number[], { cpu, memory }: Resources): void {
      const host = hostName(holder);
      dropEnded.run(host);
      add.run(holder.no, host, cpu, memory, JSON.stringify(jobs));
    },
  };
}
