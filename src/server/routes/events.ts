/** Events, as JSON pages or as a stream that continues. Only those of the call's namespace, unless the token is valid for all
 *  namespaces and the call has no namespace header. */
import { HEADER, LIMIT } from "../../contract/wire.ts";
import { PerdureError, show } from "../../core/errors.ts";
import type { EventQuery } from "../../store/store.ts";
import { HIJACKED, type RouteCall, type RouteHandlers, type ServerParts } from "../context.ts";
import { EventChannels, type EventSelection } from "../event-channel.ts";
import { streamEvents } from "../event-stream.ts";
import { findJob } from "../find-job.ts";
import { viewOfEvents } from "../views.ts";

/** Each stream holds a connection. */
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
        "x-accel-buffering": "no", // proxies must not buffer events
      });
      await streamEvents({
        ...{ out: reply.raw, clock, channel, caller: who.id, after, signal },
        isAllowed: () => (who.job === undefined ? tokens.isStillGood(who.id) : runs(who.job)),
      });
    } catch (error) {
      // The client reconnects with the id of its last event.
      if (!engine.storeState.failed(error, "requests")) {
        log("warn", "event stream failed", { requestId: call.request.id, error });
      }
    } finally {
      channel.leave();
      streams -= 1;
    }
    return HIJACKED;
  }

  /** A job token is valid while its attempt is running. */
  async function runs({ id, attempt }: NonNullable<RouteCall["who"]["job"]>): Promise<boolean> {
    const [row] = await engine.store.jobs([id]);
    return row?.state === "running" && row.attempt === attempt;
  }

  async function answer(call: RouteCall, which: EventSelection): Promise<unknown> {
    if (!wantsStream(call)) return page(call, which);
    const path = ["before", "order"].find((name) => call.query[name] !== undefined);
    if (path === undefined) return stream(call, which);
    throw new PerdureError("invalid_request", `${path}: cannot be used with a stream, which is oldest first`, { path });
  }

  return {
    listEvents: (call) => answer(call, isForAll(call) ? {} : { namespace: call.namespace }),
    async listJobEvents(call) {
      const row = await findJob(parts, call);
      const { view, step, ...others } = call.query;
      if (view === undefined) {
        if (step === undefined) return answer(call, { jobId: row.id });
        throw new PerdureError("invalid_request", "step: requires view", { path: "step" });
      }
      if (wantsStream(call) || Object.keys(others).length > 0) {
        const message = "view: cannot be used together with other parameters or a stream; it has all events of the job";
        throw new PerdureError("invalid_request", message, { path: "view" });
      }
      return { events: await viewOfEvents(parts, row, view, step as string | undefined), next: null };
    },
  };
}

function isForAll({ who, request }: RouteCall): boolean {
  return who.namespace === null && request.headers[HEADER.namespace] === undefined;
}

function wantsStream({ request }: RouteCall): boolean {
  return request.headers.accept?.includes("text/event-stream") ?? false;
}

/** The last event that the client has seen; undefined if it is not given. */
function startOf({ query, request }: RouteCall): number | undefined {
  const given = request.headers["last-event-id"];
  if (given === undefined) return query.after as number | undefined;
  const seq = typeof given === "string" && /^\d{1,16}$/.test(given) ? Number(given) : Number.NaN;
  if (Number.isSafeInteger(seq)) return seq;
  const message = `Last-Event-ID: must be the id of an event, a whole number; got ${show(given)}`;
  throw new PerdureError("invalid_request", message, { path: "Last-Event-ID" });
}
