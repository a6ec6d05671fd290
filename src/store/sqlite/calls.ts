/** Calls of the port on one open database: reads run at once, writes go through the writer. */
import { PerdureError } from "../../core/errors.ts";
import { sleep } from "../../lib/clock.ts";
import { readError } from "./error-classes.ts";
import { BUSY_WAIT_MS, isLocked, type SqliteVerb, type Writer, type WriterClock } from "./writer.ts";

/** Reads are only blocked while another process recovers the file after a crash: a few seconds' worth of retries. */
const MAX_LOCKED_READS = 1_000;

export class SqliteCalls {
  readonly #writer: Writer;
  readonly #clock: WriterClock;
  readonly #random: () => number;
  readonly #slicedReads = new Set<Promise<unknown>>();
  #open = true;

  constructor(writer: Writer, clock: WriterClock, random: () => number) {
    this.#writer = writer;
    this.#clock = clock;
    this.#random = random;
  }

  /** Reads run at once, in the order of the calls. */
  async answer<T>(give: () => T): Promise<T> {
    this.#checkOpen();
    return this.#readNow(give);
  }

  /** Searches and counts take several turns of the event loop: closing the store waits for them. */
  async inSlices<T>(read: (slice: <P>(give: () => P) => Promise<P>) => Promise<T>): Promise<T> {
    this.#checkOpen();
    const reading = read((give) => this.#readNow(give));
    this.#slicedReads.add(reading);
    try {
      return await reading;
    } finally {
      this.#slicedReads.delete(reading);
    }
  }

  submit<Item, Answer>(verb: SqliteVerb<Item, Answer>, items: readonly Item[]): Promise<Answer[]> {
    return this.#open ? this.#writer.submit(verb, items) : Promise.reject(closed());
  }

  async one<Item, Answer>(verb: SqliteVerb<Item, Answer>, item: Item): Promise<Answer> {
    return (await this.submit(verb, [item]))[0] as Answer;
  }

  /** Returns false if it was closed before. No call starts after it. */
  close(): boolean {
    const wasOpen = this.#open;
    this.#open = false;
    return wasOpen;
  }

  /** Resolves when all calls in progress have ended. */
  async ended(): Promise<void> {
    await this.#writer.drained();
    await Promise.allSettled(this.#slicedReads);
  }

  #checkOpen(): void {
    if (!this.#open) throw closed();
  }

  async #readNow<T>(give: () => T): Promise<T> {
    for (let tries = 0; ; tries++) {
      try {
        return give();
      } catch (error) {
        if (!isLocked(error) || tries >= MAX_LOCKED_READS || !this.#open) throw readError(error);
      }
      await sleep(this.#clock, 1 + this.#random() * BUSY_WAIT_MS);
    }
  }
}

function closed(): PerdureError {
  return new PerdureError("closed", "the store is closed");
}
