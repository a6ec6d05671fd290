/** Keeps a worker's session alive: renews its lease at least every third of it, sends progress and logs of attempts and the
 *  worker's health, and passes on the engine's answer. If no renewal has succeeded for a whole lease, it calls `onUnreachable`
 *  without waiting for the engine. */
import type { HeldAttempt, RenewAnswer, WorkerHealth } from "../core/worker-protocol.ts";
import type { Clock } from "../lib/clock.ts";
import { type EngineLink, isClosed } from "./engine-link.ts";

export interface KeeperEvents {
  held(): readonly HeldAttempt[];
  health(): WorkerHealth;
  onCancel(jobId: string, attempt: number): void;
  /** These attempts are of jobs that have spent their budget. */
  onOverspent(attempts: RenewAnswer["overspent"]): void;
  /** This session no longer holds these attempts. */
  onLost(attempts: RenewAnswer["lost"]): void;
  /** The worker must stop claiming, and stop when it holds no more attempts. */
  onDrain(): void;
  /** A renewal succeeded. */
  onRenewed(): void;
  /** No renewal has succeeded for a whole lease: all held attempts may be lost. Repeated until one succeeds. */
  onUnreachable(): void;
  /** The session has ended; a new one is needed. */
  onSessionEnded(): void;
  /** A renewal failed; `held` is what it contained. */
  onError(error: unknown, held: readonly HeldAttempt[]): void;
}

/** News of an attempt (progress, usage, log) is sent at most this often. */
const NEWS_EVERY_MS = 1_000;
const RETRY_MS = 1_000;

export class SessionKeeper {
  readonly #link: EngineLink;
  readonly #clock: Clock;
  readonly #session: string;
  readonly #leaseMs: number;
  readonly #everyMs: number;
  readonly #events: KeeperEvents;
  #cancelTimer: () => void = () => {};
  #dueAt = Number.POSITIVE_INFINITY;
  #renewing: Promise<void> | null = null;
  #renewedAt: number;
  #stopped = false;

  constructor(link: EngineLink, clock: Clock, session: string, leaseMs: number, events: KeeperEvents) {
    this.#link = link;
    this.#clock = clock;
    this.#session = session;
    this.#leaseMs = leaseMs;
    this.#events = events;
    this.#renewedAt = clock.monotonic();
    this.#everyMs = Math.min(leaseMs / 3, link.heartbeatMs ?? Number.POSITIVE_INFINITY);
    this.#schedule(this.#everyMs);
    this.#watchLease(leaseMs);
  }

  /** There is news to send: renew soon. News during a renewal is sent with the next one. */
  touch(): void {
    if (this.#renewing === null) this.#schedule(NEWS_EVERY_MS);
    else this.#nextMs = Math.min(this.#nextMs, NEWS_EVERY_MS);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer();
    this.#cancelWatch();
    await this.#renewing;
  }

  /** Calls `onUnreachable` when a whole lease has passed without a renewal, even while one is in progress on a dead connection.
   *  If this timer itself is late, as after a sleep of the machine, the session may still be alive: it is renewed first. */
  #watchLease(ms: number): void {
    const dueAt = this.#clock.monotonic() + ms;
    const check = () => {
      if (this.#stopped) return;
      const now = this.#clock.monotonic();
      const left = this.#renewedAt + this.#leaseMs - now;
      if (left > 0) return this.#watchLease(left);
      if (now - dueAt > this.#leaseMs / 10) {
        this.#schedule(0);
        return this.#watchLease(this.#leaseMs / 3);
      }
      this.#events.onUnreachable();
      this.#watchLease(RETRY_MS);
    };
    this.#cancelWatch = this.#clock.after(ms, check, { recheck: true });
  }
  #cancelWatch: () => void = () => {};

  /** Keeps the earlier of two times. */
  #schedule(ms: number): void {
    const at = this.#clock.monotonic() + ms;
    if (this.#stopped || this.#renewing !== null || at >= this.#dueAt) return;
    this.#dueAt = at;
    this.#cancelTimer();
    const renew = () => {
      this.#dueAt = Number.POSITIVE_INFINITY;
      this.#renewing = this.#renew().finally(() => {
        this.#renewing = null;
        this.#schedule(this.#nextMs);
      });
    };
    this.#cancelTimer = this.#clock.after(ms, renew, { recheck: ms >= this.#everyMs });
  }
  #nextMs = 0;

  async #renew(): Promise<void> {
    this.#nextMs = this.#everyMs;
    const held = this.#events.held();
    const sentAt = this.#clock.monotonic();
    try {
      const answer = await this.#link.renew(this.#session, held, this.#events.health());
      this.#renewedAt = sentAt; // the lease may count from then: the answer can take long to arrive
      this.#events.onRenewed();
      if (!answer.alive) {
        this.#stopped = true;
        this.#cancelWatch();
        this.#events.onSessionEnded();
        return;
      }
      if (answer.lost.length > 0) this.#events.onLost(answer.lost);
      if (answer.drain) this.#events.onDrain();
      for (const { jobId, attempt } of answer.cancel) this.#events.onCancel(jobId, attempt);
      if (answer.overspent.length > 0) this.#events.onOverspent(answer.overspent);
    } catch (error) {
      if (isClosed(error)) {
        this.#stopped = true;
        this.#cancelWatch();
        return;
      }
      this.#events.onError(error, held);
      this.#nextMs = Math.min(RETRY_MS, this.#everyMs);
    }
  }
}
