/** Before due jobs are started: those that a budget covers reserve what they are estimated to spend, or fail where a budget above
 *  them has too little left. Nothing is read for jobs without a budget. */
import { startJob } from "../../core/lifecycle.ts";
import { Ledgers } from "../ledger.ts";
import type { EndedJob } from "../store.ts";
import type { Context } from "./context.ts";
import { ledgerBook } from "./ledgers.ts";
import { JOB_COLUMNS, progressValues, toJob, UPDATE_PROGRESS } from "./rows.ts";

type Due = readonly [no: number, runAt: number, streak: number, budget: number | null];

interface Admitted<Row> {
  readonly may: readonly Row[];
  readonly overBudget: readonly EndedJob[];
}

const NONE: readonly EndedJob[] = [];

export function admission({ db, interned, events }: Context) {
  const book = ledgerBook({ db });
  const byNo = db.prepare(`select ${JOB_COLUMNS} from job where no = ?`);
  byNo.setReturnArrays(true);
  const update = db.prepare(UPDATE_PROGRESS);

  return <Row extends Due>(found: readonly Row[], now: number): Admitted<Row> => {
    if (found.every(([, , , budget]) => budget === null)) return { may: found, overBudget: NONE };
    const ledgers = new Ledgers();
    const overBudget: EndedJob[] = [];
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
      events.add(no, ended.next.revision, now, ended.event.name, ended.event.data);
      overBudget.push({ jobId: job.id, parentId: job.parentId });
      return false;
    });
    book.write(ledgers);
    return { may, overBudget };
  };
}
