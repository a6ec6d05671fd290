/** Who is refused by a running server that has too much to do, and how: readers first, then those who submit, workers never.
 *  The rules themselves have their tests beside `src/server/admission.ts`. */
import { describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/lib/system-clock.ts";
import { ADMISSION } from "../../src/server/admission.ts";
import { gate } from "../kit.ts";
import { type KitOptions, type Reply, startServer } from "./kit.ts";
import { openWorker } from "./worker-kit.ts";

async function start(options: KitOptions = {}) {
  const server = await startServer(options);
  onTestFinished(server.close);
  return server;
}

/** The client may repeat it on the same connection when the time has passed. */
function expectRefusal({ status, body, headers }: Reply): void {
  expect([status, body.code, headers.get("retry-after"), headers.get("connection")]).toEqual([
    ...[503, "overloaded"],
    ...[expect.stringMatching(/^[123]$/), expect.not.stringContaining("close")],
  ]);
}

const JOB = { kind: "nobody", delay: "1d" };

describe("a server", () => {
  it("after a long turn of the event loop refuses readers and submits, not workers, operators and probes", async () => {
    let skippedMs = 0;
    const server = await start({
      clock: {
        ...systemClock,
        now: () => systemClock.now() + skippedMs,
        monotonic: () => systemClock.monotonic() + skippedMs,
      },
      admission: { maxReadLagMs: ADMISSION.maxReadLagMs, maxLagMs: ADMISSION.maxLagMs },
    });
    const call: typeof server.call = (...args) => {
      skippedMs += 3_600_000; // a turn seems to have taken so long; seconds later it still counts
      return server.call(...args);
    };
    const refusals = [
      await call("GET", "/v1/queues"),
      await call("POST", "/v1/jobs", { body: JOB }),
      await call("GET", "/v1/jobs"),
    ];
    refusals.forEach(expectRefusal);
    // Those who were refused together come back one after the other.
    expect(new Set(refusals.map(({ headers }) => headers.get("retry-after"))).size).toBe(3);
    const worker = await openWorker(server);
    expect((await worker.call("POST", "/renew", { body: { held: [] } })).body).toMatchObject({ alive: true });
    expect((await call("POST", "/v1/prune")).status).toBe(200);
    expect((await call("GET", "/healthz", { token: null })).status).toBe(200);
  });

  it("refuses submits that would wait for those in progress, and no others", async () => {
    const [entered, release] = [gate(), gate()];
    const server = await start({
      admission: { pace: { targetMs: Number.POSITIVE_INFINITY, least: 1, most: 1 } },
      wrapStore: (store) =>
        Object.assign(Object.create(store), {
          async insert(...args: Parameters<typeof store.insert>) {
            entered.open();
            await release.passed;
            return store.insert(...args);
          },
        }),
    });
    const first = server.call("POST", "/v1/jobs", { body: JOB });
    await entered.passed;
    expectRefusal(await server.call("POST", "/v1/jobs", { body: JOB }));
    await openWorker(server);
    expect((await server.call("GET", "/v1/queues")).status).toBe(200);
    release.open();
    expect((await first).status).toBe(201);
    expect((await server.call("POST", "/v1/jobs", { body: JOB })).status).toBe(201);
  });

  it("makes few searches at a time, callers in turn, and lets streams and single jobs pass", async () => {
    const [entered, release] = [gate(), gate()];
    const server = await start({
      admission: { reads: { atOnce: 1, maxWaitingOfOne: 1, maxWaiting: 10, maxWaitMs: 60_000 } },
      wrapStore: (store) =>
        Object.assign(Object.create(store), {
          queues: {
            ...store.queues,
            async counts(...args: Parameters<typeof store.queues.counts>) {
              entered.open();
              await release.passed;
              return store.queues.counts(...args);
            },
          },
        }),
    });
    const other = await server.token({ name: "other" });
    const { id } = (await server.call("POST", "/v1/jobs", { body: JOB })).body;
    const list = (token = server.admin) => server.call("GET", "/v1/queues", { token });
    const first = list();
    await entered.passed;
    const [second, third] = [list(), list()];
    expectRefusal(await Promise.race([second, third]));
    const ofOther = list(other);
    expect((await server.call("GET", `/v1/jobs/${id}`)).status).toBe(200);
    const leave = new AbortController();
    const stream = await fetch(`${server.url}/v1/events`, {
      headers: { authorization: `Bearer ${server.admin}`, accept: "text/event-stream" },
      signal: leave.signal,
    });
    expect(stream.status).toBe(200);
    leave.abort();
    release.open();
    const statuses = (await Promise.all([first, second, third, ofOther])).map(({ status }) => status);
    expect(statuses.sort((a, b) => a - b)).toEqual([200, 200, 200, 503]);
    expect((await list()).status).toBe(200);
  });
});
