/** What the verbs of one open store share. */
import type { Clock } from "../../lib/clock.ts";
import type { StoredJob } from "../stored-job.ts";
import type { Connections } from "./connections.ts";
import type { Statement } from "./driver.ts";
import type { Interned } from "./interned.ts";
import type { Marks } from "./marks.ts";

export interface Context {
  readonly db: Connections;
  /** Makes a statement of this store: `$s.` before a table becomes its schema. */
  readonly sql: (name: string, text: string, options?: { isLong: boolean }) => Statement;
  readonly interned: Interned;
  readonly clock: Clock;
  /** Jobs this process started, as they were then, until they are settled. A job whose revision has not moved is still
   *  the same, and need not be read again. */
  readonly started: Map<string, StoredJob>;
  readonly marks: Marks;
  /** Names this database: a token of another one does not fit. A copy keeps the name. */
  readonly generation: string;
  /** Tells other processes that something was written. */
  readonly wrote: () => void;
}

export function statements(schema: string): Context["sql"] {
  return (name, text, options) => ({
    ...options,
    name: `perdure_${name}`,
    text: text.replaceAll("$s.", `"${schema}".`),
  });
}
