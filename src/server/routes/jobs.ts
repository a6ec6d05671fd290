/** Jobs: one by one, commands on them, and their story. Submits and searches are in files of their own. */
import type { Command } from "../../core/command.ts";
import type { JobsFilter } from "../../core/face.ts";
import { toInstant } from "../../core/instant.ts";
import { type RedriveChanges, type RedriveTerms, toRedriveTerms } from "../../core/redrive.ts";
import { redriveMany } from "../../engine/redrive-many.ts";
import { jobOf, visibleJob } from "../job-of.ts";
import { operator } from "../operator.ts";
import { type Handler, type Handlers, JsonText, type ServerParts } from "../parts.ts";
import { viewOfJob } from "../views.ts";
import { wireJob } from "../wire-job.ts";
import { listRoutes } from "./list-jobs.ts";
import { inWireWords, submitRoutes } from "./submit.ts";

interface WaitRequest {
  readonly jobs: readonly { readonly id: string; readonly chapter: number }[];
  readonly waitMs?: number;
}

interface RedriveRequest {
  readonly filter?: JobsFilter;
  readonly dryRun?: boolean;
  readonly limit?: number;
  readonly changes?: RedriveChanges;
}

function redriveTermsOf(changes: RedriveChanges): RedriveTerms {
  try {
    return toRedriveTerms(changes);
  } catch (error) {
    throw inWireWords(error, "");
  }
}

export function jobRoutes(parts: ServerParts): Handlers {
  const { engine } = parts;

  const command =
    (kind: Exclude<Command["kind"], "redrive" | "reschedule" | "unblock">): Handler =>
    async (call) => {
      const { id } = await jobOf(parts, call);
      const { job } = await engine.command(id, { kind, by: operator(call.who) });
      return new JsonText(wireJob(job));
    };

  return {
    ...submitRoutes(parts),
    ...listRoutes(parts),

    async getJob(call) {
      const row = await jobOf(parts, call);
      return call.query.view === undefined ? new JsonText(wireJob(row)) : viewOfJob(parts, row, call.query.view);
    },
    cancelJob: command("cancel"),
    retryJob: command("retry"),
    discardJob: command("discard"),

    async redriveJob(call) {
      const { id } = await jobOf(parts, call);
      const changes = redriveTermsOf((call.body ?? {}) as RedriveChanges);
      const { job } = await engine.command(id, { kind: "redrive", changes, by: operator(call.who) });
      return new JsonText(wireJob(job));
    },

    async rescheduleJob(call) {
      const { id } = await jobOf(parts, call);
      const runAt = toInstant((call.body as { readonly runAt: number }).runAt, "runAt");
      const { job } = await engine.command(id, { kind: "reschedule", runAt, by: operator(call.who) });
      return new JsonText(wireJob(job));
    },

    async waitJobs(call) {
      const { jobs, waitMs = 0 } = call.body as WaitRequest;
      const { namespace, signal, who } = call;
      if (who.job !== undefined) for (const { id } of jobs) await visibleJob(parts, call, id);
      return engine.waitForAny(jobs, { namespace, timeoutMs: waitMs, signal });
    },

    async redriveJobs(call) {
      const { filter = {}, ...options } = (call.body ?? {}) as RedriveRequest;
      try {
        return await redriveMany(engine, call.namespace, filter, options, operator(call.who));
      } catch (error) {
        throw inWireWords(error, "filter");
      }
    },

    async explainJob(call) {
      return engine.explain((await jobOf(parts, call)).id);
    },

    async listAttempts(call) {
      const { id, attempt, state } = await jobOf(parts, call);
      const { after = 0, limit } = call.query as { readonly after?: number; readonly limit?: number };
      const attempts = await engine.store.attempts(id, { after, ...(limit === undefined ? {} : { limit }) });
      // A page ends where it is full, in number or in bytes.
      const last = attempts.at(-1)?.attempt ?? null;
      const closed = state === "running" ? attempt - 1 : attempt;
      return { attempts, next: last !== null && last < closed ? last : null };
    },
  };
}
