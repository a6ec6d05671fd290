/** Settles attempts the slow way: rows are locked, read, decided and written in one transaction. */
import { SUSPECT_STREAK } from "../../core/decision/evidence.ts";
import type { SettleAnswer } from "../../core/worker-protocol.ts";
import type { ColumnType, RowValues } from "../job-row.ts";
import type { Ledgers } from "../ledger.ts";
import {
  ATTEMPT_COLUMNS,
  addAttempt,
  avoidedSession,
  type ClosedAttempt,
  type LateAttemptReport,
  type PauseSpan,
  planSettle,
  type SessionLease,
  type SettleFacts,
  type SettleItem,
  type SettleMove,
  type SettlePlan,
  waitsOf,
} from "../plan/settle.ts";
import type { StoredJob } from "../stored-job.ts";
import { bigints, columnArrays, ints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow, PgValue } from "./driver.ts";
import { type GroupVerb, refusal } from "./group.ts";
import { ledgerBook } from "./ledgers.ts";
import { lossKeeper } from "./losses.ts";
import { JOB_COLUMNS, learnRows, type Move, moveValues, toJob, WRITE_MOVES } from "./rows.ts";
import { logStatement } from "./settle.ts";

const ATTEMPT_TYPES: readonly ColumnType[] = [
  ...(["bigint", "int", "int", "int", "bigint", "bigint", "text", "text", "text", "text"] as const),
  ...(["text", "smallint", "text", "bigint"] as const),
];

interface LockedFacts extends SettleFacts {
  readonly ledgers: Ledgers;
}

