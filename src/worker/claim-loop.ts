/** Claims jobs for a worker as slots become free. One claim waits for jobs; further claims run beside it only while there are
 *  more jobs than one claim returns. The engine keeps account of CPU and memory. */
import type { ClaimedJob } from "../core/worker-protocol.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import { type EngineLink, isClosed } from "./engine-link.ts";
import type { WorkerTrouble } from "./health.ts";

/** The worker, as its claim loop sees it. */
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
  /** The session has ended. Resolves when a new one is open. */
  reopen(): Promise<void>;
  /** The engine wants this worker to stop claiming. */
  drain(): void;
}

const CLAIM_WAIT_MS = 30_000;
const RETRY_MS = 1_000;
/** With fewer slots one claim at a time fills them all. */
const MANY_SLOTS = 64;
/** A store returns at most about this many per claim, however many slots are free. */
const MANY_JOBS = 500;

export class ClaimLoop {
  readonly #worker: ClaimingWorker;
  /** Claims in progress, and the slots reserved for them. */
  #claims = 0;
  #reserved = 0;
  /** The last claim got as many jobs as it could. */
  #hasMore = false;
  #reopening: Promise<void> | null = null;
  #wake: () => void = () => {};

  constructor(worker: ClaimingWorker) {
    this.#worker = worker;
  }

  /** Until the worker stops. */
  async run(): Promise<void> {
    const { link, slots, stopping, running } = this.#worker;
    const { signal } = stopping;
    const atOnce = slots < MANY_SLOTS ? 1 : link.claimsAtOnce;
    const share = Math.ceil(slots / atOnce);
    const inProgress = new Set<Promise<void>>();
    while (!signal.aborted) {
      const limit = Math.min(share, slots - running() - this.#reserved);
      const mayClaim = this.#claims === 0 || (this.#claims < atOnce && this.#hasMore);
      if (limit <= 0 || !mayClaim) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        // Handlers that end in the same turn of the event loop free their slots together: after a tick one claim fills all of
        // these slots, and shares the commit of their reports.
        await new Promise<void>((resolve) => this.#worker.clock.tick(resolve));
        continue;
      }
      this.#claims += 1;
      this.#reserved += limit;
      const claim = this.#claim(limit, this.#claims === 1 ? CLAIM_WAIT_MS : 0);
      inProgress.add(claim);
      void claim.then(() => inProgress.delete(claim));
    }
    await Promise.all(inProgress);
  }

  /** A slot is free, or the worker is stopping. */
  slotFreed(): void {
    this.#wake();
  }

  async #claim(limit: number, waitMs: number): Promise<void> {
    const { clock, trouble, stopping } = this.#worker;
    try {
      await this.#claimOnce({ limit, waitMs, signal: stopping.signal });
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
      this.#reserved -= limit;
      this.#wake();
    }
  }

  async #claimOnce(options: Parameters<EngineLink["claim"]>[1]): Promise<void> {
    const { link, clock, stopping, start, drain } = this.#worker;
    const session = this.#worker.session();
    const answer = await link.claim(session, options);
    this.#hasMore = answer.jobs.length >= Math.min(options.limit, MANY_JOBS);
    if (!answer.alive && !stopping.signal.aborted && this.#worker.session() === session) {
      this.#reopening ??= this.#worker.reopen().finally(() => {
        this.#reopening = null;
      });
      await this.#reopening;
    }
    const startedAt = clock.monotonic();
    for (const job of answer.jobs) start(job, session, startedAt);
    if (answer.drain) drain();
  }
}
