/** Jobs: searches, one by one, commands on them, and their explanation. A page of a search ends early when it holds
 *  enough text, since a row may hold two megabytes. */

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
import { inWireWords, submitRoutes } from "./submit.ts";

// Searches. A row may hold two megabytes of payload and result, so a page is gathered from small ones of the store,
// and ends early when there is enough text: `next` goes on from there, whatever the limit of the call after.

const DEFAULT_LIMIT = 100;
/** About eight megabytes of reply. */
const ENOUGH = 8_000_000;
/** Rows that are read at a time: at first, and at most, when those before were light. The next may all be heavy. */
const FIRST = 20;
const MOST = 80;
const LIGHT = 100_000;

function listRoutes(parts: ServerParts): RouteHandlers {
  const { engine } = parts;
  return {
    async listJobs(call) {
      const filter = checked(await withinKin(parts, call), call.namespace);
      const { limit = DEFAULT_LIMIT } = filter;
      const texts: string[] = [];
      let size = 0;
      let rows = FIRST;
      let next: string | null = filter.cursor ?? null;
      let isShort = false;
      do {
        if (texts.length > 0) await nextTurn(engine.clock); // others have their turn
        const cursor: Pick<JobFilter, "cursor"> = next === null ? {} : { cursor: next };
        const asked = Math.min(rows, limit - texts.length);
        const page = await engine.store.find({ ...filter, ...cursor, limit: asked, chars: ENOUGH - size });
        // The store has checked as many jobs as one call may: whoever wants to go on asks again.
        isShort = page.jobs.length < asked;
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

/** With the token of a job: its children, or those of one of them. */
async function withinKin(parts: ServerParts, call: RouteCall): Promise<JobsFilter> {
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
    throw inWireWords(error, "");
  }
}

// Jobs: one by one, commands on them, and their story. Submits and searches are in files of their own.

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
        throw inWireWords(error, "filter");
      }
    },

    async explainJob(call) {
      return engine.explain((await findJob(parts, call)).id);
    },

    async listAttempts(call) {
      const { id, attempt, state } = await findJob(parts, call);
      const { after = 0, limit } = call.query as { readonly after?: number; readonly limit?: number };
      const attempts = await engine.store.attempts(id, { after, ...(limit === undefined ? {} : { limit }) });
      // A page ends where it is full, in number or in bytes.
      const last = attempts.at(-1)?.attempt ?? null;
      const closed = state === "running" ? attempt - 1 : attempt;
      return { attempts, next: last !== null && last < closed ? last : null };
    },
  };
}
