/** Queues of a server. */

import type { QueuesApi } from "../core/api/queues.ts";
import { asText } from "../core/check.ts";
import type { QueueCounts } from "../core/job/views.ts";
import type { ClientHttpLink } from "./http-call.ts";
import { pageOrAll } from "./pages.ts";

export function clientQueues(link: ClientHttpLink): QueuesApi {
  return {
    queues(page) {
      type QueuesReply = { readonly queues: QueueCounts[]; readonly next?: string | null };
      return pageOrAll(page, async (query) => {
        const { queues, next } = await link.json<QueuesReply>("listQueues", { query });
        return { items: queues, next };
      });
    },
    async pause(queue) {
      return link.json("pauseQueue", { params: { queue: asText(queue, "pause.queue", 200) }, repeatable: true });
    },
    async resume(queue) {
      return link.json("resumeQueue", { params: { queue: asText(queue, "resume.queue", 200) }, repeatable: true });
    },
  };
}
