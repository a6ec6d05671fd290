/** A job that calls an API which is down at first: 503, then 429 with Retry-After, then 200.
 *  The error that a handler throws may have `status` and `retryAfterMs`; the policy reads both. A 404 is not
 *  retried by the preset `default`. Run: npx tsx examples/flaky-api.ts */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { JobFailedError, Perdure, task } from "perdure";

// The API: a real server on a free port of this machine.
const replies: [status: number, headers?: Record<string, string>][] = [[503], [429, { "retry-after": "1" }], [200]];
const server = createServer((request, response) => {
  const [status, headers = {}] = request.url === "/price" ? (replies.shift() ?? [200]) : [404];
  response.writeHead(status, headers).end(JSON.stringify({ price: 42 }));
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

class HttpError extends Error {
  readonly status: number;
  readonly retryAfterMs: number | undefined;

  constructor(response: Response) {
    super(`${response.status} ${response.statusText}`);
    this.status = response.status;
    const seconds = Number(response.headers.get("retry-after"));
    this.retryAfterMs = seconds > 0 ? seconds * 1_000 : undefined;
  }
}

const getPrice = task(
  "get-price",
  { retry: { maxAttempts: 5, backoff: { initial: "200ms", jitter: 0 } }, timeout: "10s" },
  async (input: { path: string }, ctx) => {
    const response = await fetch(api + input.path, { signal: ctx.signal });
    console.log(`${input.path}, attempt ${ctx.attempt}: ${response.status}`);
    if (!response.ok) throw new HttpError(response);
    return (await response.json()) as { price: number };
  },
);

const dir = mkdtempSync(join(tmpdir(), "perdure-example-"));
const perdure = await Perdure.open(join(dir, "jobs.db"));
await perdure.work([getPrice]);

const price = await perdure.submit(getPrice, { path: "/price" });
console.log(`price: ${(await price.result()).price}`);
for (const { attempt, outcome, delay, because } of (await price.explain()).attempts) {
  console.log(`  attempt ${attempt} ${outcome}${delay ? `, next after ${delay.delayMs} ms` : ""}: ${because}`);
}

const missing = await perdure.submit(getPrice, { path: "/missing" });
const error = await missing.result().catch((thrown: unknown) => thrown as JobFailedError);
if (error instanceof JobFailedError) console.log(`missing: ${error.reason} after ${error.attempt} attempt`);

await perdure.close();
server.close();
rmSync(dir, { recursive: true });
