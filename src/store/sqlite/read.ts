/** Reads one job and everything recorded about it. Reads never wait for writers. */
import { NO_BUDGETS } from "../../core/decision/budget.ts";
import type { JobEvent } from "../../core/job/event.ts";
import type { Job, Usage } from "../../core/job/job.ts";
import { rowName } from "../../core/job/job-name.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
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
import type { SqliteContext } from "./context.ts";
import type { SqlValue } from "./driver.ts";
import type { SqliteEventReader } from "./event-reader.ts";
import { JOB_COLUMNS, ledgerBook, toJob } from "./rows.ts";
import { SESSION_COLUMNS, toSession } from "./sessions.ts";

const OPEN_FAILURE = openFailure("?2");

export type SqliteReader = ReturnType<typeof reader>;

export function reader({ db, interned }: SqliteContext, eventsOf: SqliteEventReader["ofJob"]) {
  const book = ledgerBook({ db });
  const byId = db.prepare(`select ${JOB_COLUMNS} from job where id = ?`);
  byId.setReturnArrays(true);
  const payload = db.prepare(
    "select body, annotations, (select name from job where no = payload.job) as name from payload where job = ?",
  );
  const failureOf = db.prepare("select failure from attempt where job = ? order by attempt desc limit 1");
  const openFailureOf = db.prepare(
    `select ${OPEN_FAILURE.column} as failure from attempt
     where job = ?1 and ${OPEN_FAILURE.where} order by attempt desc limit 1`,
  );
  const result = db.prepare("select result from attempt where job = ? and attempt = ?");
  // A run has no attempts.
  const ofRun = db.prepare("select result, failure from run where job = ?");
  const nextAttempt = db.prepare("select * from attempt where job = ? and attempt > ? order by attempt limit 1");
  const logPage = db.prepare(
    "select n, body from log_chunk where job = ? and attempt = ? and n > ? order by n limit ?",
  );
  const lastLog = db.prepare("select max(attempt) as attempt from log_chunk where job = ?");
  const lateRows = db.prepare(
    `select attempt, at, session, outcome from late_report where job = ? order by attempt desc limit ${LATE_REPORTS}`,
  );
  const pausedAt = db.prepare("select paused_at from queue where namespace = ? and queue = ?");
  const isLive = "reaped = 0 and ended_at is null and namespace = ?";
  const live = db.prepare(`select count(*) as count from session where ${isLive}`);
  // Only rows whose text contains the kind are parsed: there may be many sessions with many kinds.
  const liveFor = db.prepare(
    `select ${SESSION_COLUMNS}, 0 as running from session where ${isLive} and instr(kinds, ?) > 0`,
  );
  const holder = db.prepare("select 1 from session where no = ?");

  const over = db.prepare("select id from job where id in (select value from json_each(?)) and state >= 3");

  function stored(id: string): StoredJob | null {
    const row = byId.get(id);
    return row === undefined ? null : toJob(row, interned);
  }

  /** A job with its data from other tables. */
  function view(job: StoredJob): JobRow {
    const { no, lane: _lane, session: _session, liveUsage: live, budget, run: _run, ...row } = job;
    const ran = job.kind === RUN_KIND ? (ofRun.get(no) as EndedRun | undefined) : undefined;
    const won = job.state === "succeeded" ? (ran ?? (result.get(no, job.attempt) as EndedRun | undefined)) : null;
    const came = payload.get(no) as SqliteRowExtras | undefined;
    const annotations = toAnnotations(came?.annotations ?? null);
    const body = came?.body ?? "null";
    const name = rowName({ name: came?.name ?? null, kind: job.kind, annotations, payload: body });
    const failure = toFailure(ran === undefined ? failureIn(job) : ran.failure);
    const budgets = budget === null ? NO_BUDGETS : book.of(budget).budgets(budget);
    const liveUsage = parseOrNull<Usage>(live);
    return { ...row, payload: body, result: won?.result ?? null, annotations, name, failure, liveUsage, budgets };
  }

  function failureIn({ no, state, attempt, chapter }: StoredJob): string | null {
    const isOpen = state === "queued" || state === "running" || state === "blocked";
    if (state !== "failed" && (!isOpen || attempt === (state === "running" ? 1 : 0))) return null;
    const found = isOpen ? openFailureOf.get(no, chapter) : failureOf.get(no);
    return (found as { failure: string | null } | undefined)?.failure ?? null;
  }

  /** At most as much as an attempt row shows. */
  function logOf(no: number, attempt: number): string {
    let text = "";
    for (let after = 0; text.length < ATTEMPT_LOG; ) {
      const page = logPage.all(no, attempt, after, 1) as { n: number; body: string }[];
      if (page[0] === undefined) return text;
      text += page[0].body;
      after = page[0].n;
    }
    return storable(text, ATTEMPT_LOG);
  }

  function log(id: string, attempt: number | null, after = 0): AttemptLog | null {
    const job = stored(id);
    if (job === null) return null;
    const which = attempt ?? (lastLog.get(job.no) as { attempt: number | null }).attempt;
    if (which === null) return null;
    const page = logPage.all(job.no, which, after, LOG_PAGE) as { n: number; body: string }[];
    const last = page.at(-1);
    return last === undefined ? null : { attempt: which, text: page.map(({ body }) => body).join(""), next: last.n };
  }

  function attempts(id: string, { after = 0, limit = ATTEMPTS_PAGE }: AttemptsPage = {}): AttemptRow[] {
    const job = stored(id);
    const found: AttemptRow[] = [];
    if (job === null) return found;
    let last = after;
    for (let chars = 0; chars < ATTEMPTS_CHARS && found.length < Math.min(limit, ATTEMPTS_PAGE); ) {
      const row = nextAttempt.get(job.no, last) as Record<string, SqlValue> | undefined;
      if (row === undefined) break;
      const attempt = row.attempt as number;
      const log = logOf(job.no, attempt);
      last = attempt;
      chars += log.length + String(row.result ?? "").length + String(row.failure ?? "").length;
      found.push({
        jobId: id,
        attempt,
        chapter: row.chapter as number,
        session: row.session === null ? null : interned.sessionId(row.session as number),
        startedAt: row.started_at as number,
        endedAt: row.ended_at as number,
        outcome: row.outcome as string,
        failure: parseOrNull(row.failure as string | null),
        usage: parseOrNull(row.usage as string | null),
        result: row.result as string | null,
        log: log === "" ? null : log,
      });
    }
    return found;
  }

  function history(id: string, isWhole: boolean): History | null {
    const job = stored(id);
    if (job === null) return null;
    const { count } = live.get(job.namespace) as { count: number };
    const maybe = liveFor.all(job.namespace, JSON.stringify(job.kind)) as Record<string, unknown>[];
    const capable = maybe.map(toSession).filter((session) => serves(session, job));
    return {
      job: view(job),
      events: isWhole ? (eventsOf(job).events as JobEvent[]) : [],
      lateReports: (lateRows.all(job.no) as LateReport[]).reverse(),
      capableSessions: capable.length,
      liveSessions: count,
      queuePausedAt: (pausedAt.get(job.namespace, job.queue) as { paused_at: number } | undefined)?.paused_at ?? null,
      isOrphan: job.state === "running" && holder.get(job.session) === undefined,
    };
  }

  return {
    view,
    attempts,
    log,
    stored,
    history,
    job(id: string): JobRow | null {
      const job = stored(id);
      return job === null ? null : view(job);
    },
    fact(id: string): Job | null {
      const job = stored(id);
      return job === null ? null : toFacts(job);
    },
    ended: (ids: readonly string[]) => (over.all(JSON.stringify(ids)) as { id: string }[]).map((row) => row.id),
  };
}

interface EndedRun {
  readonly result: string | null;
  readonly failure?: string | null;
}

interface SqliteRowExtras {
  readonly body: string;
  readonly annotations: string | null;
  readonly name: string | null;
}
