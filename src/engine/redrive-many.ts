/** Redrives a page of the dead letters that match a filter. Each is its own command: jobs that were redriven or deleted
 *  meanwhile, or have no budget left, are skipped and named in the answer. A job that is discarded at the same time may be
 *  redriven anyway. */

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

/** Concurrent commands: enough to share commits, without keeping the whole pool busy. */
const TOGETHER = 100;
/** Rows per read: each may hold two megabytes, and only its id is needed. */
const ROWS = 50;
/** A page may be short with a filter by pattern: enough reads for full pages up to the limit, and some that find little. */
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
  // A dry run decides on the rows as read; otherwise each is decided under its lock.
  const refusalIn = asked.dryRun ? (row: JobRow) => refusalOf(row, command, now) : () => null;
  const { found, more } = await deadLetters(engine, { namespace, ...checkJobsFilter(asked.filter) }, refusalIn);
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
  refusalIn: (row: JobRow) => SkippedJob | null,
): Promise<{ found: DeadLetter[]; more: boolean }> {
  const { limit = ROWS } = filter;
  const found: DeadLetter[] = [];
  let cursor: Pick<JobFilter, "cursor"> = {};
  for (let reads = 1; ; reads++) {
    const page = await engine.store.find({ ...filter, ...cursor, limit: Math.min(ROWS, limit - found.length) });
    for (const row of page.jobs) found.push({ id: row.id, refusal: refusalIn(row) });
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
