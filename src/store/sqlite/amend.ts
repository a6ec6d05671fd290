/** Applies operators' commands. Each comes with a pure function that decides it under the row's lock. */
import { type BudgetNow, NO_BUDGETS } from "../../core/decision/budget.ts";
import type { Command } from "../../core/job/command.ts";
import { JOB_STATES, type JobState } from "../../core/job/job.ts";
import type { JobTerms } from "../../core/job/redrive.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { letsThrough, namedParent } from "../family-rules.ts";
import type { Ledgers } from "../ledger.ts";
import type { AmendAnswer, DecideCommand, NamedParent, ParentNow } from "../store.ts";
import { hashOfPolicy, isCancel, type StoredJob, toFacts } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import { JOB_COLUMNS, ledgerBook, progressValues, toJob, UPDATE_PROGRESS } from "./rows.ts";
import { refusal, type SqliteVerb } from "./writer.ts";

interface SqliteAmendItem {
  readonly jobId: string;
  readonly command: Command;
  readonly now: number;
  readonly decide: DecideCommand;
  /** The parent that issued the command; undefined if none did. */
  readonly parentId: string | undefined;
}

type AmendParentRow = [parent: string | null, state: number, attempt: number, cancelRequestedAt: number | null];

export function amendVerb({ db, interned, events }: SqliteContext): SqliteVerb<SqliteAmendItem, AmendAnswer> {
  const byId = db.prepare(`select ${JOB_COLUMNS} from job where id = ?`);
  byId.setReturnArrays(true);
  const update = db.prepare(UPDATE_PROGRESS);
  const book = ledgerBook({ db });

  const parentById = db.prepare("select parent, state, attempt, cancel_requested_at from job where id = ?");
  parentById.setReturnArrays(true);
  function parentNow(id: string | undefined): NamedParent | null {
    const line: ParentNow[] = [];
    for (let next = id ?? null; next !== null; ) {
      const row = parentById.get(next);
      if (row === undefined) break;
      const [parent, state, attempt, cancelRequestedAt] = row as unknown as AmendParentRow;
      const job = { state: JOB_STATES[state] as JobState, attempt, cancelRequestedAt };
      line.push(job);
      next = letsThrough(job) ? parent : null;
    }
    return namedParent(line);
  }

  function amendOne({ jobId, command, now, decide, parentId }: SqliteAmendItem): AmendAnswer {
    const row = byId.get(jobId);
    if (row === undefined) return { status: "unknown_job" };
    const job = toJob(row, interned);
    const ledgers = job.budget === null ? null : book.of(job.budget);
    const decision = decide(job, command, parentNow(parentId), ledgers?.budgets(job.budget) ?? NO_BUDGETS);
    if (decision.kind === "refuse") {
      return { status: "refused_command", message: decision.message, isBudget: decision.isBudget === true };
    }
    if (decision.kind === "noop") return { status: "noop", message: decision.message, job: toFacts(job) };
    const { next, event, terms, budgets } = decision;
    if (terms !== undefined) setTerms(job.no, terms, now);
    if (budgets !== undefined) setBudgets(job, budgets, ledgers);
    const changed = { ...job, ...terms };
    if (job.state === "running") keepRunning(job.no, next.cancelRequestedAt, next.revision);
    else update.run(...progressValues(changed, next, null));
    events.record(job, decision, now);
    if (job.state === "blocked") free.run(job.no);
    // A run asks its own steps to stop: a cascade would also cancel those of `finally`, which start later.
    if (isCancel(event) && job.kind !== RUN_KIND) passOn.run(job.no, job.id);
    else if (event.name === "job.redriven") takeBack.run(job.no);
    return { status: "applied", message: null, job: toFacts({ ...changed, ...next }) };
  }

  const addLedger = db.prepare("insert into budget (job, above, body) values (?, ?, ?)");
  const setLedger = db.prepare("update job set budget = no where no = ?");
  /** A job that had no budget gets a ledger. Children that already exist are not below it. */
  function setBudgets(job: StoredJob, budgets: readonly BudgetNow[], ledgers: Ledgers | null): void {
    if (ledgers !== null) {
      ledgers.limit(budgets, job.budget);
      book.write(ledgers);
    }
    const own = budgets.find(({ jobId }) => jobId === job.id);
    if (own === undefined || job.budget === job.no) return;
    addLedger.run(job.no, job.budget, JSON.stringify(own));
    setLedger.run(job.no);
  }

  const setTermsOf = db.prepare(
    "update job set policy = ?, priority = ?, timeout_ms = ?, expire_in = ?, deadline_at = ? where no = ?",
  );
  function setTerms(no: number, { policy, priority, timeoutMs, expireInMs, deadlineAt }: JobTerms, now: number): void {
    interned.dropSwept();
    const policyNo = interned.internPolicy(hashOfPolicy(policy), policy, now);
    setTermsOf.run(policyNo, priority, timeoutMs, expireInMs, deadlineAt, no);
  }

  const free = db.prepare("delete from blocked where job = ?");
  // Under the lock under which children are stored: no child can be added unnoticed.
  const passOn = db.prepare(
    "insert or ignore into cascade (job) select ?1 where exists (select 1 from job where parent = ?2)",
  );

  // A redrive cancels a cascade in progress: children that it has not reached continue.
  const takeBack = db.prepare("delete from cascade where job = ?");

  // A running job can only be requested to stop; the usage and progress of its session are kept.
  const ask = db.prepare("update job set cancel_requested_at = ?, revision = ? where no = ?");
  function keepRunning(no: number, cancelRequestedAt: number | null, revision: number): void {
    ask.run(cancelRequestedAt, revision, no);
  }

  function run(items: readonly SqliteAmendItem[]): AmendAnswer[] {
    const answers = items.map(amendOne);
    events.flush();
    return answers;
  }

  return { order: 1, run, refuse: (_item, error) => refusal(error) };
}
