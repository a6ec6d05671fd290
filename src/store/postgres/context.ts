/** What the verbs of one open store share. */
import type { Clock } from "../../lib/clock.ts";
import type { StoredJob } from "../stored-job.ts";
import type { ClaimCursors } from "./claim-cursors.ts";
import type { PgConnections } from "./connections.ts";
import type { MakeStatement } from "./driver.ts";
import type { PostgresInterned } from "./interned.ts";

export interface PostgresContext {
  readonly db: PgConnections;
  readonly sql: MakeStatement;
  readonly interned: PostgresInterned;
  readonly clock: Clock;
  /** Jobs this process started, as they were then, until they are settled. A job whose revision has not moved is still
   *  the same, and need not be read again. */
  readonly started: Map<string, StoredJob>;
  readonly marks: ClaimCursors;
  /** Names this database: a token of another one does not fit. A copy keeps the name. */
  readonly generation: string;
  /** Tells other processes that something was written. */
  readonly wrote: () => void;
}

export function statements(schema: string): MakeStatement {
  return (name, text, options) => ({
    ...options,
    name: `perdure_${name}`,
    text: text.replaceAll("$s.", `"${schema}".`),
  });
}
