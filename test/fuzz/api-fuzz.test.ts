import { expect, it, onTestFinished } from "vitest";
import { startServer } from "../server/kit.ts";
import { IS_FULL, SEED } from "../tier.ts";
import { fuzzApi } from "./api-fuzz.ts";

/** `npm run test:fuzz` sends 100,000. */
const COUNT = Number(process.env.PERDURE_FUZZ ?? (IS_FULL ? 4_000 : 1_500));

it(`${COUNT} requests derived from the OpenAPI document: no crash, no unexpected 5xx, no hang`, {
  timeout: 1_800_000,
}, async () => {
  const server = await startServer();
  onTestFinished(server.close);
  const before = process.memoryUsage().rss;
  const report = await fuzzApi({ url: server.url, token: server.admin, seed: SEED, count: COUNT });
  const statuses = Object.fromEntries([...report.byStatus].sort(([a], [b]) => a - b));
  const grown = Math.round((process.memoryUsage().rss - before) / 1e6);
  console.log(`seed ${SEED}: ${report.sent} requests, by status ${JSON.stringify(statuses)}, memory +${grown} MB`);
  expect(report.faults, `PERDURE_SEED=${SEED}`).toEqual([]);
  expect(report.sent).toBe(COUNT);
  // Requests must pass validation: most operations succeed now and then, or only the validation was tested.
  expect(report.reached.size).toBeGreaterThan(report.operations.length * (IS_FULL ? 0.65 : 0.4));
  expect((await server.call("GET", "/healthz", { token: null })).status).toBe(200);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});
