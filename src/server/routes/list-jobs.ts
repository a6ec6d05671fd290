/** Searches. A row may hold two megabytes of payload and result, so a page is gathered from small ones of the store, and
 *  ends early when there is enough text: `next` goes on from there, whatever the limit of the call after. */
import type { JobsFilter } from "../../core/face.ts";
import { checkFilter } from "../../engine/job-filter.ts";
import { nextTurn } from "../../lib/turn.ts";
import type { JobFilter } from "../../store/store.ts";
import { visibleJob } from "../job-of.ts";
import { type Call, type Handlers, JsonText, type ServerParts } from "../parts.ts";
import { wireJob } from "../wire-job.ts";
import { inWireWords } from "./submit.ts";

const DEFAULT_LIMIT = 100;
/** About eight megabytes of reply. */
const ENOUGH = 8_000_000;
/** Rows that are read at a time: at first, and at most, when those before were light. The next may all be heavy. */
const FIRST = 20;
const MOST = 80;
const LIGHT = 100_000;

export function listRoutes(parts: ServerParts): Handlers {
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
        if (texts.length > 0) await nextTurn(); // others have their turn
        const cursor: Pick<JobFilter, "cursor"> = next === null ? {} : { cursor: next };
        const asked = Math.min(rows, limit - texts.length);
        const page = await engine.store.find({ ...filter, ...cursor, limit: asked });
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
async function withinKin(parts: ServerParts, call: Call): Promise<JobsFilter> {
  const query = call.query as JobsFilter;
  const { job } = call.who;
  if (job === undefined) return query;
  const parent = query.parent ?? job.id;
  await visibleJob(parts, call, parent);
  return { ...query, parent };
}

function checked(query: JobsFilter, namespace: string): JobFilter {
  try {
    return checkFilter(query, namespace);
  } catch (error) {
    throw inWireWords(error, "");
  }
}
