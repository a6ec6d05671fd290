/** One question to a server at a time, on a connection of its own: for tests that look at the database from outside
 *  the engine, and across restarts. */
import { Client, type QueryResultRow } from "pg";

const POLL_MS = 20;
const DEADLINE_MS = 60_000;

/** The rows of one statement. A `schema` in the URL is for the engine and means nothing here. */
export function ask<Row extends QueryResultRow>(url: string, sql: string, values: unknown[] = []): Promise<Row[]> {
  return withClient(url, async (client) => (await client.query<Row>(sql, values)).rows);
}

/** For several statements in one session. */
export async function withClient<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const plain = new URL(url);
  plain.searchParams.delete("schema");
  const client = new Client({ connectionString: plain.href, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {}); // the server may go away; the statement in flight says so
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Looks until it sees `true`. An error counts as not yet, for as long as `mayCome` says that it still may come. */
export async function until(
  what: string,
  look: () => Promise<boolean>,
  mayCome: () => boolean = () => true,
): Promise<void> {
  const start = performance.now();
  for (;;) {
    let trouble: unknown;
    try {
      if (await look()) return;
    } catch (error) {
      if (!mayCome()) throw error;
      trouble = error;
    }
    if (performance.now() - start > DEADLINE_MS) {
      throw new Error(`waited for ${DEADLINE_MS} ms, in vain: ${what}`, { cause: trouble });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
