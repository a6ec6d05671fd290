/** Schemas that are reused after being emptied: creating one costs more than most tests. For tests that certainly close
 *  their stores, and do not depend on a schema's name or on how it was created. */

import { Client } from "pg";
import { whenFileIsOver } from "../file-is-over.ts";
import { dropSchema, isForeign, newSchema, postgresUrl, type Schema } from "./kit.ts";

const free: Schema[] = [];
/** One connection for a whole file: opening one costs as much as emptying a schema. */
let cleaner: Promise<Client> | null = null;

whenFileIsOver(async () => {
  const used = cleaner;
  cleaner = null;
  await (await used)?.end();
  // Our own server deletes them when it ends.
  if (isForeign) for (const { url } of free.splice(0)) await dropSchema(url);
});

export interface Borrowed extends Schema {
  /** When all connected stores are closed. */
  giveBack(): Promise<void>;
}

/** An empty schema; the first user may have to create its tables. */
export function borrowSchema(): Borrowed {
  const schema = free.pop() ?? newSchema("borrowed", { isKept: true });
  return {
    ...schema,
    giveBack: async () => {
      cleaner ??= connected();
      await (await cleaner).query(emptied(schema.schema));
      free.push(schema);
    },
  };
}

async function connected(): Promise<Client> {
  const client = new Client({ connectionString: postgresUrl() });
  client.on("error", () => {}); // the statement that needs it fails
  await client.connect();
  return client;
}

/** Small tables are emptied row by row, which is far cheaper than a new file for each. */
const emptied = (schema: string) => `
  SET lock_timeout = '10s';
  DO $do$ DECLARE each record; BEGIN
    FOR each IN SELECT format('%I.%I', '${schema}', relname) AS name, relkind, pg_relation_size(oid) AS bytes FROM pg_class
      WHERE relnamespace = to_regnamespace('${schema}') AND relkind IN ('r', 'S') AND relname <> 'meta'
    LOOP
      IF each.relkind = 'S' THEN PERFORM setval(each.name::regclass, 1, false);
      ELSIF each.bytes > 262144 THEN EXECUTE 'TRUNCATE ' || each.name;
      ELSIF each.bytes > 0 THEN EXECUTE 'DELETE FROM ' || each.name;
      END IF;
    END LOOP;
    IF to_regclass('${schema}.meta') IS NOT NULL THEN
      DELETE FROM ${schema}.meta WHERE name NOT IN ('generation', 'secret', 'version', 'beat_at', 'held_until');
      UPDATE ${schema}.meta SET value = CASE name WHEN 'beat_at' THEN '' ELSE '0' END WHERE name IN ('beat_at', 'held_until');
    END IF;
  END $do$`;
