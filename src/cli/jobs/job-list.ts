/** Which jobs a list shows: the options for it, the filter they make, and the pages of jobs. */

import type { JobsFilter, Perdure } from "../../core/api.ts";
import { asOneOf } from "../../core/check.ts";
import { toMs } from "../../core/duration.ts";
import { PerdureError, show } from "../../core/errors.ts";
import { FAIL_REASONS, JOB_STATES } from "../../core/job/job.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { originTag } from "../../dialects/shared.ts";
import { isId } from "../../lib/id.ts";
import type { Arguments, CommandOption } from "../command.ts";
import { usageError } from "../exit.ts";
import { asReference, fullId } from "./job-reference.ts";

// Which jobs a list is to show, as the options say, and the jobs.

const DEFAULT_LIMIT = 20;
/** What the library gives at a time. */
const MAX_LIMIT = 1_000;
/** Inputs of jobs may have a megabyte each: with `--all` few of them are in memory at once. */
const ALL_PAGE = 100;

export const LIST_OPTIONS: readonly CommandOption[] = [
  { name: "state", type: "string", multiple: true, value: "STATE", help: `Only these: ${JOB_STATES.join(", ")}.` },
  { name: "queue", type: "string", multiple: true, value: "NAME", help: "Only jobs of this queue." },
  { name: "kind", type: "string", multiple: true, value: "KIND", help: "Only jobs of this kind." },
  { name: "tag", type: "string", value: "TAG", help: "Only jobs with this tag." },
  { name: "key", type: "string", value: "KEY", help: "Only the job with this key." },
  {
    name: "name",
    type: "string",
    value: "NAME",
    help: "Only jobs of this name; * and ? stand for any characters: 'backup-*'.",
  },
  { name: "action", type: "string", value: "ACTION", help: "Only jobs of this action: core.echo, 'core.*'." },
  {
    ...{ name: "reason", type: "string", multiple: true, value: "REASON" },
    help: `Only jobs that failed for this reason: ${FAIL_REASONS.join(", ")}.`,
  },
  { name: "parent", type: "string", value: "ID", help: "Only children of this job." },
  {
    ...{ name: "resubmit-of", type: "string", value: "ID" },
    help: "Only jobs that `perdure resubmit` made from this one.",
  },
  {
    name: "dead",
    type: "boolean",
    help: "Only dead letters, with their failures: jobs that failed and wait for a person.",
  },
  {
    ...{ name: "since", type: "string", value: "TIME" },
    help: "Only jobs submitted since: 30m, or 2026-11-16T09:00:00Z.",
  },
  { name: "before", type: "string", value: "TIME", help: "Only jobs submitted before." },
  { name: "oldest", type: "boolean", help: "Oldest first." },
  { name: "limit", short: "n", type: "string", value: "N", help: `At most so many. Default: ${DEFAULT_LIMIT}.` },
  { name: "all", short: "a", type: "boolean", help: "All there are." },
  { name: "cursor", type: "string", value: "CURSOR", help: "Go on where a list with the same filter ended." },
];

interface JobListRequest {
  readonly filter: JobsFilter;
  /** The job that those of the list were made from. */
  readonly origin?: string;
  readonly all: boolean;
}

