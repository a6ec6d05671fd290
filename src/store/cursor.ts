/** Cursors of job searches: opaque to callers, and good only for the query and the store that made them. The secret in the
 *  database keeps mistakes out and guards nothing: a cursor is a place in what its query would show anyway. */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { PerdureError } from "../core/errors.ts";
import type { JobFilter } from "./store.ts";

/** The place after which the next page begins. */
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
    throw new PerdureError("invalid_cursor", "the cursor was not made by this store; start again without one");
  }
  if (print !== fingerprint(filter)) {
    throw new PerdureError("invalid_cursor", "the cursor belongs to another query; repeat the same filter with it");
  }
  return Number(after);
}

function sign(body: string, secret: string): string {
  return createHmac("sha256", secret).update(body).digest("base64url").slice(0, 22);
}

/** The same for the same query, whatever the page size. */
function fingerprint({ cursor: _, limit: __, ...query }: JobFilter): string {
  const fields = Object.entries(query).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(fields)).digest("base64url").slice(0, 16);
}
