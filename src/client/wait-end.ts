/** Waits for the ends of jobs. All waits of a client share few calls that the server holds until one of their jobs has
 *  ended, with up to 1,000 jobs each. An outage is not reported to those who wait for a result: calls are repeated until it ends. */
import { LIMIT } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import { sleep } from "../lib/clock.ts";
import { systemTimers } from "../lib/system-timers.ts";
import { CallBackoff, isAway } from "../wire/repeat.ts";

export interface AwaitedJob {
  readonly id: string;
  readonly chapter: number;
}

/** Requests which jobs have ended or do not exist; empty lists if none has within `waitMs`. */
export type FetchEnds = (
  jobs: readonly AwaitedJob[],
  waitMs: number,
  signal: AbortSignal,
) => Promise<{ readonly ended: readonly string[]; readonly missing: readonly string[] }>;

/** `ended`: read the job; it has probably ended, or does not exist. */
export type WaitAnswer = "ended" | "timeout" | "aborted";

interface EndWait extends AwaitedJob {
  batch: EndWaitBatch | null;
  answer(answer: WaitAnswer): void;
  fail(error: unknown): void;
}

interface EndWaitBatch {
  readonly waits: Set<EndWait>;
  readonly stop: AbortController;
}

/** Calls with space for more jobs: new waits get a call of their own until there are this many, then all of these are
 *  merged into one. So a browser, which makes six concurrent calls to a server, has some left. */
const MAX_SMALL = 3;
/** A call with many jobs that is answered for one of them is repeated after a short pause, in which others may end. */
const LONGEST_GATHERING_MS = 100;

export class EndWaiter {
  readonly #ask: FetchEnds;
  #unasked: EndWait[] = [];
  readonly #batches = new Set<EndWaitBatch>();
  #isDue = false;
  #isClosed = false;

  constructor(ask: FetchEnds) {
    this.#ask = ask;
  }

  wait(
    job: AwaitedJob,
    options: { readonly timeoutMs: number | null; readonly signal?: AbortSignal },
  ): Promise<WaitAnswer> {
    const { timeoutMs, signal } = options;
    if (signal?.aborted) return Promise.resolve("aborted");
    if (this.#isClosed) return Promise.reject(closed());
    return new Promise((resolve, reject) => {
      const over = () => {
        cancel();
        signal?.removeEventListener("abort", abort);
        this.#leave(wait);
      };
      const wait: EndWait = {
        ...{ id: job.id, chapter: job.chapter, batch: null },
        answer: (answer) => {
          over();
          resolve(answer);
        },
        fail: (error) => {
          over();
          reject(error);
        },
      };
      const abort = () => wait.answer("aborted");
      const cancel = timeoutMs === null ? () => {} : systemTimers.after(timeoutMs, () => wait.answer("timeout"));
      signal?.addEventListener("abort", abort);
      this.#unasked.push(wait);
      this.#soon();
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const wait of [...this.#unasked, ...[...this.#batches].flatMap((batch) => [...batch.waits])]) {
      wait.fail(closed());
    }
  }

  #leave(wait: EndWait): void {
    const { batch } = wait;
    if (batch === null) {
      this.#unasked = this.#unasked.filter((each) => each !== wait);
      return;
    }
    batch.waits.delete(wait);
    if (batch.waits.size === 0) batch.stop.abort();
  }

  /** All waits that are added within one turn of the event loop share a call. */
  #soon(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setTimeout(() => {
      this.#isDue = false;
      this.#askNew();
    }, 0);
  }

  #askNew(): void {
    let waits = this.#unasked;
    if (waits.length === 0) return;
    this.#unasked = [];
    const small = this.#small();
    if (small.length >= MAX_SMALL) {
      waits = [...small.flatMap((batch) => [...batch.waits]), ...waits];
      for (const batch of small) this.#end(batch);
    }
    for (let from = 0; from < waits.length; from += LIMIT.waitJobs) {
      const batch: EndWaitBatch = {
        waits: new Set(waits.slice(from, from + LIMIT.waitJobs)),
        stop: new AbortController(),
      };
      for (const wait of batch.waits) wait.batch = batch;
      this.#batches.add(batch);
      void this.#run(batch);
    }
  }

  #small(): EndWaitBatch[] {
    return [...this.#batches].filter((batch) => batch.waits.size < LIMIT.waitJobs);
  }

  #end(batch: EndWaitBatch): void {
    this.#batches.delete(batch);
    batch.stop.abort();
  }

  async #run(batch: EndWaitBatch): Promise<void> {
    const { waits, stop } = batch;
    const backoff = new CallBackoff(Math.random);
    while (!stop.signal.aborted) {
      try {
        const { ended, missing } = await this.#ask(jobsOf(waits), LIMIT.waitMs, stop.signal);
        if (stop.signal.aborted) break;
        backoff.reset();
        const over = new Set([...ended, ...missing]);
        for (const wait of [...waits]) if (over.has(wait.id)) wait.answer("ended");
        if (waits.size > 0) await sleep(systemTimers, Math.min(LONGEST_GATHERING_MS, waits.size / 10), stop);
      } catch (error) {
        if (stop.signal.aborted) break;
        if (!isAway(error)) for (const wait of [...waits]) wait.fail(error);
        else await sleep(systemTimers, backoff.after(error), stop);
      }
      if (!stop.signal.aborted && this.#small().length > MAX_SMALL) {
        // Many have become few: merge them.
        for (const wait of waits) wait.batch = null;
        this.#unasked.push(...waits);
        this.#end(batch);
        this.#soon();
      }
    }
    this.#batches.delete(batch);
  }
}

/** Each job once, in the earliest chapter that somebody waits for: its end comes first. */
function jobsOf(waits: Iterable<EndWait>): AwaitedJob[] {
  const jobs = new Map<string, AwaitedJob>();
  for (const { id, chapter } of waits) {
    const other = jobs.get(id);
    if (other === undefined || other.chapter > chapter) jobs.set(id, { id, chapter });
  }
  return [...jobs.values()];
}

function closed(): PerdureError {
  return new PerdureError("closed", "the client is closed");
}
