/** What a server of an earlier version leaves out of its replies. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { Perdure } from "../../src/index.ts";

it("redriveMany names no skipped jobs where the server does not know of them", async () => {
  const server = createServer((request, response) => {
    request.resume();
    const body = request.url?.startsWith("/v1/jobs/redrive") ? { dryRun: false, jobs: ["job_a"], more: false } : {};
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const perdure = await Perdure.open({ url, token: "t".repeat(40) });
  onTestFinished(() => perdure.close({ grace: 0 }));
  expect(await perdure.redriveMany({})).toMatchObject({ jobs: ["job_a"], skipped: [] });
});
