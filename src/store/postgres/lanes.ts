/** Selects the lanes that a claim scans. A session with few lanes scans all of them. A session with many (such as a
 *  queue per tenant) scans those with waiting jobs, found by skipping through the index from lane to lane, at most a
 *  window of them at a time; the next claim starts where this one ended. So a claim costs the same however many lanes
 *  there are. Within a window the order is exact; windows take turns. */
import {
  FEW_LANES,
  type LaneUse,
  type LaneUseQuery,
  type LaneWindow,
  labelText,
  type NewLane,
  serves,
  walkLanes,
  windowSize,
} from "../lane.ts";
import { type SessionLanes, sortLanes } from "../lane-fairness.ts";
import { texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { SessionFacts } from "./sessions.ts";

const MAX_SESSIONS = 1_000;

/** Light and heavy lanes are scanned separately. */
type PostgresLanePart = "light" | "heavy";

/** How often a session reads the lanes that other processes added, even if it is never idle. */
const LANES_EVERY_MS = 1_000;

export function laneFinder({ db, sql, interned, clock }: PostgresContext) {
  const waiting = sql(
    "lanes_waiting",
    `with recursive found (lane) as (
       select (select lane from $s.job where state = 0 and lane > $1 order by lane limit 1)
       union all
       select (select j.lane from $s.job j where j.state = 0 and j.lane > found.lane order by j.lane limit 1)
       from found where found.lane is not null
     )
     select lane from found where lane is not null limit $2`,
  );
  const paused = sql("lanes_paused", "select namespace, queue from $s.queue");
  const known = new Map<number, { readonly version: number; readonly lanes: SessionLanes }>();
  const places = { light: new Map<number, number>(), heavy: new Map<number, number>() };
  let readAt = Number.NEGATIVE_INFINITY;

  /** The lanes of a session; cached until lanes are added. */
  async function lanesOf(session: SessionFacts): Promise<SessionLanes> {
    if (clock.monotonic() - readAt > LANES_EVERY_MS) {
      readAt = clock.monotonic();
      await interned.readLanes();
    }
    const cached = known.get(session.no);
    const version = interned.laneVersion;
    if (cached?.version === version) return cached.lanes;
    const mine = [...interned.allLanes()].filter((lane) => serves(session, lane));
    const lanes = sortLanes(mine, session.labels);
    if (known.size >= MAX_SESSIONS) known.clear();
    known.set(session.no, { version, lanes });
    return lanes;
  }

  /** The next window of these lanes of a session. */
  async function windowOf(
    session: SessionFacts,
    mine: ReadonlySet<number>,
    part: PostgresLanePart,
    wanted: number,
  ): Promise<LaneWindow> {
    if (mine.size <= FEW_LANES) return { lanes: [...mine], partial: false, next: 0 };
    const closed = new Set((await db.read(paused)).map(([namespace, queue]) => JSON.stringify([namespace, queue])));
    const isOpen = (no: number) => {
      const { namespace, queue } = interned.lane(no);
      return !closed.has(JSON.stringify([namespace, queue]));
    };
    const size = windowSize(wanted);
    const isWanted = (lane: number) => mine.has(lane) && isOpen(lane);
    const walk = walkLanes({ start: places[part].get(session.no) ?? 0, size, isWanted });
    let step = walk.next();
    while (!step.done) step = walk.next(await db.read(waiting, [step.value, size]));
    return step.value;
  }

  /** The next claim of this session starts after this window. */
  function moveOn(session: SessionFacts, part: PostgresLanePart, window: LaneWindow): void {
    if (places[part].size >= MAX_SESSIONS) places[part].clear();
    places[part].set(session.no, window.next);
  }

  return { lanesOf, windowOf, moveOn };
}

export function laneUseReader({ db, sql }: PostgresContext) {
  const count = sql("lane_count", "select count(*)::integer from $s.lane where namespace = $1");
  const owned = sql(
    "lanes_owned",
    "select count(*)::integer from $s.lane where namespace = $1 and owner = any ($2::text[])",
  );
  const byName = sql(
    "lanes_by_name",
    `select u.ord::integer from unnest($2::text[], $3::text[], $4::text[]) with ordinality as u (queue, kind, labels, ord)
     join $s.lane l on l.namespace = $1 and l.queue = u.queue and l.kind = u.kind and l.labels = u.labels`,
  );
  return async ({ namespace, owners, lanes }: LaneUseQuery): Promise<LaneUse> => {
    const column = (pick: (lane: NewLane) => string) => texts(lanes.map(pick));
    const names = [column(({ queue }) => queue), column(({ kind }) => kind), column((lane) => labelText(lane.labels))];
    const [[[total] = []], [[own] = []], rows] = await Promise.all([
      db.read(count, [namespace]),
      db.read(owned, [namespace, texts(owners)]),
      db.read(byName, [namespace, ...names]),
    ]);
    const there = new Set(rows.map(([ord]) => (ord as number) - 1));
    return { total: total as number, owned: own as number, exists: lanes.map((_, i) => there.has(i)) };
  };
}
