/** Beats and expiry: which sessions are late, and whether that means anything. A beat each second, by any engine, shows
 *  that the store was reachable and someone checked. After a silence (outage, laptop sleep) or a clock jump, late
 *  sessions prove nothing: nothing is reaped for one lease length, and an event records why. */
import { gapFound } from "../losses.ts";
import type { Beat, BeatAnswer, EngineProcess, ExpiredJob, ExpiredQuery } from "../store.ts";
import { ints } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import { writeEngineEvents } from "./events.ts";

export function beatVerb({ db, sql, wrote }: PostgresContext) {
  // If it is locked, another engine is beating. Waiting for one that hangs would stop all engines.
  const read = sql(
    "beat_read",
    "select name, value from $s.meta where name in ('beat_at', 'beat_by', 'held_until') order by name for update skip locked",
  );
  const write = sql("beat_write", "update $s.meta set value = $2 where name = $1");
  // Who beat last, and the last time that no engine was awake, as JSON.
  const note = sql(
    "beat_note",
    "insert into $s.meta (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value",
  );
  // After a backward clock jump a lease could end a day from now: none may last longer than if it were renewed now.
  const shorten = sql(
    "beat_shorten",
    "update $s.session set lease_ends_at = $1::bigint + lease_ms where reaped = 0 and lease_ends_at > $1 + lease_ms",
  );
  // A session with a longer lease may also renew later: its lease starts again.
  const prolong = sql(
    "beat_prolong",
    `update $s.session set lease_ends_at = $1::bigint + lease_ms
     where reaped = 0 and ended_at is null and lease_ms > $2 and lease_ends_at < $1 + lease_ms`,
  );
  const addEvent = sql(
    "beat_tell",
    `with one as materialized (select 1 where pg_current_xact_id() is not null), ${writeEngineEvents("one", "$1::bigint", "$2::text", "$3::text")} select 1`,
  );
  // Locked first: a claim of such a session either waits or is first, and then the second statement sees its jobs.
  const late = sql(
    "beat_late",
    "select no from $s.session where reaped = 0 and lease_ends_at < $1 order by no limit 1000 for update skip locked",
  );
  const bury = sql(
    "beat_bury",
    `with over as (
       update $s.session s set reaped = 1, ended_at = coalesce(s.ended_at, $2),
         lost_at = case when s.ended_at is null then coalesce(s.lost_at, $2) else s.lost_at end
       from (select no, ended_at from $s.session where no = any ($1::int[])) before
       where s.no = before.no and s.lease_ends_at < $2
         and not exists (select 1 from $s.job j where j.state = 1 and j.session = s.no)
       returning s.id, s.namespace, before.ended_at as ended_before
     ),
     lost as (select id, namespace from over where ended_before is null),
     ${writeEngineEvents("lost", "$2", "'worker.lost'", `json_build_object('v', 1, 'session', id, 'by', $3::text, 'namespace', namespace)::text`)}
     select count(*) from over`,
  );

  async function beatOne(connection: PgConnection, beat: Beat): Promise<BeatAnswer> {
    const { time, maxGapMs, holdMs, clockJumpMs, engine } = beat;
    const values = new Map((await connection.ask(read)).map(([name, value]) => [name as string, value as string]));
    if (!values.has("beat_at") || !values.has("held_until"))
      return { heldUntil: Number.POSITIVE_INFINITY, gapMs: null };
    const { now } = time();
    const last = values.get("beat_at") === "" ? null : Number(values.get("beat_at"));
    const gapMs = last === null ? 0 : now - last;
    const jumped = Math.abs(clockJumpMs) > maxGapMs || gapMs < -maxGapMs;
    // A hold from a clock that has since been set back would otherwise last forever.
    let heldUntil = Math.min(Number(values.get("held_until")), now + holdMs);
    const silent = gapMs > maxGapMs || jumped;
    if (silent) {
      heldUntil = now + holdMs;
      await connection.ask(write, ["held_until", String(heldUntil)]);
      await connection.ask(shorten, [now]);
      await connection.ask(prolong, [now, holdMs]);
      const why = jumped ? "the clock jumped" : "no engine was awake";
      const data = { v: 1, why, gapMs, clockJumpMs, until: heldUntil, engine };
      await connection.ask(addEvent, [now, "engine.reaping_held", JSON.stringify(data)]);
    }
    const by = values.get("beat_by") ?? "";
    const before = { at: last, by: by === "" ? null : (JSON.parse(by) as EngineProcess) };
    const gap = gapFound(before, { ...beat, now }, silent);
    if (gap !== null) await connection.ask(note, ["gap", JSON.stringify(gap)]);
    const self = beat.self === undefined ? "" : JSON.stringify(beat.self);
    if (self !== by) await connection.ask(note, ["beat_by", self]);
    await connection.ask(write, ["beat_at", String(now)]);
    if (now >= heldUntil) {
      const sessions = await connection.ask(late, [now]);
      if (sessions.length > 0) await connection.ask(bury, [ints(sessions.map(([no]) => no as number)), now, engine]);
    }
    return { heldUntil, gapMs: silent ? gapMs : null };
  }

  return async (beat: Beat): Promise<BeatAnswer> => {
    const answer = await db.transaction((connection) => beatOne(connection, beat), { repeat: true, reserved: true });
    wrote();
    return answer;
  };
}

