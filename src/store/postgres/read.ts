/** Reads one job and everything recorded about it. */
import type { BudgetNow } from "../../core/decision/budget.ts";
import type { JobEvent, PerdureEvent } from "../../core/job/event.ts";
import { currentEvent } from "../../core/job/event-formats.ts";
import type { Job, Usage } from "../../core/job/job.ts";
import { rowName } from "../../core/job/job-name.ts";
import { storable } from "../../lib/text.ts";
import { serves } from "../lane.ts";
import {
  charsOf,
  type EventScan,
  eventScanOf,
  type FoundEvents,
  LATE_REPORTS,
  namespacePage,
  SCAN_EVENTS,
  type SeqRange,
  seqRange,
  wholePage,
} from "../pages.ts";
import {
  ATTEMPT_LOG,
  ATTEMPTS_CHARS,
  ATTEMPTS_PAGE,
  type AttemptLog,
  type AttemptRow,
  type AttemptsPage,
  type EventOrder,
  type EventPage,
  type EventQuery,
  type History,
  type JobRow,
  type LateReport,
  LOG_PAGE,
} from "../store.ts";
import { openFailure, parseOrNull, type StoredJob, toAnnotations, toFacts, toFailure } from "../stored-job.ts";
import { texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import { Watermark } from "./events.ts";
import { ledgerBook } from "./ledgers.ts";
import { COLUMN_COUNT, JOB_COLUMNS, learnRows, toJob } from "./rows.ts";
import { SESSION_COLUMNS, toSession } from "./sessions.ts";

export type PostgresReader = ReturnType<typeof reader>;

const OPEN_FAILURE = openFailure("j.chapter");

/** The columns for `toRows`: a job with its payload, annotations and the result of its winning attempt. */
export const ROW_COLUMNS = `${JOB_COLUMNS}, b.body, b.annotations,
  case when j.state = 3 then (select a.result from $s.attempt a where a.job = j.no and a.attempt = j.attempt) end as won, b.name,
  case
    when j.state = 4 then (select a.failure from $s.attempt a where a.job = j.no order by a.attempt desc limit 1)
    when j.state < 3 and j.attempt > (case j.state when 1 then 1 else 0 end) then
      (select ${OPEN_FAILURE.column} from $s.attempt
       where job = j.no and ${OPEN_FAILURE.where} order by attempt desc limit 1)
  end as failed`;
/** Log pieces that an attempt row may show, if they are short. */
const LOG_PIECES = 1_000;
const FROM = "from $s.submission b join $s.job j on j.no = b.job";

export function reader(context: PostgresContext) {
  const { db, sql, interned } = context;
  const feed = new Watermark(context);
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
  const eventReads = { oldest: eventStatements("asc", "max"), newest: eventStatements("desc", "min") };
  const last = sql("last_seq", "select max(seq) from $s.event where seq <= $1");
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

  function eventStatements(direction: "asc" | "desc", last: "max" | "min") {
    const between = "e.seq > $1 and e.seq < $2";
    // The first rows, up to a number of characters; the row that exceeds it is the last.
    const page = (name: string, most: string, rows: string, by = "seq") =>
      sql(
        `${name}_${direction}`,
        `select seq, id, n, at, name, data, chars from (
           select r.*, sum(chars) over (order by ${by} ${direction} rows unbounded preceding) as chars_so_far
           from (select e.seq, e.n, e.at, e.name, e.data, length(e.data)::int as chars, ${rows}) r
         ) p where chars_so_far - chars < ${most}::bigint order by ${by} ${direction}`,
      );
    return {
      all: page(
        "events",
        "$4",
        `b.id from $s.event e left join $s.submission b on b.job = e.job
         where ${between} order by e.seq ${direction} limit $3`,
      ),
      // A job's events are written under its row's lock, so they have no gaps. By `n`, the job's index: a page costs
      // the same wherever it starts.
      ofJob: page(
        "events_of_job",
        "$6",
        `$4::text as id from $s.event e where job = $3 and job is not null and ${between}
         and n > coalesce((select x.n from $s.event x where x.seq = $1 and x.job = $3), 0)
         and n < coalesce((select x.n from $s.event x where x.seq = $2 and x.job = $3), 2147483647)
         order by n ${direction} limit $5`,
        "n",
      ),
      // First the last of the next events to scan, then the matches among them.
      scanEnd: sql(
        `events_scan_${direction}`,
        `select ${last}(seq), count(*) from
           (select seq from $s.event e where ${between} order by seq ${direction} limit $3) scanned`,
      ),
      ofNamespace: page(
        "events_of_namespace",
        "$5",
        `b.id from $s.event e
         left join $s.submission b on b.job = e.job left join $s.lane l on l.no = b.lane
         where ${between} and (e.job is null or l.namespace = $3) order by e.seq ${direction} limit $4`,
      ),
    };
  }

  async function eventsOf(job: StoredJob, query: EventQuery): Promise<FoundEvents> {
    const limit = query.limit < 0 ? null : query.limit;
    const { after, before } = seqRange(query);
    const { ofJob } = eventReads[query.order ?? "oldest"];
    return foundIn(await db.read(ofJob, [after, before, job.no, job.id, limit, charsOf(query)]));
  }

  async function eventPage(query: EventQuery): Promise<EventPage> {
    const { limit, jobId, namespace, order = "oldest" } = query;
    if (jobId !== undefined) {
      const [job] = await known([jobId]);
      const isForeign = job === undefined || (namespace !== undefined && job.namespace !== namespace);
      return wholePage(isForeign ? NOTHING : await eventsOf(job, query), query);
    }
    const { after, before: wanted } = seqRange(query);
    const before = Math.min(wanted, (await feed.safe()) + 1);
    if (namespace === undefined) {
      return wholePage(foundIn(await db.read(eventReads[order].all, [after, before, limit, charsOf(query)])), query);
    }
    const scan = (range: SeqRange, most: { readonly limit: number; readonly chars: number }) =>
      scanEvents(namespace, range, most, order);
    return namespacePage({ ...query, before, namespace }, context.clock, scan);
  }

  /** Scans the next events for those of a namespace. */
  async function scanEvents(
    namespace: string,
    { after, before }: SeqRange,
    most: { readonly limit: number; readonly chars: number },
    order: EventOrder,
  ): Promise<EventScan> {
    const { scanEnd, ofNamespace } = eventReads[order];
    const [[seq, scanned] = []] = await db.read(scanEnd, [after, before, SCAN_EVENTS]);
    if (typeof seq !== "number") return { events: [], chars: 0, upTo: after, isEnd: true };
    const [low, high] = order === "oldest" ? [after, seq + 1] : [seq - 1, before];
    const found = foundIn(await db.read(ofNamespace, [low, high, namespace, most.limit, most.chars]));
    return eventScanOf(found, most, seq, scanned as number);
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
      isWhole ? eventsOf(job, { after: 0, limit: -1 }) : NOTHING,
      db.read(lateRows, [job.no]),
      db.read(pausedAt, [job.namespace, job.queue]),
      db.read(live, [job.namespace]),
      db.read(liveFor, [job.namespace, JSON.stringify(job.kind)]),
      db.read(holder, [job.session]),
    ]);
    return {
      job: row as JobRow,
      events: events.events as JobEvent[],
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
    eventPage,
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
    lastSeq: async () => ((await db.read(last, [await feed.safe()]))[0]?.[0] as number | null) ?? 0,
  };
}

/** Payload, annotations, result, name and failure. */
type PostgresRowExtras = readonly [string, string | null, string | null, string | null, string | null];

function shown(
  job: StoredJob,
  [payload, noted, result, given, failed]: PostgresRowExtras,
  budgets: readonly BudgetNow[],
): JobRow {
  const { no: _no, lane: _lane, session: _session, liveUsage: live, budget: _budget, ...row } = job;
  const annotations = toAnnotations(noted);
  const name = rowName({ name: given, kind: job.kind, annotations, payload });
  const liveUsage = parseOrNull<Usage>(live);
  return { ...row, payload, result, annotations, name, failure: toFailure(failed), liveUsage, budgets };
}

const NOTHING: FoundEvents = { events: [], chars: 0 };

/** The last column is the number of characters, as counted by the statement. */
function foundIn(rows: readonly PgRow[]): FoundEvents {
  return { events: rows.map(toEvent), chars: rows.reduce((sum, row) => sum + (row[6] as number), 0) };
}

function toEvent([seq, jobId, n, at, name, data]: PgRow): PerdureEvent {
  return currentEvent({ seq, jobId, n, at, name, data: JSON.parse(data as string) } as PerdureEvent);
}
