/** The filter of a search for jobs in one table: how each field is checked, its form on the wire, the store's name for it, and
 *  its option on the command line. The schemas of requests, the request of a client, the store's filter and the options of
 *  `perdure ps` and `perdure redrive --filter` follow from it. A new field is an entry here and a condition in each store
 *  (`store/sqlite/find.ts`, `store/postgres/find.ts`), which does not compile without it. */

import { asBoolean, asInteger, asList, asOneOf, asText, checkOptions } from "../check.ts";
import { toInstant } from "../duration.ts";
import { ConfigError } from "../errors.ts";
import { MAX_NAME } from "../names.ts";
import { INSTANT, textSchema, type WireSchema } from "../wire-schema.ts";
import { FAIL_REASONS, type FailReason, JOB_STATES, type JobState } from "./job.ts";

/** Which jobs are meant. All given fields must match.
 *  @example
 *  const filter: JobsFilter = { state: "failed", kind: "resize", limit: 50 };
 *  const { jobs, next } = await perdure.jobs(filter); */
export interface JobsFilter {
  state?: JobState | readonly JobState[];
  queue?: string | readonly string[];
  kind?: string | readonly string[];
  tag?: string;
  key?: string;
  /** Only jobs of this name, or of names that match a pattern with `*` and `?`, as in "backup-*". */
  name?: string;
  /** Only jobs of this action, or of actions that match a pattern. */
  action?: string;
  /** Only jobs that failed for one of these reasons. */
  reason?: FailReason | readonly FailReason[];
  /** Only children of this job. */
  parent?: string;
  /** Also steps of runs. Without it they are left out, unless `parent` or `id` is given. */
  steps?: boolean;
  /** Only jobs whose id begins with this, with or without `job_`; at least 4 characters of the rest. */
  id?: string;
  /** Only jobs that failed and wait for a person. */
  deadLetter?: boolean;
  submittedAfter?: Date | number;
  submittedBefore?: Date | number;
  order?: "newest" | "oldest";
  /** At most this many in a page: up to 1000; default 100. */
  limit?: number;
  cursor?: string;
}

/** What the table has on one field. */
export interface FilterRule {
  /** What people give, made into what the store compares. */
  readonly check: (value: unknown, path: string) => unknown;
  readonly wire: WireSchema;
  /** The form that a client sends, where it is not the value as given. */
  readonly toWire?: (value: unknown, path: string) => unknown;
  /** The store's name for it, where that is another. */
  readonly store?: string;
  /** Only for lists: a redrive of many jobs does not take it. */
  readonly listOnly?: true;
  /** Without it, the command line has no option for it, or one of its own. */
  readonly cli?: FilterOption;
}

/** An option of the command line. A field that takes a list takes the option several times. */
export interface FilterOption {
  /** Without dashes. */
  readonly name: string;
  readonly help: string;
  /** How the help calls its value: `TAG`. */
  readonly value?: string;
  /** How its text is read: as one of these words, as it is, as an instant or a time ago, or as the id of a job, which may be
   *  shortened. */
  readonly form: readonly string[] | "text" | "instant" | "job" | { readonly flag: unknown };
}

const MAX_LISTED = 1_000;

const instant = { check: toInstant, toWire: (value: unknown, path: string) => toInstant(value, path), wire: INSTANT };

const text = (maxLength: number, description?: string) => ({
  check: (value: unknown, path: string) => searchable(value, path, 500),
  wire: textSchema(maxLength, description),
});

const pattern = (description: string) => ({ check: asPattern, wire: textSchema(500, description) });

function words<T extends string>(list: readonly T[], maxItems: number) {
  return {
    check: (value: unknown, path: string): readonly T[] =>
      asList(asMany(value), path, (word, at) => asOneOf(word, list, at), maxItems),
    toWire: asMany,
    wire: { type: "array", items: { type: "string", enum: [...list] }, maxItems },
  };
}

const names = {
  check: (value: unknown, path: string): readonly string[] =>
    asList(asMany(value), path, (name, at) => searchable(name, at, 500), MAX_LISTED),
  toWire: asMany,
  wire: { type: "array", items: textSchema(MAX_NAME), maxItems: 100 },
};

