/** Queues in the library's API. */

import type { QueueCounts } from "../job/views.ts";

export interface QueuesApi {
  /** The queues of this namespace with their counts, by name. Where there are very many, pass a page: it holds up to 1,000 after
   *  the queue named. */
  queues(page?: PageOptions): Promise<QueueCounts[]>;
  /** Jobs of a paused queue are not started; running ones continue. */
  pause(queue: string): Promise<void>;
  resume(queue: string): Promise<void>;
}

/** A page of a list: what comes after an entry, by its name or id. */
export interface PageOptions {
  readonly after?: string;
  readonly limit?: number;
}
