/** The reaper looks each second (more often with a short lease) for attempts whose session is silent and for jobs that
 *  waited too long, and settles them. Any number of engines may reap at once: each settle checks again under the row's
 *  lock, so they only waste each other's time. What it promises: a lost attempt is settled within lease + 2 s while any
 *  engine is awake. What it does not: that the work of a silent worker has stopped. */
import type { Report } from "../core/work.ts";
import type { ExpiredJob } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
import { DEFAULTS } from "./limits.ts";
import { Service } from "./service.ts";
import { settle } from "./settle.ts";

const BATCH = 1_000;
/** A row that cannot be settled is passed over for a while, so that a heap of them never hides the others. */
const PASS_OVER_MS = 60_000;

export class Reaper extends Service {
  readonly #parts: EngineParts;
  readonly #passedOver = new Map<string, number>();
  #last: { now: number; monotonic: number } | null = null;

  constructor(parts: EngineParts) {
    super(parts, Math.min(DEFAULTS.reapEvery, parts.reapEveryMs ?? DEFAULTS.reapEvery, parts.leaseMs / 6), "reaper");
    this.#parts = parts;
  }

  override async runOnce(): Promise<void> {
    const { store, clock, leaseMs, name } = this.#parts;
    const now = clock.now();
    const { heldUntil } = await store.beat({
      now,
      // A lease renewed every third of its time has two thirds left when a silence begins: one that could use them up
      // must be noticed, with a short lease too.
      maxGapMs: Math.min(DEFAULTS.maxBeatGap, leaseMs / 2),
      holdMs: leaseMs,
      clockJumpMs: this.#jump(now),
      engine: name,
    });
    // Of two engines that wake together after a sleep, the second must not reap before the first has said that it was one.
    if (heldUntil === Number.POSITIVE_INFINITY) return;
    await this.#endGone(now);
    for (;;) {
      const limit = BATCH + this.#passedOver.size;
      const found = await store.expired({ now, limit });
      const fresh = found.filter((job) => (this.#passedOver.get(job.jobId) ?? 0) <= now);
      if (fresh.length > 0) await this.#settle(fresh, now);
      if (found.length < limit || fresh.length === 0) break;
    }
    for (const [jobId, until] of this.#passedOver) if (until <= now) this.#passedOver.delete(jobId);
  }

  /** Ends the sessions whose process is known to be gone, so that their jobs come back at once. */
  async #endGone(now: number): Promise<void> {
    const { store, isGone } = this.#parts;
    if (isGone === undefined) return;
    for (const session of await store.openSessions()) {
      if (isGone(session)) await store.closeSession(session.id, now, "gone");
    }
  }

  async #settle(found: readonly ExpiredJob[], now: number): Promise<void> {
    const answers = await settle(this.#parts, found.map(toReport), now);
    answers.forEach((answer, i) => {
      const { jobId, attempt, why } = found[i] as ExpiredJob;
      if (answer.status === "accepted") {
        if (why === "lost") this.#tellLost(jobId, attempt, answer);
        return;
      }
      this.#passedOver.set(jobId, now + (answer.status === "refused" ? PASS_OVER_MS : 1));
      if (answer.status === "refused") this.#parts.log("error", `the reaper cannot settle ${jobId}: ${answer.message}`);
    });
  }

  #tellLost(...lost: Parameters<NonNullable<EngineParts["onLost"]>>): void {
    try {
      this.#parts.onLost?.(...lost);
    } catch (error) {
      this.#parts.log("error", `onLost: ${String(error)}`);
    }
  }

  /** How far the wall clock moved against the monotonic one since the last look. */
  #jump(now: number): number {
    const monotonic = this.#parts.clock.monotonic();
    const last = this.#last;
    this.#last = { now, monotonic };
    return last === null ? 0 : now - last.now - (monotonic - last.monotonic);
  }
}

function toReport({ jobId, attempt, why }: ExpiredJob): Report {
  const from = why === "lost" ? ({ kind: "reaper" } as const) : ({ kind: "expiry" } as const);
  return { jobId, attempt, from, outcome: { kind: why }, usage: null, log: null };
}
