/** Lanes and policies are stored once, and named by numbers that every process keeps in memory. They are deleted when no job
 *  names them and nobody has used them for a while. What makes that safe:
 *
 *  Whoever is about to store a job has noted in the row of its lane and its policy that they are in use, within the last
 *  `TOUCH_EVERY_MS` and in a transaction that has ended. A row whose note is older than an hour (`PruneQuery.namesUnusedBefore`)
 *  is therefore named by no job that is yet to come, and those that are there are found by looking through all of them, a slice at
 *  a time. Numbers are never used again, so a process that still knows a deleted one finds nothing under it, and stores it anew.
 *
 *  Nothing is written for a job: an index of jobs by lane and by policy would cost every submit and every change of state. */
import type { Policy } from "../core/policy/policy.ts";
import { ByteCache } from "../lib/byte-cache.ts";

/** Far below the time after which a name counts as unused. */
const TOUCH_EVERY_MS = 60_000;
/** Names of one sweep, of each sort. */
export const MAX_CANDIDATES = 20_000;

/** A number that was met, and when it was last noted that it is in use. */
export interface KnownName {
  readonly no: number;
  touchedAt: number;
}

/** Clocks may be set back: then it is noted again. */
export function isFresh({ touchedAt }: KnownName, now: number): boolean {
  return now >= touchedAt && now - touchedAt < TOUCH_EVERY_MS;
}

/** Policies in memory, by number. Each may be 64 KiB of JSON, which as objects is about four times as much. */
const POLICY_BYTES = 16 * 1024 * 1024;
const OBJECT_FACTOR = 4;

export class PolicyMemory {
  readonly #byNo: ByteCache<number, Policy>;

  constructor(maxBytes = POLICY_BYTES) {
    this.#byNo = new ByteCache(maxBytes);
  }

  get(no: number): Policy | undefined {
    return this.#byNo.get(no);
  }
  set(no: number, policy: Policy, body: string): void {
    this.#byNo.set(no, policy, OBJECT_FACTOR * body.length);
  }
  clear(): void {
    this.#byNo.clear();
  }
}

/** One sweep: the names that nobody used of late, less those that are met among the jobs. */
export class NameSweep {
  readonly lanes: Set<number>;
  readonly policies: Set<number>;
  /** It is about names that were not used since. */
  readonly unusedBefore: number;
  /** The number of the last job that was looked at. */
  after = 0;

  constructor(unusedBefore: number, lanes: Iterable<number>, policies: Iterable<number>) {
    this.unusedBefore = unusedBefore;
    this.lanes = new Set(lanes);
    this.policies = new Set(policies);
  }

  get isEmpty(): boolean {
    return this.lanes.size === 0 && this.policies.size === 0;
  }

  /** Jobs name these. */
  lanesMet(lanes: readonly number[]): void {
    for (const no of lanes) this.lanes.delete(no);
  }
  policiesMet(policies: readonly number[]): void {
    for (const no of policies) this.policies.delete(no);
  }
}
