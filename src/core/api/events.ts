/** The event feed in the library's API. */

import { asBoolean, asInteger, asOneOf, asText, checkOptions } from "../check.ts";
import { ConfigError } from "../errors.ts";
import type { PerdureEvent } from "../job/event.ts";

export interface EventsApi {
  /** Events of all jobs and of the engine, after `after` (an event's `seq`); with `follow`, those to come too. With `order:
   *  "newest"`, the last of them first. */
  events(options?: number | FeedOptions): AsyncGenerator<PerdureEvent, void, void>;
}

/** Which events to read, and whether to wait for more.
 *  @example
 *  const options: FeedOptions = { after: 1_200, follow: true, signal: AbortSignal.timeout(60_000) };
 *  for await (const event of perdure.events(options)) console.log(event.name); */
export interface FeedOptions {
  /** The `seq` of the last event already seen; 0 for all. */
  readonly after?: number;
  /** Only events before this `seq`. */
  readonly before?: number;
  /** Default: oldest first. A server of version 0.1.0 refuses `newest`. */
  readonly order?: "oldest" | "newest";
  /** At most this many. */
  readonly limit?: number;
  readonly jobId?: string;
  /** Wait for more when all have been read. Not with `before`, `order` or `limit`. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
}

/** For the events of one job; for all events, also `jobId`. */
export const JOB_FEED_KEYS = ["after", "before", "order", "limit", "follow", "signal"];
const FEED_KEYS = [...JOB_FEED_KEYS, "jobId"];

/** A number is the `seq` of the last event already seen. */
export function checkFeed(given: number | FeedOptions, known: readonly string[] = FEED_KEYS): FeedOptions {
  const options = typeof given === "number" ? { after: given } : given;
  checkOptions(options, known, "events");
  if (options.after !== undefined) asInteger(options.after, "events.after", { min: 0 });
  if (options.before !== undefined) asInteger(options.before, "events.before", { min: 0 });
  if (options.order !== undefined) asOneOf(options.order, ["oldest", "newest"], "events.order");
  if (options.limit !== undefined) asInteger(options.limit, "events.limit", { min: 1 });
  if (options.follow !== undefined) asBoolean(options.follow, "events.follow");
  const unbounded = (["before", "order", "limit"] as const).find((name) => options[name] !== undefined);
  if (options.follow === true && unbounded !== undefined) {
    throw new ConfigError({ path: `events.${unbounded}`, given: options[unbounded], allowed: "nothing with follow" });
  }
  if (options.jobId !== undefined) asText(options.jobId, "events.jobId", 200);
  checkSignal(options.signal, "events.signal");
  return options;
}

export function checkSignal(signal: unknown, path: string): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw new ConfigError({ path, given: signal, allowed: "an AbortSignal" });
}