export function lockedSettleVerb(context: PostgresContext): GroupVerb<SettleItem, SettleAnswer> {
  const { db, sql, interned, generation, marks, started, wrote } = context;
  const book = ledgerBook(context);
  const losses = lossKeeper(context);
  const lock = sql(
    "settle_lock",
    `select ${JOB_COLUMNS} from $s.submission b join $s.job j on j.no = b.job where b.id = any ($1::text[])
     order by j.no for update of j`,
  );
  // Renewals and the reaper exclude each other: the second one sees what the first did.
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
    `insert into $s.attempt (${ATTEMPT_COLUMNS.join(", ")})
     select * from unnest(${ATTEMPT_TYPES.map((type, i) => `$${i + 1}::${type}[]`).join(", ")})`,
  );
  const check = sql(
    "settle_check",
    `update $s.job j set check_at = m.check_at from unnest($1::bigint[], $2::bigint[]) as m (no, check_at)
     where j.no = m.no`,
  );
  const addLate = sql(
    "settle_late",
    `insert into $s.late_report (job, attempt, at, session, outcome)
     select * from unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[], $5::text[]) on conflict do nothing`,
  );
  const setProgress = sql(
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
    const found = [...jobs.values()];
    const sessions = new Set<number>();
    for (const { session } of found) if (session !== null) sessions.add(session);
    // Only the reaper depends on the lease, and only it and the end of a suspect write to the session. Other reports
    // must not delay renewals.
    const isReaping = items.some(({ report }) => report.from.kind === "reaper");
    const hasSuspect = found.some(({ streak }) => streak >= SUSPECT_STREAK);
    const held = isReaping || hasSuspect ? lockLeases : readLeases;
    const leases = new Map<number, SessionLease>();
    for (const row of sessions.size === 0 ? [] : await connection.ask(held, [ints([...sessions])])) {
      const [no, renewed_at, lease_ends_at, ended_at] = row;
      leases.set(no as number, { renewed_at, lease_ends_at, ended_at } as SessionLease);
    }
    const closed = await readClosed(connection, items, jobs);
    const waiting = items.filter(({ report }) => report.from.kind === "expiry");
    const queues = new Set(waiting.map(({ report }) => jobs.get(report.jobId)?.queue ?? ""));
    const spans = queues.size === 0 ? [] : await connection.ask(pauses, [texts([...queues])]);
    const ledgers = await book.lock(
      found.map(({ budget }) => budget),
      connection.ask,
    );
    return {
      generation,
      jobs,
      lease: (session) => leases.get(session) ?? null,
      closed: (job, attempt) => closed.get(`${job.no}.${attempt}`) ?? null,
      pauses: (job) => pausesOf(job, spans),
      ledgers,
      ledgersOf: () => ledgers,
      losses: await losses.of(connection, found, items),
    };
  }

  async function readClosed(
    connection: PgConnection,
    items: readonly SettleItem[],
    jobs: ReadonlyMap<string, StoredJob>,
  ): Promise<ReadonlyMap<string, ClosedAttempt>> {
    const numbers: number[] = [];
    const attempts: number[] = [];
    for (const { report } of items) {
      const job = jobs.get(report.jobId);
      if (job === undefined) continue;
      numbers.push(job.no);
      attempts.push(report.attempt);
    }
    const closed = new Map<string, ClosedAttempt>();
    for (const row of await connection.ask(closedAttempts, [bigints(numbers), ints(attempts)])) {
      const [job, attempt, report_id, outcome, after_state, after_reason, after_run_at] = row;
      const end = { report_id, outcome, after_state, after_reason, after_run_at } as ClosedAttempt;
      closed.set(`${job}.${attempt}`, end);
    }
    return closed;
  }

  async function settleAll(connection: PgConnection, items: readonly SettleItem[]): Promise<SettleAnswer[]> {
    const facts = await read(connection, items);
    const plan = planSettle(items, facts);
    for (const round of roundsOf(plan)) await writeMoves(connection, round);
    await losses.write(connection, facts.losses, items[0]?.now ?? 0);
    await book.write(facts.ledgers, connection.ask);
    const { nextChecks, late } = plan;
    if (nextChecks.size > 0) {
      await connection.ask(check, [bigints([...nextChecks.keys()]), bigints([...nextChecks.values()])]);
    }
    if (late.length > 0) await connection.ask(addLate, lateValues(late));
    for (const { job, settlement } of plan.moves) {
      const { state, runAt } = settlement.next;
      if (state === "queued") marks.put(job.lane, job.priority, runAt);
    }
    return plan.answers;
  }

  async function writeMoves(connection: PgConnection, moves: readonly SettleMove[]): Promise<void> {
    if (moves.length === 0) return;
    const sorted = moves.toSorted((a, b) => a.job.no - b.job.no);
    await connection.ask(write, moveValues(sorted.map(toMove)));
    const attempts: RowValues = [];
    for (const move of sorted) addAttempt(attempts, move);
    if (attempts.length > 0) await connection.ask(close, columnArrays(attempts, ATTEMPT_TYPES));
    const blocked: RowValues = [];
    const logs: RowValues = [];
    const progress: RowValues = [];
    for (const move of sorted) {
      const { no, attempt } = move.job;
      const { report, now } = move.item;
      const waits = waitsOf(move);
      if (waits !== null) blocked.push(no, attempt, waits, now);
      if (report.log !== null) logs.push(no, report.attempt, report.log);
      if (report.progress) progress.push(no, report.progress);
    }
    if (blocked.length > 0) await connection.ask(block, columnArrays(blocked, ["bigint", "int", "text", "bigint"]));
    if (logs.length > 0) await connection.ask(addLogs, columnArrays(logs, ["bigint", "int", "text"]));
    if (progress.length > 0) await connection.ask(setProgress, columnArrays(progress, ["bigint", "text"]));
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

/** A statement changes a row once: further reports of a job are written in the next round. */
function roundsOf({ moves, oncePerJob }: SettlePlan): readonly (readonly SettleMove[])[] {
  if (oncePerJob) return [moves];
  const rounds: SettleMove[][] = [];
  let seen = new Set<number>();
  for (const move of moves) {
    if (rounds.length === 0 || seen.has(move.job.no)) {
      rounds.push([]);
      seen = new Set();
    }
    seen.add(move.job.no);
    rounds.at(-1)?.push(move);
  }
  return rounds;
}

function toMove(move: SettleMove): Move {
  return { job: move.job, change: move.settlement, at: move.item.now, avoidSession: avoidedSession(move) };
}

/** `rows` are the pauses of some queues. */
function pausesOf(job: StoredJob, rows: readonly PgRow[]): PauseSpan[] {
  const spans: PauseSpan[] = [];
  for (const [namespace, queue, from_at, to_at] of rows) {
    if (namespace !== job.namespace || queue !== job.queue) continue;
    if (to_at === null || (to_at as number) > job.runAt) spans.push({ from_at, to_at } as PauseSpan);
  }
  return spans;
}

function lateValues(list: readonly LateAttemptReport[]): PgValue[] {
  return [
    bigints(list.map(({ job }) => job)),
    ints(list.map(({ attempt }) => attempt)),
    bigints(list.map(({ at }) => at)),
    texts(list.map(({ session }) => session)),
    texts(list.map(({ outcome }) => outcome)),
  ];
}