/** In the order in which help and schemas list them. */
export const JOBS_FILTER = {
  state: {
    ...words(JOB_STATES, 6),
    cli: { name: "state", value: "STATE", form: JOB_STATES, help: `Only these: ${JOB_STATES.join(", ")}.` },
  },
  queue: { ...names, cli: { name: "queue", value: "NAME", form: "text", help: "Only jobs of this queue." } },
  kind: { ...names, cli: { name: "kind", value: "KIND", form: "text", help: "Only jobs of this kind." } },
  tag: { ...text(MAX_NAME), cli: { name: "tag", value: "TAG", form: "text", help: "Only jobs with this tag." } },
  key: {
    check: (value: unknown, path: string) => searchable(value, path, 600),
    wire: textSchema(600, "Of a child: its parent, `/`, its key."),
    cli: { name: "key", value: "KEY", form: "text", help: "Only the job with this key." },
  },
  name: {
    ...pattern("A name, or a pattern with `*` and `?`, as in `backup-*`."),
    cli: {
      name: "name",
      value: "NAME",
      form: "text",
      help: "Only jobs of this name; * and ? match any characters: 'backup-*'.",
    },
  },
  action: {
    ...pattern("An action, or a pattern."),
    cli: { name: "action", value: "ACTION", form: "text", help: "Only jobs of this action: core.echo, 'core.*'." },
  },
  reason: {
    ...words(FAIL_REASONS, 8),
    cli: {
      name: "reason",
      value: "REASON",
      form: FAIL_REASONS,
      help: `Only jobs that failed for this reason: ${FAIL_REASONS.join(", ")}.`,
    },
  },
  parent: {
    ...text(100, "As in `job_01m7gekg9zevv9a6xvvwmt1v8g`."),
    store: "parentId",
    cli: { name: "parent", value: "ID", form: "job", help: "Only children of this job." },
  },
  steps: {
    check: asBoolean,
    wire: { type: "boolean", description: "Also steps of runs, which are left out unless `parent` or `id` is given." },
    listOnly: true,
    cli: { name: "steps", form: { flag: true }, help: "Also steps of runs." },
  },
  id: {
    check: asIdPrefix,
    wire: { ...textSchema(30, "The beginning of an id, with or without `job_`."), minLength: 4 },
    store: "idPrefix",
    listOnly: true,
  },
  deadLetter: {
    check: asBoolean,
    wire: { type: "boolean", description: "Only jobs that failed and wait for a person." },
    cli: {
      name: "dead",
      form: { flag: true },
      help: "Only dead letters, with their failures: jobs that failed and wait for a person.",
    },
  },
  submittedAfter: {
    ...instant,
    cli: {
      name: "since",
      value: "TIME",
      form: "instant",
      help: "Only jobs submitted since: 30m, or 2026-11-16T09:00:00Z.",
    },
  },
  submittedBefore: {
    ...instant,
    cli: { name: "before", value: "TIME", form: "instant", help: "Only jobs submitted before." },
  },
  order: {
    check: (value: unknown, path: string) => asOneOf(value, ["newest", "oldest"] as const, path),
    wire: { type: "string", enum: ["newest", "oldest"] },
    listOnly: true,
    cli: { name: "oldest", form: { flag: "oldest" }, help: "Oldest first." },
  },
  limit: {
    check: (value: unknown, path: string) => asInteger(value, path, { min: 1, max: MAX_LISTED }),
    wire: { type: "integer", minimum: 1, maximum: MAX_LISTED },
    listOnly: true,
  },
  cursor: {
    check: (value: unknown, path: string) => asText(value, path, 1_000),
    wire: textSchema(1_000),
    listOnly: true,
  },
} as const satisfies { readonly [K in keyof JobsFilter]-?: FilterRule };

type FilterField = keyof JobsFilter;
type StoreName<K extends FilterField> = (typeof JOBS_FILTER)[K] extends { readonly store: infer Name extends string }
  ? Name
  : K;

/** A checked filter, as a store takes it. */
export type JobConditions = {
  readonly [K in FilterField as StoreName<K>]?: ReturnType<(typeof JOBS_FILTER)[K]["check"]>;
};

/** The table, for who reads all of it. */
export const FILTER_RULES = Object.entries(JOBS_FILTER) as readonly (readonly [FilterField, FilterRule])[];
const FIELDS = FILTER_RULES.map(([name]) => name);

/** Which jobs, without how they are listed: what a redrive of many jobs takes. */
export const REDRIVE_FIELDS = FILTER_RULES.flatMap(([name, { listOnly }]) => (listOnly === true ? [] : [name]));

/** Calls back with each field that is given. A field that was given as undefined counts as not given. */
function eachField(filter: JobsFilter, take: (name: FilterField, rule: FilterRule, path: string) => void): void {
  checkOptions(filter, FIELDS, "jobs");
  for (const [name, rule] of FILTER_RULES) if (filter[name] !== undefined) take(name, rule, `jobs.${name}`);
}

/** Checks a filter: the conditions that a store is searched with. */
export function checkJobsFilter(filter: JobsFilter): JobConditions {
  const conditions: Record<string, unknown> = {};
  eachField(filter, (name, rule, path) => {
    conditions[rule.store ?? name] = rule.check(filter[name], path);
  });
  return conditions as JobConditions;
}

/** As a server takes it: lists where one or many may be given, instants in milliseconds. The server checks the rest. */
export function toWireFilter(filter: JobsFilter): Readonly<Record<string, unknown>> {
  const wire: Record<string, unknown> = {};
  eachField(filter, (name, { toWire }, path) => {
    wire[name] = toWire === undefined ? filter[name] : toWire(filter[name], path);
  });
  return wire;
}

function asMany(value: unknown): readonly unknown[] {
  return (typeof value === "string" ? [value] : value) as readonly unknown[];
}

/** No name holds a NUL, and a database may take one for the end of the text: the search would find what was not asked for. */
function searchable(value: unknown, path: string, maxLength: number): string {
  const text = asText(value, path, maxLength);
  if (!text.includes("\0")) return text;
  throw new ConfigError({ path, given: text, allowed: "a text without NUL" });
}

/** Each star multiplies what a database may have to try. */
const MAX_WILDCARDS = 10;

function asPattern(value: unknown, path: string): string {
  const text = searchable(value, path, 500);
  if ((text.match(/[*?]/g)?.length ?? 0) <= MAX_WILDCARDS) return text;
  throw new ConfigError({ path, given: value, allowed: `a text with at most ${MAX_WILDCARDS} of * and ?` });
}

const PREFIX = /^(?:job_)?([0-7][0-9a-hjkmnp-tv-z]{3,25})$/;

function asIdPrefix(value: unknown, path: string): string {
  const [, digits] = typeof value === "string" ? (PREFIX.exec(value) ?? []) : [];
  if (digits !== undefined) return `job_${digits}`;
  throw new ConfigError({ path, given: value, allowed: "the beginning of a job's id, 4 to 26 characters after job_" });
}
