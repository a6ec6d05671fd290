/** Sessions: one per start of a worker. */
import { startedWorker } from "../engine-events.ts";
import type { Capability } from "../lane.ts";
import { poolOf } from "../losses.ts";
import { NEWEST_SESSIONS, type PublishedRow, toPublished } from "../published-defaults.ts";
import { type OpenSession, SESSIONS_PAGE, type SessionRow, type SessionStore } from "../store.ts";
import { jsonOrNull, parseOrNull } from "../stored-job.ts";
import { texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import { explained } from "./error-classes.ts";
import { writeEngineEvents } from "./events.ts";

/** The fields of a session that never change. */
export interface SessionFacts extends Capability {
  readonly no: number;
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly leaseMs: number;
}

const COLUMNS = `no, id, namespace, name, host, pid, process, kinds, queues, labels, slots, lease_ms, started_at,
  renewed_at, lease_ends_at, ended_at, draining_at, health`;
const MAX_FACTS = 1_000;

/** Null if the session does not exist. */
export type ReadSessionFacts = (id: string) => Promise<SessionFacts | null>;

export function sessionFacts({ db, sql, interned }: PostgresContext): ReadSessionFacts {
  const byId = sql("session", `select ${COLUMNS}, 0 from $s.session where id = $1`);
  const known = new Map<string, SessionFacts>();

  return async (id) => {
    const cached = known.get(id);
    if (cached !== undefined) return cached;
    const [row] = await db.read(byId, [id]);
    if (row === undefined) return null;
    const { namespace, name, host, kinds, queues, labels, leaseMs } = toSession(row);
    const found = { no: row[0] as number, id, namespace, name, host, kinds, queues, labels, leaseMs };
    if (known.size >= MAX_FACTS) known.clear();
    known.set(id, found);
    interned.knowSession(found.no, id);
    return found;
  };
}

export function sessionStore({ db, sql, wrote }: PostgresContext): SessionStore {
  const add = (repeat: string) => `with added as (
       insert into $s.session (id, namespace, name, host, pid, process, kinds, queues, labels, slots, lease_ms, started_at,
         renewed_at, lease_ends_at, defaults, owner, pool)
       select $1, $2, $3, $4, $5::bigint, $6, $7, $8, $9, $10::int, $11::bigint, $12::bigint, $12, $12 + $11, $14, $15, $17
       where $16::int is null or $16 > (
         select count(*) from $s.session
         where owner = $15 and reaped = 0 and ended_at is null and lease_ends_at >= $12 and id <> $1)
       ${repeat} returning no
     ), ${writeEngineEvents("added", "$12", "'worker.started'", "$13::text")} select no from added`;
  const addFirst = sql("session_open", add(""));
  const addAgain = sql("session_open_again", add("on conflict (id) do update set id = excluded.id"));
  // The lease ends too, so that the reaper finds at once what the session still holds.
  const end = sql(
    "session_close",
    `with ended as (
       update $s.session set ended_at = $1, lease_ends_at = least(lease_ends_at, $1::bigint - 1),
         lost_at = case when $4::text = 'gone' then $1::bigint end
       where id = $2 and ended_at is null returning no, namespace
     ), ${writeEngineEvents("ended", "$1", "$3::text", "json_build_object('v', 1, 'session', $2::text, 'why', $4::text, 'namespace', namespace)::text")}
     select no from ended`,
  );
  const drain = sql(
    "session_drain",
    `with drained as (
       update $s.session set draining_at = $1::bigint where id = $2 and ended_at is null and draining_at is null
       returning namespace
     ), ${writeEngineEvents("drained", "$1", "'worker.draining'", "json_build_object('v', 1, 'session', $2::text, 'namespace', namespace, 'by', $3::text)::text")}
     select 1 from drained`,
  );
  const isOver = sql("session_over", "select ended_at is not null from $s.session where id = $1");
  const all = sql(
    "sessions",
    `select ${COLUMNS}, (select count(*)::int from $s.job j where j.state = 1 and j.session = s.no)
     from $s.session s where s.reaped < 2 and ($1::text is null or s.namespace = $1)
       and s.no > coalesce((select no from $s.session where id = $2), 0)
       and ($4::bigint is null or s.ended_at is null or s.ended_at >= $4) order by s.no limit $3`,
  );
  const open = sql(
    "sessions_open",
    "select id, namespace, host, pid, process, started_at, draining_at from $s.session where reaped = 0 and ended_at is null",
  );
  const names = sql("session_names", "select id, name from $s.session where id = any ($1::text[])");
  const visible = sql("session_visible", `select ${COLUMNS}, 0 from $s.session where id = $1 and reaped < 2`);
  const asked = sql(
    "cancels",
    `select b.id, j.attempt from $s.session s join $s.job j on j.session = s.no join $s.submission b on b.job = j.no
     where s.id = any ($1::text[]) and j.state = 1 and j.cancel_requested_at is not null`,
  );
  const published = sql(
    "task_defaults",
    `select id, name, defaults from (
       select no, id, name, kinds, defaults, ended_at, reaped from $s.session
       where namespace = $1 and defaults is not null and reaped < 2 order by no desc limit ${NEWEST_SESSIONS}) s
     where position($3::text in kinds) > 0
       and exists (select 1 from json_array_elements_text(kinds::json) as k (kind) where k.kind = $2)
     order by (ended_at is null and reaped = 0) desc, no desc limit 1`,
  );
  return {
    async open(s, now) {
      const queues = s.queues === null ? null : JSON.stringify(s.queues);
      const data = JSON.stringify(startedWorker(s));
      const names = [s.id, s.namespace, s.name, s.host, s.pid, s.process ?? null, JSON.stringify(s.kinds), queues];
      const values = [
        ...names,
        JSON.stringify(s.labels),
        s.slots,
        s.leaseMs,
        now,
        data,
        jsonOrNull(s.defaults ?? null),
        s.owner ?? null,
        s.owner == null ? null : (s.most ?? null),
        poolOf(s),
      ];
      let added: PgRow[];
      try {
        added = await db.writeAs((tries) => (tries === 0 ? addFirst : addAgain), values, { repeat: true });
      } catch (error) {
        throw explained(error);
      }
      wrote();
      return added.length > 0;
    },
    async close(id, now, why = "stopped") {
      const name = why === "gone" ? "worker.lost" : "worker.stopped";
      await db.write(end, [now, id, name, why], { repeat: true });
      wrote();
    },
    async drain(id, now, by = null) {
      if ((await db.write(drain, [now, id, by], { repeat: true })).length > 0) {
        wrote();
        return "draining";
      }
      const [[ended] = []] = await db.read(isOver, [id]);
      if (ended === undefined) return "unknown";
      return ended === true ? "ended" : "draining";
    },
    async taskDefaults(namespace, kind) {
      const [[session, worker, defaults] = []] = await db.read(published, [namespace, kind, JSON.stringify(kind)]);
      return toPublished(session === undefined ? undefined : ({ session, worker, defaults } as PublishedRow), kind);
    },
    async list({ namespace = null, after = null, endedSince = null, ...query } = {}) {
      const limit = Math.min(query.limit ?? SESSIONS_PAGE, SESSIONS_PAGE);
      return (await db.read(all, [namespace, after, limit, endedSince])).map(toSession);
    },
    async get(id) {
      const [row] = await db.read(visible, [id]);
      return row === undefined ? null : toSession(row);
    },
    async names(ids) {
      return new Map((await db.read(names, [texts(ids)])).map(([id, name]) => [id as string, name as string]));
    },
    async listOpen() {
      return (await db.read(open)).map(
        ([id, namespace, host, pid, process, startedAt, drainingAt]) =>
          ({ id, namespace, host, pid, process, startedAt, drainingAt }) as OpenSession,
      );
    },
    async cancelsFor(ids) {
      const rows = await db.read(asked, [texts(ids)]);
      return rows.map(([jobId, attempt]) => ({ jobId: jobId as string, attempt: attempt as number }));
    },
  };
}

function toSession(r: PgRow): SessionRow {
  return {
    id: r[1] as string,
    namespace: r[2] as string,
    name: r[3] as string,
    host: r[4] as string,
    pid: r[5] as number,
    process: r[6] as string | null,
    kinds: JSON.parse(r[7] as string) as string[],
    queues: parseOrNull(r[8] as string | null),
    labels: JSON.parse(r[9] as string) as Record<string, string>,
    slots: r[10] as number,
    leaseMs: r[11] as number,
    startedAt: r[12] as number,
    renewedAt: r[13] as number,
    leaseEndsAt: r[14] as number,
    endedAt: r[15] as number | null,
    drainingAt: r[16] as number | null,
    health: parseOrNull(r[17] as string | null),
    running: r[18] as number,
  };
}

export { COLUMNS as SESSION_COLUMNS, toSession };
