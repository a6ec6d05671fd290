/** Claims jobs for a worker as it has free slots. One claim waits for jobs; more go beside it only while there is plenty. What
 *  of cpu and memory is left, the engine counts: a claim that waits for some gets it as soon as it is free. */
import type { ClaimedJob } from "../core/worker-protocol.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import { type EngineLink, isClosed } from "./engine-link.ts";
import type { WorkerTrouble } from "./health.ts";

/** The worker it claims for. */
export interface ClaimingWorker {
  readonly link: EngineLink;
  readonly clock: Clock;
  readonly trouble: Pick<WorkerTrouble, "failed" | "works">;
  readonly slots: number;
  /** Aborted: no more claims. */
  readonly stopping: AbortController;
  session(): string;
  /** Handlers running now. */
  running(): number;
  start(job: ClaimedJob, session: string, startedAt: number): void;
  /** The session is over. Resolves when there is another. */
  reopen(): Promise<void>;
  /** It is to take no more jobs. */
  leave(): void;
}

const CLAIM_WAIT_MS = 30_000;
const RETRY_MS = 1_000;
/** With fewer slots one claim at a time fills them all. */
const MANY_SLOTS = 64;
/** A store gives no more than about this many at a time, however many slots are free. */
const MANY_JOBS = 500;

export class ClaimLoop {
  readonly #for: ClaimingWorker;
  /** Claims under way, and the slots kept for them. */
  #claims = 0;
  #claiming = 0;
  /** The last claim got all it asked for, or very many. */
  #isPlenty = false;
  #reopening: Promise<void> | null = null;
  #wake: () => void = () => {};

  constructor(claimant: ClaimingWorker) {
    this.#for = claimant;
  }

  /** Until the worker stops. */
  async run(): Promise<void> {
    const { link, slots, stopping, running } = this.#for;
    const { signal } = stopping;
    const atOnce = slots < MANY_SLOTS ? 1 : link.claimsAtOnce;
    const share = Math.ceil(slots / atOnce);
    const underWay = new Set<Promise<void>>();
    while (!signal.aborted) {
      const limit = Math.min(share, slots - running() - this.#claiming);
      // A second claim beside the first only while there is more than one can have: else both would wait for nothing.
      const isRoom = this.#claims === 0 || (this.#claims < atOnce && this.#isPlenty);
      if (limit <= 0 || !isRoom) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        // Handlers that end in this turn of the event loop free their slots together: by the next tick all have, one
        // claim serves them all, and it shares the commit of their reports.
        await new Promise<void>((resolve) => this.#for.clock.tick(resolve));
        continue;
      }
      this.#claims += 1;
      this.#claiming += limit;
      const claim = this.#claim(limit, this.#claims === 1 ? CLAIM_WAIT_MS : 0);
      underWay.add(claim);
      void claim.then(() => underWay.delete(claim));
    }
    await Promise.all(underWay);
  }

  /** A slot is free, or the worker stops. */
  slotFreed(): void {
    this.#wake();
  }

  async #claim(limit: number, waitMs: number): Promise<void> {
    const { clock, trouble, stopping } = this.#for;
    try {
      await this.#ask({ limit, waitMs, signal: stopping.signal });
      trouble.works();
    } catch (error) {
      if (stopping.signal.aborted) return;
      if (isClosed(error)) stopping.abort();
      else {
        trouble.failed("claims", "cannot claim", error);
        await sleep(clock, RETRY_MS, { signal: stopping.signal });
      }
    } finally {
      this.#claims -= 1;
      this.#claiming -= limit;
      this.#wake();
    }
  }

  async #ask(options: Parameters<EngineLink["claim"]>[1]): Promise<void> {
    const { link, clock, stopping, start, leave } = this.#for;
    const session = this.#for.session();
    const answer = await link.claim(session, options);
    this.#isPlenty = answer.jobs.length >= Math.min(options.limit, MANY_JOBS);
    if (!answer.alive && !stopping.signal.aborted && this.#for.session() === session) {
      this.#reopening ??= this.#for.reopen().finally(() => {
        this.#reopening = null;
      });
      await this.#reopening;
    }
    const startedAt = clock.monotonic();
    for (const job of answer.jobs) start(job, session, startedAt);
    if (answer.drain) leave();
  }
}
