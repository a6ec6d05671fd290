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
  /** Jobs that this process started, as they were then, until they are settled. If the revision is unchanged, so is the
   *  job, and it need not be read again. */
  readonly started: Map<string, StoredJob>;
  readonly marks: ClaimCursors;
  /** Identifies this database: a token of another database does not match. A copy keeps it. */
  readonly generation: string;
  /** Notifies other processes of a write. */
  readonly wrote: () => void;
}

export function statements(schema: string): MakeStatement {
  return (name, text, options) => ({
    ...options,
    name: `perdure_${name}`,
    text: text.replaceAll("$s.", `"${schema}".`),
  });
}
