/** Looks which version a schema has, without making or changing anything. */
import { sleep } from "../../lib/clock.ts";
import type { SchemaVersion } from "../store.ts";
import { Connections } from "./connections.ts";
import { MIGRATIONS } from "./migrations.ts";
import { address, type OpenPostgres, presentVersion } from "./open.ts";

type Look = Pick<OpenPostgres, "url" | "schema" | "random" | "clock">;

/** Refuses what is not ours, or newer than we are, as opening does. */
export async function postgresVersion({ url, schema, random, clock }: Look): Promise<SchemaVersion> {
  const found = address({ url, schema });
  const db = await Connections.open({
    config: { connectionString: found.connectionString, application_name: "perdure" },
    connections: 1,
    random,
    sleep: (ms, options) => sleep(clock, ms, options),
    monotonic: clock.monotonic,
  });
  try {
    const version = await db.transaction((connection) => presentVersion(connection, found.schema), {
      storesNoJobs: true,
    });
    return { found: version, known: MIGRATIONS.length };
  } finally {
    await db.close();
  }
}
