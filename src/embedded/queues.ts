/** Queues of an engine in this process. */

import { LIMIT } from "../contract/wire.ts";
import type { QueuesApi } from "../core/api/queues.ts";
import { asText } from "../core/check.ts";
import type { EmbeddedParts } from "./parts.ts";

export function embeddedQueues({ engine, namespace, by }: EmbeddedParts): QueuesApi {
  return {
    async queues(page) {
      const all = await engine.store.queues.counts(namespace, engine.clock.now());
      if (page === undefined) return all;
      const { after = "", limit = LIMIT.queues } = page;
      return all.filter(({ queue }) => queue > after).slice(0, limit); // they are sorted by their names
    },
    async pause(queue) {
      return engine.setPaused(namespace, asText(queue, "pause.queue", 200), true, by);
    },
    async resume(queue) {
      return engine.setPaused(namespace, asText(queue, "resume.queue", 200), false, by);
    },
  };
}
