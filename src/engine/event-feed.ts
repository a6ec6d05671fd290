/** The event feed: all events from a cursor on, in order, without gaps, and then those to come. */

import { isOutage } from "../core/errors.ts";
import type { PerdureEvent } from "../core/event.ts";
import { sleep } from "../lib/clock.ts";
import type { EngineParts } from "./engine.ts";
import { DEFAULTS } from "./limits.ts";

export interface FeedOptions {
  /** The `seq` of the last event already seen; 0 for all. */
  readonly after?: number;
  readonly jobId?: string;
  /** Wait for more when all have been read. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
}

const PAGE = 500;

export async function* eventFeed(parts: EngineParts, options: FeedOptions): AsyncGenerator<PerdureEvent, void, void> {
  const { store, clock, hub } = parts;
  const { jobId, follow = false, signal } = options;
  let after = options.after ?? 0;
  while (!signal?.aborted) {
    const seen = hub.written.version;
    let page: PerdureEvent[];
    try {
      page = await store.events({ after, limit: PAGE, ...(jobId === undefined ? {} : { jobId }) });
    } catch (error) {
      // Whoever follows has a cursor: after an outage it goes on where it was.
      if (!follow || !isOutage(error)) throw error;
      await sleep(clock, DEFAULTS.poll, signal === undefined ? {} : { signal });
      continue;
    }
    for (const event of page) {
      if (signal?.aborted) return;
      after = event.seq;
      yield event;
    }
    if (page.length === PAGE) continue;
    if (!follow) return;
    await hub.written.wait(clock, seen, DEFAULTS.poll, signal === undefined ? {} : { signal });
  }
}
