import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";
import { openBench } from "../../test/kit.ts";
import type { PerdureEvent } from "../core/event.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { type EventStreamParts, streamEvents } from "./event-stream.ts";

/** A server of one stream; `over` resolves when it has ended. */
async function serve(
  parts: Omit<EventStreamParts, "out" | "signal" | "isAllowed">,
  isAllowed: EventStreamParts["isAllowed"] = () => true,
) {
  const stop = new AbortController();
  let ended: () => void = () => {};
  const over = new Promise<void>((resolve) => {
    ended = resolve;
  });
  const server = createServer((_, out: ServerResponse) => {
    out.writeHead(200, { "content-type": "text/event-stream" });
    void streamEvents({ ...parts, isAllowed, out, signal: stop.signal }).then(ended);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    stop.abort();
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, over, stop };
}

it("shows that it is alive, and moves the client on past events that are not for it", async () => {
  const bench = await openBench();
  const { clock, engine } = bench;
  const feed: EventStreamParts["feed"] = (options) => engine.events(options);
  const { port, stop, over } = await serve({ clock, feed, options: { after: 0, namespace: "other" } });
  const response = await fetch(`http://127.0.0.1:${port}`);
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  expect(await reader.read()).toMatchObject({ value: "retry: 1000\n\n" });
  await bench.submit("k");
  await bench.advance(15_000);
  const seq = await engine.store.lastSeq();
  expect(await reader.read()).toMatchObject({ value: `id: ${seq}\n\n` });
  await bench.advance(15_000);
  expect(await reader.read()).toMatchObject({ value: ":\n\n" });
  await bench.submit("k", { namespace: "other" });
  expect((await reader.read()).value).toMatch(/^id: \d+\nevent: job.submitted\ndata: \{"seq":\d+,.*\}\n\n$/);
  stop.abort();
  expect(await reader.read()).toMatchObject({ done: true });
  await over;
});

it("asks for no more events while the client takes none, and drops it after half a minute", async () => {
  const clock = new VirtualClock();
  let asked = 0;
  async function* feed(): AsyncGenerator<PerdureEvent> {
    for (;;) {
      asked += 1;
      yield { seq: asked, jobId: null, n: 0, at: 0, name: "large", data: { text: "x".repeat(100_000) } };
    }
  }
  const { port, over } = await serve({ clock, feed, options: { after: 0 } });
  const client = connect(port, "127.0.0.1");
  onTestFinished(() => void client.destroy());
  client.pause();
  client.write("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  // The timer of the patience beside that of the heartbeat: nothing more fits into the buffers between the two.
  await vi.waitFor(() => expect(clock.nextAt()).not.toBeNull(), { timeout: 60_000 });
  let before = -1;
  await vi.waitFor(
    () => {
      const stalled = asked === before;
      before = asked;
      expect(stalled).toBe(true);
    },
    { timeout: 60_000 },
  );
  clock.moveTo(clock.now() + 29_999);
  await new Promise((resolve) => setImmediate(resolve));
  expect(asked).toBe(before);
  clock.moveTo(clock.now() + 1);
  await over;
});

it("ends when the client may see no more, as after its token was revoked", async () => {
  const { clock, engine, advance } = await openBench();
  let isAllowed = true;
  const feed: EventStreamParts["feed"] = (options) => engine.events(options);
  const { port, over } = await serve({ clock, feed, options: { after: 0 } }, () => isAllowed);
  const response = await fetch(`http://127.0.0.1:${port}`);
  await advance(15_000);
  isAllowed = false;
  await advance(15_000);
  await over;
  expect(await response.text()).toBe("retry: 1000\n\n:\n\n");
});

it("sends nothing that happens when the client may see no more, also before the next heartbeat", async () => {
  const { clock, engine, submit } = await openBench();
  let isAllowed = true;
  const feed: EventStreamParts["feed"] = (options) => engine.events(options);
  const asked = async () => isAllowed;
  const { port, over } = await serve({ clock, feed, options: { after: 0 } }, asked);
  const response = await fetch(`http://127.0.0.1:${port}`);
  isAllowed = false;
  await submit("k");
  await over;
  expect(await response.text()).toBe("retry: 1000\n\n");
});
