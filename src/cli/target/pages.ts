/** Workers and queues page by page: there may be thousands, and a worker may list 32 KiB of what it serves. A caller stops
 *  reading when it has found what it needs. */
import { LIMIT } from "../../contract/wire.ts";
import type { Perdure } from "../../core/api.ts";
import type { QueueCounts, SessionRow } from "../../core/job/views.ts";

interface AfterPage {
  readonly after?: string;
}

/** Oldest first. */
export function eachWorker(perdure: Pick<Perdure, "workers">): AsyncGenerator<SessionRow, void, void> {
  return each<SessionRow>(
    (page) => perdure.workers(page),
    LIMIT.workers,
    ({ id }) => id,
  );
}

/** By name. */
export function eachQueue(perdure: Pick<Perdure, "queues">): AsyncGenerator<QueueCounts, void, void> {
  return each<QueueCounts>(
    (page) => perdure.queues(page),
    LIMIT.queues,
    ({ queue }) => queue,
  );
}

async function* each<T>(
  read: (page: AfterPage) => Promise<T[]>,
  full: number,
  nameOf: (last: T) => string,
): AsyncGenerator<T, void, void> {
  for (let page: AfterPage = {}; ; ) {
    const items = await read(page);
    yield* items;
    const last = items.at(-1);
    // A server of an earlier version returns all at once, and nothing after the last one.
    if (items.length !== full || last === undefined) return;
    page = { after: nameOf(last) };
  }
}
