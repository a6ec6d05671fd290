/** Reads one job and everything recorded about it. */
import type { BudgetNow } from "../../core/decision/budget.ts";
import type { JobEvent } from "../../core/job/event.ts";
import type { Job, Usage } from "../../core/job/job.ts";
import { rowName } from "../../core/job/job-name.ts";
import { storable } from "../../lib/text.ts";
import { serves } from "../lane.ts";
import { LATE_REPORTS } from "../pages.ts";
import {
  ATTEMPT_LOG,
  ATTEMPTS_CHARS,
  ATTEMPTS_PAGE,
  type AttemptLog,
  type AttemptRow,
  type AttemptsPage,
  type History,
  type JobRow,
  type LateReport,
  LOG_PAGE,
} from "../store.ts";
import { openFailure, parseOrNull, type StoredJob, toAnnotations, toFacts, toFailure } from "../stored-job.ts";
import { texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import type { PostgresEventReader } from "./event-reader.ts";
import { ledgerBook } from "./ledgers.ts";
import { COLUMN_COUNT, JOB_COLUMNS, learnRows, toJob } from "./rows.ts";
import { SESSION_COLUMNS, toSession } from "./sessions.ts";

export type PostgresReader = ReturnType<typeof reader>;

const OPEN_FAILURE = openFailure("j.chapter");

/** A run has no attempts: its result and its failure are in its row. */
export const RESULT = `case when j.state <> 3 then null
    when j.attempt = 0 then (select r.result from $s.run r where r.job = j.no)
    else (select a.result from $s.attempt a where a.job = j.no and a.attempt = j.attempt) end`;
/** Of a job that failed. */
export const FAILED = `coalesce(
    (select a.failure from $s.attempt a where a.job = j.no order by a.attempt desc limit 1),
    (select r.failure from $s.run r where r.job = j.no))`;

/** The columns for `toRows`: a job with its payload, annotations and the result of its winning attempt. */
export const ROW_COLUMNS = `${JOB_COLUMNS}, b.body, b.annotations,
  ${RESULT} as won, b.name,
  case
    when j.state = 4 then ${FAILED}
    when j.state < 3 and j.attempt > (case j.state when 1 then 1 else 0 end) then
      (select ${OPEN_FAILURE.column} from $s.attempt
       where job = j.no and ${OPEN_FAILURE.where} order by attempt desc limit 1)
  end as failed`;
/** Log pieces that an attempt row may show, if they are short. */
const LOG_PIECES = 1_000;
const FROM = "from $s.submission b join $s.job j on j.no = b.job";

export function reader(context: PostgresContext, eventsOf: PostgresEventReader["ofJob"]) {
  const { db, sql, interned } = context;
  const book = ledgerBook(context);
  const byId = sql("jobs", `select ${ROW_COLUMNS} ${FROM} where b.id = any ($1::text[])`);
  const factsById = sql("facts", `select ${JOB_COLUMNS} ${FROM} where b.id = any ($1::text[])`);
  const over = sql("ended", `select b.id ${FROM} where b.id = any ($1::text[]) and j.state + 0 >= 3`);
  const attemptRows = sql(
    "attempts",
    `select a.attempt, a.chapter, a.session, a.started_at, a.ended_at, a.outcome, a.failure, a.usage, a.result,
       (select string_agg(l.body, '' order by l.n) from (
         select n, body, sum(length(body)) over (order by n) - length(body) as before
         from $s.log_chunk where job = $1 and attempt = a.attempt order by n limit ${LOG_PIECES}) l
        where l.before < ${ATTEMPT_LOG})
     from (
       select *, sum(chars) over (order by attempt) - chars as before from (
         select *, coalesce(length(failure), 0) + coalesce(length(result), 0) as chars
         from $s.attempt where job = $1 and attempt > $2 order by attempt limit $3) p
     ) a where a.before < ${ATTEMPTS_CHARS} order by a.attempt`,
  );
  const logOf = sql(
    "log",
    `select a.attempt, p.body, p.n from $s.submission b, lateral
       (select coalesce($2::int, (select max(m.attempt) from $s.log_chunk m where m.job = b.job)) as attempt) a, lateral
       (select string_agg(l.body, '' order by l.n) as body, max(l.n) as n from
         (select n, body from $s.log_chunk where job = b.job and attempt = a.attempt and n > $3::int order by n limit $4) l) p
     where b.id = $1`,
  );
  const lateRows = sql(
    "late",
    `select attempt, at, session, outcome from $s.late_report where job = $1 order by attempt desc limit ${LATE_REPORTS}`,
  );
  const pausedAt = sql("paused_at", "select paused_at from $s.queue where namespace = $1 and queue = $2");
  const isLive = "reaped = 0 and ended_at is null and namespace = $1";
  const live = sql("sessions_live", `select count(*)::int from $s.session where ${isLive}`);
  // Only rows whose text contains the kind are parsed: there may be many sessions with many kinds.
  const liveFor = sql(
    "sessions_live_for",
    `select ${SESSION_COLUMNS}, 0 from $s.session where ${isLive} and position($2::text in kinds) > 0`,
  );
  const holder = sql("session_holder", "select 1 from $s.session where no = $1");

  async function known(ids: readonly string[]): Promise<StoredJob[]> {
    const found = await db.read(factsById, [texts(ids)]);
    const names = await learnRows(interned, found);
    return found.map((row) => toJob(row, names));
  }

  /** From rows with the columns of `ROW_COLUMNS`. */
  async function toRows(found: readonly PgRow[]): Promise<JobRow[]> {
    const names = await learnRows(interned, found);
    const jobs = found.map((row) => toJob(row, names));
    const covering = jobs.map(({ budget }) => budget);
    const ledgers = await book.read(covering, (statement, values) => db.read(statement, values));
    return jobs.map((job, i) =>
      shown(job, found[i]?.slice(COLUMN_COUNT) as unknown as PostgresRowExtras, ledgers.budgets(job.budget)),
    );
  }

  async function attempts(id: string, { after = 0, limit = ATTEMPTS_PAGE }: AttemptsPage = {}): Promise<AttemptRow[]> {
    const [job] = await known([id]);
    if (job === undefined) return [];
    const list = await db.read(attemptRows, [job.no, after, Math.min(limit, ATTEMPTS_PAGE)]);
    await interned.learn(
      [],
      [],
      list.map((row) => row[2] as number | null),
    );
    return list.map((r) => ({
      jobId: id,
      attempt: r[0] as number,
      chapter: r[1] as number,
      session: r[2] === null ? null : interned.sessionId(r[2] as number),
      startedAt: r[3] as number,
      endedAt: r[4] as number,
      outcome: r[5] as string,
      failure: parseOrNull(r[6] as string | null),
      usage: parseOrNull(r[7] as string | null),
      result: r[8] as string | null,
      log: r[9] === null ? null : storable(r[9] as string, ATTEMPT_LOG),
    }));
  }

  async function log(id: string, attempt: number | null, after = 0): Promise<AttemptLog | null> {
    const [[which, text, next] = []] = await db.read(logOf, [id, attempt, after, LOG_PAGE]);
    return typeof text !== "string" ? null : { attempt: which as number, text, next: next as number };
  }

  async function history(id: string, isWhole: boolean): Promise<History | null> {
    const [found] = await db.read(byId, [texts([id])]);
    if (found === undefined) return null;
    const job = toJob(found, await learnRows(interned, [found]));
    const [row] = await toRows([found]);
    const [events, late, paused, [[liveSessions] = []], maybe, held] = await Promise.all([
      isWhole ? eventsOf(job) : null,
      db.read(lateRows, [job.no]),
      db.read(pausedAt, [job.namespace, job.queue]),
      db.read(live, [job.namespace]),
      db.read(liveFor, [job.namespace, JSON.stringify(job.kind)]),
      db.read(holder, [job.session]),
    ]);
    return {
      job: row as JobRow,
      events: (events?.events ?? []) as JobEvent[],
      lateReports: late
        .reverse()
        .map(([attempt, at, session, outcome]) => ({ attempt, at, session, outcome }) as LateReport),
      capableSessions: maybe.map(toSession).filter((session) => serves(session, job)).length,
      liveSessions: liveSessions as number,
      queuePausedAt: (paused[0]?.[0] as number | undefined) ?? null,
      isOrphan: job.state === "running" && held.length === 0,
    };
  }

  return {
    toRows,
    attempts,
    log,
    known,
    history,
    async jobs(ids: readonly string[]): Promise<(JobRow | null)[]> {
      const found = new Map((await toRows(await db.read(byId, [texts(ids)]))).map((row) => [row.id, row]));
      return ids.map((id) => found.get(id) ?? null);
    },
    async facts(ids: readonly string[]): Promise<(Job | null)[]> {
      const found = new Map((await known(ids)).map((job) => [job.id, toFacts(job)]));
      return ids.map((id) => found.get(id) ?? null);
    },
    ended: async (ids: readonly string[]) => (await db.read(over, [texts(ids)])).map(([id]) => id as string),
  };
}

/** Payload, annotations, result, name and failure. */
type PostgresRowExtras = readonly [string, string | null, string | null, string | null, string | null];

function shown(
  job: StoredJob,
  [payload, noted, result, given, failed]: PostgresRowExtras,
  budgets: readonly BudgetNow[],
): JobRow {
  const { no: _no, lane: _lane, session: _session, liveUsage: live, budget: _budget, run: _run, ...row } = job;
  const annotations = toAnnotations(noted);
  const name = rowName({ name: given, kind: job.kind, annotations, payload });
  const liveUsage = parseOrNull<Usage>(live);
  return { ...row, payload, result, annotations, name, failure: toFailure(failed), liveUsage, budgets };
}
