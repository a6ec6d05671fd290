/** Parents and children over the wire: for handlers of remote workers, who prove that they hold the parent, and for processes
 *  of a job, who show its own token. */
import { PerdureError } from "../../core/errors.ts";
import type { Usage } from "../../core/job.ts";
import { heldAttempt, leasedAttempt } from "../held-attempt.ts";
import { jobOf } from "../job-of.ts";
import type { Call, Handlers, ServerParts } from "../parts.ts";
import type { SubmitOne } from "./submit.ts";

interface LookRequest {
  readonly ids?: readonly string[];
  readonly cursor?: string;
}

interface UsageRequest {
  readonly attempt: number;
  readonly usage: Usage;
}

export function familyRoutes(parts: ServerParts, submitOne: SubmitOne): Handlers {
  const { engine } = parts;
  return {
    async submitChild(call) {
      return submitOne(call, await heldAttempt(parts, call));
    },

    async lookChildren(call) {
      const { id, attempt } = await heldAttempt(parts, call);
      const { ids, cursor = null } = (call.body ?? {}) as LookRequest;
      if (ids === undefined) return engine.childPage(id, cursor);
      return { children: await engine.awaitedPage({ jobId: id, attempt }, ids), next: null };
    },

    async setUsage(call) {
      const { attempt, usage } = call.body as UsageRequest;
      const { id, attempt: own } = await reporterOf(parts, call);
      if (own !== attempt) throw new PerdureError("forbidden", "a job reports its own usage, of the attempt that runs");
      if (await engine.setUsage(id, attempt, usage)) return undefined;
      throw new PerdureError("lease_lost", `run ${attempt} of ${id} is over, or was never begun`);
    },
  };
}

/** The attempt that a caller speaks for: the job itself, by its own token, or the worker that holds it. No other token is
 *  enough, whatever its scopes: usage spends a budget, and ends the job when nothing is left of it. */
async function reporterOf(parts: ServerParts, call: Call): Promise<{ readonly id: string; readonly attempt: number }> {
  const { job } = call.who;
  if (job === undefined) return leasedAttempt(parts, call);
  const { id } = await jobOf(parts, call);
  if (id !== job.id) throw new PerdureError("forbidden", "this token is for another job: a job reports its own usage");
  return job;
}
