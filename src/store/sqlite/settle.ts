/** Closes attempts: checks each report under the write lock and writes jobs, attempts, logs and events of the group
 *  together. */
import { SUSPECT_STREAK } from "../../core/decision/evidence.ts";
import { type Settlement, storedFailure, usageIn } from "../../core/job/lifecycle.ts";
import type { Report, SettleAnswer } from "../../core/worker-protocol.ts";
import { budgetsAtEnd, Ledgers } from "../ledger.ts";
import {
  type ClosedAttempt,
  isUnwanted,
  mayClose,
  nextCheck,
  type PauseSpan,
  repeatedAnswer,
  reportIdOf,
  type SessionLease,
} from "../settle-rules.ts";
import type { DecideReport } from "../store.ts";
import {
  isPlainRetry,
  isPlainSuccess,
  jsonOrNull,
  parseOrNull,
  STATE_CODES,
  type StoredJob,
  sessionIn,
} from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import { BulkInsert, type SqlValue } from "./driver.ts";
import { lossKeeper } from "./losses.ts";
import { JOB_COLUMNS, ledgerBook, progressValues, toJob, UPDATE_PROGRESS } from "./rows.ts";
import { refusal, type SqliteVerb } from "./writer.ts";

// Settles attempts: each report is checked against the row as it is now, decided by the pure function it came with,
// and written with its event. A report that does not fit changes nothing and is told what was recorded instead.

interface SqliteSettleItem {
  readonly report: Report;
  readonly now: number;
  readonly decide: DecideReport;
}

/** Jobs whose rows change in the same way, by the one value that is not in the row already. */
interface BatchedChanges {
  readonly succeeded: Map<number, number[]>;
  readonly retried: Map<number, number[]>;
}

