/** `perdure redrive`: redrives failed jobs, one by one or all that match a filter. */

import type { SkippedJob } from "../../core/api/commands.ts";
import type { RunRedriveOptions } from "../../core/api/runs.ts";
import type { Perdure } from "../../core/api.ts";
import { asOneOf, nearest } from "../../core/check.ts";
import { toMs } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import { FILTER_RULES, type JobsFilter } from "../../core/job/jobs-filter.ts";
import type { RedriveChanges } from "../../core/job/redrive.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { conflictError, EXIT, requirementError, usageError, valueError } from "../exit.ts";
import { asInstant } from "../input/job-options.ts";
import { forEach, givenIds } from "../jobs/for-each-job.ts";
import { RUN_REDRIVE_OPTIONS, runRedriveOf } from "../playbooks/redrive-options.ts";
import { noteIfNoServer } from "../playbooks/start-runs.ts";
import { REDRIVE_OPTIONS, redriveChangesOf } from "../submit/redrive-changes.ts";
import { warnIfStillWaiting } from "../submit/warn-no-worker.ts";
import { serverNow } from "../target/server-time.ts";
import { TARGET, targetOf, withPerdure } from "../target/target.ts";

/** The most that the library redrives in one call. */
const MAX_LIMIT = 1_000;
/** The words of `--filter`: those options of a list that take a value and name it in full. */
const FILTER_WORDS = FILTER_RULES.flatMap(([field, { cli, listOnly }]) => {
  if (cli === undefined || cli.value === undefined || cli.form === "job" || listOnly === true) return [];
  return [{ field, word: cli.name, form: cli.form }];
});
const WORDS = FILTER_WORDS.map(({ word }) => word);

export const redrive: CliCommand = {
  name: "redrive",
  summary: "Redrive failed jobs, with fresh budgets",
  usage: "perdure redrive ID… | --filter FILTER [OPTIONS]",
  about:
    "With ids, jobs that failed or were cancelled. With a filter, the matching dead letters, oldest first: jobs that failed " +
    `and were neither redriven nor discarded. A filter is a list of ${WORDS.map((word) => `${word}=`).join(", ")}, ` +
    "separated by commas. name= and action= may have * and ?; since= and before= (when the jobs were submitted) take a time " +
    "ago such as 2h, or an instant with its zone; state=failed alone means all dead letters. Attempts and time are granted " +
    "again; tokens and money that were spent stay spent: a job with nothing left in its budget, or in one above it, is " +
    "refused, or with a filter skipped, unless --budget grants more. Exits with 1 if one of them was refused or skipped. " +
    "Options such as --timeout and --max-attempts change the job from here on; the rest stays as it is. A run repeats what " +
    "failed, was cancelled or never ended, in the same run: what succeeded stays, and a loop repeats its failed items only. " +
    "A step is redriven by its run.",
  options: [
    {
      ...{ name: "filter", type: "string", value: "FILTER", multiple: true },
      help: "Those that match all of it: kind=exec,queue=mail,since=1d.",
    },
    { name: "dry-run", type: "boolean", help: "With --filter: list them and change nothing." },
    {
      ...{ name: "limit", short: "n", type: "string", value: "N" },
      help: `With --filter: at most this many. Default: ${MAX_LIMIT}.`,
    },
    ...REDRIVE_OPTIONS,
    ...RUN_REDRIVE_OPTIONS,
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure redrive job_01m7gekg9zevv9a6xvvwmt1v8g",
    "perdure redrive job_01m7gekg9zevv9a6xvvwmt1v8g --timeout 2h --max-attempts 9",
    "perdure redrive job_01m7gekg9zevv9a6xvvwmt1v8g --budget 0.5",
    "perdure redrive nightly-orders --from charge --set data.currency=NOK",
    "perdure redrive --filter kind=exec,queue=mail,since=1d --dry-run",
  ],

  async run(context) {
    const { given } = context;
    const changes = redriveChangesOf(given);
    const isFiltered = given.flag("filter");
    const ofRun = RUN_REDRIVE_OPTIONS.find(({ name }) => given.flag(name));
    if (ofRun !== undefined && isFiltered) throw conflictError(`--${ofRun.name}`, "--filter");
    const ofJob = REDRIVE_OPTIONS.find(({ name }) => given.flag(name));
    if (ofRun !== undefined && ofJob !== undefined) {
      throw conflictError(`--${ofJob.name}`, `--${ofRun.name}`, "one is of jobs, the other of runs");
    }
    if (isFiltered && given.positionals.length > 0) throw conflictError("ids", "--filter");
    if (isFiltered) return redriveMatching(context, changes);
    for (const name of ["dry-run", "limit"]) {
      if (given.flag(name)) throw requirementError(`--${name}`, "--filter");
    }
    const ids = givenIds(given, redrive);
    const runOptions = await runRedriveOf(context, () => targetOf(context));
    return forEach(
      context,
      ids,
      (perdure, id) => (runOptions === null ? perdure.redrive(id, changes) : redriveRun(perdure, id, runOptions)),
      async (perdure, jobs) => {
        noteIfNoServer(context, jobs);
        await warnIfStillWaiting(context, perdure, jobs);
      },
    );
  },
};

