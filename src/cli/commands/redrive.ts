/** `perdure redrive`: gives failed jobs another chapter, one by one or all that fit a filter. */

import type { JobsFilter, SkippedJob } from "../../core/api.ts";
import { asOneOf, nearest } from "../../core/check.ts";
import { toMs } from "../../core/duration.ts";
import { ConfigError, show } from "../../core/errors.ts";
import { FAIL_REASONS } from "../../core/job/job.ts";
import type { RedriveChanges } from "../../core/job/redrive.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { asInstant } from "../input/job-options.ts";
import { forEach, givenIds } from "../jobs/for-each-job.ts";
import { REDRIVE_OPTIONS, redriveChangesOf } from "../submit/redrive-changes.ts";
import { serverNow } from "../target/server-time.ts";
import { TARGET, withPerdure } from "../target/target.ts";

/** What the library does in one call. */
const MAX_LIMIT = 1_000;
const WORDS = ["state", "kind", "queue", "tag", "key", "since", "before", "name", "action", "reason"] as const;

export const redrive: CliCommand = {
  name: "redrive",
  summary: "Give failed jobs a new start, with fresh budgets",
  usage: "perdure redrive ID… | --filter FILTER [OPTIONS]",
  about:
    "With ids, jobs that failed or were cancelled. With a filter, the dead letters that fit, oldest first: jobs that failed " +
    "and were neither redriven nor discarded. A filter has words with commas between them: kind=, queue=, tag=, key=, " +
    "name= and action= (also with * and ?), reason=, " +
    "since= and before= (when they were submitted: a time ago such as 2h, or an instant with its zone), and state=failed, " +
    "which alone means all of them. Runs and time are granted anew; tokens and money that were spent stay " +
    "spent: a job with nothing left in its budget, or in one above it, is refused, or with a filter skipped, unless --budget grants more. Exits with 1 if one of them was refused or skipped. Options such as --timeout and --max-attempts change the job from here on; what is not given stays as it is.",
  options: [
    {
      ...{ name: "filter", type: "string", value: "FILTER", multiple: true },
      help: "Those that fit all of it: kind=exec,queue=mail,since=1d.",
    },
    { name: "dry-run", type: "boolean", help: "With --filter: only list them." },
    {
      ...{ name: "limit", short: "n", type: "string", value: "N" },
      help: `With --filter: at most so many. Default: ${MAX_LIMIT}.`,
    },
    ...REDRIVE_OPTIONS,
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure redrive job_01m7gekg9zevv9a6xvvwmt1v8g",
    "perdure redrive job_01m7gekg9zevv9a6xvvwmt1v8g --timeout 2h --max-attempts 9",
    "perdure redrive job_01m7gekg9zevv9a6xvvwmt1v8g --budget 0.5",
    "perdure redrive --filter kind=exec,queue=mail,since=1d --dry-run",
  ],

  async run(context) {
    const { given } = context;
    const changes = redriveChangesOf(given);
    const isFiltered = given.flag("filter");
    if (isFiltered && given.positionals.length > 0) throw usageError("ids and --filter cannot be used together");
    if (isFiltered) return redriveFitting(context, changes);
    for (const name of ["dry-run", "limit"]) {
      if (given.flag(name)) throw usageError(`--${name} requires --filter`);
    }
    return forEach(context, givenIds(given, redrive), (perdure, id) => perdure.redrive(id, changes));
  },
};

