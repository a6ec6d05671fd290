/** Deletes what has been over for long enough, oldest first, a bounded number at a time. A job with a submit key
 *  leaves a stub, so that the key keeps its meaning for the rest of its window. */
import type { PruneQuery } from "../store.ts";
import type { Context } from "./context.ts";
import { STATE_CODES } from "./rows.ts";
import type { Verb } from "./writer.ts";

interface PruneAnswer {
  readonly jobs: number;
  readonly more: boolean;
}

const PAGE = 500;
const BY_JOB = ["event", "attempt", "log_chunk", "late_report", "payload"];

export function pruneVerb({ db }: Context): Verb<PruneQuery, PruneAnswer> {
  const ended = db.prepare(
    `select no, id, state, chapter, submitted_at, finished_at, key from job indexed by job_state
     where state = ? and no > ? order by no limit ?`,
  );
  const stub = db.prepare("update submit_key set state = ?, chapter = ?, until = ? where id = ?");
  const dropKey = db.prepare("delete from submit_key where id = ?");
  const dropStubs = db.prepare("delete from submit_key where until is not null and until <= ?");
  const deletes = [
    ...BY_JOB.map((table) => db.prepare(`delete from ${table} where job in (select value from json_each(?))`)),
    db.prepare(
      `delete from tag where (tag, job) in (select t.value, j.no from json_each(?) as want
       join job j on j.no = want.value join json_each(j.tags) as t)`,
    ),
    db.prepare("delete from job where no in (select value from json_each(?))"),
  ];
  const sessions = db.prepare(
    `delete from session where reaped = 1 and ended_at < ?1
     and not exists (select 1 from job j where j.session = session.no and j.state = 1)`,
  );
  const claims = db.prepare("delete from claim where at < ?");
  const pauses = db.prepare("delete from past_pause where to_at < ?");
  const engineEvents = db.prepare(
    "delete from event where seq in (select seq from event where job is null and at < ? order by seq limit ?)",
  );

  function pruneOne({ now, endedBefore, keyWindowMs, sessionsEndedBefore, limit }: PruneQuery): PruneAnswer {
    let jobs = 0;
    for (const state of ["succeeded", "failed", "cancelled"] as const) {
      const before = endedBefore[state];
      if (before === undefined || jobs >= limit) continue;
      const rows = endedBeforeRows(STATE_CODES[state], before, limit - jobs);
      if (rows.length === 0) continue;
      for (const row of rows) keepKey(row, now, keyWindowMs);
      const numbers = JSON.stringify(rows.map((row) => row.no));
      for (const statement of deletes) statement.run(numbers);
      jobs += rows.length;
    }
    dropStubs.run(now);
    claims.run(sessionsEndedBefore);
    pauses.run(sessionsEndedBefore);
    sessions.run(sessionsEndedBefore);
    engineEvents.run(sessionsEndedBefore, limit);
    return { jobs, more: jobs >= limit };
  }

  /** Jobs are numbered as they come and none can end before it came: at the first that came too late we stop. */
  function endedBeforeRows(state: number, before: number, limit: number): EndedRow[] {
    const found: EndedRow[] = [];
    for (let after = 0; ; ) {
      const page = ended.all(state, after, PAGE) as EndedRow[];
      for (const row of page) {
        if (row.submitted_at >= before || found.length >= limit) return found;
        if (row.finished_at < before) found.push(row);
      }
      if (page.length < PAGE) return found;
      after = (page.at(-1) as EndedRow).no;
    }
  }

  function keepKey({ id, state, chapter, finished_at, key }: EndedRow, now: number, keyWindowMs: number): void {
    if (key === null) return;
    const until = finished_at + keyWindowMs;
    if (until > now) stub.run(state, chapter, until, id);
    else dropKey.run(id);
  }

  return { order: 7, run: (items) => items.map(pruneOne) };
}

interface EndedRow {
  readonly no: number;
  readonly id: string;
  readonly state: number;
  readonly chapter: number;
  readonly submitted_at: number;
  readonly finished_at: number;
  readonly key: string | null;
}
