/** NoETL's terms for tests: outcomes of attempts, and events as the document prints them. */
import { noetl } from "../../src/dialects/noetl/dialect.ts";
import type { NoetlEvent } from "../../src/dialects/noetl/events.ts";
import type { Stage } from "./kit.ts";

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

export async function events(stage: Stage, id: string): Promise<readonly NoetlEvent[]> {
  return JSON.parse(JSON.stringify(noetl.events?.(await stage.parts(id)))) as NoetlEvent[];
}

export async function types(stage: Stage, id: string): Promise<string[]> {
  return (await events(stage, id)).map(({ event_type }) => event_type);
}

/** An event as the document prints it: `action_error (attempt=1, error="…")`. */
export { noetlLine as line } from "../../src/dialects/noetl/view.ts";
