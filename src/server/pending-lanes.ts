/** Lanes that calls of this server are about to make: they are not in the store yet, and count for a quota all the same.
 *
 *  A lane that has been stored stays here until every decision that was begun before has been made: what such a decision read
 *  from the store may be older than the lane. So a lane may count twice for a moment, and none is missed. */
export class PendingLanes {
  /** By the share that they count for: how many calls are about to make each lane. */
  readonly #shares = new Map<string, Map<string, number>>();
  readonly #deciding = new Set<Promise<unknown>>();

  size(share: string): number {
    return this.#shares.get(share)?.size ?? 0;
  }

  has(share: string, lane: string): boolean {
    return this.#shares.get(share)?.has(lane) === true;
  }

  add(share: string, lane: string): void {
    const lanes = this.#shares.get(share) ?? new Map<string, number>();
    this.#shares.set(share, lanes);
    lanes.set(lane, (lanes.get(lane) ?? 0) + 1);
  }

  /** Runs a decision: it reads the store, and adds lanes in the same turn in which it counts them. */
  async decide(decision: () => Promise<void>): Promise<void> {
    const deciding = decision();
    this.#deciding.add(deciding);
    try {
      await deciding;
    } finally {
      this.#deciding.delete(deciding);
    }
  }

  /** The call that added them has ended. */
  remove(pairs: readonly (readonly [share: string, lane: string])[]): void {
    const drop = () => {
      for (const [share, lane] of pairs) this.#drop(share, lane);
    };
    if (this.#deciding.size === 0) drop();
    else void Promise.allSettled(this.#deciding).then(drop);
  }

  #drop(share: string, lane: string): void {
    const lanes = this.#shares.get(share);
    const calls = lanes?.get(lane);
    if (lanes === undefined || calls === undefined) return;
    if (calls > 1) lanes.set(lane, calls - 1);
    else lanes.delete(lane);
    if (lanes.size === 0) this.#shares.delete(share);
  }
}
