/** Settles attempts the long way: the rows are locked, read, decided on and written in one transaction. */
import { SUSPECT_STREAK } from "../../core/decision/evidence.ts";
import { type Settlement, storedFailure, usageIn } from "../../core/job/lifecycle.ts";
import type { Report, SettleAnswer } from "../../core/worker-protocol.ts";
import { budgetsAtEnd, type Ledgers } from "../ledger.ts";
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
import { jsonOrNull, parseOrNull, STATE_CODES, type StoredJob, sessionIn } from "../stored-job.ts";
import { bigints, ints, smallints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import { type GroupVerb, refusal } from "./group.ts";
import { ledgerBook } from "./ledgers.ts";
import { type Losses, lossKeeper } from "./losses.ts";
import { JOB_COLUMNS, learnRows, progressValues, toJob, WRITE_MOVES } from "./rows.ts";
import { logStatement, type SettleItem } from "./settle.ts";

interface LockedSettlement {
  readonly item: SettleItem;
  readonly job: StoredJob;
  readonly made: Settlement;
}

/** What was read under the locks. */
interface LockedFacts {
  readonly jobs: Map<string, StoredJob>;
  readonly leases: ReadonlyMap<number, SessionLease>;
  readonly closed: Map<string, ClosedAttempt>;
  readonly pauses: ReadonlyMap<string, readonly PauseSpan[]>;
  readonly ledgers: Ledgers;
  readonly losses: Losses;
}

export function lockedSettleVerb(context: PostgresContext): GroupVerb<SettleItem, SettleAnswer> {
  const { db, sql, interned, generation, marks, started, wrote } = context;
  const book = ledgerBook(context);
  const lossesOf = lossKeeper(context);
  const lock = sql(
    "settle_lock",
    `select ${JOB_COLUMNS} from $s.submission b join $s.job j on j.no = b.job where b.id = any ($1::text[])
     order by j.no for update of j`,
  );
  // A renewal waits for the reaper, and the reaper for a renewal: whoever is second sees what the first did.
  const lockLeases = sql(
    "settle_leases",
    "select no, renewed_at, lease_ends_at, ended_at from $s.session where no = any ($1::int[]) order by no for no key update",
  );
  const readLeases = sql(
    "settle_held",
    "select no, renewed_at, lease_ends_at, ended_at from $s.session where no = any ($1::int[])",
  );
  const closedAttempts = sql(
    "settle_closed",
    `select a.job, a.attempt, a.report_id, a.outcome, a.after_state, a.after_reason, a.after_run_at
     from unnest($1::bigint[], $2::int[]) as want (job, attempt)
     join $s.attempt a on a.job = want.job and a.attempt = want.attempt`,
  );
  const pauses = sql(
    "settle_pauses",
    `select namespace, queue, from_at, to_at from $s.past_pause where queue = any ($1::text[])
     union all select namespace, queue, paused_at, null from $s.queue where queue = any ($1::text[])`,
  );
  const write = sql("settle_write", WRITE_MOVES);
  const close = sql(
    "settle_close",
    `insert into $s.attempt (job, attempt, chapter, session, started_at, ended_at, outcome, failure, usage, result,
       report_id, after_state, after_reason, after_run_at)
     select * from unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::bigint[], $6::bigint[], $7::text[],
       $8::text[], $9::text[], $10::text[], $11::text[], $12::smallint[], $13::text[], $14::bigint[])`,
  );
  const look = sql(
    "settle_look",
    `update $s.job j set check_at = m.check_at from unnest($1::bigint[], $2::bigint[]) as m (no, check_at)
     where j.no = m.no`,
  );
  const late = sql(
    "settle_late",
    `insert into $s.late_report (job, attempt, at, session, outcome)
     select * from unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[], $5::text[]) on conflict do nothing`,
  );
  const tell = sql(
    "settle_progress",
    `update $s.job j set progress = m.progress from unnest($1::bigint[], $2::text[]) as m (no, progress)
     where j.no = m.no`,
  );
  const block = sql(
    "settle_block",
    `insert into $s.blocked (job, attempt, waits, since) select * from unnest($1::bigint[], $2::int[], $3::text[], $4::bigint[])
     on conflict (job) do update set attempt = excluded.attempt, waits = excluded.waits, since = excluded.since`,
  );
  const addLogs = sql("settle_logs", logStatement);

  async function read(connection: PgConnection, items: readonly SettleItem[]): Promise<LockedFacts> {
    const rows = await connection.ask(lock, [texts(items.map(({ report }) => report.jobId))]);
    const names = await learnRows(interned, rows, connection);
    const jobs = new Map(rows.map((row) => toJob(row, names)).map((job) => [job.id, job]));
    const sessions = new Set<number>();
    for (const { session } of jobs.values()) if (session !== null) sessions.add(session);
    // Only for the reaper does the lease decide, and only it and the end of a suspect write to the session. The others must
    // not keep renewals waiting.
    const isReaping = items.some(({ report }) => report.from.kind === "reaper");
    const hasSuspect = [...jobs.values()].some(({ streak }) => streak >= SUSPECT_STREAK);
    const held = isReaping || hasSuspect ? lockLeases : readLeases;
    const leases = sessions.size === 0 ? [] : await connection.ask(held, [ints([...sessions])]);
    const ofJobs = items.flatMap(({ report }) => {
      const no = jobs.get(report.jobId)?.no;
      return no === undefined ? [] : [{ no, attempt: report.attempt }];
    });
    const places = [bigints(ofJobs.map(({ no }) => no)), ints(ofJobs.map(({ attempt }) => attempt))];
    const closed = await connection.ask(closedAttempts, places);
    const waiting = items.filter(({ report }) => report.from.kind === "expiry");
    const queues = new Set(waiting.map(({ report }) => jobs.get(report.jobId)?.queue ?? ""));
    const spans = queues.size === 0 ? [] : await connection.ask(pauses, [texts([...queues])]);
    const byQueue = new Map<string, PauseSpan[]>();
    for (const [namespace, queue, from_at, to_at] of spans) {
      const name = JSON.stringify([namespace, queue]);
      byQueue.set(name, [...(byQueue.get(name) ?? []), { from_at, to_at } as PauseSpan]);
    }
    const ledgers = await book.lock(
      [...jobs.values()].map(({ budget }) => budget),
      connection.ask,
    );
    return {
      jobs,
      ledgers,
      losses: await lossesOf(
        connection,
        [...jobs.values()],
        items.map(({ report }) => report),
        items[0]?.now ?? 0,
      ),
      leases: new Map(
        leases.map(
          ([no, renewed_at, lease_ends_at, ended_at]) =>
            [no, { renewed_at, lease_ends_at, ended_at }] as [number, SessionLease],
        ),
      ),
      closed: new Map(
        closed.map(([job, attempt, report_id, outcome, after_state, after_reason, after_run_at]) => [
          `${job}.${attempt}`,
          { report_id, outcome, after_state, after_reason, after_run_at } as ClosedAttempt,
        ]),
      ),
      pauses: byQueue,
    };
  }

  async function settleAll(connection: PgConnection, items: readonly SettleItem[]): Promise<SettleAnswer[]> {
    const facts = await read(connection, items);
    const { jobs, leases, closed, pauses: spans, ledgers, losses } = facts;
    let made: LockedSettlement[] = [];
    const looks = new Map<number, number>();
    const lates: { job: StoredJob; item: SettleItem }[] = [];
    const answers: SettleAnswer[] = [];
    for (const item of items) {
      const { report, now } = item;
      const job = jobs.get(report.jobId);
      if (job === undefined) {
        answers.push({ status: "unknown_job" });
        continue;
      }
      const held = job.session === null ? null : (leases.get(job.session) ?? null);
      const isOverdue = () => {
        const inQueue = () => {
          const all = spans.get(JSON.stringify([job.namespace, job.queue])) ?? [];
          return all.filter(({ to_at }) => to_at === null || to_at > job.runAt);
        };
        const next = nextCheck(job, now, inQueue);
        if (typeof next === "number") looks.set(job.no, next);
        return next === null;
      };
      if (!mayClose(job, { report, now, generation, held, isOverdue })) {
        const before = closed.get(`${job.no}.${report.attempt}`) ?? null;
        const repeated = repeatedAnswer(report, before);
        if (repeated === null && report.from.kind === "worker" && before !== null) lates.push({ job, item });
        answers.push(repeated ?? { status: "stale", recorded: before?.outcome ?? null });
        continue;
      }
      const settlement = item.decide(job, report, {
        session: job.worker,
        renewedAt: held?.renewed_at ?? null,
        ended: held === null || held.ended_at !== null,
        usage: parseOrNull(job.liveUsage),
        budgets: budgetsAtEnd(ledgers, job),
        crash: losses.crash(job, report),
      });
      losses.took(job, report);
      ledgers.spend(job.budget, usageIn(settlement));
      const { state, reason, runAt } = settlement.next;
      const afterRunAt = state === "queued" ? runAt : null;
      answers.push({ status: "accepted", repeated: false, state, reason, runAt: afterRunAt });
      // The same job again in one list: what was decided first is written before the next is decided on.
      if (made.some((earlier) => earlier.job.no === job.no)) {
        await writeAll(connection, made);
        made = [];
      }
      made.push({ item, job, made: settlement });
      looks.delete(job.no);
      if (afterRunAt !== null) marks.put(job.lane, job.priority, afterRunAt);
      jobs.set(job.id, { ...job, ...settlement.next, liveUsage: null });
      if (job.state === "running") {
        const after = { after_state: STATE_CODES[state], after_reason: reason, after_run_at: afterRunAt };
        const { kind: outcome } = report.outcome;
        closed.set(`${job.no}.${report.attempt}`, { report_id: reportIdOf(report), outcome, ...after });
      }
    }
    await writeAll(connection, made);
    await losses.write(connection);
    await book.write(ledgers, connection.ask);
    if (looks.size > 0) await connection.ask(look, [bigints([...looks.keys()]), bigints([...looks.values()])]);
    if (lates.length > 0) await connection.ask(late, lateValues(lates));
    return answers;
  }

  async function writeAll(connection: PgConnection, list: readonly LockedSettlement[]): Promise<void> {
    if (list.length === 0) return;
    const sorted = list.toSorted((a, b) => a.job.no - b.job.no);
    const moves = sorted.map(({ item, job, made }) => ({
      job,
      next: made.next,
      avoidSession: isUnwanted(item.report) ? job.session : null,
    }));
    const events = [
      bigints(sorted.map(({ item }) => item.now)),
      texts(sorted.map(({ made }) => made.event.name)),
      texts(sorted.map(({ made }) => JSON.stringify(made.event.data))),
    ];
    await connection.ask(write, [...progressValues(moves), ...events]);
    const runs = sorted.filter(({ job }) => job.state === "running"); // a wait that ran out is no attempt
    if (runs.length > 0) await connection.ask(close, attemptValues(runs));
    const blocked = sorted.filter(({ made }) => made.next.state === "blocked");
    if (blocked.length > 0) await connection.ask(block, blockedValues(blocked));
    const logs = sorted.filter(({ item }) => item.report.log !== null);
    if (logs.length > 0) await connection.ask(addLogs, logValues(logs));
    const told = sorted.filter(({ item }) => item.report.progress);
    if (told.length > 0) {
      const values = [
        bigints(told.map(({ job }) => job.no)),
        texts(told.map(({ item }) => item.report.progress ?? null)),
      ];
      await connection.ask(tell, values);
    }
  }

  return {
    inFlight: 2,
    together: 500,
    async run(items) {
      for (const { report } of items) started.delete(report.jobId);
      const answers = await db.transaction((connection) => settleAll(connection, items), { repeat: true });
      wrote();
      return answers;
    },
    refuse: (_item, error) => refusal(error),
  };
}

function attemptValues(list: readonly LockedSettlement[]) {
  const usageOf = ({ made }: LockedSettlement) => jsonOrNull((made.event.data as { usage?: object }).usage ?? null);
  const failureOf = ({ item, made }: LockedSettlement) => jsonOrNull(storedFailure(item.report.outcome, made.event));
  const resultOf = ({ outcome }: Report) => (outcome.kind === "completed" ? outcome.result : null);
  return [
    bigints(list.map(({ job }) => job.no)),
    ints(list.map(({ job }) => job.attempt)),
    ints(list.map(({ job }) => job.chapter)),
    ints(list.map(({ job }) => job.session)),
    bigints(list.map(({ job }) => job.startedAt)),
    bigints(list.map(({ item }) => item.now)),
    texts(list.map(({ item }) => item.report.outcome.kind)),
    texts(list.map(failureOf)),
    texts(list.map(usageOf)),
    texts(list.map(({ item }) => resultOf(item.report))),
    texts(list.map(({ item }) => reportIdOf(item.report))),
    smallints(list.map(({ made }) => STATE_CODES[made.next.state])),
    texts(list.map(({ made }) => made.next.reason)),
    bigints(list.map(({ made }) => (made.next.state === "queued" ? made.next.runAt : null))),
  ];
}

/** Kept once per attempt, so that people see that someone came too late, and with what. */
function lateValues(list: readonly { job: StoredJob; item: SettleItem }[]) {
  const sessionOf = ({ from }: Report) => (from.kind === "worker" ? sessionIn(from.token) : null);
  return [
    bigints(list.map(({ job }) => job.no)),
    ints(list.map(({ item }) => item.report.attempt)),
    bigints(list.map(({ item }) => item.now)),
    texts(list.map(({ item }) => sessionOf(item.report))),
    texts(list.map(({ item }) => item.report.outcome.kind)),
  ];
}

function blockedValues(list: readonly LockedSettlement[]) {
  const waitsOf = ({ event }: Settlement) =>
    JSON.stringify((event.data as { waitsFor?: readonly string[] }).waitsFor ?? []);
  return [
    bigints(list.map(({ job }) => job.no)),
    ints(list.map(({ job }) => job.attempt)),
    texts(list.map(({ made }) => waitsOf(made))),
    bigints(list.map(({ item }) => item.now)),
  ];
}

function logValues(list: readonly LockedSettlement[]) {
  return [
    bigints(list.map(({ job }) => job.no)),
    ints(list.map(({ item }) => item.report.attempt)),
    texts(list.map(({ item }) => item.report.log)),
  ];
}
