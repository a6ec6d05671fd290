/** What an error of PostgreSQL, or of the connection to it, means for the failed call. */
import { PerdureError } from "../../core/errors.ts";

/** data: this item is invalid. again: certainly rolled back, a retry may succeed. away: never started, the server is
 *  unreachable or accepts nothing. unknown: it may have been executed. full: no space left. bug: ours, or a
 *  misconfiguration. */
export type ErrorClass = "data" | "again" | "away" | "unknown" | "full" | "bug";

const BY_STATE: Readonly<Record<string, ErrorClass>> = {
  "40001": "again",
  "40P01": "again",
  "55P03": "again",
  "25006": "away", // a standby, or a read-only primary
  "53300": "away",
  "57P03": "away",
  "57P01": "unknown",
  "57P02": "unknown",
  "57P05": "unknown",
  "25P03": "unknown", // idle in a transaction
  "57014": "again", // cancelled before it completed
  "53100": "full",
  "53200": "again",
};
const BY_CLASS: Readonly<Record<string, ErrorClass>> = { "08": "unknown", "22": "data", "23": "data", "54": "data" };

const NO_WAY = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
  "ENOENT",
]);

/** Thrown by our own checks of a commit. */
export class UnknownCommit extends Error {}
/** Thrown when no connection was available in time. */
export class NoConnection extends Error {}

export function errorClassOf(error: unknown): ErrorClass {
  if (error instanceof UnknownCommit) return "unknown";
  if (error instanceof NoConnection) return "away";
  const { code, message = "" } = (error ?? {}) as { code?: unknown; message?: string };
  if (typeof code === "string" && /^[0-9A-Z]{5}$/.test(code))
    return BY_STATE[code] ?? BY_CLASS[code.slice(0, 2)] ?? "bug";
  if (typeof code === "string" && code.startsWith("ERR_OUT_OF_RANGE")) return "data"; // number out of range of its column
  if (typeof code === "string" && NO_WAY.has(code)) return "away";
  if (typeof code === "string" && /^E[A-Z]+$/.test(code)) return "unknown";
  if (/timeout exceeded when trying to connect|^timeout expired$/.test(message)) return "away";
  return /^(Connection terminated|Client (was closed|has encountered|has already)|Query read timeout)/.test(message)
    ? "unknown"
    : "bug";
}

/** The error for the caller. For a read it does not mention what was stored. */
export function explained(
  error: unknown,
  trouble = errorClassOf(error),
  { storesNoJobs = false }: { readonly storesNoJobs?: boolean } = {},
): unknown {
  if (error instanceof PerdureError) return error;
  const cause = error;
  const why = messageOf(error);
  const notStored = storesNoJobs ? "" : ": nothing of this call was stored";
  switch (trouble) {
    case "away":
    case "again":
      return new PerdureError("store_unavailable", `PostgreSQL is unavailable (${why})${notStored}`, { cause });
    case "unknown": {
      const next = storesNoJobs
        ? "repeat the call"
        : "whether this call was stored is unknown; repeat it, a submit with the same key";
      return new PerdureError("store_unknown", `the outcome of the call to PostgreSQL is unknown (${why}): ${next}`, {
        cause,
      });
    }
    case "full":
      return new PerdureError("store_full", `PostgreSQL has no space left (${why})${notStored}`, { cause });
    case "data":
      return new PerdureError("store_refused", `the store refused this call: ${why}`, { cause });
    case "bug":
      return new PerdureError("store_io", `PostgreSQL refused a statement (${why})`, { cause });
  }
}

export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return messageOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