export function expiredReader({ db, sql }: PostgresContext) {
  const held = sql("expired_held", "select value from $s.meta where name = 'held_until'");
  // A session that has ended is expired even while reaping is held; one that is only late is not.
  const lost = sql(
    "expired_lost",
    `select b.id, j.attempt from $s.session s join $s.job j on j.session = s.no and j.state = 1
     join $s.submission b on b.job = j.no
     where s.reaped = 0 and s.lease_ends_at < $1 and ($2::boolean or s.ended_at is not null) limit $3`,
  );
  // Running jobs whose session is missing (rows were lost) or already reaped: no lease of theirs will ever end. Steps
  // from session to session in the index of running jobs, so it costs one lookup per session with jobs.
  const orphans = sql(
    "expired_orphans",
    `with recursive holder (no) as (
       select (select session from $s.job where state = 1 and session is not null order by session limit 1)
       union all
       select (select j.session from $s.job j where j.state = 1 and j.session > holder.no order by j.session limit 1)
       from holder where holder.no is not null
     )
     select b.id, j.attempt from holder join $s.job j on j.session = holder.no and j.state = 1
     join $s.submission b on b.job = j.no
     where not exists (select 1 from $s.session s where s.no = holder.no and s.reaped = 0) limit $1`,
  );
  const waited = sql(
    "expired_waited",
    `select b.id, j.attempt, b.deadline_at from $s.job j join $s.submission b on b.job = j.no
     where j.state = 0 and j.check_at is not null and j.check_at < $1 order by j.check_at limit $2`,
  );
  return async ({ now, limit }: ExpiredQuery): Promise<ExpiredJob[]> => {
    const [[heldUntil = 0] = []] = await db.read(held);
    const found: ExpiredJob[] = [];
    for (const [jobId, attempt] of await db.read(lost, [now, now >= Number(heldUntil), limit])) {
      found.push({ jobId: jobId as string, attempt: attempt as number, why: "lost" });
    }
    for (const [jobId, attempt] of await db.read(orphans, [limit])) {
      found.push({ jobId: jobId as string, attempt: attempt as number, why: "lost" });
    }
    for (const [jobId, attempt, deadlineAt] of await db.read(waited, [now, limit])) {
      const why = deadlineAt !== null && (deadlineAt as number) < now ? "deadline" : "queue_timeout";
      found.push({ jobId: jobId as string, attempt: attempt as number, why });
    }
    return found;
  };
}
