/** The event feed: all events from a cursor on, in order, without gaps, and then those to come. Or the newest first, back
 *  to the oldest. */

import { isOutage } from "../core/errors.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import { nextTurn, sleep } from "../lib/clock.ts";
import type { EventOrder, EventPage } from "../store/store.ts";
import { DEFAULTS } from "./limits.ts";
import type { EngineParts } from "./parts.ts";

export interface EngineFeedOptions {
  /** The `seq` of the last event already seen; 0 for all. */
  readonly after?: number;
  /** Only events before this `seq`. */
  readonly before?: number;
  /** Default: oldest first; only that can be followed. */
  readonly order?: EventOrder;
  readonly limit?: number;
  readonly jobId?: string;
  /** Only events of jobs in it, and engine events that name it. */
  readonly namespace?: string;
  /** Wait for more when all have been read. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
  /** Called when all matches up to this number were yielded: a cursor to resume from, also if nothing matched. */
  readonly onRead?: (upTo: number) => void;
}

const PAGE = 500;

export async function* eventFeed(
  parts: EngineParts,
  options: EngineFeedOptions,
): AsyncGenerator<PerdureEvent, void, void> {
  const { store, clock, hub } = parts;
  const { jobId, namespace, follow = false, signal, onRead } = options;
  const which = { ...(jobId === undefined ? {} : { jobId }), ...(namespace === undefined ? {} : { namespace }) };
  const { order = "oldest" } = options;
  let { after = 0, before = Number.MAX_SAFE_INTEGER, limit: left = Number.POSITIVE_INFINITY } = options;
  while (!signal?.aborted) {
    const seen = hub.written.version;
    let page: EventPage;
    try {
      page = await store.events.page({ after, before, order, limit: Math.min(PAGE, left), ...which });
    } catch (error) {
      // A follower has a cursor: after an outage it resumes there.
      if (!follow || !isOutage(error)) throw error;
      await sleep(clock, DEFAULTS.poll, signal === undefined ? {} : { signal });
      continue;
    }
    for (const event of page.events) {
      if (signal?.aborted) return;
      yield event;
    }
    left -= page.events.length;
    if (left === 0) return;
    if (order === "newest") before = page.upTo;
    else after = page.upTo;
    onRead?.(after);
    if (!page.isEnd) {
      await nextTurn(clock); // lets other work run
      continue;
    }
    if (!follow) return;
    const recheck = true;
    await hub.written.wait(clock, seen, DEFAULTS.poll, signal === undefined ? { recheck } : { signal, recheck });
  }
}
