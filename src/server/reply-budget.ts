/** Limits the memory of replies, from before they are made until the kernel has accepted their last byte. A request without memory
 *  for its reply waits for a moment and is then refused with 503, before anything is read for it. Each kind of caller has its own
 *  budget, of which one token can use at most half: a client that does not read its replies affects no others.
 *
 *  Workers of a fleet share a token, so their claims are admitted by session: a session that has read its own replies is admitted
 *  whatever other sessions hold, and its grant limits the size of the reply. */
import { PerdureError } from "../core/errors.ts";
import type { Clock } from "../lib/clock.ts";

export interface ReplyLimits {
  /** Bytes of the replies of one kind of caller. A single reply may be larger. */
  readonly maxBytes: number;
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

export const REPLIES: ReplyLimits = {
  maxBytes: 64 * 1024 * 1024, // a page of jobs has 8 MB, or more if single jobs are large
  maxWaiting: 500,
  maxWaitMs: 1_000, // an overload is reported within a second
};

/** Memory for one reply. */
export interface ReplyGrant {
  /** Bytes that are free for this reply now. */
  readonly freeBytes: number;
  /** The reply has this many bytes; before, a guess was assumed. */
  made(bytes: number): void;
  /** The reply was sent, or will not be sent. */
  release(): void;
}

/** For whom a reply is counted: a token, and the session of a worker if there is one. */
export interface ReplyHolder {
  readonly who: string;
  readonly session?: string;
}

interface Waiter {
  readonly holder: ReplyHolder;
  readonly guess: number;
  readonly enter: (grant: ReplyGrant) => void;
  readonly refuse: () => void;
}

interface ReplyPool {
  /** Bytes by token. */
  readonly held: Map<string, number>;
  readonly bySession: Map<string, number>;
  readonly waiting: Set<Waiter>;
}

/** Memory counts as short for this long after it was. */
const PRESSED_MS = 2_000;
/** A session is admitted until it holds a quarter: one or two replies to claims. */
const SESSIONS = 4;

export class ReplyBudget {
  readonly #limits: ReplyLimits;
  readonly #clock: Clock;
  readonly #pools = new Map<string, ReplyPool>();
  #waiting = 0;
  #shortAt = Number.NEGATIVE_INFINITY;

  constructor(limits: ReplyLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  get maxBytes(): number {
    return this.#limits.maxBytes;
  }

  /** Memory is short: a reply is waiting for it, or had none recently. */
  get isPressed(): boolean {
    return this.#waiting > 0 || this.#clock.monotonic() - this.#shortAt < PRESSED_MS;
  }

  /** Bytes held by the replies of one kind of caller. */
  held(kind: string): number {
    let sum = 0;
    for (const bytes of this.#pools.get(kind)?.held.values() ?? []) sum += bytes;
    return sum;
  }

  /** A grant, or a promise of one; throws or rejects with `overloaded` if there is no memory. */
  enter(kind: string, holder: ReplyHolder, guess: number): ReplyGrant | Promise<ReplyGrant> {
    const pool = this.#poolOf(kind);
    if (this.#fits(pool, holder, guess)) return this.#grant(pool, holder, guess);
    if (pool.waiting.size >= this.#limits.maxWaiting) throw this.#refusal();
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        ...{ holder, guess },
        enter: (grant) => {
          cancel();
          resolve(grant);
        },
        refuse: () => {
          pool.waiting.delete(waiter);
          this.#waiting -= 1;
          reject(this.#refusal());
        },
      };
      const cancel = this.#clock.after(this.#limits.maxWaitMs, waiter.refuse, { background: true });
      pool.waiting.add(waiter);
      this.#waiting += 1;
    });
  }

  #poolOf(kind: string): ReplyPool {
    let pool = this.#pools.get(kind);
    if (pool === undefined) {
      pool = { held: new Map(), bySession: new Map(), waiting: new Set() };
      this.#pools.set(kind, pool);
    }
    return pool;
  }

  #fits(pool: ReplyPool, { who, session }: ReplyHolder, guess: number): boolean {
    if (session === undefined) return guess <= this.#freeBytes(pool, who);
    return (pool.bySession.get(withinToken(who, session)) ?? 0) <= this.#limits.maxBytes / SESSIONS;
  }

  /** Bytes that are free for a token; negative if it holds too much. If a token holds more than its half, for large replies, only the
   *  half counts against others. */
  #freeBytes(pool: ReplyPool, who: string): number {
    const { maxBytes } = this.#limits;
    const most = maxBytes / 2;
    let sum = 0;
    for (const bytes of pool.held.values()) sum += Math.min(bytes, most);
    return Math.min(most - (pool.held.get(who) ?? 0), maxBytes - sum);
  }

  #grant(pool: ReplyPool, { who, session }: ReplyHolder, guess: number): ReplyGrant {
    let counted = 0;
    const count = (bytes: number) => {
      const more = bytes - counted;
      counted = bytes;
      addTo(pool.held, who, more);
      if (session !== undefined) addTo(pool.bySession, withinToken(who, session), more);
      if (more < 0 && pool.waiting.size > 0) this.#admit(pool);
    };
    const freeBytes = () => this.#freeBytes(pool, who);
    count(guess);
    let isReleased = false;
    return {
      get freeBytes() {
        return freeBytes();
      },
      // After the release the client has disconnected: the bytes would never be released.
      made: (bytes) => {
        if (isReleased) return;
        count(bytes);
        // A claim is answered with at least one job, even without memory for it.
        if (session !== undefined && freeBytes() < 0) this.#shortAt = this.#clock.monotonic();
      },
      release: () => {
        isReleased = true;
        count(0);
      },
    };
  }

  /** Admits waiting requests, in order of arrival, as far as there is memory. */
  #admit(pool: ReplyPool): void {
    for (const waiter of pool.waiting) {
      if (!this.#fits(pool, waiter.holder, waiter.guess)) continue;
      pool.waiting.delete(waiter);
      this.#waiting -= 1;
      waiter.enter(this.#grant(pool, waiter.holder, waiter.guess));
    }
  }

  #refusal(): PerdureError {
    this.#shortAt = this.#clock.monotonic();
    return new PerdureError("overloaded", "replies that clients have not read yet use all memory for replies");
  }
}

/** Sessions are counted per token, since the caller has not yet proved that the session is its own. */
function withinToken(who: string, session: string): string {
  return `${who} ${session}`;
}

function addTo(held: Map<string, number>, key: string, bytes: number): void {
  const sum = (held.get(key) ?? 0) + bytes;
  if (sum > 0) held.set(key, sum);
  else held.delete(key);
}
