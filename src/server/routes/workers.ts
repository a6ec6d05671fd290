/** Workers as operators see them: the sessions of the namespace, and draining one. */
import { toWireHealth } from "../../contract/health.ts";
import { PerdureError } from "../../core/errors.ts";
import { operator } from "../operator.ts";
import type { Handlers, ServerParts } from "../parts.ts";

export function workerRoutes({ engine }: ServerParts): Handlers {
  const sessionsOf = async (namespace: string) =>
    (await engine.store.sessions()).filter((session) => session.namespace === namespace);
  return {
    async listWorkers({ namespace, who }) {
      // Who runs it is nothing to a job itself.
      if (who.job !== undefined) return { workers: [] };
      const sessions = await sessionsOf(namespace);
      const workers = sessions.map(({ health, ...rest }) => ({
        ...rest,
        health: health === null ? null : toWireHealth(health),
      }));
      return { workers };
    },
    async drainWorker({ namespace, params, who }) {
      const { session = "" } = params;
      // One of another namespace is not there.
      const known = (await sessionsOf(namespace)).some(({ id }) => id === session);
      if (!known || (await engine.drainSession(session, operator(who))) === "unknown") {
        throw new PerdureError("not_found", "no worker has this session");
      }
    },
  };
}
