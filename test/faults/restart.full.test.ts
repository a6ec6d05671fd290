/** F29: the server goes down under load and comes back. Acknowledged data survives it; calls in progress wait out a
 *  short outage and report a long one; no lease ends because the database was away. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { until } from "../postgres/client.ts";
import { type PostgresServer, startServer } from "../postgres/server.ts";
import { drained, expectSound, openScene, pass, stream, TEST_MS } from "./kit.ts";

/** Below the five seconds of a call's retries, by the time a machine may need to detect that the server is back. */
const PATIENCE_MS = 3_500;

let server: PostgresServer;
beforeAll(async () => {
  server = await startServer({ settings: { shared_buffers: "16MB" } });
});
afterAll(() => server.stop("immediate"));

it(
  "a server that is killed, twice, under load: everything continues by itself",
  async () => {
    const url = `${server.url}?schema=restart`;
    // Jobs of a claim whose answer was lost are released after one lease: a short one.
    const scene = await openScene({ url, lease: "1500ms" });
    const submits = stream(scene.perdure);
    await submits.more(60);
    let awayMs = 0;
    for (let round = 0; round < 2; round++) {
      const begun = scene.starts.length;
      const downAt = performance.now();
      await server.restart("immediate");
      awayMs = Math.max(awayMs, performance.now() - downAt);
      await submits.more(60);
      await until("jobs are run again", async () => scene.starts.length > begun + 30);
    }
    await submits.stop();
    // A restart is shorter than the retries of a call: none should fail. If it takes longer, calls may.
    for (const { code } of submits.refused) expect(["store_unavailable", "store_unknown"]).toContain(code);
    if (awayMs < PATIENCE_MS) expect(submits.refused).toEqual([]);
    await expectSound(url, scene, submits);
    expect(scene.aborts).toEqual([]);
  },
  TEST_MS,
);

it(
  "an outage longer than a lease and than the retries of a call: calls fail, no worker is lost",
  async () => {
    const [lease, outage] = [1_200, 6_500];
    const url = `${server.url}?schema=outage`;
    const scene = await openScene({ url, lease });
    const other = await openScene({ url, lease }); // reaps too, and must not treat the other as lost either
    const submits = stream(scene.perdure, { writers: 3, everyMs: 25 });
    await submits.more(20);
    const held = [];
    for (let n = 0; n < 6; n++) held.push(await scene.perdure.submit("job", { n: -1 - n, work: "hold" }));
    const ids = held.map(({ id }) => id);
    const started = () => [...scene.starts, ...other.starts].filter((start) => ids.includes(start.split(" ")[0] ?? ""));
    await until("the held jobs run", async () => started().length === ids.length);

    await server.down("immediate");
    await pass(outage);
    await server.up();
    await submits.more(20);
    await submits.stop();
    // After the hold, with the handlers still running: nothing that ran through the outage is given to others.
    await pass(2 * lease);
    expect(started()).toHaveLength(ids.length);
    for (const one of [scene, other]) one.release();

    for (const job of held) expect(await job.result({ timeout: "30s" })).toEqual({ attempt: 1 });
    for (const { code } of submits.refused) expect(["store_unavailable", "store_unknown"]).toContain(code);
    expect(submits.refused.length, "an outage is reported").toBeGreaterThan(0);
    await drained(scene.perdure);
    scene.starts.push(...other.starts);
    await expectSound(url, scene, submits);
  },
  TEST_MS,
);
