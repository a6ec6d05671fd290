/** The small options of the library's face, checked the same way whoever answers. Those of a submit and of a search are
 *  checked by the engine, those of a worker by the worker. */
import { asBoolean, asInteger, asText, checkKeys, checkOptions } from "./check.ts";
import { type Duration, toMs } from "./duration.ts";
import { ConfigError } from "./errors.ts";
import type { FeedOptions, JobsFilter, RedriveManyOptions, ResultOptions } from "./face.ts";
import type { SubmitEntry } from "./submit-options.ts";
import { isTask } from "./task.ts";
import type { StopOptions } from "./work-options.ts";

const ENTRY_KEYS = ["task", "input", "options"];

export function checkEntry(entry: SubmitEntry): SubmitEntry {
  const task = entry?.task;
  if (typeof task === "string" || isTask(task)) {
    checkKeys(entry, ENTRY_KEYS, "submitMany");
    return entry;
  }
  throw new ConfigError({
    path: "submit.task",
    given: task,
    allowed: "a task made with task(), or the name of a kind",
  });
}

/** How long to wait for a result; null for as long as it takes. */
export function checkResult(options: ResultOptions): number | null {
  checkOptions(options, ["timeout", "signal"], "result");
  checkSignal(options.signal, "result.signal");
  return options.timeout === undefined ? null : toMs(options.timeout, "result.timeout");
}

/** Of one job's events; of all events, also `jobId`. */
export const JOB_FEED_KEYS = ["after", "follow", "signal"];
const FEED_KEYS = [...JOB_FEED_KEYS, "jobId"];

export function checkFeed(options: FeedOptions, known: readonly string[] = FEED_KEYS): FeedOptions {
  checkOptions(options, known, "events");
  if (options.after !== undefined) asInteger(options.after, "events.after", { min: 0 });
  if (options.follow !== undefined) asBoolean(options.follow, "events.follow");
  if (options.jobId !== undefined) asText(options.jobId, "events.jobId", 200);
  checkSignal(options.signal, "events.signal");
  return options;
}

function checkSignal(signal: unknown, path: string): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw new ConfigError({ path, given: signal, allowed: "an AbortSignal" });
}

const DEFAULT_GRACE = "30s";

/** Of a worker: `force` ends what runs without any grace time. */
export function checkStop(options: StopOptions): { readonly graceMs: number; readonly force: boolean } {
  checkOptions(options, ["grace", "force"], "stop");
  const force = asBoolean(options.force ?? false, "stop.force");
  return { graceMs: toMs(options.grace ?? DEFAULT_GRACE, "stop.grace"), force };
}

export function checkGrace(options: { grace?: Duration }, path: string): number {
  checkOptions(options, ["grace"], path);
  return toMs(options.grace ?? DEFAULT_GRACE, `${path}.grace`);
}

const MAX_REDRIVEN = 1_000;

/** Which dead letters are meant, and how many of them at most: one page of a search, from the oldest. */
export function checkRedriveMany(
  filter: JobsFilter,
  options: RedriveManyOptions,
): { readonly filter: JobsFilter; readonly dryRun: boolean } {
  checkOptions(filter, REDRIVE_FILTER_KEYS, "redriveMany");
  checkOptions(options, ["dryRun", "limit", "changes"], "redriveMany");
  const { dryRun = false, limit = MAX_REDRIVEN } = options;
  if (filter.deadLetter === false) {
    throw new ConfigError({ path: "redriveMany.deadLetter", given: false, allowed: "true: it redrives dead letters" });
  }
  asInteger(limit, "redriveMany.limit", { min: 1, max: MAX_REDRIVEN });
  return {
    filter: { ...filter, deadLetter: true, order: "oldest", limit },
    dryRun: asBoolean(dryRun, "redriveMany.dryRun"),
  };
}

/** Those that say which jobs: in what order and how many is not the filter's to say. */
const REDRIVE_FILTER_KEYS = [
  ...["state", "kind", "queue", "tag", "key", "deadLetter", "submittedAfter", "submittedBefore", "parent"],
  ...["name", "action", "reason"],
];
