/** What the verbs of one open database share. */
import type { Database } from "./driver.ts";
import type { EventLog } from "./events.ts";
import type { Interned } from "./interned.ts";
import type { StoredJob } from "./rows.ts";

export interface Context {
  readonly db: Database;
  readonly interned: Interned;
  readonly events: EventLog;
  /** Jobs this connection started, as they were then, until they are settled. A job whose revision has not moved is
   *  still the same, and need not be read again. */
  readonly started: Map<string, StoredJob>;
  /** Names this database: a token of another one does not fit. A copy keeps the name. */
  readonly generation: string;
}

/** More than anyone runs at a time; beyond it jobs are simply read again. */
export const MAX_STARTED = 20_000;

/** The proof that a session holds an attempt: format, store generation, session, attempt. Opaque to workers. */
export function leaseToken(generation: string, session: string, attempt: number): string {
  return `1.${generation}.${session}.${attempt}`;
}
