/** Events for all streams with the same filter: read from the store once, serialized once, and given to each stream at its own
 *  position. The latest events are kept in memory up to a limit, so that streams that are slightly behind need no reads of their
 *  own. Streams that are further behind read pages, one at a time for all streams, and share pages of the same position. A stream
 *  whose client reads nothing causes no reads and keeps nothing in memory. */
import { isOutage } from "../core/errors.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import type { EngineFeedOptions } from "../engine/event-feed.ts";
import { type Clock, nextTurn, sleep } from "../lib/clock.ts";
import type { EventPage, EventQuery } from "../store/store.ts";
import { TurnLimiter } from "./turn-limiter.ts";

export interface EventSelection {
  readonly jobId?: string;
  readonly namespace?: string;
}

export interface ChannelParts {
  readonly clock: Clock;
  readonly events: (options: EngineFeedOptions) => AsyncIterable<PerdureEvent>;
  readonly eventPage: (query: EventQuery) => Promise<EventPage>;
  readonly lastSeq: () => Promise<number>;
}

/** Limit of the latest events in memory, of all channels together; and the same for pages of streams that are behind. */
const KEPT_BYTES = 32 * 1024 * 1024;
const PAGE = 500;
/** Pages for streams that are behind, per turn of the event loop, of all streams together. Most of the cost is copying: the kernel
 *  accepts up to 4 MB for a local peer that reads nothing. */
const PAGES_PER_TURN = 2;
/** Approximate time of a write to one stream. With many streams, pages are made less often and larger, so that all writes together
 *  take about a tenth of the time. */
const WRITE_MS = 0.15;
const SHORTEST_PAUSE_MS = 5;
const OUTAGE_PAUSE_MS = 1_000;

/** Text to be sent, and the position after it. */
export interface EventChunk {
  readonly text: Buffer;
  readonly upTo: number;
}

/** Consecutive events, as text. */
class EventChannelPage {
  readonly after: number;
  readonly upTo: number;
  readonly text: Buffer;
  readonly #seqs: readonly number[];
  readonly #starts: readonly number[];

  constructor(after: number, upTo: number, events: readonly PerdureEvent[]) {
    this.after = after;
    this.upTo = upTo;
    const texts = events.map((event) => Buffer.from(textOf(event)));
    const starts: number[] = [];
    let size = 0;
    for (const text of texts) {
      starts.push(size);
      size += text.length;
    }
    this.text = Buffer.concat(texts, size);
    this.#seqs = events.map(({ seq }) => seq);
    this.#starts = starts;
  }

