/** What both adapters share of a job search: patterns, limits of a scan, and cursors. A cursor is valid only for the
 *  query and the store that made it; its signature catches mistakes and is not a security measure. */

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { PerdureError } from "../core/errors.ts";
import type { JobFilter, JobRow } from "./store.ts";

// Limits of a search. Its cost does not grow with the number of stored jobs: a call checks a bounded number of jobs in
// search order and returns a cursor. So a page may be short or empty while there are more matches.

/** Jobs that a call checks for conditions without an index: a name or action pattern, and a reason. On SQLite also the
 *  jobs that any search checks in one turn of the event loop: one to three milliseconds of work. */
export const SCAN = 5_000;
/** Jobs that a call on SQLite checks in total, over many turns, for conditions that are cheap to check: about 50 ms of
 *  work. */
export const MAX_CHECKED = 100_000;
/** Characters of a page, unless the filter has another limit: a job may hold two megabytes, and a page 1,000 jobs. */
export const FIND_CHARS = 8_000_000;
/** The first slice of a search is small, as most pages are full after it; the next ones grow. */
export const FIRST_SLICE = 8;
export const SLICE_GROWTH = 4;
/** More matches of an id prefix than this make it ambiguous. */
export const MAX_PREFIXED = 1_000;

/** Fields of a filter that decide how a search is made, or how it is listed; each store handles them one by one. All others
 *  are plain conditions, which a store has in a table. */
export type PlannedField =
  | ("namespace" | "state" | "queue" | "kind" | "key" | "name" | "action" | "reason" | "steps")
  | ListField;
type ListField = "order" | "limit" | "cursor" | "chars";

/** Whether steps of runs are left out: a search among all jobs is for those that people submitted. */
export function hidesSteps({ steps, parentId, idPrefix }: JobFilter): boolean {
  return steps !== true && parentId === undefined && idPrefix === undefined;
}

/** What a job adds to the characters of a page. */
export function charsOfJob({ payload, result, failure }: Pick<JobRow, "payload" | "result" | "failure">): number {
  return payload.length + (result?.length ?? 0) + (failure?.message.length ?? 0);
}

export function isPattern(text: string): boolean {
  return /[*?]/.test(text);
}

/** Converts to the syntax of SQLite's GLOB, where `[` opens a set. */
export function toGlob(pattern: string): string {
  return pattern.replaceAll("[", "[[]");
}

/** Converts to the syntax of LIKE. */
export function toLike(pattern: string): string {
  return pattern
    .replaceAll(/[\\%_]/g, "\\$&")
    .replaceAll("*", "%")
    .replaceAll("?", "_");
}

/** Whether a text matches a pattern, in time that does not explode with the number of stars. */
function matchesPattern(pattern: string, text: string): boolean {
  const [p, t] = [[...pattern], [...text]];
  let [i, j, star, from] = [0, 0, -1, 0];
  while (j < t.length) {
    if (p[i] === "*") {
      star = i++;
      from = j;
    } else if (i < p.length && (p[i] === "?" || p[i] === t[j])) {
      i++;
      j++;
    } else if (star >= 0) {
      i = star + 1;
      j = ++from;
    } else return false;
  }
  while (p[i] === "*") i++;
  return i === p.length;
}

/** The smallest text greater than all texts with this prefix, in byte order. Ids are ASCII. */
export function afterPrefix(prefix: string): string {
  return `${prefix.slice(0, -1)}${String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)}`;
}

/** Whether a search by name matches jobs that have no name and are called by their kind. */
export function isCalled({ name }: JobFilter, kind: string): boolean {
  return name !== undefined && (isPattern(name) ? matchesPattern(name, kind) : name === kind);
}

// Cursors of job searches: opaque to callers, and valid only for the query and the store that made them. The secret in
// the database catches mistakes and protects nothing: a cursor only marks a position in its own query.

/** A cursor for the page after this position. */
export function writeCursor(after: number, filter: JobFilter, secret: string): string {
  const body = `${after}.${fingerprint(filter)}`;
  return Buffer.from(`${body}.${sign(body, secret)}`).toString("base64url");
}

export function readCursor(cursor: string, filter: JobFilter, secret: string): number {
  const text = Buffer.from(cursor, "base64url").toString("latin1");
  const [after = "", print = "", signature = ""] = text.split(".");
  const expected = Buffer.from(sign(`${after}.${print}`, secret));
  const given = Buffer.from(signature);
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
    throw new PerdureError(
      "invalid_cursor",
      "the cursor was not made by this store; restart the search without a cursor",
    );
  }
  if (print !== fingerprint(filter)) {
    throw new PerdureError("invalid_cursor", "the cursor belongs to another query; use it with the same filter");
  }
  return Number(after);
}

function sign(body: string, secret: string): string {
  return createHmac("sha256", secret).update(body).digest("base64url").slice(0, 22);
}

/** Equal for equal queries, whatever the page size. */
function fingerprint({ cursor: _, limit: __, chars: ___, ...query }: JobFilter): string {
  const fields = Object.entries(query).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(fields)).digest("base64url").slice(0, 16);
}
