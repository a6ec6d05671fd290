/** Sends events as server-sent events. They come from a channel that all streams with the same filter share, at the pace at which
 *  the client reads, so a slow client costs no memory. A client that reads nothing for a while is disconnected, and can resume
 *  with the id of its last event. */
import type { ServerResponse } from "node:http";
import { type Clock, nextTurn } from "../lib/clock.ts";
import type { Channel } from "./event-channel.ts";

/** Proxies close idle connections. */
const HEARTBEAT_MS = 15_000;
/** A client that reads nothing for this long is disconnected. */
export const PATIENCE_MS = 10_000;
/** The pause after which a browser reconnects. */
const RETRY_MS = 1_000;

export interface EventStreamParts {
  readonly out: ServerResponse;
  readonly clock: Clock;
  readonly channel: Pick<Channel, "next" | "passed">;
  /** The id of the caller: callers whose streams are behind take turns. */
  readonly caller: string;
  /** The last event that the client has seen. */
  readonly after: number;
  /** Whether the client still has access; called before anything is sent, and with each heartbeat. */
  readonly isAllowed: () => boolean | Promise<boolean>;
  /** Aborted when the server shuts down. */
  readonly signal: AbortSignal;
}

/** Resolves when the client has disconnected or was disconnected, or the server shuts down. */
export async function streamEvents(parts: EventStreamParts): Promise<void> {
  const { out, clock, channel, caller, isAllowed, signal } = parts;
  const over = new AbortController();
  const leave = () => over.abort();
  out.once("close", leave);
  signal.addEventListener("abort", leave);
  let position = parts.after;
  let sent = parts.after;
  let draining: Promise<void> | null = null;

  function put(text: string | Buffer): void {
    if (out.write(text) || draining !== null) return;
    draining = drained(out, clock).then(() => {
      draining = null;
    });
  }

  /** Ends the stream of a client without access. If that cannot be read from the store, the stream continues. */
  async function checkAccess(): Promise<void> {
    const answer = isAllowed();
    if (answer === true) return;
    if (answer === false || !(await answer.catch(() => true))) leave();
  }

  let cancelBeat = () => {};
  const beat = () => {
    cancelBeat = clock.after(HEARTBEAT_MS, beat, { background: true });
    void checkAccess();
    if (draining !== null || over.signal.aborted) return;
    // An id without data moves the resume position past events that do not match.
    position = channel.passed(position);
    put(position > sent ? `id: ${position}\n\n` : ":\n\n");
    sent = position;
  };

  try {
    if (signal.aborted) leave();
    put(`retry: ${RETRY_MS}\n\n`);
    cancelBeat = clock.after(HEARTBEAT_MS, beat, { background: true });
    for (;;) {
      const chunk = await channel.next(position, over.signal, caller);
      if (chunk === null) break;
      await checkAccess();
      if (over.signal.aborted || out.destroyed) break;
      position = chunk.upTo;
      if (chunk.text.length === 0) continue;
      put(chunk.text);
      sent = position;
      if (draining !== null) await draining;
      await nextTurn(clock); // let other requests run
      if (over.signal.aborted || out.destroyed) break;
    }
  } finally {
    cancelBeat();
    signal.removeEventListener("abort", leave);
    out.off("close", leave);
    // A stalled client would delay a regular end for ever.
    if (draining === null) out.end();
    else out.destroy();
  }
}

/** Resolves when the client has read on, or has disconnected. A client that reads nothing for too long is disconnected. */
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
