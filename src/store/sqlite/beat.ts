/** Beats and expiry: which sessions are late, and whether that means anything. A beat each second, by any engine, shows
 *  that the store was reachable and someone checked. After a silence (outage, laptop sleep) or a clock jump, late
 *  sessions prove nothing: nothing is reaped for one lease length, and an event records why. */
import { gapFound } from "../losses.ts";
import type { Beat, BeatAnswer, EngineProcess, ExpiredJob, ExpiredQuery } from "../store.ts";
import { parseOrNull } from "../stored-job.ts";
import { CLOCK_STEPPED, lineWriter } from "./clock-line.ts";
import type { SqliteContext } from "./context.ts";
import type { SqliteVerb } from "./writer.ts";

interface OverRow {
  readonly no: number;
  readonly id: string;
  readonly namespace: string;
  readonly ended_at: number | null;
}

export function beatVerb({ db, events }: SqliteContext): SqliteVerb<Beat, BeatAnswer> {
  const read = db.prepare("select value from meta where name = ?");
  const write = db.prepare(
    "insert into meta (name, value) values (?, ?) on conflict (name) do update set value = excluded.value",
  );
  const over = db.prepare(
    `select s.no, s.id, s.namespace, s.ended_at from session s where s.reaped = 0 and s.lease_ends_at < ?
     and not exists (select 1 from job j where j.state = 1 and j.session = s.no) limit 1000`,
  );
  const bury = db.prepare(
    `update session set reaped = 1, ended_at = coalesce(ended_at, ?1),
       lost_at = case when ended_at is null then coalesce(lost_at, ?1) else lost_at end where no = ?2`,
  );
  // After a backward clock jump a lease could end a day from now: none may last longer than if it were renewed now.
  const shorten = db.prepare(
    "update session set lease_ends_at = ?1 + lease_ms where reaped = 0 and lease_ends_at > ?1 + lease_ms",
  );

  // A session with a longer lease may also renew later: its lease starts again.
  const prolong = db.prepare(
    `update session set lease_ends_at = ?1 + lease_ms
     where reaped = 0 and ended_at is null and lease_ms > ?2 and lease_ends_at < ?1 + lease_ms`,
  );

  const advance = lineWriter({ db });

  const value = (name: string) => (read.get(name) as { value: number } | undefined)?.value ?? null;
  const text = (name: string) => (read.get(name) as { value: string } | undefined)?.value ?? null;

  function beatOne(beat: Beat): BeatAnswer {
    const { time, maxGapMs, holdMs, clockJumpMs, engine } = beat;
    const { now: given, mark } = time();
    const line = mark === undefined ? null : advance(given, mark);
    const now = line?.reached ?? given;
    const last = value("beat_at");
    const gapMs = last === null ? 0 : now - last;
    const jumped = Math.abs(clockJumpMs) > maxGapMs || gapMs < -maxGapMs;
    // A hold from a clock that has since been set back would otherwise last forever.
    let heldUntil = Math.min(value("held_until") ?? 0, now + holdMs);
    const silent = gapMs > maxGapMs || jumped;
    if (silent) {
      heldUntil = now + holdMs;
      write.run("held_until", heldUntil);
      shorten.run(now);
      prolong.run(now, holdMs);
      const why = jumped ? "the clock jumped" : "no engine was awake";
      events.add(null, 0, now, "engine.reaping_held", { v: 1, why, gapMs, clockJumpMs, until: heldUntil, engine });
    }
    const by = text("beat_by");
    const gap = gapFound({ at: last, by: parseOrNull<EngineProcess>(by) }, { ...beat, now }, silent);
    if (gap !== null) write.run("gap", JSON.stringify(gap));
    const self = beat.self === undefined ? null : JSON.stringify(beat.self);
    if (self !== by) write.run("beat_by", self);
    write.run("beat_at", now);
    if (line?.step != null) {
      const { aheadMs, beforeMs } = line.step;
      events.add(null, 0, now, CLOCK_STEPPED, { v: 1, stepMs: beforeMs - aheadMs, aheadMs, engine });
    }
    if (now >= heldUntil) {
      for (const { no, id, namespace, ended_at } of over.all(now) as OverRow[]) {
        bury.run(now, no);
        if (ended_at !== null) continue;
        events.add(null, 0, now, "worker.lost", { v: 1, session: id, by: engine, namespace });
      }
    }
    events.flush();
    const answer = { heldUntil, gapMs: silent ? gapMs : null };
    if (line === null || mark === undefined) return answer;
    const { at, step } = line;
    const { monotonic } = mark;
    return { ...answer, line: { at, monotonic }, ...(step === null ? {} : { steppedTo: step.aheadMs }) };
  }

  return { order: 5, run: (items) => items.map(beatOne) };
}

export function expiredReader({ db }: SqliteContext): (query: ExpiredQuery) => ExpiredJob[] {
  const held = db.prepare("select value from meta where name = 'held_until'");
  // A session that has ended is expired even while reaping is held; one that is only late is not.
  const lost = db.prepare(
    `select j.id as jobId, j.attempt from session s indexed by session_unreaped
     join job j indexed by job_running on j.session = s.no and j.state = 1
     where s.reaped = 0 and s.lease_ends_at < ? and (? or s.ended_at is not null) limit ?`,
  );
  // Running jobs whose session is missing (rows were lost) or already reaped: no lease of theirs will ever end. Steps
  // from session to session in the index of running jobs, so it costs one lookup per session with jobs.
  const orphans = db.prepare(
    `with recursive holder (no) as (
       select (select min(session) from job indexed by job_running where state = 1)
       union all
       select (select min(j.session) from job j indexed by job_running where j.state = 1 and j.session > holder.no)
       from holder where holder.no is not null
     )
     select j.id as jobId, j.attempt from holder cross join job j indexed by job_running
       on j.session = holder.no and j.state = 1
     where not exists (select 1 from session s where s.no = holder.no and s.reaped = 0) limit ?`,
  );
  const waited = db.prepare(
    `select id as jobId, attempt, deadline_at from job indexed by job_check
     where state = 0 and check_at is not null and check_at < ? order by check_at limit ?`,
  );
  return ({ now, limit }) => {
    const heldUntil = (held.get() as { value: number } | undefined)?.value ?? 0;
    const found: ExpiredJob[] = [];
    for (const row of lost.all(now, now >= heldUntil ? 1 : 0, limit) as { jobId: string; attempt: number }[]) {
      found.push({ ...row, why: "lost" });
    }
    for (const row of orphans.all(limit) as { jobId: string; attempt: number }[]) found.push({ ...row, why: "lost" });
    const late = waited.all(now, limit) as { jobId: string; attempt: number; deadline_at: number | null }[];
    for (const { jobId, attempt, deadline_at } of late) {
      const why = deadline_at !== null && deadline_at < now ? "deadline" : "queue_timeout";
      found.push({ jobId, attempt, why });
    }
    return found;
  };
}
