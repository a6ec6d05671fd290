/** Events from a server, in order, without gaps or repeats; those of an earlier version in the current format. An outage is not
 *  reported to a follower: the stream is opened again where it broke off. */
import type { RouteName } from "../contract/routes.ts";
import { LIMIT } from "../contract/wire.ts";
import type { FeedOptions } from "../core/api/events.ts";
import { PerdureError } from "../core/errors.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import { currentEvent } from "../core/job/event-formats.ts";
import { sleep } from "../lib/clock.ts";
import { systemTimers } from "../lib/system-timers.ts";
import { CallBackoff, isAway } from "../wire/repeat.ts";
import { notOurs } from "../wire/wire-error.ts";
import type { ClientCallOptions, ClientHttpLink, OpenedReply } from "./http-call.ts";
import { SseParser } from "./sse.ts";

/** A server sends something on every stream well within this time. After a longer silence the connection is lost. */
const SILENCE_MS = 60_000;

export function eventFeed(link: ClientHttpLink, options: FeedOptions): AsyncGenerator<PerdureEvent, void, void> {
  return options.follow ? follow(link, options) : pages(link, options);
}

function routeOf({ jobId }: FeedOptions): readonly [RouteName, ClientCallOptions] {
  return jobId === undefined ? ["listEvents", {}] : ["listJobEvents", { params: { id: jobId } }];
}

async function* pages(link: ClientHttpLink, options: FeedOptions): AsyncGenerator<PerdureEvent, void, void> {
  const { signal, order, before } = options;
  const [route, of] = routeOf(options);
  const query = new URLSearchParams({ after: String(options.after ?? 0) });
  if (before !== undefined) query.set("before", String(before));
  if (order === "newest") query.set("order", order);
  for (let left = options.limit ?? Number.POSITIVE_INFINITY; left > 0 && !signal?.aborted; ) {
    query.set("limit", String(Math.min(left, LIMIT.events)));
    const { events, next } = await link.json<EventPageReply>(route, { ...of, query }).catch(unlessTooOld);
    for (const event of events) {
      if (signal?.aborted) return;
      yield currentEvent(event);
    }
    if (next === null) return;
    query.set(order === "newest" ? "before" : "after", String(next));
    left -= events.length;
  }
}

interface EventPageReply {
  readonly events: readonly PerdureEvent[];
  readonly next: number | null;
}

/** A server of version 0.1.0 has neither of these parameters. */
function unlessTooOld(error: unknown): never {
  const { code, path } = error as Partial<PerdureError>;
  if (code !== "invalid_request" || (path !== "order" && path !== "before")) throw error;
  const what = path === "order" ? "newest first" : "before a number";
  const message = `this server is too old to list events ${what}; upgrade it, or read them from \`after\` on`;
  throw new PerdureError(code, message, { path, cause: error });
}

async function* follow(link: ClientHttpLink, options: FeedOptions): AsyncGenerator<PerdureEvent, void, void> {
  const { signal } = options;
  let after = options.after ?? 0;
  const backoff = new CallBackoff(Math.random);
  for (;;) {
    const opened = await openStream(link, options, after);
    if (signal?.aborted) return opened?.stop();
    if (opened !== null) {
      try {
        const parser = new SseParser();
        const reader = (opened.response.body as ReadableStream<Uint8Array>).getReader();
        for (let chunk = await read(reader, opened); chunk !== null; chunk = await read(reader, opened)) {
          backoff.reset();
          for (const { data } of parser.feed(chunk)) {
            const event = JSON.parse(data) as PerdureEvent;
            if (!(event.seq > after)) continue; // a reopened stream may begin with events that were already seen
            if (signal?.aborted) return;
            after = event.seq;
            yield currentEvent(event);
          }
          after = Math.max(after, Number(parser.lastId) || 0);
        }
      } finally {
        opened.stop();
      }
    }
    if (signal?.aborted) return;
    await sleep(systemTimers, backoff.after(null), signal === undefined ? {} : { signal });
    if (signal?.aborted) return;
  }
}

/** Null when the server cannot be reached. */
async function openStream(link: ClientHttpLink, options: FeedOptions, after: number): Promise<OpenedReply | null> {
  const { signal } = options;
  const [route, of] = routeOf(options);
  try {
    const opened = await link.open(route, {
      ...of,
      query: new URLSearchParams({ after: String(after) }),
      headers: { accept: "text/event-stream", "last-event-id": String(after) },
      patienceMs: Number.POSITIVE_INFINITY, // with the pauses that the server requests
      ...(signal === undefined ? {} : { signal }),
    });
    const type = opened.response.headers.get("content-type") ?? "nothing";
    if (type.startsWith("text/event-stream")) return opened;
    opened.stop();
    throw notOurs(link.base, type);
  } catch (error) {
    if (signal?.aborted) return null;
    if (isAway(error)) return null;
    throw error;
  }
}

/** The next bytes; null when the stream has ended or broken off, which is handled the same way. */
async function read(reader: ReadableStreamDefaultReader<Uint8Array>, opened: OpenedReply): Promise<Uint8Array | null> {
  const cancel = systemTimers.after(SILENCE_MS, () => opened.stop());
  try {
    const { value } = await reader.read();
    return value ?? null;
  } catch {
    return null;
  } finally {
    cancel();
  }
}
