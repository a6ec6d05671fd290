/** Redrives the dead letters that fit a filter, a page of them. Each is a command for itself: what somebody else has
 *  redriven or deleted meanwhile, and what has no budget left, is skipped and named in the answer. One that is discarded in the
 *  same moment may be redriven all the same. */

import {
  checkRedriveMany,
  type RedriveManyAnswer,
  type RedriveManyOptions,
  type SkippedJob,
} from "../core/api/commands.ts";
import { PerdureError } from "../core/errors.ts";
import { type Command, decideCommand } from "../core/job/command.ts";
import { checkJobsFilter, type JobsFilter } from "../core/job/jobs-filter.ts";
import { toRedriveTerms } from "../core/job/redrive.ts";
import type { JobFilter, JobRow } from "../store/store.ts";
import type { Engine } from "./engine.ts";

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
  const command: Command = { kind: "redrive", changes, by };
  const now = engine.clock.now();
  // A dry run decides on the rows as they are; otherwise each is decided on under its lock.
  const judge = asked.dryRun ? (row: JobRow) => refusalOf(row, command, now) : () => null;
  const { found, more } = await deadLetters(engine, { namespace, ...checkJobsFilter(asked.filter) }, judge);
  const answer = { jobs: [] as string[], skipped: [] as SkippedJob[], more };
  for (let from = 0; from < found.length; from += TOGETHER) {
    const some = found.slice(from, from + TOGETHER);
    const refusals = asked.dryRun
      ? some.map(({ refusal }) => refusal)
      : await Promise.all(some.map(({ id }) => redrive(engine, id, command)));
    some.forEach(({ id }, i) => {
      const refusal = refusals[i] ?? null;
      if (refusal === null) answer.jobs.push(id);
      else answer.skipped.push(refusal);
    });
  }
  return answer;
}

interface DeadLetter {
  readonly id: string;
  readonly refusal: SkippedJob | null;
}

async function deadLetters(
  engine: Engine,
  filter: JobFilter,
  judge: (row: JobRow) => SkippedJob | null,
): Promise<{ found: DeadLetter[]; more: boolean }> {
  const { limit = ROWS } = filter;
  const found: DeadLetter[] = [];
  let cursor: Pick<JobFilter, "cursor"> = {};
  for (let reads = 1; ; reads++) {
    const page = await engine.store.find({ ...filter, ...cursor, limit: Math.min(ROWS, limit - found.length) });
    for (const row of page.jobs) found.push({ id: row.id, refusal: judge(row) });
    if (page.next === null || found.length >= limit || reads >= MAX_READS) return { found, more: page.next !== null };
    cursor = { cursor: page.next };
  }
}

function refusalOf(row: JobRow, command: Command, now: number): SkippedJob | null {
  const decision = decideCommand(row, command, now, row.budgets);
  if (decision.kind === "apply") return null;
  const isBudget = decision.kind === "refuse" && decision.isBudget === true;
  return { id: row.id, code: isBudget ? "budget_spent" : "wrong_state", message: `${row.id}: ${decision.message}` };
}

const SKIPPED: ReadonlySet<string> = new Set<SkippedJob["code"]>(["wrong_state", "job_not_found", "budget_spent"]);

/** Null: it was redriven. */
async function redrive(engine: Engine, id: string, command: Command): Promise<SkippedJob | null> {
  try {
    const { changed, message } = await engine.command(id, command);
    return changed ? null : { id, code: "wrong_state", message: `${id}: ${message}` };
  } catch (error) {
    if (!(error instanceof PerdureError) || !SKIPPED.has(error.code)) throw error;
    return { id, code: error.code as SkippedJob["code"], message: error.message };
  }
}
