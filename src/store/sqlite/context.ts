/** What the verbs of one open database share. */
import type { Database } from "./driver.ts";
import type { EventLog } from "./events.ts";
import type { Interned } from "./interned.ts";

export interface Context {
  readonly db: Database;
  readonly interned: Interned;
  readonly events: EventLog;
  /** Names this database's life: a restored backup gets another, and no token made before fits any more. */
  readonly generation: string;
}

/** The proof that a session holds an attempt: format, store generation, session, attempt. Opaque to workers. */
export function leaseToken(generation: string, session: string, attempt: number): string {
  return `1.${generation}.${session}.${attempt}`;
}
