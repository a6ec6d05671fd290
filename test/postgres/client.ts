/** Runs single queries on a separate connection: for tests that check the database from outside the engine, and across
 *  restarts. */
import { Client, type QueryResultRow } from "pg";

const POLL_MS = 20;
const DEADLINE_MS = 60_000;

/** The rows of one statement. A `schema` in the URL is for the engine and ignored here. */
export function ask<Row extends QueryResultRow>(url: string, sql: string, values: unknown[] = []): Promise<Row[]> {
  return withClient(url, async (client) => (await client.query<Row>(sql, values)).rows);
}

/** For several statements in one session. */
export async function withClient<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const plain = new URL(url);
  plain.searchParams.delete("schema");
  const client = new Client({ connectionString: plain.href, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {}); // the server may go down; the statement in progress reports it
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Polls until the query returns `true`. An error counts as not yet, as long as `mayCome` returns that it still may
 *  happen. */
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
      throw new Error(`timed out after ${DEADLINE_MS} ms: ${what}`, { cause: trouble });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
