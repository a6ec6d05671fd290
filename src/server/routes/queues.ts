/** Queues: their counts, and pausing them. */
import { asText } from "../../core/check.ts";
import { operator } from "../operator.ts";
import type { Call, Handlers, ServerParts } from "../parts.ts";

export function queueRoutes({ engine }: ServerParts): Handlers {
  const setPaused = (call: Call, paused: boolean) =>
    engine.setPaused(call.namespace, asText(call.params.queue, "queue", 200), paused, operator(call.who));
  return {
    async listQueues({ namespace }) {
      return { queues: await engine.store.counts(namespace, engine.clock.now()) };
    },
    pauseQueue: (call) => setPaused(call, true),
    resumeQueue: (call) => setPaused(call, false),
  };
}
