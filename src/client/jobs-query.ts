/** A search in people's words, made into those of the wire. */
import { checkOptions } from "../core/check.ts";
import type { JobsFilter } from "../core/face.ts";
import { toInstant } from "../core/instant.ts";

const FILTER_KEYS = [
  ...["state", "kind", "queue", "tag", "key", "deadLetter", "submittedAfter", "submittedBefore", "order", "limit"],
  ...["cursor", "parent", "name", "action", "reason", "id"],
];

/** As the body of a request has it: lists where one or many may be given, instants in milliseconds. */
export function toWireFilter(filter: JobsFilter): Readonly<Record<string, unknown>> {
  checkOptions(filter, FILTER_KEYS, "jobs");
  const many = (value: unknown) => (typeof value === "string" ? [value] : value);
  const instant = (value: Date | number | undefined, path: string) =>
    value === undefined ? undefined : toInstant(value, path);
  return {
    ...filter,
    ...{ state: many(filter.state), kind: many(filter.kind), queue: many(filter.queue), reason: many(filter.reason) },
    submittedAfter: instant(filter.submittedAfter, "jobs.submittedAfter"),
    submittedBefore: instant(filter.submittedBefore, "jobs.submittedBefore"),
  };
}

/** As an address has it: lists are repeated names. Null for a search that nothing can fit, as with an empty list of
 *  states: in an address it could not be told from no such condition. */
export function toQuery(filter: JobsFilter): URLSearchParams | null {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(toWireFilter(filter))) {
    if (Array.isArray(value) && value.length === 0) return null;
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) query.append(name, String(one));
  }
  return query;
}
