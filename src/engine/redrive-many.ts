/** Redrives the dead letters that fit a filter, a page of them. Each is a command for itself: what somebody else has
 *  redriven or pruned meanwhile is passed over, and so is what has no budget left. One that is discarded in the same moment may be redriven all the same. */
import type { Command } from "../core/command.ts";
import { PerdureError } from "../core/errors.ts";
import type { JobsFilter, RedriveManyAnswer, RedriveManyOptions } from "../core/face.ts";
import { checkRedriveMany } from "../core/face-options.ts";
import { toRedriveTerms } from "../core/redrive.ts";
import type { JobFilter } from "../store/store.ts";
import type { Engine } from "./engine.ts";
import { checkFilter } from "./job-filter.ts";

/** Commands under way at a time: enough to share commits, and not the whole pool's work for a while. */
const TOGETHER = 100;
/** Rows that are read at a time: each may hold two megabytes, and only its id is wanted. */
const ROWS = 50;
/** A page may be short where a filter is by a pattern: enough reads for a limit of full pages, and some that find little. */
const MAX_READS = 200;

export async function redriveMany(
  engine: Engine,
  namespace: string,
  filter: JobsFilter,
  options: RedriveManyOptions,
  by: string | null = null,
): Promise<RedriveManyAnswer> {
  const asked = checkRedriveMany(filter, options);
  const changes = toRedriveTerms(options.changes ?? {}, "redriveMany.changes");
  const { ids, more } = await deadLetters(engine, checkFilter(asked.filter, namespace));
  if (asked.dryRun) return { jobs: ids, more };
  const redriven: string[] = [];
  for (let from = 0; from < ids.length; from += TOGETHER) {
    const some = ids.slice(from, from + TOGETHER);
    const done = await Promise.all(some.map((id) => redrive(engine, id, { kind: "redrive", changes, by })));
    redriven.push(...some.filter((_, i) => done[i]));
  }
  return { jobs: redriven, more };
}

async function deadLetters(engine: Engine, filter: JobFilter): Promise<{ ids: string[]; more: boolean }> {
  const { limit = ROWS } = filter;
  const ids: string[] = [];
  let cursor: Pick<JobFilter, "cursor"> = {};
  for (let reads = 1; ; reads++) {
    const page = await engine.store.find({ ...filter, ...cursor, limit: Math.min(ROWS, limit - ids.length) });
    for (const { id } of page.jobs) ids.push(id);
    if (page.next === null || ids.length >= limit || reads >= MAX_READS) return { ids, more: page.next !== null };
    cursor = { cursor: page.next };
  }
}

/** What somebody else has redriven or pruned meanwhile, and what has no budget left. */
const PASSED_OVER: ReadonlySet<string> = new Set(["wrong_state", "job_not_found", "budget_spent"]);

async function redrive(engine: Engine, id: string, command: Command): Promise<boolean> {
  try {
    return (await engine.command(id, command)).changed;
  } catch (error) {
    if (error instanceof PerdureError && PASSED_OVER.has(error.code)) return false;
    throw error;
  }
}
