/** How much memory replies may hold, from before they are made until the kernel has taken their last byte. Whoever asks while
 *  there is none waits for a moment, and is then refused with 503, before anything is read for it. Each kind of caller has a
 *  budget of its own, and one token at most half of it: who does not read its replies takes nothing from others. */
import { PerdureError } from "../core/errors.ts";
import type { Clock } from "../lib/clock.ts";

export interface ReplyLimits {
  /** Bytes of the replies of one kind of caller. A single reply may be larger. */
  readonly maxBytes: number;
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

export const REPLIES: ReplyLimits = {
  maxBytes: 64 * 1024 * 1024, // a page of jobs has 8 MB, and more where single jobs are large
  maxWaiting: 500,
  maxWaitMs: 1_000, // whoever is overloaded says so within a second
};

/** A request that may make its reply. */
export interface Grant {
  /** It has so many bytes; before, a guess was assumed. */
  made(bytes: number): void;
  /** Sent, or not to be sent any more. */
  release(): void;
}

interface Waiter {
  readonly who: string;
  readonly guess: number;
  readonly enter: (grant: Grant) => void;
  readonly refuse: () => void;
}

interface Pool {
  /** Bytes by token. */
  readonly held: Map<string, number>;
  readonly waiting: Set<Waiter>;
}

/** How long after a refusal memory still counts as short. */
const PRESSED_MS = 2_000;

export class ReplyBudget {
  readonly #limits: ReplyLimits;
  readonly #clock: Clock;
  readonly #pools = new Map<string, Pool>();
  #waiting = 0;
  #refusedAt = Number.NEGATIVE_INFINITY;

  constructor(limits: ReplyLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  get maxBytes(): number {
    return this.#limits.maxBytes;
  }

  /** Somebody waits for memory, or did so in vain a moment ago. */
  get isPressed(): boolean {
    return this.#waiting > 0 || this.#clock.monotonic() - this.#refusedAt < PRESSED_MS;
  }

  /** Bytes held by the replies of one kind of caller. */
  held(kind: string): number {
    let sum = 0;
    for (const bytes of this.#pools.get(kind)?.held.values() ?? []) sum += bytes;
    return sum;
  }

  /** A grant now, or a promise of one; throws, or rejects, where there is no memory. */
  enter(kind: string, who: string, guess: number): Grant | Promise<Grant> {
    const pool = this.#poolOf(kind);
    if (this.#fits(pool, who, guess)) return this.#grant(pool, who, guess);
    if (pool.waiting.size >= this.#limits.maxWaiting) throw this.#refusal();
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        ...{ who, guess },
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

  #poolOf(kind: string): Pool {
    let pool = this.#pools.get(kind);
    if (pool === undefined) {
      pool = { held: new Map(), waiting: new Set() };
      this.#pools.set(kind, pool);
    }
    return pool;
  }

  /** Of a token that holds more than its half, for large replies, only the half counts against others. */
  #fits(pool: Pool, who: string, guess: number): boolean {
    const { maxBytes } = this.#limits;
    const most = maxBytes / 2;
    if ((pool.held.get(who) ?? 0) + guess > most) return false;
    let sum = guess;
    for (const bytes of pool.held.values()) sum += Math.min(bytes, most);
    return sum <= maxBytes;
  }

  #grant(pool: Pool, who: string, guess: number): Grant {
    let counted = 0;
    const count = (bytes: number) => {
      const held = (pool.held.get(who) ?? 0) + bytes - counted;
      const isLess = bytes < counted;
      counted = bytes;
      if (held > 0) pool.held.set(who, held);
      else pool.held.delete(who);
      if (isLess && pool.waiting.size > 0) this.#admit(pool);
    };
    count(guess);
    let isReleased = false;
    return {
      // A reply may be made for a caller that has gone: nobody would give its bytes back.
      made: (bytes) => isReleased || count(bytes),
      release: () => {
        isReleased = true;
        count(0);
      },
    };
  }

  /** Those that fit now, the first to come first. */
  #admit(pool: Pool): void {
    for (const waiter of pool.waiting) {
      if (!this.#fits(pool, waiter.who, waiter.guess)) continue;
      pool.waiting.delete(waiter);
      this.#waiting -= 1;
      waiter.enter(this.#grant(pool, waiter.who, waiter.guess));
    }
  }

  #refusal(): PerdureError {
    this.#refusedAt = this.#clock.monotonic();
    return new PerdureError("overloaded", "replies that were not read yet take all memory there is for them");
  }
}
