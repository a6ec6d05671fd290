/** Lanes: jobs of one namespace, queue, kind and set of labels wait in one lane. A claim scans those that its session
 *  can serve, from where the last scan ended. */
import { CPU_LABEL, MEMORY_LABEL } from "../core/input/resources.ts";

// Lanes: jobs of one namespace, queue, kind and set of labels wait in one lane, and a session looks through those it
// can serve.

export interface Lane {
  readonly no: number;
  readonly namespace: string;
  readonly queue: string;
  readonly kind: string;
  readonly labels: Readonly<Record<string, string>>;
}

export type NewLane = Omit<Lane, "no">;

export interface LaneUseQuery {
  readonly namespace: string;
  /** One owner, under all the texts by which its lanes are stored. */
  readonly owners: readonly string[];
  /** All of that namespace. */
  readonly lanes: readonly NewLane[];
}

export interface LaneUse {
  readonly total: number;
  readonly owned: number;
  /** For each lane that was asked for. */
  readonly exists: readonly boolean[];
}

/** What a session can serve. */
export interface Capability {
  readonly namespace: string;
  readonly kinds: readonly string[];
  /** Null: every queue of its namespace. */
  readonly queues: readonly string[] | null;
  readonly labels: Readonly<Record<string, string>>;
}

export function serves(session: Capability, lane: NewLane): boolean {
  if (lane.namespace !== session.namespace || !session.kinds.includes(lane.kind)) return false;
  if (session.queues !== null && !session.queues.includes(lane.queue)) return false;
  return Object.entries(lane.labels).every(([name, value]) =>
    isNeed(name) ? Number(session.labels[name]) >= Number(value) : session.labels[name] === value,
  );
}

/** These labels of a lane say how much of a worker its jobs take: at least so much it must have. */
function isNeed(label: string): boolean {
  return label === CPU_LABEL || label === MEMORY_LABEL;
}

/** Labels as text, the same for the same labels in any order. */
export function labelText(labels: Readonly<Record<string, string>>): string {
  const names = Object.keys(labels).sort();
  return names.length === 0 ? "{}" : JSON.stringify(Object.fromEntries(names.map((name) => [name, labels[name]])));
}

export function laneName({ namespace, queue, kind, labels }: NewLane): string {
  return JSON.stringify([namespace, queue, kind, labelText(labels)]);
}

/** Lanes of a claim beside each other, and how far it looks at a time. */
export interface LaneWindow {
  readonly lanes: readonly number[];
  /** Other lanes may hold waiting jobs too. */
  readonly partial: boolean;
  /** Where the window after this one begins. */
  readonly next: number;
}

export const FEW_LANES = 16;
/** Lanes of a window: some for each job that is wanted. */
const LANES_A_JOB = 4;
const MIN_WINDOW = 32;
const MAX_WINDOW = 200;
/** Waiting lanes of other sessions that are passed over for one window. */
const MAX_PASSED = 2_000;

export function windowSize(wanted: number): number {
  return Math.min(MAX_WINDOW, Math.max(MIN_WINDOW, wanted * LANES_A_JOB));
}

// The walk of a claim through the lanes that hold waiting jobs, from where the last one ended, round to there again.

/** The waiting lanes after a number, in their order: a row each, as a database gives them. */
type LanePage = readonly (readonly unknown[])[];

interface LaneWalk {
  /** Where it begins; 0: before the first lane. */
  readonly start: number;
  /** Lanes of a page, and at most of the window. */
  readonly size: number;
  readonly isWanted: (lane: number) => boolean;
}

/** Yields the number after which it wants the next page. A generator, as one adapter reads at once and the other waits. */
export function* walkLanes({ start, size, isWanted }: LaneWalk): Generator<number, LaneWindow, LanePage> {
  const lanes: number[] = [];
  let passed = 0;
  let wrapped = start === 0;
  for (let after = start; ; ) {
    const page = yield after;
    for (const [no] of page) {
      const lane = no as number;
      if (wrapped && start > 0 && lane > start) return { lanes, partial: false, next: 0 };
      after = lane;
      passed += 1;
      if (isWanted(lane) && lanes.push(lane) === size) return { lanes, partial: true, next: lane };
    }
    if (passed >= MAX_PASSED) return { lanes, partial: true, next: after };
    if (page.length === size) continue;
    if (wrapped) return { lanes, partial: false, next: 0 };
    wrapped = true;
    after = 0;
  }
}
