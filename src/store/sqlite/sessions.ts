/** Sessions: one start of a worker each. */
import type { NewSession } from "../../core/work.ts";
import type { SessionRow } from "../store.ts";
import { parseOrNull } from "../stored-job.ts";
import type { Context } from "./context.ts";
import type { Verb } from "./writer.ts";

export function openSessionVerb({ db, events }: Context): Verb<{ session: NewSession; now: number }, null> {
  const add = db.prepare(
    `insert into session (id, namespace, name, host, pid, process, kinds, queues, labels, slots, lease_ms, started_at,
       renewed_at, lease_ends_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  return {
    order: 3,
    run: (items) =>
      items.map(({ session: s, now }) => {
        const queues = s.queues === null ? null : JSON.stringify(s.queues);
        const shared = [s.id, s.namespace, s.name, s.host, s.pid, s.process ?? null, JSON.stringify(s.kinds), queues];
        add.run(...shared, JSON.stringify(s.labels), s.slots, s.leaseMs, now, now, now + s.leaseMs);
        events.add(null, 0, now, "worker.started", { v: 1, session: s.id, worker: s.name, kinds: s.kinds });
        events.flush();
        return null;
      }),
  };
}

export function closeSessionVerb({
  db,
  events,
}: Context): Verb<{ id: string; now: number; why: "stopped" | "gone" }, null> {
  // What it still holds is found by the reaper at once: the lease ends here too.
  const end = db.prepare(
    "update session set ended_at = ?1, lease_ends_at = min(lease_ends_at, ?1 - 1) where id = ?2 and ended_at is null",
  );
  return {
    order: 8,
    run: (items) =>
      items.map(({ id, now, why }) => {
        const name = why === "gone" ? "worker.lost" : "worker.stopped";
        if (Number(end.run(now, id).changes) > 0) events.add(null, 0, now, name, { v: 1, session: id, why });
        events.flush();
        return null;
      }),
  };
}

export function sessionReader({ db }: Context) {
  const all = db.prepare(
    `select s.*, (select count(*) from job j where j.state = 1 and j.session = s.no) as running
     from session s where s.reaped < 2 order by s.no`,
  );
  const open = db.prepare("select *, 0 as running from session where reaped = 0 and ended_at is null");
  const asked = db.prepare(
    `select j.id as jobId, j.attempt from session s join job j indexed by job_running on j.session = s.no
     where s.id = ? and j.state = 1 and j.cancel_requested_at > 0`,
  );
  return {
    sessions: (): SessionRow[] => (all.all() as Record<string, unknown>[]).map(toSession),
    openSessions: (): SessionRow[] => (open.all() as Record<string, unknown>[]).map(toSession),
    cancelsFor: (ids: readonly string[]) =>
      ids.flatMap((id) => asked.all(id) as { readonly jobId: string; readonly attempt: number }[]),
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
    running: row.running as number,
  };
}
