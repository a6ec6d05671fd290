/** Who makes room for a suspect, which must be alone in its worker. A worker whose hands are empty takes it at once. Where all
 *  have something in hand, one of them takes nothing more until it has finished; if that takes too long, another has its
 *  turn, and at last the suspect runs beside others, so that it never waits for ever. Known to this process alone: that
 *  two processes make room for one suspect costs a little time and nothing else. */

/** A session leaves its free slots empty for at most this long, in favour of one suspect. */
export const MAKE_ROOM_MS = 30_000;
/** After this long a suspect runs beside others: then all workers hold jobs that go on and on. */
export const BESIDE_OTHERS_MS = 60_000;
/** How soon a session that makes room looks again whether it has finished. */
export const ROOM_LOOK_MS = 100;
/** More suspects than anybody waits for at a time; beyond it they begin to wait anew. */
const MAX_KNOWN = 1_000;

interface Turn {
  readonly since: number;
  readonly session: number;
  readonly until: number;
}

export class Trials {
  readonly #turns = new Map<number, Turn>();

  /** For a session that holds something, what to do about a suspect that is first in line: "wait" with empty slots, "leave" it
   *  to others, or "take" it beside what it holds. */
  turn(suspect: number, session: number, now: number): "wait" | "leave" | "take" {
    const known = this.#turns.get(suspect);
    if (known === undefined) {
      if (this.#turns.size >= MAX_KNOWN) this.#turns.clear();
      this.#turns.set(suspect, { since: now, session, until: now + MAKE_ROOM_MS });
      return "wait";
    }
    if (now - known.since >= BESIDE_OTHERS_MS) return "take";
    if (known.until > now) return known.session === session ? "wait" : "leave";
    if (known.session === session) return "leave"; // it had its turn
    this.#turns.set(suspect, { since: known.since, session, until: now + MAKE_ROOM_MS });
    return "wait";
  }

  taken(suspect: number): void {
    this.#turns.delete(suspect);
  }
}
