/** The store's time line (`clock-mark.ts`) in a SQLite file: one mark, written with each beat under the write lock. */
import { CLOCK_STEP_MS, type ClockMark, continued, isOlder, type WallMark } from "../clock-mark.ts";
import type { SqliteContext } from "./context.ts";
import type { Database } from "./driver.ts";

interface StoredMark extends ClockMark {
  /** How far the line was ahead of the wall clock. */
  readonly aheadMs: number;
}

const NAME = "clock";
export const CLOCK_STEPPED = "engine.clock_stepped";

export interface ClockStep {
  /** How far the line is ahead of the wall clock now, and was at the last beat. */
  readonly aheadMs: number;
  readonly beforeMs: number;
}

export interface LinePoint {
  /** The line at the time of the reading. */
  readonly at: number;
  /** The latest point of the line: later than `at` if another process stored a later mark. */
  readonly reached: number;
  /** The step of the wall clock, if there was one. */
  readonly step: ClockStep | null;
}

/** Advances the line by a reading of the clocks. A reading older than the stored mark, from a process whose monotonic
 *  clock differs slightly, does not change the mark: continuing from it would count the time in between twice. */
export function lineWriter({ db }: Pick<SqliteContext, "db">) {
  const read = markReader(db);
  const write = db.prepare(
    "insert into meta (name, value) values (?, ?) on conflict (name) do update set value = excluded.value",
  );
  return (now: number, reading: WallMark): LinePoint => {
    const stored = read();
    const known = stored === null ? now : continued(stored, reading);
    const at = known - now > CLOCK_STEP_MS ? Math.round(known) : now;
    const reached = Math.max(at, stored?.at ?? at);
    if (stored !== null && isOlder(reading, stored)) return { at, reached, step: null };
    const { wall, monotonic, boot } = reading;
    const aheadMs = reached - wall;
    const beforeMs = stored?.aheadMs ?? 0;
    write.run(NAME, JSON.stringify({ at: reached, monotonic, boot, aheadMs } satisfies StoredMark));
    return { at, reached, step: Math.abs(aheadMs - beforeMs) > CLOCK_STEP_MS ? { aheadMs, beforeMs } : null };
  };
}

/** The last beat, and the newest event: a process that only submits leaves no beat. */
export function clockMarkReader({ db }: Pick<SqliteContext, "db">): () => ClockMark[] {
  const read = markReader(db);
  const newest = db.prepare(
    `select at from (select at from event order by seq desc limit 1)
     union all select value as at from meta where name = 'beat_at'`,
  );
  return () => {
    const mark = read();
    const floors = (newest.all() as { at: number }[]).map(({ at }) => ({ at, monotonic: 0, boot: null }));
    return mark === null ? floors : [mark, ...floors];
  };
}

function markReader(db: Database): () => StoredMark | null {
  const find = db.prepare("select value from meta where name = ?");
  return () => {
    const row = find.get(NAME) as { value: string } | undefined;
    return row === undefined ? null : (JSON.parse(row.value) as StoredMark);
  };
}

/** Lets a line that is ahead return to the wall clock when that is safe: no job is unfinished, and no other process has
 *  the file open. Both are checked under an exclusive lock. Retention of ended jobs only becomes longer by the time
 *  ahead. The caller turns the write-ahead log on again. */
export function returnToWall(db: Database, mark: () => WallMark): void {
  const read = markReader(db);
  const isAhead = (reading = mark(), stored = read()) =>
    stored !== null && continued(stored, reading) - reading.wall > CLOCK_STEP_MS;
  if (!isAhead()) return;
  const unfinished = db.prepare(
    "select 1 from job where state = 0 union all select 1 from job where state in (1, 2) limit 1",
  );
  const isIdle = () => unfinished.get() === undefined;
  if (!isIdle() || !lockAlone(db)) return;
  const stored = read();
  if (stored !== null && isIdle() && isAhead()) {
    const { aheadMs } = stored;
    const { wall, monotonic, boot } = mark();
    const next: StoredMark = { at: wall, monotonic, boot, aheadMs: 0 };
    db.prepare("update meta set value = ? where name = ?").run(JSON.stringify(next), NAME);
    db.prepare("update meta set value = ? where name in ('beat_at', 'held_until')").run(wall);
    db.prepare("update session set lease_ends_at = min(lease_ends_at, ? + lease_ms) where reaped = 0").run(wall);
    db.prepare("update access_token set expires_at = expires_at - ? where expires_at > ?").run(aheadMs, stored.at);
    db.prepare("update queue set paused_at = min(paused_at, ?)").run(wall);
    db.prepare("delete from past_pause where to_at > ?").run(wall);
    const data = JSON.stringify({ v: 1, stepMs: aheadMs, aheadMs: 0, engine: null });
    db.prepare("insert into event (job, n, at, name, data) values (null, 0, ?, ?, ?)").run(wall, CLOCK_STEPPED, data);
  }
  db.exec("commit");
}

/** Begins a transaction if no other process has the file open. With a write-ahead log others could read while we write;
 *  only the sole user of a file can switch it off. */
function lockAlone(db: Database): boolean {
  try {
    db.exec("pragma journal_mode = delete; begin exclusive");
    return true;
  } catch {
    return false;
  }
}
