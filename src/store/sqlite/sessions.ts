/** Sessions: one per start of a worker. */
import type { NewSession } from "../../core/worker-protocol.ts";
import { endedWorker, startedWorker } from "../engine-events.ts";
import { poolOf } from "../losses.ts";
import { NEWEST_SESSIONS, type PublishedRow, toPublished } from "../published-defaults.ts";
import {
  type DrainAnswer,
  type OpenSession,
  SESSIONS_PAGE,
  type SessionRow,
  type SessionStore,
  type SessionsQuery,
} from "../store.ts";
import { jsonOrNull, parseOrNull } from "../stored-job.ts";
import type { SqliteCalls } from "./calls.ts";
import type { SqliteContext } from "./context.ts";
import type { SqliteVerb } from "./writer.ts";

export function sessionStore(context: SqliteContext, calls: SqliteCalls): SessionStore {
  const read = sessionReader(context);
  const [open, close, drain] = [openSessionVerb(context), closeSessionVerb(context), drainSessionVerb(context)];
  return {
    open: (session, now) => calls.one(open, { session, now }),
    async close(id, now, why = "stopped") {
      await calls.one(close, { id, now, why });
    },
    drain: (id, now, by = null) => calls.one(drain, { id, now, by }),
    list: (query) => calls.answer(() => read.list(query)),
    listOpen: () => calls.answer(read.listOpen),
    get: (id) => calls.answer(() => read.get(id)),
    names: (ids) => calls.answer(() => read.names(ids)),
    cancelsFor: (ids) => calls.answer(() => read.cancelsFor(ids)),
    taskDefaults: (namespace, kind) => calls.answer(() => read.taskDefaults(namespace, kind)),
  };
}

