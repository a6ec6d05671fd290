/** Keeps a worker's session alive: renews its lease every third of it or more often, tells what the attempts report of
 *  themselves and how the worker fares, and passes on what the engine answers. When no renewal has come through for a whole lease it says so itself
 *  (`onLost`), without waiting for an engine that cannot be reached. */
import type { HeldAttempt, RenewAnswer, WorkerHealth } from "../core/worker-protocol.ts";
import type { Clock } from "../lib/clock.ts";
import { type EngineLink, isClosed } from "./engine-link.ts";

export interface KeeperEvents {
  held(): readonly HeldAttempt[];
  health(): WorkerHealth;
  onCancel(jobId: string, attempt: number): void;
  /** These attempts are of jobs that have spent their budget. */
  onOverspent(attempts: RenewAnswer["overspent"]): void;
  /** These attempts belong to someone else now. */
  onLost(attempts: RenewAnswer["lost"]): void;
  /** It is to take no more jobs, and leave when its hands are empty. */
  onDrain(): void;
  /** A renewal came through. */
  onRenewed(): void;
  /** No renewal for a whole lease: everything in hand is as good as lost. */
  onSilence(): void;
  /** The session is over; a new one is needed. */
  onGone(): void;
  /** A renewal did not come through; what it was to tell is given back. */
  onError(error: unknown, untold: readonly HeldAttempt[]): void;
}

/** News of an attempt (progress, usage) travels at most this often. */
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
    this.#listenFor(leaseMs);
  }

  /** There is news to tell; what comes while a renewal is under way is told by the next. */
  touch(): void {
    if (this.#renewing === null) this.#schedule(NEWS_EVERY_MS);
    else this.#nextMs = Math.min(this.#nextMs, NEWS_EVERY_MS);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer();
    this.#cancelSilence();
    await this.#renewing;
  }

  /** Says when a whole lease has passed without a renewal: also while one is under way on a line that is dead. Who comes
   *  late to this, as after a sleep of the machine, may still be known: it asks once before it gives up. */
  #listenFor(ms: number): void {
    const dueAt = this.#clock.monotonic() + ms;
    const listen = () => {
      if (this.#stopped) return;
      const now = this.#clock.monotonic();
      const left = this.#renewedAt + this.#leaseMs - now;
      if (left > 0) return this.#listenFor(left);
      if (now - dueAt > this.#leaseMs / 10) {
        this.#schedule(0);
        return this.#listenFor(this.#leaseMs / 3);
      }
      this.#events.onSilence();
      this.#listenFor(RETRY_MS);
    };
    this.#cancelSilence = this.#clock.after(ms, listen, { recheck: true });
  }
  #cancelSilence: () => void = () => {};

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
    const askedAt = this.#clock.monotonic();
    try {
      const answer = await this.#link.renew(this.#session, held, this.#events.health());
      this.#renewedAt = askedAt; // the lease may count from then: an answer can be long on its way
      this.#events.onRenewed();
      if (!answer.alive) {
        this.#stopped = true;
        this.#cancelSilence();
        this.#events.onGone();
        return;
      }
      if (answer.lost.length > 0) this.#events.onLost(answer.lost);
      if (answer.drain) this.#events.onDrain();
      for (const { jobId, attempt } of answer.cancel) this.#events.onCancel(jobId, attempt);
      if (answer.overspent.length > 0) this.#events.onOverspent(answer.overspent);
    } catch (error) {
      if (isClosed(error)) {
        this.#stopped = true;
        this.#cancelSilence();
        return;
      }
      this.#events.onError(error, held);
      this.#nextMs = Math.min(RETRY_MS, this.#everyMs);
    }
  }
}
