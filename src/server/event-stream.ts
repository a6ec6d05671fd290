/** Events as a stream of server-sent events. They come from a channel that all streams with the same filter share, as the
 *  client takes them, so a slow client costs no memory; one that takes nothing for a while is dropped, and can come back with
 *  the id of the last it saw. */
import type { ServerResponse } from "node:http";
import { type Clock, nextTurn } from "../lib/clock.ts";
import type { Channel } from "./event-channel.ts";

/** Proxies cut connections on which nothing happens. */
const HEARTBEAT_MS = 15_000;
/** A client that has taken nothing of what was sent for so long is not there, or not reading. */
export const PATIENCE_MS = 10_000;
/** How soon a browser comes back after its connection broke. */
const RETRY_MS = 1_000;

export interface EventStreamParts {
  readonly out: ServerResponse;
  readonly clock: Clock;
  readonly channel: Pick<Channel, "next" | "passed">;
  /** Whose stream it is: callers that are behind take turns. */
  readonly caller: string;
  /** The last event that the client has seen. */
  readonly after: number;
  /** Whether the client may still see them: asked before anything is sent, and with each heartbeat. */
  readonly isAllowed: () => boolean | Promise<boolean>;
  /** Aborted when the server is to stop. */
  readonly signal: AbortSignal;
}

/** Resolves when the client has gone, was dropped, or the server stops. */
export async function streamEvents(parts: EventStreamParts): Promise<void> {
  const { out, clock, channel, caller, isAllowed, signal } = parts;
  const gone = new AbortController();
  const leave = () => gone.abort();
  out.once("close", leave);
  signal.addEventListener("abort", leave);
  let place = parts.after;
  let sent = parts.after;
  let room: Promise<void> | null = null;

  function put(text: string | Buffer): void {
    if (out.write(text) || room !== null) return;
    room = drained(out, clock).then(() => {
      room = null;
    });
  }

  /** Known at once, or asked of the store: then whoever cannot be asked about is not sent away. */
  async function askAgain(): Promise<void> {
    const answer = isAllowed();
    if (answer === true) return;
    if (answer === false || !(await answer.catch(() => true))) leave();
  }

  let cancelBeat = () => {};
  const beat = () => {
    cancelBeat = clock.after(HEARTBEAT_MS, beat, { background: true });
    void askAgain();
    if (room !== null || gone.signal.aborted) return;
    // An id without data moves the place to come back to past events that do not concern this client.
    place = channel.passed(place);
    put(place > sent ? `id: ${place}\n\n` : ":\n\n");
    sent = place;
  };

  try {
    if (signal.aborted) leave();
    put(`retry: ${RETRY_MS}\n\n`);
    cancelBeat = clock.after(HEARTBEAT_MS, beat, { background: true });
    for (;;) {
      const chunk = await channel.next(place, gone.signal, caller);
      if (chunk === null) break;
      await askAgain();
      if (gone.signal.aborted || out.destroyed) break;
      place = chunk.upTo;
      if (chunk.text.length === 0) continue;
      put(chunk.text);
      sent = place;
      if (room !== null) await room;
      await nextTurn(clock); // others have their turn
      if (gone.signal.aborted || out.destroyed) break;
    }
  } finally {
    cancelBeat();
    signal.removeEventListener("abort", leave);
    out.off("close", leave);
    // What a stalled client has not taken would hold up the end for ever.
    if (room === null) out.end();
    else out.destroy();
  }
}

/** Resolves when there is room again, or nobody is there any more: whoever takes nothing for too long is cut off. */
function drained(out: ServerResponse, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.after(PATIENCE_MS, () => out.destroy(), { background: true });
    const done = () => {
      cancel();
      out.off("drain", done);
      out.off("close", done);
      resolve();
    };
    out.on("drain", done);
    out.on("close", done);
    if (out.destroyed) done();
  });
}
