/** Rows of the SQL views of NoETL's tables, read without creating the views. */
import { NOETL_SQL } from "../../src/dialects/noetl/sql.ts";
import { ask } from "../postgres/client.ts";

interface Tables {
  readonly url: string;
  readonly schema: string;
}

/** The query of a view. */
function queryOf(view: string, { schema }: Tables): string {
  const statements = NOETL_SQL.statements({ tables: schema, into: "x", isInvoker: false });
  const text = statements[NOETL_SQL.views.indexOf(view)] as string;
  return text.slice(text.indexOf("\n"));
}

const iso = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** The rows of an execution as the event view shows them, in the order of their ids. */
export async function eventsInSql(tables: Tables, execution: string): Promise<readonly unknown[]> {
  const rows = await ask<{ row: unknown }>(
    tables.url,
    `select jsonb_build_object('execution_id', execution_id, 'event_id', event_id::text, 'event_type', event_type,
       'status', status, 'node_id', node_id, 'node_name', node_name, 'node_type', node_type, 'context', context,
       'result', result, 'error', error, 'timestamp', ${iso("created_at")}) as row
     from (${queryOf("event", tables)}) as event where execution_id = $1 order by event_id`,
    [execution],
  );
  return rows.map(({ row }) => row);
}

/** The row of a job, with the columns of the view in TypeScript. */
export async function queueInSql(tables: Tables, execution: string): Promise<unknown> {
  const [found] = await ask(
    tables.url,
    `select execution_id, node_id, node_name, node_type, status, attempts, max_attempts, ${iso("available_at")} as available_at,
       retry_delay_seconds, last_error, lease_until, retry_config, ${iso("created_at")} as created_at, ${iso("updated_at")} as updated_at
     from (${queryOf("queue", tables)}) as queue where execution_id = $1`,
    [execution],
  );
  return found;
}
