/** NoETL's terms for tests: outcomes of attempts, and events as the document prints them. */
import { expect } from "vitest";
import { noetl } from "../../src/dialects/noetl/dialect.ts";
import type { NoetlEvent } from "../../src/dialects/noetl/events.ts";
import { noetlQueueRow } from "../../src/dialects/noetl/view.ts";
import type { Stage } from "./kit.ts";
import { eventsInSql, queueInSql } from "./noetl-sql-kit.ts";

export const UNAVAILABLE = { error: "503 Service Unavailable", status: 503 };
export const UNREACHABLE = { error: "connect ECONNREFUSED", code: "ECONNREFUSED" };
export const answer = (status_code: number, body: unknown = null) => ({ ok: { status_code, headers: {}, body } });

/** A request with this `retry`, as YAML. */
export const fetchData = (retry: string) => `
step: fetch_data
type: http
url: https://api.example.com/data
retry: ${retry}
`;

/** On PostgreSQL the SQL views must have the same rows. */
export async function events(stage: Stage, id: string): Promise<readonly NoetlEvent[]> {
  const parts = await stage.parts(id);
  const shown = JSON.parse(JSON.stringify(noetl.events?.(parts))) as NoetlEvent[];
  if (stage.postgres !== null) {
    expect(await eventsInSql(stage.postgres, id)).toEqual(shown);
    const { worker_id: _, result: __, ...row } = noetlQueueRow(parts);
    expect(await queueInSql(stage.postgres, id)).toMatchObject(JSON.parse(JSON.stringify(row)));
  }
  return shown;
}

export async function types(stage: Stage, id: string): Promise<string[]> {
  return (await events(stage, id)).map(({ event_type }) => event_type);
}

/** An event as the document prints it: `action_error (attempt=1, error="…")`. */
export { noetlLine as line } from "../../src/dialects/noetl/view.ts";
