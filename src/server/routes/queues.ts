/** Queues: their counts, and pausing them. */
import { LIMIT } from "../../contract/wire.ts";
import { asText } from "../../core/check.ts";
import { operator, type RouteCall, type RouteHandlers, type ServerParts } from "../context.ts";

export function queueRoutes({ engine }: ServerParts): RouteHandlers {
  const setPaused = (call: RouteCall, paused: boolean) =>
    engine.setPaused(call.namespace, asText(call.params.queue, "queue", 200), paused, operator(call.who));
  return {
    async listQueues({ namespace, query }) {
      const { after = "", limit = LIMIT.queues } = query as { readonly after?: string; readonly limit?: number };
      const all = await engine.store.queues.counts(namespace, engine.clock.now());
      const rest = all.filter(({ queue }) => queue > after); // sorted by name
      const queues = rest.slice(0, limit);
      return { queues, next: queues.length < rest.length ? (queues.at(-1)?.queue ?? null) : null };
    },
    pauseQueue: (call) => setPaused(call, true),
    resumeQueue: (call) => setPaused(call, false),
  };
}
