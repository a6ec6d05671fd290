import { describe, expect, it } from "vitest";
import { PerdureError } from "../core/errors.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import type { EngineFeedOptions } from "../engine/event-feed.ts";
import { nextTurn } from "../lib/clock.ts";
import { systemLoop } from "../lib/system-clock.ts";
import type { EventPage, EventQuery } from "../store/store.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { type Channel, EventChannels } from "./event-channel.ts";

const FOUR_MB = "x".repeat(4_000_000);
const BASE = 1_000;
const never = new AbortController().signal;

function event(seq: number, text = ""): PerdureEvent {
  return { seq, jobId: null, n: 0, at: 0, name: "e", data: { text } } as unknown as PerdureEvent;
}

async function turns(count = 5): Promise<void> {
  for (let i = 0; i < count; i++) await nextTurn(systemLoop);
}

/** Channels over events that the test adds; each page of those that are behind has one event, and `asked` their places. */
function setUp({ text = "", page }: { text?: string; page?: (query: EventQuery) => Promise<EventPage> } = {}) {
  const clock = new VirtualClock();
  const asked: number[] = [];
  const signals: AbortSignal[] = [];
  const batches: PerdureEvent[][] = [];
  let wake = () => {};
  let [underWay, most] = [0, 0];
  async function* events({ signal, onRead }: EngineFeedOptions): AsyncGenerator<PerdureEvent> {
    signals.push(signal as AbortSignal);
    while (signal?.aborted !== true) {
      const batch = batches.shift();
      if (batch === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      yield* batch;
      onRead?.(batch.at(-1)?.seq as number);
    }
  }
  const channels = new EventChannels({
    ...{ clock, events, lastSeq: async () => BASE },
    async eventPage(query) {
      asked.push(query.after);
      underWay += 1;
      most = Math.max(most, underWay);
      await nextTurn(systemLoop);
      underWay -= 1;
      return page?.(query) ?? { events: [event(query.after + 1, text)], upTo: query.after + 1, isEnd: false };
    },
  });
  return {
    ...{ clock, channels, asked, signals },
    mostAtOnce: () => most,
    add(...batch: PerdureEvent[]) {
      batches.push(batch);
      wake();
    },
  };
}

const next = (channel: Channel, place: number, caller = "a") => channel.next(place, never, caller);

describe("streams that are behind", () => {
  it("share what is read and encoded, one page at a time, and callers take turns", async () => {
    const { channels, asked, mostAtOnce } = setUp();
    const channel = channels.join({});
    const ofA = [0, 0, 0, 1, 2, 3, 4].map((place) => next(channel, place));
    const ofB = next(channel, 100, "b");
    const [first, second] = await Promise.all(ofA);
    await ofB;
    expect(mostAtOnce()).toBe(1);
    expect([...asked].sort((x, y) => x - y)).toEqual([0, 1, 2, 3, 4, 100]);
    expect(asked.indexOf(100)).toBeLessThan(3);
    const placeOf = (text?: Buffer) => [text?.buffer, text?.byteOffset];
    expect(placeOf(first?.text)).toEqual(placeOf(second?.text));
    expect(first?.text.buffer).toBe(second?.text.buffer);
  });

  it("find pages that were read a moment ago, up to 32 MB of them", async () => {
    const { channels, asked } = setUp({ text: FOUR_MB });
    const channel = channels.join({});
    for (let place = 0; place < 10; place++) await next(channel, place);
    await turns();
    await next(channel, 9);
    await next(channel, 0);
    expect(asked).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
  });

  it("wait for a store that is away", async () => {
    let calls = 0;
    const { channels, clock } = setUp({
      async page({ after }) {
        calls += 1;
        if (calls === 1) throw new PerdureError("store_unavailable", "away");
        return { events: [event(after + 1)], upTo: after + 1, isEnd: false };
      },
    });
    const chunk = next(channels.join({}), 0);
    await turns();
    clock.moveTo(clock.now() + 1_000);
    expect(await chunk).toMatchObject({ upTo: 1 });
    expect(calls).toBe(2);
  });
});

describe("streams that follow", () => {
  it("find the latest events, up to 32 MB of them, without a read", async () => {
    const { channels, asked, add } = setUp();
    const channel = channels.join({});
    const last = next(channel, BASE);
    await turns();
    for (let i = 1; i <= 10; i++) add(event(BASE + i, FOUR_MB));
    await last;
    expect(await next(channel, BASE + 9)).toMatchObject({ upTo: BASE + 10 });
    expect(asked).toEqual([]);
    await next(channel, BASE);
    expect(asked).toEqual([BASE]);
  });

  it("get their pages less often where there are many of them", async () => {
    const { channels, clock, add } = setUp();
    const channel = channels.join({});
    for (let i = 1; i < 300; i++) channels.join({});
    const first = next(channel, BASE);
    await turns();
    add(event(BASE + 1));
    await first;
    let isGiven = false;
    const second = next(channel, BASE + 1).then(() => {
      isGiven = true;
    });
    add(event(BASE + 2));
    await turns();
    expect(isGiven).toBe(false);
    clock.moveTo(clock.now() + 45);
    await second;
  });

  it("end what they follow when the last of them leaves", async () => {
    const { channels, signals } = setUp();
    const streams = [channels.join({}), channels.join({})];
    void next(streams[0] as Channel, BASE);
    await turns();
    streams[0]?.leave();
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    streams[1]?.leave();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    void next(channels.join({}), BASE);
    await turns();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });
});
