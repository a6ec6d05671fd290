/** What the verbs of one open database share. */

import type { StoredJob } from "../stored-job.ts";
import type { Database } from "./driver.ts";
import type { EventLog } from "./events.ts";
import type { Interned } from "./interned.ts";

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
