/** Applies operators' commands. Each comes with a pure function that decides it under the row's lock. */
import type { BudgetNow } from "../../core/decision/budget.ts";
import type { Command, CommandDecision } from "../../core/job/command.ts";
import { JOB_STATES, type JobState } from "../../core/job/job.ts";
import type { JobTerms } from "../../core/job/redrive.ts";
import { limiter } from "../../lib/limiter.ts";
import { namedParent } from "../family-rules.ts";
import type { Ledgers } from "../ledger.ts";
import type { AmendAnswer, DecideCommand, NamedParent, ParentNow } from "../store.ts";
import { hashOfPolicy, type StoredJob, toFacts } from "../stored-job.ts";
import { texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import { writeJobEvents } from "./events.ts";
import { type GroupVerb, refusal } from "./group.ts";
import { ledgerBook } from "./ledgers.ts";
import { JOB_COLUMNS, learnRows, MOVED, MOVES, moveValues, SET_PROGRESS, toJob, writeMessages } from "./rows.ts";

export interface PostgresAmendItem {
  readonly jobId: string;
  readonly command: Command;
  readonly now: number;
  readonly decide: DecideCommand;
}

/** What a command finds under the locks. */
interface AmendTarget {
  readonly job: StoredJob;
  readonly parent: NamedParent | null;
  readonly ledgers: Ledgers;
}

type AppliedCommand = CommandDecision & { kind: "apply" };

interface PostgresAmendVerb extends GroupVerb<PostgresAmendItem, AmendAnswer> {
  /** Commands issued by a parent, each list in its own transaction: in a shared one, two groups could each lock the
   *  other's parents and children and deadlock. */
  runFor(parentId: string, items: readonly PostgresAmendItem[]): Promise<AmendAnswer[]>;
}

/** Concurrent transactions, of operators' and of parents' commands each: claims and reports need connections too. */
const IN_FLIGHT = 2;

export function amendVerb(context: PostgresContext): PostgresAmendVerb {
  const { db, sql, interned, marks, wrote } = context;
  const limited = limiter(IN_FLIGHT);
  const book = ledgerBook(context);
  const lock = sql(
    "amend_lock",
    `select ${JOB_COLUMNS} from $s.submission b join $s.job j on j.no = b.job where b.id = any ($1::text[])
     order by j.no for update of j`,
  );
  // From an ended job upwards, through all ancestors that let a cancel through. Ancestry never changes, so it may be
  // read before the rows are locked, upper ones first. Their state is read under the lock.
  const lockParent = sql(
    "amend_parent",
    `with recursive line as (
       select j.no, b.parent, 0 as height, j.state, j.cancel_requested_at
       from $s.submission b join $s.job j on j.no = b.job where b.id = $1
       union all
       select j.no, b.parent, l.height + 1, j.state, j.cancel_requested_at
       from line l join $s.submission b on b.id = l.parent join $s.job j on j.no = b.job
       where l.state + 0 >= 3 and l.cancel_requested_at is null
     )
     select l.height, j.state, j.attempt, j.cancel_requested_at from line l join $s.job j on j.no = l.no
     order by j.no for share of j`,
  );
  // A running job can only be requested to stop; the usage and progress of its session are kept.
  const move = sql(
    "amend",
    `with ${MOVES},
     asked as (
       update $s.job j set cancel_requested_at = m.cancel_requested_at, revision = j.revision + 1
       from m where j.no = m.no and j.revision = m.revision - 1 and j.state + 0 = 1
       returning ${MOVED}
     ),
     moved as (
       update $s.job j set ${SET_PROGRESS} from m where j.no = m.no and j.revision = m.revision - 1 and j.state + 0 <> 1
       returning ${MOVED}
     ),
     changed as materialized (select * from asked union all select * from moved),
     -- a blocked job stops waiting: nothing else changes its row
     freed as (delete from $s.blocked w using moved where w.job = moved.no),
     -- A run stops its steps by itself, and may start others after a cancel.
     -- Children are stored under the lock taken by the previous statement: this one sees all of them.
     passed as (
       insert into $s.cascade (job) select c.no from changed c join $s.submission b on b.job = c.no
       where c.event in ('job.cancelled', 'job.cancel_requested') and c.message is distinct from 'cancel'
         and exists (select from $s.submission child where child.parent = b.id and child.parent is not null)
       on conflict do nothing
     ),
     -- A redrive cancels a cascade in progress: children that it has not reached continue.
     taken_back as (delete from $s.cascade x using changed c where x.job = c.no and c.event = 'job.redriven'),
     ${writeMessages("changed")},
     ${writeJobEvents("changed", "at", "event", "data")}
     select 1 where false`,
  );

  const setJobTerms = sql("amend_job_terms", "update $s.job set policy = $2, priority = $3 where no = $1");
  const setSubmissionTerms = sql(
    "amend_submission_terms",
    "update $s.submission set timeout_ms = $2, expire_in = $3, deadline_at = $4 where job = $1",
  );
  async function setTerms(connection: PgConnection, no: number, terms: JobTerms, now: number): Promise<void> {
    const policy = await interned.policyWithin(connection.ask, hashOfPolicy(terms.policy), terms.policy, now);
    await connection.ask(setJobTerms, [no, policy, terms.priority]);
    await connection.ask(setSubmissionTerms, [no, terms.timeoutMs, terms.expireInMs, terms.deadlineAt]);
  }

  const addLedger = sql(
    "amend_ledger",
    `with made as (insert into $s.budget (job, above, body) values ($1, $2, $3) returning job)
     update $s.job j set budget = made.job from made where j.no = made.job`,
  );
  /** A job that had no budget gets a ledger. Children that already exist are not below it. */
  async function setBudgets(
    connection: PgConnection,
    job: StoredJob,
    budgets: readonly BudgetNow[],
    ledgers: Ledgers,
  ): Promise<void> {
    ledgers.limit(budgets, job.budget);
    const own = budgets.find(({ jobId }) => jobId === job.id);
    if (own === undefined || job.budget === job.no) return;
    await connection.ask(addLedger, [job.no, job.budget, JSON.stringify(own)]);
  }

  async function amendAll(
    connection: PgConnection,
    items: readonly PostgresAmendItem[],
    parent: NamedParent | null,
  ): Promise<AmendAnswer[]> {
    const rows = await connection.ask(lock, [texts(items.map((item) => item.jobId))]);
    const names = await learnRows(interned, rows, connection);
    const jobs = new Map(rows.map((row) => toJob(row, names)).map((job) => [job.id, job]));
    const redriven = items.filter(({ command: { kind } }) => kind === "redrive" || kind === "retry");
    const ledgers = await book.lock(
      redriven.map(({ jobId }) => jobs.get(jobId)?.budget ?? null),
      connection.ask,
    );
    const answers: AmendAnswer[] = [];
    for (const item of items) {
      const job = jobs.get(item.jobId);
      if (job === undefined) answers.push({ status: "unknown_job" });
      else answers.push(await amendOne(connection, item, { job, parent, ledgers }, jobs));
    }
    await book.write(ledgers, connection.ask);
    return answers;
  }

  async function amendOne(
    connection: PgConnection,
    { command, now, decide }: PostgresAmendItem,
    { job, parent, ledgers }: AmendTarget,
    jobs: Map<string, StoredJob>,
  ): Promise<AmendAnswer> {
    const decision = decide(job, command, parent, ledgers.budgets(job.budget));
    if (decision.kind === "refuse") {
      return { status: "refused_command", message: decision.message, isBudget: decision.isBudget === true };
    }
    if (decision.kind === "noop") return { status: "noop", message: decision.message, job: toFacts(job) };
    const { next, event, terms, budgets } = decision as AppliedCommand;
    if (terms !== undefined) await setTerms(connection, job.no, terms, now);
    if (budgets !== undefined) await setBudgets(connection, job, budgets, ledgers);
    const change = { next, event };
    await connection.ask(move, moveValues([{ job: { ...job, ...terms }, change, at: now, avoidSession: null }]));
    const changed = { ...job, ...terms, ...next };
    jobs.set(job.id, changed);
    if (next.state === "queued") marks.put(job.lane, changed.priority, next.runAt);
    return { status: "applied", message: null, job: toFacts(changed) };
  }

  return {
    inFlight: IN_FLIGHT,
    together: 500,
    async run(items) {
      const answers = await db.transaction((connection) => amendAll(connection, items, null));
      wrote();
      return answers;
    },
    async runFor(parentId, items) {
      const answers = await limited(() =>
        db.transaction(async (connection) => {
          const line = await connection.ask(lockParent, [parentId]);
          return amendAll(connection, items, parentNow(line));
        }),
      );
      wrote();
      return answers;
    },
    refuse: (_item, error) => refusal(error),
  };
}

function parentNow(line: readonly PgRow[]): NamedParent | null {
  const upwards = [...line].sort(([a], [b]) => Number(a) - Number(b));
  return namedParent(
    upwards.map(([, state, attempt, cancelRequestedAt]): ParentNow => {
      const at = cancelRequestedAt === null ? null : Number(cancelRequestedAt);
      return { state: JOB_STATES[Number(state)] as JobState, attempt: Number(attempt), cancelRequestedAt: at };
    }),
  );
}
