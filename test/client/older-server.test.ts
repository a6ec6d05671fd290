/** What a server of an earlier version leaves out of its replies. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { eachQueue, eachWorker } from "../../src/cli/target/pages.ts";
import { Perdure as Client } from "../../src/client/index.ts";
import { Perdure } from "../../src/index.ts";
import { releasedWire } from "../fixtures/wire-schemas.ts";
import { all } from "../kit.ts";

it("redriveMany returns no skipped jobs if the server does not support them", async () => {
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

it.each([200, 450])(
  "workers and queues of a server without pages are read once, and none is lost: %i",
  async (count) => {
    const workers = Array.from({ length: count }, (_, i) => ({ id: `ses_${i}`, name: "w", health: null }));
    const queues = Array.from({ length: 5 * count }, (_, i) => ({ queue: `q${String(i).padStart(4, "0")}` }));
    let asked = 0;
    const server = createServer((request, response) => {
      asked += 1;
      if (asked > 10) request.socket.destroy(); // it would never end
      const body = request.url?.startsWith("/v1/workers") ? { workers } : { queues };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await using perdure = await Perdure.open({ url, token: "t".repeat(40) });
    const read: string[] = [];
    for await (const { id } of eachWorker(perdure)) read.push(id);
    for await (const { queue } of eachQueue(perdure)) read.push(queue);
    expect(read).toEqual([...workers.map(({ id }) => id), ...queues.map(({ queue }) => queue)]);
    expect(await perdure.workers()).toHaveLength(count);
  },
);

it("a server that cannot list events newest first is named as the reason", async () => {
  const { operations } = await releasedWire();
  expect(operations.listEvents?.query).not.toHaveProperty("properties.order");
  await using client = await Client.connect("http://localhost:1", {
    token: "t".repeat(40),
    async fetch(url) {
      const { searchParams } = new URL(String(url));
      const path = ["order", "before"].find((name) => searchParams.has(name));
      const message = `${path}: unknown field "${path}"; allowed: after, limit.`;
      if (path !== undefined) return Response.json({ code: "invalid_request", message, path }, { status: 400 });
      return Response.json({ events: [], next: null });
    },
  });
  const upgrade = { code: "invalid_request", message: expect.stringContaining("server is too old to list events") };
  await expect(all(client.events({ order: "newest" }))).rejects.toMatchObject(upgrade);
  await expect(all(client.events({ before: 9 }))).rejects.toMatchObject(upgrade);
  expect(await all(client.events({ order: "oldest", after: 5 }))).toEqual([]);
});

it("all pages are read by default", async () => {
  const pages = { "": "b", b: "d", d: null } as const;
  await using client = await Client.connect("http://localhost:1", {
    token: "t".repeat(40),
    async fetch(url) {
      const after = (new URL(String(url)).searchParams.get("after") ?? "") as keyof typeof pages;
      return Response.json({ queues: [{ queue: `after ${after}` }], workers: [], tokens: [], next: pages[after] });
    },
  });
  expect((await client.queues()).map(({ queue }) => queue)).toEqual(["after ", "after b", "after d"]);
  expect(await client.queues({ after: "b" })).toHaveLength(1);
});
