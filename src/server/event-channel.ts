/** Events for all streams with the same filter: read from the store once, made into text once, and given to each at its own
 *  place. The latest are kept for a while, up to a number of bytes, so that streams that are a little behind, or join in the
 *  middle, need no reads of their own. One that is further behind reads pages, one at a time for all, and those that come to
 *  the same place soon share them. A stream that takes nothing asks for nothing, and keeps nothing alive. */
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

/** Bytes that are kept of the latest events, in all channels together; and as many of those that streams are behind. */
const KEPT_BYTES = 32 * 1024 * 1024;
const PAGE = 500;
/** Pages that streams that are behind are given in one turn of the event loop, all of them together. The kernel takes up to four
 *  megabytes for a peer on this machine that reads nothing, and to copy them is what a stream costs. */
const PAGES_PER_TURN = 2;
/** To write to a stream takes about so long: with many of them, pages are made less often, and larger. So all streams together
 *  take no more than about a tenth of the time. */
const WRITE_MS = 0.15;
const SHORTEST_PAUSE_MS = 5;
const OUTAGE_PAUSE_MS = 1_000;

/** What a stream is given: text to be sent, and the place after it. */
export interface EventChunk {
  readonly text: Buffer;
  readonly upTo: number;
}

/** A run of events, as text. */
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

  /** What comes after a place within it. */
  from(place: number): EventChunk {
    const first = this.#seqs.findIndex((seq) => seq > place);
    const text = first === -1 ? this.text.subarray(0, 0) : this.text.subarray(this.#starts[first]);
    return { text, upTo: this.upTo };
  }
}

export function textOf(event: PerdureEvent): string {
  return `id: ${event.seq}\nevent: ${event.name}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** The channels of a server, by their filters. One is there while a stream is. */
export class EventChannels {
  readonly #parts: ChannelParts;
  readonly #open = new Map<string, Channel>();
  /** Pages of those that are behind are read one after the other. */
  #reading: Promise<unknown> = Promise.resolve();
  readonly #behind: TurnLimiter;

  constructor(parts: ChannelParts) {
    this.#parts = parts;
    this.#behind = new TurnLimiter(PAGES_PER_TURN, parts.clock);
  }

  /** For one stream; `leave` is to be called at its end. */
  join(which: EventSelection): Channel {
    const name = JSON.stringify([which.jobId ?? null, which.namespace ?? null]);
    const channel = this.#open.get(name) ?? new Channel(this.#parts, which, this.#upkeep(name));
    this.#open.set(name, channel);
    channel.streams += 1;
    return channel;
  }

  #upkeep(name: string): ChannelUpkeep {
    return {
      room: () => KEPT_BYTES / Math.max(1, this.#open.size),
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
  /** Resolves when a page may be given to a stream of this caller that is behind. */
  pass(caller: string): Promise<void>;
  /** Bytes that this channel may keep. */
  room(): number;
  empty(): void;
  inTurn<T>(read: () => Promise<T>): Promise<T>;
}

export class Channel {
  readonly #parts: ChannelParts;
  readonly #which: EventSelection;
  readonly #upkeep: ChannelUpkeep;
  readonly #over = new AbortController();
  readonly #waiting = new Set<() => void>();
  /** Pages of streams that are behind, the latest that were read last. */
  readonly #behind = new Map<number, Promise<EventChannelPage>>();
  #behindBytes = 0;
  /** The latest, oldest first, without gaps. */
  #kept: EventChannelPage[] = [];
  #keptBytes = 0;
  /** All that fits is known between these. */
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

  /** What comes after this place, as soon as there is something. Null when the signal aborts. Streams that are behind get their
   *  pages in turn by caller. */
  async next(place: number, signal: AbortSignal, caller: string): Promise<EventChunk | null> {
    this.#started ??= this.#start();
    await this.#started;
    for (;;) {
      if (this.#broken !== null) throw this.#broken;
      if (signal.aborted) return null;
      if (place < this.#oldest) return this.#catchUp(place, signal, caller);
      const page = this.#kept.find(({ upTo }) => upTo > place);
      if (page !== undefined) return page.from(place);
      await this.#news(signal);
    }
  }

  /** The place to go on from for whoever has all that fits up to this one: what came since is not for it. */
  passed(place: number): number {
    const last = this.#kept.at(-1)?.upTo ?? this.#oldest;
    return place < last ? place : Math.max(place, this.#head);
  }

  get #oldest(): number {
    return this.#kept[0]?.after ?? this.#base;
  }

  async #start(): Promise<void> {
    this.#base = await this.#patiently(() => this.#parts.lastSeq(), this.#over.signal);
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
    while (this.#keptBytes > this.#upkeep.room() && this.#kept.length > 1) {
      this.#keptBytes -= (this.#kept.shift() as EventChannelPage).text.length;
    }
    this.#wake();
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  #news(signal: AbortSignal): Promise<void> {
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

  /** Reads a page of what is no longer kept. */
  async #catchUp(place: number, signal: AbortSignal, caller: string): Promise<EventChunk | null> {
    await this.#upkeep.pass(caller);
    if (signal.aborted) return null;
    let reading = this.#behind.get(place);
    if (reading === undefined) {
      reading = this.#upkeep.inTurn(() => this.#patiently(() => this.#read(place), this.#over.signal));
      this.#behind.set(place, reading);
      reading.then(
        ({ text }) => void this.#keepSome(text.length),
        () => void this.#behind.delete(place),
      );
    }
    const page = await reading;
    return signal.aborted ? null : page.from(place);
  }

  /** Lets go of the oldest pages where there are more bytes than this channel may keep. */
  async #keepSome(bytes: number): Promise<void> {
    this.#behindBytes += bytes;
    for (const [place, reading] of this.#behind) {
      if (this.#behindBytes <= this.#upkeep.room() || this.#behind.size === 1) return;
      this.#behind.delete(place);
      this.#behindBytes -= (await reading).text.length;
    }
  }

  async #read(place: number): Promise<EventChannelPage> {
    const oldest = this.#oldest;
    const query = { ...this.#which, after: place, limit: PAGE };
    const { events, upTo, isEnd } = await this.#parts.eventPage(query);
    // At the end nothing is left before the place where the kept ones begin.
    return new EventChannelPage(place, isEnd ? Math.max(upTo, oldest) : upTo, events);
  }

  /** Whoever follows has a place to go on from: an outage of the store is waited out. */
  async #patiently<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
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
