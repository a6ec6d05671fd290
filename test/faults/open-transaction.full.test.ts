/** F28: a client leaves a transaction open, with a snapshot and a transaction id. Dead rows cannot be removed
 *  meanwhile, and the event feed must wait for it; claims must not. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { Perdure, task } from "../../src/index.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import type { Store } from "../../src/store/store.ts";
import { all } from "../kit.ts";
import { ask, until, withClient } from "../postgres/client.ts";
import { type PostgresServer, startServer } from "../postgres/server.ts";
import { drained, expectSound, openScene, type Scene, stream, TEST_MS } from "./kit.ts";

const JOBS = 300;

let server: PostgresServer;
beforeAll(async () => {
  server = await startServer({ settings: { shared_buffers: "16MB" } });
});
afterAll(() => server.stop("immediate"));

/** How long each claim with jobs took. */
function timed(times: number[]) {
  return (store: Store): Store => ({
    ...store,
    async claim(requests, now) {
      const began = performance.now();
      const answers = await store.claim(requests, now);
      if (answers.some(({ jobs }) => jobs.length > 0)) times.push(performance.now() - began);
      return answers;
    },
  });
}

/** For some hundred jobs, ten at a time, by a separate worker. */
async function medianClaim(url: string, kind: string): Promise<number> {
  const times: number[] = [];
  const ambient = { clock: systemClock, random: Math.random, wrapStore: timed(times) };
  const perdure = await Perdure.open({ url, namespace: kind }, ambient);
  await perdure.submitMany(Array.from({ length: JOBS }, () => ({ task: "job", input: {} })));
  await perdure.work([task("job", () => null)], { concurrency: 10 });
  await drained(perdure);
  await perdure.close();
  return times.sort((a, b) => a - b)[times.length >> 1] as number;
}

/** Other load may come and go: what is as fast as this counts as fast. */
const bound = (ms: number) => Math.max(50, 10 * ms);

it(
  "claims stay fast, and the feed is late but complete",
  async () => {
    const url = `${server.url}?schema=long`;
    const scene = await openScene({ url });
    const submits = stream(scene.perdure, { writers: 2, everyMs: 25 });
    await submits.more(20);
    await medianClaim(url, "first"); // warms plans and caches
    const before = await medianClaim(url, "before");
    const during = await withClient(server.url, async (foreign) => {
      await foreign.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      const { rows } = await foreign.query<{ id: string }>(
        "SELECT pg_current_xact_id()::text AS id, count(*) FROM long.job",
      );
      // Earlier transactions may still reach the feed: it waits once they have ended.
      const oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS id";
      await until("it is the oldest", async () => (await ask(server.url, oldest))[0]?.id === rows[0]?.id);
      const seen = await lastEvent(scene);
      const medians: number[] = [];
      for (const round of ["one", "two", "three"]) medians.push(await medianClaim(url, round));
      await submits.more(20);
      expect(await lastEvent(scene), "the feed waits").toBe(seen);
      await foreign.query("ROLLBACK");
      return medians;
    });
    console.log(`claim, median: ${before.toFixed(1)} ms, then ${during.map((ms) => ms.toFixed(1)).join(", ")} ms`);
    expect(Math.min(...during)).toBeLessThan(bound(before));
    expect(during.at(-1), "it does not grow with the number of dead rows").toBeLessThan(bound(during[0] as number));
    await submits.stop();
    await drained(scene.perdure);
    const names = (await all(scene.perdure.events(0))).filter((event) => event.name === "attempt.succeeded");
    expect(names.length).toBeGreaterThanOrEqual(5 * JOBS + submits.acknowledged.size);
  },
  TEST_MS,
);

async function lastEvent({ perdure }: Scene): Promise<number | undefined> {
  return (await all(perdure.events(0))).at(-1)?.seq;
}

it(
  "a transaction that was open all the time has affected no call",
  async () => {
    const url = `${server.url}?schema=sound`;
    const scene = await openScene({ url });
    const submits = stream(scene.perdure);
    await withClient(server.url, async (foreign) => {
      await foreign.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await foreign.query("SELECT pg_current_xact_id(), count(*) FROM sound.job");
      await submits.more(100);
      await submits.stop();
      await drained(scene.perdure);
      await foreign.query("COMMIT");
    });
    expect(submits.refused).toEqual([]);
    await expectSound(url, scene, submits);
  },
  TEST_MS,
);
