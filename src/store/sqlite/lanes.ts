/** Which lanes a claim looks through. A session with few lanes looks through all of them. One with many (a queue per
 *  tenant) looks at those that hold waiting jobs, found by leaping through the index from lane to lane, and at no more
 *  than a window of them at a time; the next claim begins where this one ended. So a claim costs the same however many
 *  lanes there are; within a window the order is exact, between windows it is everyone's turn. */
import type { Context } from "./context.ts";
import type { Lane } from "./interned.ts";

export interface LaneUser {
  readonly no: number;
  readonly namespace: string;
  readonly kinds: string;
  readonly queues: string | null;
  readonly labels: string;
}

export interface LaneWindow {
  readonly lanes: readonly number[];
  /** Other lanes may hold waiting jobs too. */
  readonly partial: boolean;
  /** Where the window after this one begins. */
  readonly next: number;
}

const FEW_LANES = 16;
/** Lanes of a window: some for each job that is wanted. */
const LANES_A_JOB = 4;
const MIN_WINDOW = 32;
const MAX_WINDOW = 200;
/** Waiting lanes of other sessions that are passed over for one window. */
const MAX_PASSED = 2_000;
const MAX_SESSIONS = 1_000;

export function laneFinder({ db, interned }: Context) {
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

  const known = new Map<number, { readonly version: number; readonly lanes: ReadonlySet<number> }>();
  const places = new Map<number, number>();

  /** The lanes of a session; kept until lanes are added. */
  function lanesOf(user: LaneUser): ReadonlySet<number> {
    const version = interned.laneVersion;
    const cached = known.get(user.no);
    if (cached?.version === version) return cached.lanes;
    const kinds = new Set(JSON.parse(user.kinds) as string[]);
    const queues = user.queues === null ? null : new Set(JSON.parse(user.queues) as string[]);
    const labels = JSON.parse(user.labels) as Record<string, string>;
    const fits = (lane: Lane) => {
      if (lane.namespace !== user.namespace || !kinds.has(lane.kind)) return false;
      if (queues !== null && !queues.has(lane.queue)) return false;
      return Object.entries(lane.labels).every(([name, value]) => labels[name] === value);
    };
    const lanes = new Set([...interned.lanes()].filter(fits).map((lane) => lane.no));
    if (known.size >= MAX_SESSIONS) known.clear();
    known.set(user.no, { version, lanes });
    return lanes;
  }

  /** Tells whether a lane's queue is open. */
  function openness(): (lane: number) => boolean {
    const closed = paused.all() as { namespace: string; queue: string }[];
    if (closed.length === 0) return () => true;
    const names = new Set(closed.map(({ namespace, queue }) => JSON.stringify([namespace, queue])));
    return (no) => {
      const { namespace, queue } = interned.lane(no);
      return !names.has(JSON.stringify([namespace, queue]));
    };
  }

  function windowOf(user: LaneUser, wanted: number): LaneWindow {
    const mine = lanesOf(user);
    const isOpen = openness();
    if (mine.size <= FEW_LANES) return { lanes: [...mine].filter(isOpen), partial: false, next: 0 };
    const size = Math.min(MAX_WINDOW, Math.max(MIN_WINDOW, wanted * LANES_A_JOB));
    const start = places.get(user.no) ?? 0;
    const lanes: number[] = [];
    let passed = 0;
    let wrapped = start === 0;
    for (let after = start; ; ) {
      const page = waiting.all(after, size) as [number][];
      for (const [lane] of page) {
        if (wrapped && start > 0 && lane > start) return { lanes, partial: false, next: 0 };
        after = lane;
        passed += 1;
        if (mine.has(lane) && isOpen(lane) && lanes.push(lane) === size) return { lanes, partial: true, next: lane };
      }
      if (passed >= MAX_PASSED) return { lanes, partial: true, next: after };
      if (page.length === size) continue;
      if (wrapped) return { lanes, partial: false, next: 0 };
      wrapped = true;
      after = 0;
    }
  }

  /** The next claim of this session goes on after this window. */
  function moveOn(user: LaneUser, window: LaneWindow): void {
    if (places.size >= MAX_SESSIONS) places.clear();
    places.set(user.no, window.next);
  }

  return { windowOf, moveOn };
}
