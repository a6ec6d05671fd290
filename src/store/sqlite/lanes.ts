/** Selects the lanes that a claim scans. A session with few lanes scans all of them. A session with many (such as a
 *  queue per tenant) scans those with waiting jobs, found by skipping through the index from lane to lane, at most a
 *  window of them at a time; the next claim starts where this one ended. So a claim costs the same however many lanes
 *  there are. Within a window the order is exact; windows take turns. */

import {
  type Capability,
  FEW_LANES,
  type LaneUse,
  type LaneUseQuery,
  type LaneWindow,
  labelText,
  serves,
  walkLanes,
  windowSize,
} from "../lane.ts";
import { type SessionLanes, sortLanes } from "../lane-fairness.ts";
import { parseOrNull } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";

export interface LaneUser {
  readonly no: number;
  readonly namespace: string;
  readonly kinds: string;
  readonly queues: string | null;
  readonly labels: string;
}

const MAX_SESSIONS = 1_000;

/** Light and heavy lanes are scanned separately. */
type SqliteLanePart = "light" | "heavy";

export function laneFinder({ db, interned }: SqliteContext) {
  const paused = db.prepare("select namespace, queue from queue");
  const waiting = db.prepare(
    `with recursive found (lane) as (
       select (select min(lane) from job indexed by job_ready where state = 0 and lane > ?1)
       union all
       select (select min(j.lane) from job j indexed by job_ready where j.state = 0 and j.lane > found.lane)
       from found where found.lane is not null
     )
     select lane from found where lane is not null limit ?2`,
  );
  waiting.setReturnArrays(true);

  const known = new Map<number, { readonly version: number; readonly lanes: SessionLanes }>();
  const places = { light: new Map<number, number>(), heavy: new Map<number, number>() };

  /** The lanes of a session; cached until lanes are added. */
  function lanesOf(user: LaneUser): SessionLanes {
    const version = interned.laneVersion;
    const cached = known.get(user.no);
    if (cached?.version === version) return cached.lanes;
    const session: Capability = {
      namespace: user.namespace,
      kinds: JSON.parse(user.kinds) as string[],
      queues: parseOrNull(user.queues),
      labels: JSON.parse(user.labels) as Record<string, string>,
    };
    const mine = [...interned.lanes()].filter((lane) => serves(session, lane));
    const lanes = sortLanes(mine, session.labels);
    if (known.size >= MAX_SESSIONS) known.clear();
    known.set(user.no, { version, lanes });
    return lanes;
  }

  /** Returns a function that checks whether a lane's queue is open. */
  function openness(): (lane: number) => boolean {
    const closed = paused.all() as { namespace: string; queue: string }[];
    if (closed.length === 0) return () => true;
    const names = new Set(closed.map(({ namespace, queue }) => JSON.stringify([namespace, queue])));
    return (no) => {
      const { namespace, queue } = interned.lane(no);
      return !names.has(JSON.stringify([namespace, queue]));
    };
  }

  /** The next window of these lanes of a session. */
  function windowOf(user: LaneUser, mine: ReadonlySet<number>, part: SqliteLanePart, wanted: number): LaneWindow {
    const isOpen = openness();
    if (mine.size <= FEW_LANES) return { lanes: [...mine].filter(isOpen), partial: false, next: 0 };
    const size = windowSize(wanted);
    const isWanted = (lane: number) => mine.has(lane) && isOpen(lane);
    const walk = walkLanes({ start: places[part].get(user.no) ?? 0, size, isWanted });
    let step = walk.next();
    while (!step.done) step = walk.next(waiting.all(step.value, size) as [number][]);
    return step.value;
  }

  /** The next claim of this session starts after this window. */
  function moveOn(user: LaneUser, part: SqliteLanePart, window: LaneWindow): void {
    if (places[part].size >= MAX_SESSIONS) places[part].clear();
    places[part].set(user.no, window.next);
  }

  return { lanesOf, windowOf, moveOn };
}

export function laneUseReader({ db }: SqliteContext): (query: LaneUseQuery) => LaneUse {
  const count = db.prepare("select count(*) as count from lane where namespace = ?");
  const owned = db.prepare("select count(*) as count from lane where namespace = ? and owner = ?");
  const byName = db.prepare("select 1 from lane where namespace = ? and queue = ? and kind = ? and labels = ?");
  const counted = (row: unknown) => (row as { count: number }).count;
  return ({ namespace, owners, lanes }) => ({
    total: counted(count.get(namespace)),
    owned: owners.reduce((sum, owner) => sum + counted(owned.get(namespace, owner)), 0),
    exists: lanes.map(({ queue, kind, labels }) => byName.get(namespace, queue, kind, labelText(labels)) !== undefined),
  });
}
