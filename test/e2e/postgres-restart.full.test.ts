/** PostgreSQL restarts under two servers with work in progress: they report that they are not ready, wait, and continue
 *  by themselves. No worker counts as lost because the database was away. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startServer } from "../postgres/server.ts";
import { drained, reckon, tally } from "./final-check.ts";
import { connect, linesIn, newHome, resultOf, Server, TEST_MS, until, worker } from "./kit.ts";
import { startSubmitters } from "./submitters.ts";

it("a restart of PostgreSQL is survived by servers, workers and clients", {
  timeout: 2 * TEST_MS,
}, async () => {
  const postgres = await startServer();
  onTestFinished(() => postgres.stop("immediate"));
  const files = newHome();
  const [effects, held, go] = ["effects", "held", "go"].map((name) => join(files, name)) as [string, string, string];
  const db = postgres.url;
  const servers = [await Server.start({ db }), await Server.start({ db })] as const;
  const { token } = servers[0];
  await Promise.all(servers.map((server) => worker(server, { tokenOf: servers[0] })));
  const clients = [await connect(servers[0].url, token), await connect(servers[1].url, token)] as const;
  const submitters = startSubmitters({ clients, effects, count: 2, everyMs: 100 });
  const more = async (count: number) => {
    const goal = submitters.acknowledged.size + count;
    await until(`${count} more submits are acknowledged`, () => submitters.acknowledged.size >= goal);
  };
  const ready = async (status: 200 | 503) => {
    for (const { url } of servers) {
      await until(`${url}/readyz answers ${status}`, async () => (await fetch(`${url}/readyz`)).status === status);
    }
  };
  await more(10);
  // One job that runs all the time.
  const waited = await clients[0].submit("hold", { effects: held, file: go });
  const result = resultOf(waited);
  await until("it runs", () => linesIn(held).length === 1);

  for (const mode of ["fast", "immediate"] as const) {
    await ready(200);
    await postgres.down(mode);
    await ready(503);
    for (const { url } of servers) expect((await fetch(`${url}/healthz`)).status).toBe(200);
    await postgres.up();
    await ready(200);
    await more(10);
  }

  await submitters.stop();
  writeFileSync(go, "");
  expect(await result).toEqual({ attempt: 1 });
  await drained(clients[1]);
  const audited = await reckon(clients[1], submitters.acknowledged);
  expect(submitters.twice).toEqual([]);
  expect(audited.jobs.size).toBe(submitters.acknowledged.size + 1);
  const { lost, unsuccessful } = tally(audited);
  expect({ lost, unsuccessful }).toEqual({ lost: 0, unsuccessful: [] });
  expect(audited.engineEvents.map(({ name }) => name)).not.toContain("worker.lost");
  const runs = linesIn(effects);
  expect(new Set(runs).size).toBe(runs.length);
  for (const { proc } of servers) expect(await proc.stop()).toBe(0);
});
