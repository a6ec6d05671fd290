import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";
import { openBench } from "../../test/kit.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import type { Engine } from "../engine/engine.ts";
import { nextTurn } from "../lib/clock.ts";
import { systemLoop } from "../lib/system-clock.ts";
import type { EventQuery } from "../store/store.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { EventChannels, type EventSelection } from "./event-channel.ts";
import { type EventStreamParts, PATIENCE_MS, streamEvents } from "./event-stream.ts";

/** Channels over an engine; `pages` has the reads of streams that are behind, `follows` those of channels. */
function channelsOf({ clock, store, events }: Pick<Engine, "clock" | "store"> & Pick<Engine, "events">) {
  const pages: EventQuery[] = [];
  const follows: EventSelection[] = [];
  const channels = new EventChannels({
    clock,
    events(options) {
      follows.push(options);
      return events(options);
    },
    eventPage(query) {
      pages.push(query);
      return store.events.page(query);
    },
    lastSeq: () => store.events.lastSeq(),
  });
  return { channels, pages, follows };
}

/** A server of streams; `over` resolves when the first has ended. */
async function serve(
  clock: EventStreamParts["clock"],
  channels: EventChannels,
  options: EventSelection & { readonly after: number },
  isAllowed: EventStreamParts["isAllowed"] = () => true,
) {
  const stop = new AbortController();
  let ended: () => void = () => {};
  const over = new Promise<void>((resolve) => {
    ended = resolve;
  });
  let hasFirst = false;
  const { after, ...which } = options;
  const server = createServer((_, out: ServerResponse) => {
    out.writeHead(200, { "content-type": "text/event-stream" });
    const channel = channels.join(which);
    const isFirst = !hasFirst;
    hasFirst = true;
    void streamEvents({ clock, channel, caller: "test", after, isAllowed, out, signal: stop.signal }).then(() => {
      channel.leave();
      if (isFirst) ended();
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    stop.abort();
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, over, stop };
}

async function bench() {
  const opened = await openBench();
  const { clock, engine } = opened;
  const parts = {
    clock,
    store: engine.store,
    events: (options: Parameters<Engine["events"]>[0]) => engine.events(options),
  };
  return { ...opened, ...channelsOf(parts) };
}

/** A client that reads nothing after its request. */
function deaf(port: number): Socket {
  const client = connect(port, "127.0.0.1");
  onTestFinished(() => void client.destroy());
  client.pause();
  client.on("error", () => {});
  client.write("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  return client;
}

/** The ids of events, until there are `count`. */
async function idsOf(port: number, count: number): Promise<number[]> {
  const leave = new AbortController();
  const response = await fetch(`http://127.0.0.1:${port}`, { signal: leave.signal });
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const ids = [...text.matchAll(/^id: (\d+)\nevent: /gm)].map(([, id]) => Number(id));
    if (ids.length >= count) {
      leave.abort();
      return ids;
    }
    const { value, done } = await reader.read();
    if (done) throw new Error(`ended after ${ids.length} events`);
    text += value;
  }
}

it("shows that it is alive, and moves the client on past events that are not for it", async () => {
  const { clock, engine, channels, follows, submit, advance } = await bench();
  const { port, stop, over } = await serve(clock, channels, { after: 0, namespace: "other" });
  const response = await fetch(`http://127.0.0.1:${port}`);
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  expect(await reader.read()).toMatchObject({ value: "retry: 1000\n\n" });
  await vi.waitFor(() => expect(follows).toHaveLength(1));
  await submit("k");
  await advance(15_000);
  const seq = await engine.store.events.lastSeq();
  expect(await reader.read()).toMatchObject({ value: `id: ${seq}\n\n` });
  await advance(15_000);
  expect(await reader.read()).toMatchObject({ value: ":\n\n" });
  await submit("k", { namespace: "other" });
  expect((await reader.read()).value).toMatch(/^id: \d+\nevent: job.submitted\ndata: \{"seq":\d+,.*\}\n\n$/);
  stop.abort();
  expect(await reader.read()).toMatchObject({ done: true });
  await over;
});

it("reads each event once for all streams with the same filter, wherever they began", async () => {
  const { clock, engine, channels, pages, follows, submit } = await bench();
  for (let i = 0; i < 10; i++) await submit("k");
  const first = await engine.store.events.lastSeq();
  const { port } = await serve(clock, channels, { after: 0 });
  const late = await serve(clock, channels, { after: first - 3 });
  const before = Promise.all([idsOf(port, 10), idsOf(port, 10), idsOf(late.port, 3)]);
  const follower = idsOf(port, 20);
  const [all, again, some] = await before;
  expect(again).toEqual(all);
  expect(some).toEqual(all.slice(-3));
  for (let i = 0; i < 10; i++) await submit("k");
  const seen = await follower;
  expect(seen.slice(0, 10)).toEqual(all);
  expect(new Set(seen).size).toBe(20);
  // Of what was there before, one for each stream at most: those at one place at one time share it.
  expect(pages.length).toBeLessThanOrEqual(4);
  expect(follows).toHaveLength(1);
});

it("reads no events while the client reads none, disconnects it after a while, and does not slow down others", async () => {
  const clock = new VirtualClock();
  const large = (seq: number) =>
    ({ seq, jobId: null, n: 0, at: 0, name: "large", data: { text: "x".repeat(100_000) } }) as unknown as PerdureEvent;
  let asked = 0;
  const channels = new EventChannels({
    clock,
    async *events() {
      await new Promise(() => {}); // nothing happens
    },
    async eventPage({ after }) {
      asked += 1;
      return { events: [large(after + 1)], upTo: after + 1, isEnd: false };
    },
    lastSeq: async () => 1_000_000,
  });
  const { port, over } = await serve(clock, channels, { after: 0 });
  deaf(port);
  let before = -1;
  await vi.waitFor(
    () => {
      const stalled = asked > 0 && asked === before;
      before = asked;
      expect(stalled).toBe(true);
    },
    { timeout: 60_000, interval: 100 },
  );
  // Streams at another position continue.
  expect(await idsOf(port, 50)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
  clock.moveTo(clock.now() + PATIENCE_MS);
  await over;
});

it("ends when the client may see no more, as after its token was revoked", async () => {
  const { clock, channels, advance } = await bench();
  let isAllowed = true;
  const { port, over } = await serve(clock, channels, { after: 0 }, () => isAllowed);
  const response = await fetch(`http://127.0.0.1:${port}`);
  await advance(15_000);
  isAllowed = false;
  await advance(15_000);
  await over;
  expect(await response.text()).toBe("retry: 1000\n\n:\n\n");
});

it("sends nothing that happens when the client may see no more, also before the next heartbeat", async () => {
  const { clock, channels, submit } = await bench();
  let isAllowed = true;
  const asked = async () => isAllowed;
  const { port, over } = await serve(clock, channels, { after: 0 }, asked);
  const response = await fetch(`http://127.0.0.1:${port}`);
  isAllowed = false;
  await submit("k");
  await over;
  expect(await response.text()).toBe("retry: 1000\n\n");
});

it("lets others have their turn of the event loop after each page", async () => {
  const clock = new VirtualClock();
  const pages = 20;
  let turns = 0;
  let isOver = false;
  const server = createServer(async (_, out) => {
    const channel = {
      next: async (place: number) => (place < pages ? { text: Buffer.from("x"), upTo: place + 1 } : null),
      passed: (place: number) => place,
    };
    const { signal } = new AbortController();
    await streamEvents({ clock, channel, caller: "test", after: 0, isAllowed: () => true, out, signal });
    isOver = true;
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  server.once("request", async () => {
    for (; !isOver; turns++) await nextTurn(systemLoop);
  });
  await (await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)).text();
  expect(turns).toBeGreaterThanOrEqual(pages);
});
