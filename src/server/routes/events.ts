/** Events: pages as JSON, or a stream of those to come. Only those of the call's namespace, unless the token is for all of
 *  them and the call names none. */
import { HEADER, LIMIT } from "../../contract/wire.ts";
import { PerdureError, show } from "../../core/errors.ts";
import type { EventQuery } from "../../store/store.ts";
import { HIJACKED, type RouteCall, type RouteHandlers, type ServerParts } from "../context.ts";
import { EventChannels, type EventSelection } from "../event-channel.ts";
import { streamEvents } from "../event-stream.ts";
import { findJob } from "../find-job.ts";
import { viewOfEvents } from "../views.ts";

/** Each holds a connection. */
const MAX_STREAMS = 1_000;
const DEFAULT_LIMIT = 100;

export function eventRoutes(parts: ServerParts): RouteHandlers {
  const { engine, log, tokens, limits } = parts;
  const { store, clock } = engine;
  const channels = new EventChannels({
    ...{ clock, events: (options) => engine.events(options) },
    ...{ eventPage: (query) => store.events.page(query), lastSeq: () => store.events.lastSeq() },
  });
  let streams = 0;

  async function page({ query }: RouteCall, which: EventSelection): Promise<unknown> {
    const { after = 0, limit = DEFAULT_LIMIT, ...rest } = query as Partial<EventQuery>;
    const most = { limit: Math.min(limit, LIMIT.events), chars: limits.pageChars };
    const found = await engine.store.events.page({ ...rest, ...which, after, ...most });
    return { events: found.events, next: found.isEnd ? null : found.upTo };
  }

  async function stream(call: RouteCall, which: EventSelection): Promise<typeof HIJACKED> {
    const after = startOf(call) ?? (await engine.store.events.lastSeq());
    if (streams >= MAX_STREAMS) {
      throw new PerdureError("overloaded", `${MAX_STREAMS} streams of events are open; try again later`);
    }
    const { reply, signal, who } = call;
    streams += 1;
    const channel = channels.join(which);
    try {
      reply.hijack();
      reply.raw.writeHead(200, {
        ...(reply.getHeaders() as Record<string, string>),
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no", // proxies are to pass events on as they come
      });
      await streamEvents({
        ...{ out: reply.raw, clock, channel, caller: who.id, after, signal },
        isAllowed: () => (who.job === undefined ? tokens.isStillGood(who.id) : runs(who.job)),
      });
    } catch (error) {
      // The client comes back with the id of the last event it saw.
      if (!engine.storeState.failed(error, "requests")) {
        log("warn", "a stream of events broke off", { requestId: call.request.id, error });
      }
    } finally {
      channel.leave();
      streams -= 1;
    }
    return HIJACKED;
  }

  /** A job's own token is good while its attempt runs. */
  async function runs({ id, attempt }: NonNullable<RouteCall["who"]["job"]>): Promise<boolean> {
    const [row] = await engine.store.jobs([id]);
    return row?.state === "running" && row.attempt === attempt;
  }

  async function answer(call: RouteCall, which: EventSelection): Promise<unknown> {
    if (!wantsStream(call)) return page(call, which);
    const path = ["before", "order"].find((name) => call.query[name] !== undefined);
    if (path === undefined) return stream(call, which);
    throw new PerdureError("invalid_request", `${path}: a stream is oldest first, without an end`, { path });
  }

  return {
    listEvents: (call) => answer(call, isForAll(call) ? {} : { namespace: call.namespace }),
    async listJobEvents(call) {
      const row = await findJob(parts, call);
      const { view, ...others } = call.query;
      if (view === undefined) return answer(call, { jobId: row.id });
      if (wantsStream(call) || Object.keys(others).length > 0) {
        const message = "view: a view tells all events of a job at once; leave out after, limit and the stream";
        throw new PerdureError("invalid_request", message, { path: "view" });
      }
      return { events: await viewOfEvents(parts, row, view), next: null };
    },
  };
}

function isForAll({ who, request }: RouteCall): boolean {
  return who.namespace === null && request.headers[HEADER.namespace] === undefined;
}

function wantsStream({ request }: RouteCall): boolean {
  return request.headers.accept?.includes("text/event-stream") ?? false;
}

/** The last event that the client has seen; undefined if it does not say. */
function startOf({ query, request }: RouteCall): number | undefined {
  const given = request.headers["last-event-id"];
  if (given === undefined) return query.after as number | undefined;
  const seq = typeof given === "string" && /^\d{1,16}$/.test(given) ? Number(given) : Number.NaN;
  if (Number.isSafeInteger(seq)) return seq;
  const message = `Last-Event-ID: must be the id of an event, a whole number; got ${show(given)}`;
  throw new PerdureError("invalid_request", message, { path: "Last-Event-ID" });
}
