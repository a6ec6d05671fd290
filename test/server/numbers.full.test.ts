/** Numbers beyond what a column of a database holds: whatever route takes them refuses them or bears them. On PostgreSQL, whose
 *  columns are narrower than SQLite's. */
import { expect, it, onTestFinished } from "vitest";
import { OPERATIONS } from "../../src/contract/operations.ts";
import { pathOf, ROUTES, type RouteName } from "../../src/contract/routes.ts";
import { HEADER } from "../../src/contract/wire.ts";
import { startServer } from "./kit.ts";
import { openWorker } from "./worker-kit.ts";

/** What is used of a schema. */
interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly minimum?: number;
  readonly maximum?: number;
}

const NUMBERS = [2 ** 31, 99_999_999_999, 2 ** 53 - 1, 2 ** 63, 1e300, 0.5];
const isNumber = ({ type }: Schema) => type === "integer" || type === "number";

/** The schema's own bounds, which are let through, and the numbers above. */
function numbersOf({ minimum, maximum }: Schema): number[] {
  return [...NUMBERS, ...(minimum === undefined ? [] : [minimum]), ...(maximum === undefined ? [] : [maximum])];
}

/** The places of numbers in a body, each with the body that has this number there, among what else it must have. */
function* bodiesOf(schema: Schema, given: unknown): Generator<unknown> {
  for (const each of schema.anyOf ?? [schema]) {
    if (isNumber(each)) yield* numbersOf(each);
    for (const [name, inner] of Object.entries(each.properties ?? {})) {
      const rest = typeof given === "object" && given !== null ? (given as Record<string, unknown>) : {};
      for (const value of bodiesOf(inner, rest[name])) yield { ...rest, [name]: value };
    }
    if (each.items !== undefined) {
      for (const value of bodiesOf(each.items, Array.isArray(given) ? given[0] : undefined)) yield [value];
    }
  }
}

it("no number in a query, a path or a body makes a server fail", async () => {
  const server = await startServer({ store: "postgres" });
  onTestFinished(server.close);
  const worker = await openWorker(server, { kinds: ["k"] });
  const made = await server.call("POST", "/v1/jobs", { body: { kind: "k" } });
  const job = await worker.take();
  expect([job.id, job.attempt]).toEqual([made.body.id, 1]);
  const ref = { jobId: job.id, attempt: job.attempt };
  const failure = { kind: "error", message: "broke" };
  const usage = { tokensIn: 0, tokensOut: 0, costUsd: 0 };
  /** What bodies must have beside the number. */
  const GIVEN: Partial<Record<RouteName, unknown>> = {
    submitJob: { kind: "other" },
    submitChild: { kind: "other" },
    waitJobs: { jobs: [{ id: job.id, chapter: 1 }], waitMs: 0 },
    redriveJobs: { dryRun: true },
    createToken: { name: "t", scopes: ["read"] },
    setUsage: { attempt: job.attempt, usage },
    openSession: { name: "w", kinds: ["other"], slots: 1 },
    renewSession: { held: [{ ...ref, usage }] },
    claimJobs: { limit: 1, room: { cpu: 1, memory: 1 } },
    waitForNotice: { waitMs: 0 },
    reportAttempts: {
      reports: [{ ...ref, token: "none", reportId: "r", usage, outcome: { kind: "failed", failure } }],
    },
  };
  const headers = { [HEADER.sessionKey]: worker.key, [HEADER.lease]: job.token };
  const params = { id: job.id, session: worker.session, attempt: job.attempt, queue: "q" };
  const bytes = { "content-type": "application/octet-stream" };
  const calls: {
    readonly route: RouteName;
    readonly path: string;
    readonly body?: unknown;
    readonly bytes?: boolean;
  }[] = [];
  for (const [route, operation] of Object.entries(OPERATIONS) as [RouteName, (typeof OPERATIONS)[RouteName]][]) {
    // They wait for something, or end the session that the others need.
    if (route === "closeSession" || route === "drainWorker") continue;
    const path = pathOf(route, params, "stdout.log");
    const isBytes = operation.bodyType !== undefined;
    const sent = isBytes ? { bytes: true, body: "x" } : {};
    for (const [name, schema] of Object.entries((operation.query as Schema | undefined)?.properties ?? {})) {
      if (!isNumber(schema)) continue;
      for (const n of numbersOf(schema)) calls.push({ route, path: `${path}?${name}=${n}`, ...sent });
    }
    if ("attempt" in ((operation.params as Schema | undefined)?.properties ?? {})) {
      for (const n of NUMBERS) {
        calls.push({ route, path: pathOf(route, { ...params, attempt: n }, "stdout.log"), ...sent });
      }
    }
    if (isBytes || operation.body === undefined) continue;
    for (const body of bodiesOf(operation.body as Schema, GIVEN[route])) calls.push({ route, path, body });
  }
  expect(new Set(calls.map(({ route }) => route)).size).toBeGreaterThan(20);
  const failed: string[] = [];
  const call = async ({ route, path, body, bytes: isBytes }: (typeof calls)[number]) => {
    const type = isBytes ? bytes : {};
    const { method } = ROUTES[route];
    // Waits are not to be had here.
    if (JSON.stringify(body ?? null).includes('"waitMs":30000')) return;
    const sent = method === "GET" || body === undefined ? {} : { body };
    const { status, text } = await server.call(method, path, { headers: { ...headers, ...type }, ...sent });
    if (status >= 500) failed.push(`${method} ${path} ${JSON.stringify(body)}: ${status} ${text}`);
  };
  for (let from = 0; from < calls.length; from += 25) await Promise.all(calls.slice(from, from + 25).map(call));
  expect(failed).toEqual([]);
});