export function readPages(given: Arguments, now: number): JobListRequest {
  const all = given.flag("all");
  const limit = given.integer("limit", { min: 1, max: MAX_LIMIT });
  if (all && limit !== undefined) throw usageError("--all and --limit cannot be used together");
  const filter: JobsFilter = { limit: all ? ALL_PAGE : (limit ?? DEFAULT_LIMIT) };
  const states = given.texts("state").map((state) => asOneOf(state, JOB_STATES, "--state"));
  if (states.length > 0) filter.state = [...new Set(states)].sort();
  for (const name of ["queue", "kind"] as const) {
    const names = given.texts(name).map((text) => filled(name, text));
    if (names.length > 0) filter[name] = [...new Set(names)].sort();
  }
  const reasons = given.texts("reason").map((reason) => asOneOf(reason, FAIL_REASONS, "--reason"));
  if (reasons.length > 0) filter.reason = [...new Set(reasons)].sort();
  for (const name of ["tag", "key", "cursor", "name", "action"] as const) {
    const text = given.text(name);
    if (text !== undefined) filter[name] = filled(name, text);
  }
  const parent = given.text("parent");
  if (parent !== undefined) filter.parent = asReference(parent);
  if (given.flag("dead")) filter.deadLetter = true;
  if (given.flag("oldest")) filter.order = "oldest";
  const [since, before] = [instantOf(given, "since", now), instantOf(given, "before", now)];
  if (since !== undefined) filter.submittedAfter = since;
  if (before !== undefined) filter.submittedBefore = before;
  const origin = given.text("resubmit-of");
  if (origin === undefined) return { filter, all };
  if (filter.tag !== undefined) throw usageError("--tag and --resubmit-of cannot be used together");
  return { filter, all, origin: asReference(origin) };
}

function filled(name: string, text: string): string {
  if (text.trim() !== "" && text.length <= 500) return text;
  throw usageError(`--${name}: give a text of 1 to 500 characters`);
}

/** The filter with whole ids, however jobs were named. */
export async function withWholeIds(
  perdure: Perdure,
  { filter, origin }: Pick<JobListRequest, "filter" | "origin">,
): Promise<JobsFilter> {
  return {
    ...filter,
    ...(filter.parent === undefined ? {} : { parent: await relatedId(perdure, filter.parent) }),
    ...(origin === undefined ? {} : { tag: originTag(await relatedId(perdure, origin)) }),
  };
}

/** A job that was deleted may have left others behind. */
async function relatedId(perdure: Perdure, text: string): Promise<string> {
  try {
    return await fullId(perdure, text);
  } catch (error) {
    if (isId(text, "job") && error instanceof PerdureError && error.code === "job_not_found") return text;
    throw error;
  }
}

/** A search by a pattern checks some thousands of jobs in a call: this many calls for a page that is not full yet. */
const MAX_CALLS = 20;

/** One page of jobs, or all pages one after the other. */
export class JobListing {
  /** Where the list goes on; null when it is at its end. Known when the jobs have been read. */
  next: string | null = null;
  /** Not all that were asked for: it has searched long enough. */
  isShort = false;
  readonly #perdure: Perdure;
  readonly #pages: JobListRequest;

  constructor(perdure: Perdure, pages: JobListRequest) {
    this.#perdure = perdure;
    this.#pages = pages;
  }

  async *jobs(): AsyncGenerator<JobInfo, void, void> {
    const { all } = this.#pages;
    const filter = await withWholeIds(this.#perdure, this.#pages);
    const { limit = DEFAULT_LIMIT } = filter;
    let [left, calls] = [limit, 0];
    do {
      const asked = { ...filter, limit: all ? limit : left };
      const page = await this.#perdure.jobs(this.next === null ? asked : { ...asked, cursor: this.next });
      this.next = page.next;
      left -= page.jobs.length;
      calls += 1;
      yield* page.jobs;
    } while (this.next !== null && (all || (left > 0 && calls < MAX_CALLS)));
    this.isShort = this.next !== null && left > 0 && !all;
  }
}

// Instants as people write them on a command line: `30m` ago, or a date and time.

const AGO = /^\d{1,15}(\.\d{1,6})?\s*(ms|s|m|h|d)$/;
const DATE = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?$/;

/** Milliseconds UTC. Without a zone it is local time, and a date alone is its beginning. */
export function instantOf(given: Arguments, name: string, now: number): number | undefined {
  const text = given.text(name)?.trim();
  if (text === undefined) return undefined;
  if (AGO.test(text)) return now - toMs(text, `--${name}`);
  // Node takes a date alone for UTC, and with a time for local.
  const at = DATE.test(text) ? Date.parse(text.includes("T") ? text : `${text}T00:00`) : Number.NaN;
  if (!Number.isNaN(at)) return at;
  throw usageError(
    `--${name}: got ${show(text)}; give a time ago, such as 30m, or an instant, such as 2026-11-16T09:00:00Z`,
  );
}
