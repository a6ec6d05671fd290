/** Lanes and policies are stored once and referred to by numbers, which every process caches. They are deleted when no
 *  job refers to them and they have not been used for a while. Why that is safe:
 *
 *  Before a process stores a job, it has noted in the rows of its lane and policy that they are in use, within the last
 *  `TOUCH_EVERY_MS` and in a committed transaction. So a row whose note is older than an hour
 *  (`PruneQuery.namesUnusedBefore`) is not referred to by any future job, and existing references are found by scanning
 *  all jobs, a slice at a time. Numbers are never reused: a process that still caches a deleted one finds nothing under
 *  it and stores the name again.
 *
 *  Nothing extra is written per job: an index of jobs by lane and policy would cost every submit and every change of
 *  state. */
import type { Policy } from "../core/policy/policy.ts";
import { ByteCache } from "../lib/byte-cache.ts";

/** Far below the time after which a name counts as unused. */
const TOUCH_EVERY_MS = 60_000;
/** Names of each kind in one sweep. */
export const MAX_CANDIDATES = 20_000;

/** A cached number, and when its use was last noted. */
export interface KnownName {
  readonly no: number;
  touchedAt: number;
}

/** False also if the clock was set back: then the use is noted again. */
export function isFresh({ touchedAt }: KnownName, now: number): boolean {
  return now >= touchedAt && now - touchedAt < TOUCH_EVERY_MS;
}

/** Limit of cached policies. Each may be 64 KiB of JSON, about four times as much as objects. */
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

/** One sweep: the names not used recently, minus those that jobs refer to. */
export class NameSweep {
  readonly lanes: Set<number>;
  readonly policies: Set<number>;
  /** Names not used since this time. */
  readonly unusedBefore: number;
  /** The number of the last job that was scanned. */
  after = 0;

  constructor(unusedBefore: number, lanes: Iterable<number>, policies: Iterable<number>) {
    this.unusedBefore = unusedBefore;
    this.lanes = new Set(lanes);
    this.policies = new Set(policies);
  }

  get isEmpty(): boolean {
    return this.lanes.size === 0 && this.policies.size === 0;
  }

  /** Jobs refer to these. */
  keepLanes(lanes: readonly number[]): void {
    for (const no of lanes) this.lanes.delete(no);
  }
  keepPolicies(policies: readonly number[]): void {
    for (const no of policies) this.policies.delete(no);
  }
}