function openSessionVerb({ db, events }: SqliteContext): SqliteVerb<{ session: NewSession; now: number }, boolean> {
  const add = db.prepare(
    `insert into session (id, namespace, name, host, pid, process, kinds, queues, labels, slots, lease_ms, started_at,
       renewed_at, lease_ends_at, defaults, owner, pool) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const live = db.prepare(
    "select count(*) as count from session where owner = ? and reaped = 0 and ended_at is null and lease_ends_at >= ?",
  );
  return {
    order: 3,
    run: (items) =>
      items.map(({ session: s, now }) => {
        const { owner = null, most = null } = s;
        if (owner !== null && most !== null && (live.get(owner, now) as { count: number }).count >= most) return false;
        const queues = s.queues === null ? null : JSON.stringify(s.queues);
        const shared = [s.id, s.namespace, s.name, s.host, s.pid, s.process ?? null, JSON.stringify(s.kinds), queues];
        add.run(
          ...shared,
          JSON.stringify(s.labels),
          s.slots,
          s.leaseMs,
          now,
          now,
          now + s.leaseMs,
          jsonOrNull(s.defaults ?? null),
          owner,
          poolOf(s),
        );
        events.add(null, 0, now, "worker.started", startedWorker(s));
        events.flush();
        return true;
      }),
  };
}

function closeSessionVerb({
  db,
  events,
}: SqliteContext): SqliteVerb<{ id: string; now: number; why: "stopped" | "gone" }, null> {
  // The lease ends too, so that the reaper finds at once what the session still holds.
  const end = db.prepare(
    `update session set ended_at = ?1, lease_ends_at = min(lease_ends_at, ?1 - 1), lost_at = case when ?3 then ?1 end
     where id = ?2 and ended_at is null returning namespace`,
  );
  return {
    order: 8,
    run: (items) =>
      items.map(({ id, now, why }) => {
        const name = why === "gone" ? "worker.lost" : "worker.stopped";
        const ended = end.get(now, id, why === "gone" ? 1 : 0) as { namespace: string } | undefined;
        if (ended !== undefined) events.add(null, 0, now, name, endedWorker(id, ended.namespace, why));
        events.flush();
        return null;
      }),
  };
}

function drainSessionVerb({
  db,
  events,
}: SqliteContext): SqliteVerb<{ id: string; now: number; by: string | null }, DrainAnswer> {
  const find = db.prepare("select namespace, ended_at, draining_at from session where id = ?");
  const mark = db.prepare("update session set draining_at = ? where id = ?");
  function drainOne(id: string, now: number, by: string | null): DrainAnswer {
    const row = find.get(id) as { namespace: string; ended_at: number | null; draining_at: number | null } | undefined;
    if (row === undefined) return "unknown";
    if (row.ended_at !== null) return "ended";
    if (row.draining_at !== null) return "draining";
    mark.run(now, id);
    events.add(null, 0, now, "worker.draining", { v: 1, session: id, namespace: row.namespace, by });
    events.flush();
    return "draining";
  }
  // Before claims, so that none in the same transaction gives the session another job.
  return { order: 4, run: (items) => items.map(({ id, now, by }) => drainOne(id, now, by)) };
}

/** All columns except published defaults, which may be long and are read separately. */
const COLUMNS = `no, id, namespace, name, host, pid, process, kinds, queues, labels, slots, lease_ms, started_at,
  renewed_at, lease_ends_at, ended_at, draining_at, health`;

export { COLUMNS as SESSION_COLUMNS };

function sessionReader({ db }: SqliteContext) {
  const all = db.prepare(
    `select ${COLUMNS}, (select count(*) from job j where j.state = 1 and j.session = s.no) as running
     from session s where s.reaped < 2 and (?1 is null or s.namespace = ?1)
       and s.no > coalesce((select no from session where id = ?2), 0)
       and (?4 is null or s.ended_at is null or s.ended_at >= ?4) order by s.no limit ?3`,
  );
  const names = db.prepare("select id, name from session where id in (select value from json_each(?))");
  const one = db.prepare(`select ${COLUMNS}, 0 as running from session where id = ? and reaped < 2`);
  const open = db.prepare(
    "select id, namespace, host, pid, process, started_at, draining_at from session where reaped = 0 and ended_at is null",
  );
  const cancels = db.prepare(
    `select j.id as jobId, j.attempt from session s join job j indexed by job_running on j.session = s.no
     where s.id = ? and j.state = 1 and j.cancel_requested_at > 0`,
  );
  const published = db.prepare(
    `select id as session, name as worker, defaults from (
       select * from session indexed by session_defaults
       where namespace = ?1 and defaults is not null and reaped < 2 order by no desc limit ${NEWEST_SESSIONS})
     where instr(kinds, json_quote(?2)) > 0 and exists (select 1 from json_each(kinds) where value = ?2)
     order by ended_at is null and reaped = 0 desc, no desc limit 1`,
  );
  return {
    taskDefaults: (namespace: string, kind: string) =>
      toPublished(published.get(namespace, kind) as PublishedRow | undefined, kind),
    list: ({ namespace = null, after = null, endedSince = null, ...query }: SessionsQuery = {}): SessionRow[] => {
      const limit = Math.min(query.limit ?? SESSIONS_PAGE, SESSIONS_PAGE);
      return (all.all(namespace, after, limit, endedSince) as Record<string, unknown>[]).map(toSession);
    },
    get: (id: string): SessionRow | null => {
      const row = one.get(id) as Record<string, unknown> | undefined;
      return row === undefined ? null : toSession(row);
    },
    names: (ids: readonly string[]): ReadonlyMap<string, string> =>
      new Map((names.all(JSON.stringify(ids)) as { id: string; name: string }[]).map(({ id, name }) => [id, name])),
    listOpen: (): OpenSession[] =>
      (open.all() as Record<string, unknown>[]).map(({ started_at, draining_at, ...row }) => ({
        ...(row as Omit<OpenSession, "startedAt" | "drainingAt">),
        startedAt: started_at as number,
        drainingAt: draining_at as number | null,
      })),
    cancelsFor: (ids: readonly string[]) =>
      ids.flatMap((id) => cancels.all(id) as { readonly jobId: string; readonly attempt: number }[]),
  };
}

export function toSession(row: Record<string, unknown>): SessionRow {
  return {
    id: row.id as string,
    namespace: row.namespace as string,
    name: row.name as string,
    host: row.host as string,
    pid: row.pid as number,
    process: row.process as string | null,
    kinds: JSON.parse(row.kinds as string) as string[],
    queues: parseOrNull(row.queues as string | null),
    labels: JSON.parse(row.labels as string) as Record<string, string>,
    slots: row.slots as number,
    leaseMs: row.lease_ms as number,
    startedAt: row.started_at as number,
    renewedAt: row.renewed_at as number,
    leaseEndsAt: row.lease_ends_at as number,
    endedAt: row.ended_at as number | null,
    drainingAt: row.draining_at as number | null,
    health: parseOrNull(row.health as string | null),
    running: row.running as number,
  };
}
