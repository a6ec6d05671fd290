/** Workers for operators: list the sessions of the namespace, and drain one. */
import { toWireHealth } from "../../contract/wire.ts";
import { PerdureError } from "../../core/errors.ts";
import { isId } from "../../lib/id.ts";
import { SESSIONS_PAGE } from "../../store/store.ts";
import { operator, type RouteHandlers, type ServerParts } from "../context.ts";

export function workerRoutes({ engine }: ServerParts): RouteHandlers {
  return {
    async listWorkers({ namespace, who, query }) {
      // Job tokens see no workers.
      if (who.job !== undefined) return { workers: [], next: null };
      const { after = null, limit = SESSIONS_PAGE } = query as { readonly after?: string; readonly limit?: number };
      if (after !== null && !isId(after, "ses")) {
        throw new PerdureError("invalid_cursor", "after is not the id of a session", { path: "after" });
      }
      const sessions = await engine.store.sessions.list({ namespace, after, limit });
      const next = sessions.length < Math.min(limit, SESSIONS_PAGE) ? null : (sessions.at(-1)?.id ?? null);
      const workers = sessions.map(({ health, ...rest }) => ({
        ...rest,
        health: health === null ? null : toWireHealth(health),
      }));
      return { workers, next };
    },
    async drainWorker({ namespace, params, who }) {
      const { session = "" } = params;
      // A session of another namespace is answered like one that does not exist.
      const known = isId(session, "ses") ? await engine.store.sessions.get(session) : null;
      if (known?.namespace !== namespace || (await engine.drainSession(session, operator(who))) === "unknown") {
        throw new PerdureError("not_found", "no worker has this session");
      }
    },
  };
}