export function settleVerb(context: SqliteContext): SqliteVerb<SqliteSettleItem, SettleAnswer> {
  const { db, interned, events, started, generation } = context;
  const byId = db.prepare(`select ${JOB_COLUMNS} from job where id in (select value from json_each(?))`);
  const revisions = db.prepare("select no, revision, live_usage from job where no in (select value from json_each(?))");
  for (const statement of [byId, revisions]) statement.setReturnArrays(true);
  const update = db.prepare(UPDATE_PROGRESS);
  // Most runs succeed, or fail and are charged, and move nothing but these; one statement serves all that ended at the
  // same instant, or are due again at the same one.
  const these = "where no in (select value from json_each(?))";
  const succeed = db.prepare(`update job set state = 3, finished_at = ?, revision = revision + 1 ${these}`);
  const retry = db.prepare(
    `update job set state = 0, run_at = ?, failures = failures + 1, revision = revision + 1 ${these}`,
  );
  const attempts = new BulkInsert(db, "attempt", [
    ...["job", "attempt", "chapter", "session", "started_at", "ended_at", "outcome", "failure", "usage", "result"],
    ...["report_id", "after_state", "after_reason", "after_run_at"],
  ]);
  const closed = db.prepare(
    "select report_id, outcome, after_state, after_reason, after_run_at from attempt where job = ? and attempt = ?",
  );
  const late = db.prepare(
    "insert or ignore into late_report (job, attempt, at, session, outcome) values (?, ?, ?, ?, ?)",
  );
  const lease = db.prepare("select renewed_at, lease_ends_at, ended_at from session where no = ?");
  const tell = db.prepare("update job set progress = ? where no = ?");
  const block = db.prepare("insert or replace into blocked (job, attempt, waits, since) values (?, ?, ?, ?)");
  const isOverdue = overdueCheck(context);
  const book = ledgerBook(context);
  const lossesOf = lossKeeper(context);
  const endTrial = db.prepare("update session set alone_until = null where no = ?");

  function run(items: readonly SqliteSettleItem[]): SettleAnswer[] {
    const jobs = read(items.map((item) => item.report.jobId));
    const rows: SqlValue[] = [];
    const together: BatchedChanges = { succeeded: new Map(), retried: new Map() };
    // Nearly always each report is of another job. Then nothing of this list need be remembered for its end.
    const alone = jobs.size === items.length;
    // The rows of attempts are written at the end, so a repeat within this group looks here first.
    const justClosed = new Map<string, ClosedAttempt>();
    const ledgers = new Ledgers();
    const losses = lossesOf(
      jobs.values(),
      items.map(({ report }) => report),
      items[0]?.now ?? 0,
    );
    const endOf = (job: StoredJob) => {
      book.learn(ledgers, job.budget);
      return budgetsAtEnd(ledgers, job);
    };

    const answers = items.map((item): SettleAnswer => {
      const { report } = item;
      const job = jobs.get(report.jobId);
      if (job === undefined) return { status: "unknown_job" };
      const held = heldBy(job);
      const { now } = item;
      if (!mayClose(job, { report, now, generation, held, isOverdue: () => isOverdue(job, now) })) {
        const before =
          justClosed.get(`${job.no}.${report.attempt}`) ??
          (closed.get(job.no, report.attempt) as ClosedAttempt | undefined);
        return answerLate(job, item, before ?? null);
      }
      const settlement = item.decide(job, report, {
        session: job.worker,
        renewedAt: held?.renewed_at ?? null,
        ended: held === null || held.ended_at !== null,
        usage: parseOrNull(job.liveUsage),
        budgets: endOf(job),
        crash: losses.crash(job, report),
      });
      losses.took(job, report);
      if (job.budget !== null) ledgers.spend(job.budget, usageIn(settlement));
      write(job, item, settlement, rows, alone ? together : null);
      const { state, reason, runAt } = settlement.next;
      const after_run_at = state === "queued" ? runAt : null;
      const answer = { status: "accepted", repeated: false, state, reason, runAt: after_run_at } as const;
      if (alone) return answer;
      jobs.set(job.id, { ...job, ...settlement.next, liveUsage: null });
      // A wait that ran out closes no attempt: the one before it was closed by another report, which may come again.
      if (job.state === "running") {
        const after = { after_state: STATE_CODES[state], after_reason: reason, after_run_at };
        justClosed.set(`${job.no}.${report.attempt}`, {
          report_id: reportIdOf(report),
          outcome: report.outcome.kind,
          ...after,
        });
      }
      return answer;
    });

    for (const [at, numbers] of together.succeeded) succeed.run(at, JSON.stringify(numbers));
    for (const [runAt, numbers] of together.retried) retry.run(runAt, JSON.stringify(numbers));
    attempts.run(rows);
    book.write(ledgers);
    events.flush();
    return answers;
  }

  /** The jobs as they are now, by id. Those that this connection started, and nobody has touched since, are known. */
  function read(ids: readonly string[]): Map<string, StoredJob> {
    const jobs = new Map<string, StoredJob>();
    const others: string[] = [];
    const known = new Map<number, StoredJob>();
    for (const id of ids) {
      const job = started.get(id);
      if (job === undefined) others.push(id);
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

  function heldBy(job: StoredJob): SessionLease | null {
    if (job.session === null) return null;
    const cached = sessionsSeen.get(job.session);
    if (cached !== undefined) return cached;
    const row = (lease.get(job.session) as SessionLease | undefined) ?? null;
    sessionsSeen.set(job.session, row);
    return row;
  }
  const sessionsSeen = new Map<number, SessionLease | null>();

  function answerLate(job: StoredJob, { report, now }: SqliteSettleItem, before: ClosedAttempt | null): SettleAnswer {
    const repeated = repeatedAnswer(report, before);
    if (repeated !== null) return repeated;
    // Kept once per attempt, so that people see that someone came too late, and with what.
    if (report.from.kind === "worker" && before !== null) {
      late.run(job.no, report.attempt, now, sessionIn(report.from.token), report.outcome.kind);
    }
    return { status: "stale", recorded: before?.outcome ?? null };
  }

  function write(
    job: StoredJob,
    item: SqliteSettleItem,
    made: Settlement,
    rows: SqlValue[],
    together: BatchedChanges | null,
  ): void {
    const { report, now } = item;
    const { next, event } = made;
    if (together !== null && isPlainSuccess(job, next)) {
      addTo(together.succeeded, now, job.no);
    } else if (together !== null && isPlainRetry(job, next)) {
      addTo(together.retried, next.runAt, job.no);
    } else {
      const avoid = isUnwanted(report) ? job.session : null;
      update.run(...progressValues(job, next, avoid));
    }
    events.add(job.no, next.revision, now, event.name, event.data);
    if (event.name === "attempt.waiting" && next.state === "blocked") {
      block.run(job.no, job.attempt, JSON.stringify(event.data.waitsFor), now);
    }
    if (report.log !== null) addLog(job.no, report.attempt, report.log);
    if (report.progress) tell.run(report.progress, job.no);
    if (job.state !== "running") return; // a wait that ran out is no attempt
    if (job.streak >= SUSPECT_STREAK) endTrial.run(job.session);
    const { outcome } = report;
    const failure = jsonOrNull(storedFailure(outcome, event));
    const usage = event.data as { usage?: object };
    rows.push(job.no, job.attempt, job.chapter, job.session, job.startedAt, now, outcome.kind, failure);
    rows.push(jsonOrNull(usage.usage ?? null), outcome.kind === "completed" ? outcome.result : null);
    rows.push(reportIdOf(report), STATE_CODES[next.state], next.reason, next.state === "queued" ? next.runAt : null);
  }

  const addLog = logWriter(context);
  return {
    order: 0,
    run(items) {
      sessionsSeen.clear();
      return run(items);
    },
    refuse: (_item, error) => refusal(error),
  };
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

// Asks the database for the pauses of a job's queue, and sets the sweep's next look.

function overdueCheck({ db }: SqliteContext): (job: StoredJob, now: number) => boolean {
  const pauses = db.prepare(
    `select from_at, to_at from past_pause where namespace = ?1 and queue = ?2 and to_at > ?3
     union all select paused_at, null from queue where namespace = ?1 and queue = ?2`,
  );
  const look = db.prepare("update job set check_at = ? where no = ?");

  return (job, now) => {
    const next = nextCheck(job, now, () => pauses.all(job.namespace, job.queue, job.runAt) as PauseSpan[]);
    if (next === null) return true;
    if (next !== undefined) look.run(next, job.no);
    return false;
  };
}
