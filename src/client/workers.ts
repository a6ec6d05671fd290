/** Workers of a server. A client cannot run jobs itself: that takes more than a fetch. */

import { fromWireHealth, type WireHealth } from "../contract/wire.ts";
import type { WorkersApi } from "../core/api/workers.ts";
import { asText } from "../core/check.ts";
import { PerdureError } from "../core/errors.ts";
import type { SessionRow } from "../core/job/views.ts";
import type { ClientHttpLink } from "./http-call.ts";
import { pageOrAll } from "./pages.ts";

export function clientWorkers(link: ClientHttpLink): WorkersApi {
  return {
    async workers(page) {
      type WireSession = Omit<SessionRow, "health"> & { readonly health: WireHealth | null };
      type WorkersReply = { readonly workers: WireSession[]; readonly next?: string | null };
      const found = await pageOrAll(page, async (query) => {
        const { workers, next } = await link.json<WorkersReply>("listWorkers", { query });
        return { items: workers, next };
      });
      return found.map((worker) => ({
        ...worker,
        health: worker.health === null ? null : fromWireHealth(worker.health),
      }));
    },
    async drain(session) {
      return link.json("drainWorker", { params: { session: asText(session, "drain.session", 100) }, repeatable: true });
    },
    async work() {
      const message = "a client alone cannot run jobs; in Node, use perdure/worker, or Perdure.open(url) of perdure";
      throw new PerdureError("invalid_config", message, { path: "work" });
    },
  };
}
