/** Limits the jobs per claim, so that replies stay at about 16 MB (a payload may have 1 MB). The store counts jobs, not bytes, so
 *  the limit of a session follows from the size of its last claims; a new session starts with few. If large jobs follow small
 *  ones, a reply may be larger, up to a bound: the jobs beyond it are released.
 *
 *  If memory for replies is short, `free` is smaller, and a session gets fewer jobs, but at least one. */
import { LIMIT } from "../contract/wire.ts";
import type { ClaimedJob } from "../core/worker-protocol.ts";

const TARGET = 16_000_000;
const BOUND = 64_000_000;
/** After a claim smaller than this, the limit of the session is removed. */
const SMALL = 1_000_000;
const FIRST = 16;
/** Sessions that are remembered; others start small again. */
const MAX_SESSIONS = 10_000;

export class ClaimSize {
  readonly #limits = new Map<string, number>();

  limit(session: string, requested: number, free = TARGET): number {
    const most = this.#limits.get(session) ?? FIRST;
    const part = Math.min(1, free / TARGET);
    return Math.min(requested, Math.max(1, Math.floor(most * part)));
  }

  /** How many of these jobs are sent in one reply, at least one; their size sets the limit of the next claim. */
  fitting(session: string, jobs: readonly ClaimedJob[], free = BOUND): number {
    const bound = Math.min(BOUND, free);
    let size = 0;
    let fitting = jobs.length;
    for (let i = 0; i < jobs.length; i++) {
      const { payload, previous } = jobs[i] as ClaimedJob;
      size += payload.length + (previous === null ? 0 : previous.length);
      if (size > bound && i > 0 && i < fitting) fitting = i;
    }
    if (jobs.length === 0) return 0;
    this.#setLimit(session, size < SMALL ? LIMIT.claim : Math.max(1, Math.floor((TARGET * jobs.length) / size)));
    return fitting;
  }

  forget(session: string): void {
    this.#limits.delete(session);
  }

  #setLimit(session: string, limit: number): void {
    this.#limits.set(session, Math.min(limit, LIMIT.claim));
    const [oldest] = this.#limits.size > MAX_SESSIONS ? this.#limits.keys() : [];
    if (oldest !== undefined) this.#limits.delete(oldest);
  }
}
