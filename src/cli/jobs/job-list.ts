/** The options for lists of jobs, the filter they make, and the pages of jobs. */

import type { Perdure } from "../../core/api.ts";
import { asOneOf } from "../../core/check.ts";
import { toMs } from "../../core/duration.ts";
import { PerdureError } from "../../core/errors.ts";
import { FILTER_RULES, type FilterOption, type JobsFilter } from "../../core/job/jobs-filter.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { originTag } from "../../dialects/shared.ts";
import { isId } from "../../lib/id.ts";
import type { Arguments, CommandOption } from "../command.ts";
import { conflictError, usageError, valueError } from "../exit.ts";
import { asReference, fullId } from "./job-reference.ts";

const DEFAULT_LIMIT = 20;
/** The maximum of one call of the library. */
const MAX_LIMIT = 1_000;
/** Inputs may have a megabyte each, so with `--all` few jobs are in memory at once. */
const ALL_PAGE = 100;

const FILTER_OPTIONS = FILTER_RULES.flatMap(([, { cli, wire }]): CommandOption[] => {
  if (cli === undefined) return [];
  const { name, help, value } = cli;
  if (value === undefined) return [{ name, help, type: "boolean" }];
  return [{ name, help, type: "string", value, ...(wire.type === "array" ? { multiple: true } : {}) }];
});

export const LIST_OPTIONS: readonly CommandOption[] = [
  ...FILTER_OPTIONS,
  {
    ...{ name: "resubmit-of", type: "string", value: "ID" },
    help: "Only jobs that `perdure resubmit` made from this one.",
  },
  { name: "limit", short: "n", type: "string", value: "N", help: `At most this many. Default: ${DEFAULT_LIMIT}.` },
  { name: "all", short: "a", type: "boolean", help: "All of them." },
  { name: "cursor", type: "string", value: "CURSOR", help: "Continue where a list with the same filter ended." },
];

interface JobListRequest {
  readonly filter: JobsFilter;
  /** The job that the listed jobs were made from. */
  readonly origin?: string;
  readonly all: boolean;
}

export function readPages(given: Arguments, now: number): JobListRequest {
  const all = given.flag("all");
  const limit = given.integer("limit", { min: 1, max: MAX_LIMIT });
  if (all && limit !== undefined) throw conflictError("--all", "--limit");
  const filter: JobsFilter = { limit: all ? ALL_PAGE : (limit ?? DEFAULT_LIMIT) };
  for (const [field, { cli }] of FILTER_RULES) {
    const value = cli === undefined ? undefined : optionValue(given, cli, now);
    if (value !== undefined) Object.assign(filter, { [field]: value });
  }
  const cursor = given.text("cursor");
  if (cursor !== undefined) filter.cursor = filled("cursor", cursor);
  const origin = given.text("resubmit-of");
  if (origin === undefined) return { filter, all };
  if (filter.tag !== undefined) throw conflictError("--tag", "--resubmit-of");
  return { filter, all, origin: asReference(origin) };
}

/** The value of one field of the filter; undefined if its option was not given. */
function optionValue(given: Arguments, { name, form }: FilterOption, now: number): unknown {
  if (typeof form === "object" && "flag" in form) return given.flag(name) ? form.flag : undefined;
  if (form === "instant") return instantOf(given, name, now);
  const read = (text: string) => {
    if (form === "job") return asReference(text);
    return form === "text" ? filled(name, text) : asOneOf(text, form, `--${name}`);
  };
  if (!isMultiple(name)) {
    const text = given.text(name);
    return text === undefined ? undefined : read(text);
  }
  const values = given.texts(name).map(read);
  return values.length === 0 ? undefined : [...new Set(values)].sort();
}

function isMultiple(name: string): boolean {
  return FILTER_OPTIONS.some((option) => option.name === name && option.multiple === true);
}

function filled(name: string, text: string): string {
  if (text.trim() !== "" && text.length <= 500) return text;
  throw usageError(`--${name}: must be a text of 1 to 500 characters`);
}

/** The filter with full ids, however jobs were named. */
export async function withWholeIds(
  perdure: Perdure,
  { filter, origin }: Pick<JobListRequest, "filter" | "origin">,
): Promise<JobsFilter> {
  const whole: JobsFilter = { ...filter };
  for (const [field, { cli }] of FILTER_RULES) {
    const reference = filter[field];
    if (cli?.form !== "job" || typeof reference !== "string") continue;
    Object.assign(whole, { [field]: await relatedId(perdure, reference) });
  }
  if (origin !== undefined) whole.tag = originTag(await relatedId(perdure, origin));
  return whole;
}

/** A deleted job may still have children and copies. */
async function relatedId(perdure: Perdure, text: string): Promise<string> {
  try {
    return await fullId(perdure, text);
  } catch (error) {
    if (isId(text, "job") && error instanceof PerdureError && error.code === "job_not_found") return text;
    throw error;
  }
}

/** A search by pattern checks a few thousand jobs per call; this limits the calls for one page. */
const MAX_CALLS = 20;

/** One page of jobs, or all pages one after the other. */
export class JobListing {
  /** The cursor of the next page; null at the end. Known when the jobs have been read. */
  next: string | null = null;
  /** Fewer jobs than requested, because the limit of calls was reached; there may be more. */
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

const AGO = /^\d{1,15}(\.\d{1,6})?\s*(ms|s|m|h|d)$/;
const DATE = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?$/;

/** An instant in milliseconds UTC from `30m` (ago) or a date and time. Without a zone it is local time; a date alone is its
 *  beginning. */
export function instantOf(given: Arguments, name: string, now: number): number | undefined {
  const text = given.text(name)?.trim();
  if (text === undefined) return undefined;
  if (AGO.test(text)) return now - toMs(text, `--${name}`);
  // Node reads a date alone as UTC, and one with a time as local.
  const at = DATE.test(text) ? Date.parse(text.includes("T") ? text : `${text}T00:00`) : Number.NaN;
  if (!Number.isNaN(at)) return at;
  throw valueError(`--${name}`, text, "a time ago, such as 30m, or an instant, such as 2026-11-16T09:00:00Z");
}
