/** How many jobs a session is given at a time, so that replies stay at about sixteen megabytes: a payload may have one. The
 *  store counts jobs, not bytes, so this goes by what the session got last; a new session begins small. When heavy jobs
 *  follow light ones a reply may be larger, up to a bound: what is beyond it is to be given back.
 *
 *  Where memory for replies is short, `free` is less than that, and a session is given fewer jobs, but always one. */
import { LIMIT } from "../contract/wire.ts";
import type { ClaimedJob } from "../core/worker-protocol.ts";

const ROOM = 16_000_000;
const BOUND = 64_000_000;
/** Below this a claim was light: as many jobs again cannot matter. */
const LIGHT = 1_000_000;
const FIRST = 16;
/** Sessions that are remembered; those beyond begin small again. */
const MAX_SESSIONS = 10_000;

export class ClaimSize {
  readonly #rooms = new Map<string, number>();

  limit(session: string, asked: number, free = ROOM): number {
    const most = this.#rooms.get(session) ?? FIRST;
    const part = Math.min(1, free / ROOM);
    return Math.min(asked, Math.max(1, Math.floor(most * part)));
  }

  /** How many of these fit into one reply, at least one; what they weigh decides on the next. */
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
    this.#note(session, size < LIGHT ? LIMIT.claim : Math.max(1, Math.floor((ROOM * jobs.length) / size)));
    return fitting;
  }

  forget(session: string): void {
    this.#rooms.delete(session);
  }

  #note(session: string, room: number): void {
    this.#rooms.set(session, Math.min(room, LIMIT.claim));
    const [oldest] = this.#rooms.size > MAX_SESSIONS ? this.#rooms.keys() : [];
    if (oldest !== undefined) this.#rooms.delete(oldest);
  }
}
