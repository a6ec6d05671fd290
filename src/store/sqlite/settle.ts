/** Closes attempts: checks each report under the write lock, and writes the jobs, attempts, logs and events of the
 *  group together. */
import type { SettleAnswer } from "../../core/worker-protocol.ts";
import type { RowValues } from "../job-row.ts";
import { Ledgers } from "../ledger.ts";
import {
  ATTEMPT_COLUMNS,
  addAttempt,
  avoidedSession,
  type ClosedAttempt,
  type PauseSpan,
  planSettle,
  type SessionLease,
  type SettleFacts,
  type SettleItem,
  type SettlePlan,
  waitsOf,
} from "../plan/settle.ts";
import { isPlainRetry, isPlainSuccess, type StoredJob } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import { BulkInsert } from "./driver.ts";
import { lossKeeper } from "./losses.ts";
import { JOB_COLUMNS, ledgerBook, progressValues, toJob, UPDATE_PROGRESS } from "./rows.ts";
import { refusal, type SqliteVerb } from "./writer.ts";

export function settleVerb(context: SqliteContext): SqliteVerb<SettleItem, SettleAnswer> {
  const { db, interned, events, started, generation } = context;
  const byId = db.prepare(`select ${JOB_COLUMNS} from job where id in (select value from json_each(?))`);
  const revisions = db.prepare("select no, revision, live_usage from job where no in (select value from json_each(?))");
  for (const statement of [byId, revisions]) statement.setReturnArrays(true);
  const update = db.prepare(UPDATE_PROGRESS);
  // Most attempts succeed, or fail and are retried, and change only these columns; one statement serves all with the
  // same end or due time.
  const these = "where no in (select value from json_each(?))";
  const succeed = db.prepare(`update job set state = 3, finished_at = ?, revision = revision + 1 ${these}`);
  const retry = db.prepare(
    `update job set state = 0, run_at = ?, failures = failures + 1, revision = revision + 1 ${these}`,
  );
  const attempts = new BulkInsert(db, "attempt", ATTEMPT_COLUMNS);
  const closed = db.prepare(
    "select report_id, outcome, after_state, after_reason, after_run_at from attempt where job = ? and attempt = ?",
  );
  const late = db.prepare(
    "insert or ignore into late_report (job, attempt, at, session, outcome) values (?, ?, ?, ?, ?)",
  );
  const lease = db.prepare("select renewed_at, lease_ends_at, ended_at from session where no = ?");
  const setProgress = db.prepare("update job set progress = ? where no = ?");
  const block = db.prepare("insert or replace into blocked (job, attempt, waits, since) values (?, ?, ?, ?)");
  const check = db.prepare("update job set check_at = ? where no = ?");
  const pauses = db.prepare(
    `select from_at, to_at from past_pause where namespace = ?1 and queue = ?2 and to_at > ?3
     union all select paused_at, null from queue where namespace = ?1 and queue = ?2`,
  );
  const book = ledgerBook(context);
  const losses = lossKeeper(context);
  const addLog = logWriter(context);

  function run(items: readonly SettleItem[]): SettleAnswer[] {
    const jobs = read(items);
    const ledgers = new Ledgers();
    const leases = new Map<number, SessionLease | null>();
    const facts: SettleFacts = {
      generation,
      jobs,
      lease(session) {
        let found = leases.get(session);
        if (found === undefined) {
          found = (lease.get(session) as SessionLease | undefined) ?? null;
          leases.set(session, found);
        }
        return found;
      },
      closed: (job, attempt) => (closed.get(job.no, attempt) as ClosedAttempt | undefined) ?? null,
      pauses: (job) => pauses.all(job.namespace, job.queue, job.runAt) as PauseSpan[],
      ledgersOf(job) {
        book.learn(ledgers, job.budget);
        return ledgers;
      },
      losses: losses.of(jobs.values(), items),
    };
    const plan = planSettle(items, facts);
    writeMoves(plan);
    for (const [no, at] of plan.nextChecks) check.run(at, no);
    for (const { job, attempt, at, session, outcome } of plan.late) late.run(job, attempt, at, session, outcome);
    losses.write(facts.losses, items[0]?.now ?? 0);
    book.write(ledgers);
    events.flush();
    return plan.answers;
  }

  function writeMoves({ moves, oncePerJob }: SettlePlan): void {
    const rows: RowValues = [];
    const succeeded = new Map<number, number[]>();
    const retried = new Map<number, number[]>();
    for (const move of moves) {
      const { job, item, settlement } = move;
      const { report, now } = item;
      const { next } = settlement;
      if (oncePerJob && isPlainSuccess(job, next)) addTo(succeeded, now, job.no);
      else if (oncePerJob && isPlainRetry(job, next)) addTo(retried, next.runAt, job.no);
      else update.run(...progressValues(job, next, avoidedSession(move)));
      events.record(job, settlement, now);
      const waits = waitsOf(move);
      if (waits !== null) block.run(job.no, job.attempt, waits, now);
      if (report.log !== null) addLog(job.no, report.attempt, report.log);
      if (report.progress) setProgress.run(report.progress, job.no);
      addAttempt(rows, move);
    }
    for (const [at, numbers] of succeeded) succeed.run(at, JSON.stringify(numbers));
    for (const [runAt, numbers] of retried) retry.run(runAt, JSON.stringify(numbers));
    attempts.run(rows);
  }

  /** The current jobs by id. Jobs that this connection started and nobody changed since are not read again. */
  function read(items: readonly SettleItem[]): Map<string, StoredJob> {
    const jobs = new Map<string, StoredJob>();
    const others: string[] = [];
    const known = new Map<number, StoredJob>();
    for (const { report } of items) {
      const job = started.get(report.jobId);
      if (job === undefined) others.push(report.jobId);
      else known.set(job.no, job);
    }
    for (const row of known.size === 0 ? [] : revisions.all(JSON.stringify([...known.keys()]))) {
      const [no, revision, liveUsage] = row as [number, number, string | null];
      const job = known.get(no) as StoredJob;
      if (job.revision !== revision) others.push(job.id);
      else jobs.set(job.id, liveUsage === null ? job : { ...job, liveUsage });
    }
    for (const job of known.values()) started.delete(job.id);
    for (const row of others.length === 0 ? [] : byId.all(JSON.stringify(others))) {
      const job = toJob(row, interned);
      jobs.set(job.id, job);
    }
    return jobs;
  }

  return { order: 0, run, refuse: (_item, error) => refusal(error) };
}

function addTo(groups: Map<number, number[]>, key: number, no: number): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, [no]);
  else group.push(no);
}

/** Appends log text to an attempt. */
export function logWriter({ db }: SqliteContext): (job: number, attempt: number, text: string) => void {
  const add = db.prepare(
    `insert into log_chunk (job, attempt, n, body)
     select ?1, ?2, coalesce(max(n), 0) + 1, ?3 from log_chunk where job = ?1 and attempt = ?2`,
  );
  return (job, attempt, text) => {
    add.run(job, attempt, text);
  };
}