  /** The part after a position. */
  from(position: number): EventChunk {
    const first = this.#seqs.findIndex((seq) => seq > position);
    const text = first === -1 ? this.text.subarray(0, 0) : this.text.subarray(this.#starts[first]);
    return { text, upTo: this.upTo };
  }
}

export function textOf(event: PerdureEvent): string {
  return `id: ${event.seq}\nevent: ${event.name}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** The channels of a server, by filter. A channel exists while it has streams. */
export class EventChannels {
  readonly #parts: ChannelParts;
  readonly #open = new Map<string, Channel>();
  /** Pages for streams that are behind are read one after the other. */
  #reading: Promise<unknown> = Promise.resolve();
  readonly #behind: TurnLimiter;

  constructor(parts: ChannelParts) {
    this.#parts = parts;
    this.#behind = new TurnLimiter(PAGES_PER_TURN, parts.clock);
  }

  /** For one stream, which must call `leave` at its end. */
  join(which: EventSelection): Channel {
    const name = JSON.stringify([which.jobId ?? null, which.namespace ?? null]);
    const channel = this.#open.get(name) ?? new Channel(this.#parts, which, this.#upkeep(name));
    this.#open.set(name, channel);
    channel.streams += 1;
    return channel;
  }

  #upkeep(name: string): ChannelUpkeep {
    return {
      maxBytes: () => KEPT_BYTES / Math.max(1, this.#open.size),
      empty: () => void this.#open.delete(name),
      inTurn: (read) => {
        const result = this.#reading.then(read);
        const turn = () => nextTurn(this.#parts.clock);
        this.#reading = result.then(turn, turn);
        return result;
      },
      pass: (caller) => this.#behind.pass(caller),
    };
  }
}

interface ChannelUpkeep {
  /** Resolves when a stream of this caller that is behind may get a page. */
  pass(caller: string): Promise<void>;
  /** The share of this channel in the memory limit. */
  maxBytes(): number;
  empty(): void;
  inTurn<T>(read: () => Promise<T>): Promise<T>;
}

export class Channel {
  readonly #parts: ChannelParts;
  readonly #which: EventSelection;
  readonly #upkeep: ChannelUpkeep;
  readonly #over = new AbortController();
  readonly #waiting = new Set<() => void>();
  /** Pages for streams that are behind, in the order in which they were read. */
  readonly #behind = new Map<number, Promise<EventChannelPage>>();
  #behindBytes = 0;
  /** The latest pages, oldest first, without gaps. */
  #kept: EventChannelPage[] = [];
  #keptBytes = 0;
  /** All matching events between these positions are known. */
  #base = 0;
  #head = 0;
  #started: Promise<void> | null = null;
  #broken: unknown = null;
  streams = 0;

  constructor(parts: ChannelParts, which: EventSelection, upkeep: ChannelUpkeep) {
    this.#parts = parts;
    this.#which = which;
    this.#upkeep = upkeep;
  }

  leave(): void {
    this.streams -= 1;
    if (this.streams > 0) return;
    this.#over.abort();
    this.#upkeep.empty();
  }

  /** Events after this position, as soon as there are any; null when the signal is aborted. Streams that are behind get pages
   *  in turn by caller. */
  async next(position: number, signal: AbortSignal, caller: string): Promise<EventChunk | null> {
    this.#started ??= this.#start();
    await this.#started;
    for (;;) {
      if (this.#broken !== null) throw this.#broken;
      if (signal.aborted) return null;
      if (position < this.#oldest) return this.#catchUp(position, signal, caller);
      const page = this.#kept.find(({ upTo }) => upTo > position);
      if (page !== undefined) return page.from(position);
      await this.#untilNews(signal);
    }
  }

  /** The position to resume from for a stream that has all matching events up to this one: later events that do not match are
   *  skipped. */
  passed(position: number): number {
    const last = this.#kept.at(-1)?.upTo ?? this.#oldest;
    return position < last ? position : Math.max(position, this.#head);
  }

  get #oldest(): number {
    return this.#kept[0]?.after ?? this.#base;
  }

  async #start(): Promise<void> {
    this.#base = await this.#retryOutages(() => this.#parts.lastSeq(), this.#over.signal);
    this.#head = this.#base;
    void this.#follow().catch((error: unknown) => {
      this.#broken = error;
      this.#wake();
    });
  }

  async #follow(): Promise<void> {
    const { events, clock } = this.#parts;
    const { signal } = this.#over;
    let batch: PerdureEvent[] = [];
    let pauseMs = 0;
    const onRead = (upTo: number) => {
      const some = batch;
      batch = [];
      this.#add(some, upTo);
      pauseMs = some.length === 0 ? 0 : this.streams * WRITE_MS;
    };
    const after = this.#head;
    for await (const event of events({ ...this.#which, after, follow: true, signal, onRead })) {
      if (batch.push(event) === 1 && pauseMs >= SHORTEST_PAUSE_MS) {
        await sleep(clock, pauseMs, { signal, background: true });
      }
    }
  }

  #add(events: readonly PerdureEvent[], upTo: number): void {
    const after = this.#kept.at(-1)?.upTo ?? this.#base;
    this.#head = upTo;
    if (events.length === 0) return;
    const page = new EventChannelPage(after, upTo, events);
    this.#kept.push(page);
    this.#keptBytes += page.text.length;
    while (this.#keptBytes > this.#upkeep.maxBytes() && this.#kept.length > 1) {
      this.#keptBytes -= (this.#kept.shift() as EventChannelPage).text.length;
    }
    this.#wake();
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  #untilNews(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#waiting.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      signal.addEventListener("abort", done);
      this.#waiting.add(done);
    });
  }

  /** Reads a page of events that are not in memory any more. */
  async #catchUp(position: number, signal: AbortSignal, caller: string): Promise<EventChunk | null> {
    await this.#upkeep.pass(caller);
    if (signal.aborted) return null;
    let reading = this.#behind.get(position);
    if (reading === undefined) {
      reading = this.#upkeep.inTurn(() => this.#retryOutages(() => this.#read(position), this.#over.signal));
      this.#behind.set(position, reading);
      reading.then(
        ({ text }) => void this.#trimBehind(text.length),
        () => void this.#behind.delete(position),
      );
    }
    const page = await reading;
    return signal.aborted ? null : page.from(position);
  }

  /** Drops the oldest pages beyond the memory limit of this channel. */
  async #trimBehind(bytes: number): Promise<void> {
    this.#behindBytes += bytes;
    for (const [position, reading] of this.#behind) {
      if (this.#behindBytes <= this.#upkeep.maxBytes() || this.#behind.size === 1) return;
      this.#behind.delete(position);
      this.#behindBytes -= (await reading).text.length;
    }
  }

  async #read(position: number): Promise<EventChannelPage> {
    const oldest = this.#oldest;
    const query = { ...this.#which, after: position, limit: PAGE };
    const { events, upTo, isEnd } = await this.#parts.eventPage(query);
    // At the end no event is left before those that are kept in memory.
    return new EventChannelPage(position, isEnd ? Math.max(upTo, oldest) : upTo, events);
  }

  /** Retries during an outage of the store: a stream resumes at its position. */
  async #retryOutages<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      try {
        return await read();
      } catch (error) {
        if (!isOutage(error) || signal.aborted) throw error;
        await sleep(this.#parts.clock, OUTAGE_PAUSE_MS, { signal });
      }
    }
  }
}
