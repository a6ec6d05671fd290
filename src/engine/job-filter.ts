/** A search in people's words, made into the store's. For the library and for a server. */

import type { JobsFilter } from "../core/api.ts";
import { asBoolean, asInteger, asList, asOneOf, asText, checkOptions } from "../core/check.ts";
import { toInstant } from "../core/duration.ts";
import { ConfigError } from "../core/errors.ts";
import { FAIL_REASONS, JOB_STATES } from "../core/job/job.ts";
import type { JobFilter } from "../store/store.ts";

const FILTER_KEYS = [
  ...["state", "kind", "queue", "tag", "key", "deadLetter", "submittedAfter", "submittedBefore", "order", "limit"],
  ...["cursor", "parent", "name", "action", "reason", "id"],
];

export function checkFilter(filter: JobsFilter, namespace: string): JobFilter {
  checkOptions(filter, FILTER_KEYS, "jobs");
  const many = <T extends string>(value: T | readonly T[]): readonly T[] =>
    typeof value === "string" ? [value] : value;
  const text = (value: unknown, path: string) => searchable(asText(value, path, 500), path);
  return {
    namespace,
    ...(filter.state === undefined
      ? {}
      : { state: asList(many(filter.state), "jobs.state", (s, path) => asOneOf(s, JOB_STATES, path), 6) }),
    ...(filter.kind === undefined ? {} : { kind: asList(many(filter.kind), "jobs.kind", text, 1_000) }),
    ...(filter.queue === undefined ? {} : { queue: asList(many(filter.queue), "jobs.queue", text, 1_000) }),
    ...(filter.tag === undefined ? {} : { tag: text(filter.tag, "jobs.tag") }),
    ...(filter.key === undefined ? {} : { key: searchable(asText(filter.key, "jobs.key", 600), "jobs.key") }),
    ...(filter.parent === undefined ? {} : { parentId: text(filter.parent, "jobs.parent") }),
    ...(filter.name === undefined ? {} : { name: pattern(filter.name, "jobs.name") }),
    ...(filter.action === undefined ? {} : { action: pattern(filter.action, "jobs.action") }),
    ...(filter.reason === undefined
      ? {}
      : { reason: asList(many(filter.reason), "jobs.reason", (r, path) => asOneOf(r, FAIL_REASONS, path), 8) }),
    ...(filter.id === undefined ? {} : { idPrefix: idPrefix(filter.id) }),
    ...(filter.deadLetter === undefined ? {} : { deadLetter: asBoolean(filter.deadLetter, "jobs.deadLetter") }),
    ...(filter.submittedAfter === undefined
      ? {}
      : { submittedAfter: toInstant(filter.submittedAfter, "jobs.submittedAfter") }),
    ...(filter.submittedBefore === undefined
      ? {}
      : { submittedBefore: toInstant(filter.submittedBefore, "jobs.submittedBefore") }),
    ...(filter.order === undefined
      ? {}
      : { order: asOneOf(filter.order, ["newest", "oldest"] as const, "jobs.order") }),
    ...(filter.limit === undefined ? {} : { limit: asInteger(filter.limit, "jobs.limit", { min: 1, max: 1_000 }) }),
    ...(filter.cursor === undefined ? {} : { cursor: asText(filter.cursor, "jobs.cursor", 1_000) }),
  };
}

/** Each star multiplies what a database may have to try. */
const MAX_WILDCARDS = 10;

function pattern(value: unknown, path: string): string {
  const text = searchable(asText(value, path, 500), path);
  if ((text.match(/[*?]/g)?.length ?? 0) <= MAX_WILDCARDS) return text;
  throw new ConfigError({ path, given: value, allowed: `a text with at most ${MAX_WILDCARDS} of * and ?` });
}

const PREFIX = /^(?:job_)?([0-7][0-9a-hjkmnp-tv-z]{3,25})$/;

function idPrefix(value: unknown): string {
  const [, digits] = typeof value === "string" ? (PREFIX.exec(value) ?? []) : [];
  if (digits !== undefined) return `job_${digits}`;
  const allowed = "the beginning of a job's id, 4 to 26 characters after job_";
  throw new ConfigError({ path: "jobs.id", given: value, allowed });
}

/** No name holds a NUL, and a database may take one for the end of the text: the search would find what was not asked for. */
function searchable(text: string, path: string): string {
  if (!text.includes("\0")) return text;
  throw new ConfigError({ path, given: text, allowed: "a text without NUL" });
}
