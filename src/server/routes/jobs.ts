/** Jobs: searches, single jobs, commands, and explanations. A row may have two megabytes of payload and result, so a page of a search
 *  is collected from small pages of the store and ends early when it is large enough; `next` continues from there. */

import { toInstant } from "../../core/duration.ts";
import type { Command } from "../../core/job/command.ts";
import { checkJobsFilter, type JobsFilter } from "../../core/job/jobs-filter.ts";
import { type RedriveChanges, type RedriveTerms, toRedriveTerms } from "../../core/job/redrive.ts";
import { redriveMany } from "../../engine/redrive-many.ts";
import { nextTurn } from "../../lib/clock.ts";
import type { JobFilter } from "../../store/store.ts";
import {
  JsonText,
  operator,
  type RouteCall,
  type RouteHandler,
  type RouteHandlers,
  type ServerParts,
} from "../context.ts";
import { findJob, visibleJob } from "../find-job.ts";
import { viewOfJob } from "../views.ts";
import { wireJob } from "../wire-format.ts";
import { submitRoutes, withWirePath } from "./submit.ts";

const DEFAULT_LIMIT = 100;
/** A reply larger than this ends the page. */
const ENOUGH = 8_000_000;
/** Rows per read: the first time, and at most, after small rows. The next rows may all be large. */
const FIRST = 20;
const MOST = 80;
const LIGHT = 100_000;

function listRoutes(parts: ServerParts): RouteHandlers {
  const { engine } = parts;
  return {
    async listJobs(call) {
      const filter = checked(await withinFamily(parts, call), call.namespace);
      const { limit = DEFAULT_LIMIT } = filter;
      const texts: string[] = [];
      let size = 0;
      let rows = FIRST;
      let next: string | null = filter.cursor ?? null;
      let isShort = false;
      do {
        if (texts.length > 0) await nextTurn(engine.clock); // let other requests run
        const cursor: Pick<JobFilter, "cursor"> = next === null ? {} : { cursor: next };
        const count = Math.min(rows, limit - texts.length);
        const page = await engine.store.find({ ...filter, ...cursor, limit: count, chars: ENOUGH - size });
        // The page is full in characters, or as many jobs were checked as one call may: the client continues with `next`.
        isShort = page.jobs.length < count;
        const before = size;
        for (const row of page.jobs) {
          const text = wireJob(row);
          texts.push(text);
          size += text.length;
        }
        if (size - before < LIGHT) rows = Math.min(MOST, rows * 2);
        next = page.next;
      } while (next !== null && !isShort && texts.length < limit && size < ENOUGH);
      return new JsonText(`{"jobs":[${texts.join(",")}],"next":${JSON.stringify(next)}}`);
    },
  };
}

/** Limits a search with a job token to its children, or those of a descendant. */
async function withinFamily(parts: ServerParts, call: RouteCall): Promise<JobsFilter> {
  const query = call.query as JobsFilter;
  const { job } = call.who;
  if (job === undefined) return query;
  const parent = query.parent ?? job.id;
  await visibleJob(parts, call, parent);
  return { ...query, parent };
}

function checked(query: JobsFilter, namespace: string): JobFilter {
  try {
    return { namespace, ...checkJobsFilter(query) };
  } catch (error) {
    throw withWirePath(error, "");
  }
}

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
    throw withWirePath(error, "");
  }
}

export function jobRoutes(parts: ServerParts): RouteHandlers {
  const { engine } = parts;

  const command =
    (kind: Exclude<Command["kind"], "redrive" | "reschedule" | "unblock">): RouteHandler =>
    async (call) => {
      const { id } = await findJob(parts, call);
      const { job } = await engine.command(id, { kind, by: operator(call.who) });
      return new JsonText(wireJob(job));
    };

  return {
    ...submitRoutes(parts),
    ...listRoutes(parts),

    async getJob(call) {
      const row = await findJob(parts, call);
      return call.query.view === undefined ? new JsonText(wireJob(row)) : viewOfJob(parts, row, call.query.view);
    },
    cancelJob: command("cancel"),
    retryJob: command("retry"),
    discardJob: command("discard"),

    async redriveJob(call) {
      const { id } = await findJob(parts, call);
      const changes = redriveTermsOf((call.body ?? {}) as RedriveChanges);
      const { job } = await engine.command(id, { kind: "redrive", changes, by: operator(call.who) });
      return new JsonText(wireJob(job));
    },

    async rescheduleJob(call) {
      const { id } = await findJob(parts, call);
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
        throw withWirePath(error, "filter");
      }
    },

    async explainJob(call) {
      return engine.explain((await findJob(parts, call)).id);
    },

    async listAttempts(call) {
      const { id, attempt, state } = await findJob(parts, call);
      const { after = 0, limit } = call.query as { readonly after?: number; readonly limit?: number };
      const attempts = await engine.store.attempts(id, { after, ...(limit === undefined ? {} : { limit }) });
      // The store ends a page when it is full, by number or by bytes.
      const last = attempts.at(-1)?.attempt ?? null;
      const closed = state === "running" ? attempt - 1 : attempt;
      return { attempts, next: last !== null && last < closed ? last : null };
    },
  };
}
