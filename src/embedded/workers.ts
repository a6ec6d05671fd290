/** Workers of an engine in this process: the sessions of its namespace, and starting workers here. */

import type { WorkersApi } from "../core/api/workers.ts";
import { PerdureError, show } from "../core/errors.ts";
import type { SessionRow } from "../core/job/views.ts";
import { isTask } from "../core/task/task.ts";
import { policyOf } from "../engine/submit-item.ts";
import { SESSIONS_PAGE } from "../store/store.ts";
import type { LocalWorkerParts } from "./local-worker.ts";
import type { EmbeddedParts } from "./parts.ts";

/** `checkOpen` throws when the engine is closed, or about to be. */
export function embeddedWorkers(
  { dialects: _, by, ...parts }: EmbeddedParts,
  running: LocalWorkerParts["running"],
  checkOpen: () => void,
): WorkersApi {
  const { engine, namespace } = parts;
  return {
    async workers(page) {
      if (page !== undefined) return engine.store.sessions.list({ namespace, ...page });
      const all: SessionRow[] = [];
      for (;;) {
        const page = await engine.store.sessions.list({ namespace, after: all.at(-1)?.id ?? null });
        all.push(...page);
        if (page.length < SESSIONS_PAGE) return all;
      }
    },

    async drain(session) {
      // A worker of another namespace does not exist here.
      const found = await engine.store.sessions.get(session);
      if (found?.namespace !== namespace || (await engine.drainSession(session, by)) === "unknown") {
        throw new PerdureError("not_found", `no worker has the session ${show(session)}, or it ended long ago`);
      }
    },

    async work(tasks, options = {}) {
      checkOpen();
      if (Array.isArray(tasks)) for (const task of tasks) if (isTask(task)) policyOf(task);
      // A process that only submits and reads does not load it.
      const { startWorker } = await import("./local-worker.ts");
      return startWorker({ ...parts, running }, tasks, options);
    },
  };
}