async function redriveRun(perdure: Perdure, id: string, options: RunRedriveOptions): Promise<JobInfo> {
  await perdure.redriveRun(id, options);
  return (await perdure.job(id)).get();
}

async function redriveMatching(context: CommandContext, changes: RedriveChanges): Promise<number> {
  const { given, out } = context;
  filterOf(given.texts("filter"), Date.now()); // mistakes are reported before anything is opened
  const limit = given.integer("limit", { min: 1, max: MAX_LIMIT });
  const dryRun = given.flag("dry-run");
  return withPerdure(context, async (perdure) => {
    const filter = filterOf(given.texts("filter"), await serverNow(perdure));
    const answer = await perdure.redriveMany(filter, { dryRun, changes, ...(limit === undefined ? {} : { limit }) });
    const { jobs, skipped, more } = answer;
    if (given.flag("json")) out.json({ dryRun, jobs, skipped, more });
    else {
      for (const id of jobs) out.line(id);
      if (jobs.length + skipped.length === 0 && !more) out.note("no matching dead letters");
      else out.note(`${dryRun ? "would redrive" : "redriven"}: ${many(jobs.length)}${more ? "; there are more" : ""}`);
      for (const line of skippedLines(skipped, dryRun)) out.note(line);
    }
    if (!dryRun) await warnIfStillWaiting(context, perdure, jobs);
    return skipped.length > 0 && !dryRun ? EXIT.failed : EXIT.done;
  });
}

/** Ids that a line names. */
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
  if (spent.length > 0) lines.push(`${verb}: ${named(spent)} with a used-up budget; grant more with --budget`);
  if (others.length > 0) lines.push(`${verb}: ${named(others)}; ${(others[0] as SkippedJob).message}`);
  return lines;
}

function many(count: number): string {
  return `${count} ${count === 1 ? "job" : "jobs"}`;
}

/** `now`: the instant that `2h` is subtracted from. */
export function filterOf(texts: readonly string[], now: number): JobsFilter {
  const filter: JobsFilter = {};
  const seen = new Set<string>();
  // A comma inside a value stays, unless a field follows it.
  for (const part of texts.flatMap((text) => text.split(/,(?=\s*[A-Za-z]+=)/))) {
    const [, word = "", value = ""] = /^\s*([A-Za-z]+)=(.*)$/s.exec(part) ?? [];
    const known = FILTER_WORDS.find((each) => each.word === word);
    if (known === undefined) throw unknownWord(part, word);
    if (seen.has(word)) throw usageError(`--filter: ${word} can be used only once`);
    seen.add(word);
    if (value.trim() === "") throw usageError(`--filter: ${word} requires a value: ${word}=…`);
    const read = readWord(known, value, now);
    if (read !== undefined) Object.assign(filter, { [known.field]: read });
  }
  return filter;
}

/** Undefined: it narrows nothing. */
function readWord({ word, form }: (typeof FILTER_WORDS)[number], value: string, now: number): unknown {
  if (word === "state") {
    if (value === "failed") return undefined;
    throw valueError(
      "--filter: state",
      value,
      "failed, as only failed jobs are dead letters (redrive others by their ids)",
    );
  }
  if (form === "instant") return instantOf(value, word, now);
  return Array.isArray(form) ? asOneOf(value, form, `--filter: ${word}`) : value;
}

function unknownWord(part: string, word: string): Error {
  const near = word === "" ? null : nearest(word, WORDS);
  const hint = near === null ? "" : `. Did you mean ${near}?`;
  return valueError("--filter", part, `FIELD=VALUE, where FIELD is one of ${WORDS.join(", ")}`, hint);
}

function instantOf(text: string, word: string, now: number): number {
  try {
    if (/^\d+(\.\d+)?\s*(ms|s|m|h|d)$/.test(text.trim())) return Math.max(0, now - toMs(text.trim(), word));
    return asInstant(text.trim(), word);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const allowed = "a time ago such as 2h or 7d, or an instant with its zone such as 2026-11-16T09:00:00Z";
    throw valueError(`--filter: ${word}`, text, allowed);
  }
}