async function redriveFitting(context: CommandContext, changes: RedriveChanges): Promise<number> {
  const { given, out } = context;
  filterOf(given.texts("filter"), Date.now()); // what is wrong with it is said before anything is opened
  const limit = given.integer("limit", { min: 1, max: MAX_LIMIT });
  const dryRun = given.flag("dry-run");
  const { jobs, skipped, more } = await withPerdure(context, async (perdure) => {
    const filter = filterOf(given.texts("filter"), await serverNow(perdure));
    return perdure.redriveMany(filter, { dryRun, changes, ...(limit === undefined ? {} : { limit }) });
  });
  const code = skipped.length > 0 && !dryRun ? EXIT.failed : EXIT.done;
  if (given.flag("json")) {
    out.json({ dryRun, jobs, skipped, more });
    return code;
  }
  for (const id of jobs) out.line(id);
  if (jobs.length + skipped.length === 0 && !more) out.note("no matching dead letters");
  else out.note(`${dryRun ? "would redrive" : "redriven"}: ${many(jobs.length)}${more ? "; there are more" : ""}`);
  for (const line of skippedLines(skipped, dryRun)) out.note(line);
  return code;
}

/** Of a list that may be long. */
const NAMED = 3;

/** One line for all that have no budget left, and one for all others. */
function skippedLines(skipped: readonly SkippedJob[], dryRun: boolean): string[] {
  const spent = skipped.filter(({ code }) => code === "budget_spent");
  const others = skipped.filter(({ code }) => code !== "budget_spent");
  const verb = dryRun ? "would skip" : "skipped";
  const named = (list: readonly SkippedJob[]) => {
    const rest = list.length > NAMED ? `, and ${list.length - NAMED} more` : "";
    const ids = list.slice(0, NAMED).map(({ id }) => id);
    return `${many(list.length)} (${ids.join(", ")}${rest})`;
  };
  const lines: string[] = [];
  if (spent.length > 0) lines.push(`${verb}: ${named(spent)} with nothing left in a budget; grant more with --budget`);
  if (others.length > 0) lines.push(`${verb}: ${named(others)}; ${(others[0] as SkippedJob).message}`);
  return lines;
}

function many(count: number): string {
  return `${count} ${count === 1 ? "job" : "jobs"}`;
}

/** `now` is what a time ago counts from. */
export function filterOf(texts: readonly string[], now: number): JobsFilter {
  const filter: JobsFilter = {};
  const seen = new Set<string>();
  // A comma inside a value stays, unless a word follows it.
  for (const part of texts.flatMap((text) => text.split(/,(?=\s*[A-Za-z]+=)/))) {
    const [, word = "", value = ""] = /^\s*([A-Za-z]+)=(.*)$/s.exec(part) ?? [];
    const known = WORDS.find((each) => each === word);
    if (known === undefined) throw unknownWord(part, word);
    if (seen.has(known)) throw usageError(`--filter: ${known} is given twice; give it once`);
    seen.add(known);
    if (value.trim() === "") throw usageError(`--filter: ${known} has no value; write ${known}=…`);
    if (known === "since") filter.submittedAfter = instantOf(value, known, now);
    else if (known === "before") filter.submittedBefore = instantOf(value, known, now);
    else if (known === "reason") filter.reason = asOneOf(value, FAIL_REASONS, "--filter: reason");
    else if (known !== "state") filter[known] = value;
    else if (value !== "failed") {
      throw usageError(
        `--filter: got state=${value}; only failed jobs are dead letters, others are redriven by their ids`,
      );
    }
  }
  return filter;
}

function unknownWord(part: string, word: string): Error {
  const near = word === "" ? null : nearest(word, WORDS);
  const hint = near === null ? `words are ${WORDS.join(", ")}` : `did you mean ${near}?`;
  return usageError(`--filter: got ${show(part)}; ${hint}`);
}

function instantOf(text: string, word: string, now: number): number {
  try {
    if (/^\d+(\.\d+)?\s*(ms|s|m|h|d)$/.test(text.trim())) return Math.max(0, now - toMs(text.trim(), word));
    return asInstant(text.trim(), word);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const allowed = "a time ago such as 2h or 7d, or an instant with its zone such as 2026-11-16T09:00:00Z";
    throw usageError(`--filter: ${word}: got ${show(text)}; give ${allowed}`);
  }
}
