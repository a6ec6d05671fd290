/** F29: transactions that the server rolls back because of others: deadlocks with a client that locks in another order,
 *  and serialization failures. They are retried internally, and no call is refused. */
import type { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, until, withClient } from "../postgres/client.ts";
import { type PostgresServer, startServer } from "../postgres/server.ts";
import { expectSound, openScene, type Scene, stream, TEST_MS } from "./kit.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startServer({ settings: { shared_buffers: "16MB" } });
});
afterAll(() => server.stop("immediate"));

describe("a deadlock with a client that locks jobs in the opposite order", () => {
  /** A waiting session checks for a deadlock after this time. The engine checks first, and so is the one rolled
   *  back. */
  const address = (schema: string) => `${server.url}?schema=${schema}&options=-c%20deadlock_timeout%3D1500ms`;

  /** Locks the last job, lets the engine lock the others and wait for it, and then requests those. */
  async function cross(foreign: Client, schema: string, act: () => Promise<unknown>): Promise<unknown> {
    const before = deadlocks();
    await foreign.query("SET deadlock_timeout = '30s'");
    await foreign.query("BEGIN");
    await foreign.query(`SELECT no FROM ${schema}.job ORDER BY no DESC LIMIT 1 FOR UPDATE`);
    const acting = act();
    const waits = `SELECT FROM pg_stat_activity WHERE application_name = 'perdure' AND wait_event_type = 'Lock'
      AND query LIKE '%${schema}%'`;
    await until("the engine waits", async () => (await ask(server.url, waits)).length > 0);
    await foreign.query(`SELECT no FROM ${schema}.job ORDER BY no DESC FOR UPDATE`);
    await until("the engine was rolled back", async () => deadlocks() > before);
    await foreign.query("COMMIT");
    return acting;
  }

  const deadlocks = () => server.log.split("deadlock detected").length - 1;

  async function heldJobs(scene: Scene, count: number) {
    const entries = Array.from({ length: count }, (_, n) => ({ task: "job", input: { n, work: "hold" } }));
    const jobs = (await scene.perdure.submitMany(entries)).flatMap((answer) => (answer.ok ? [answer.job] : []));
    await until("they run", async () => scene.starts.length === count);
    return jobs;
  }

  it(
    "does not refuse reports",
    async () => {
      const url = address("reports");
      const scene = await openScene({ url, concurrency: 20 });
      const jobs = await heldJobs(scene, 20);
      await withClient(server.url, (foreign) =>
        cross(foreign, "reports", async () => {
          scene.release();
          for (const job of jobs) expect(await job.result({ timeout: "30s" })).toEqual({ attempt: 1 });
        }),
      );
      const acknowledged = new Map(jobs.map(({ id }, n) => [n, id]));
      await expectSound(url, scene, { acknowledged, refused: [] });
      expect(scene.logged.filter((line) => line.includes("cannot report"))).toEqual([]);
    },
    TEST_MS,
  );

  it(
    "does not refuse commands",
    async () => {
      const url = address("commands");
      const scene = await openScene({ url });
      const entries = Array.from({ length: 10 }, (_, n) => ({ task: "job", input: { n, work: "fail-first" } }));
      const jobs = (await scene.perdure.submitMany(entries)).flatMap((answer) => (answer.ok ? [answer.job] : []));
      for (const job of jobs) await expect(job.result()).rejects.toMatchObject({ reason: "exhausted" });
      // All at once, so that one transaction has them all.
      const redriven = await withClient(server.url, (foreign) =>
        cross(foreign, "commands", () => scene.perdure.redriveMany({})),
      );
      expect(redriven).toMatchObject({ more: false });
      expect((redriven as { jobs: unknown[] }).jobs).toHaveLength(10);
      const acknowledged = new Map(jobs.map(({ id }, n) => [n, id]));
      await expectSound(url, scene, { acknowledged, refused: [] });
    },
    TEST_MS,
  );
});

it(
  "serialization failures, every few statements, are retried",
  async () => {
    const url = `${server.url}?schema=again`;
    const scene = await openScene({ url });
    // A sequence is not rolled back: it counts the failures too.
    await ask(
      server.url,
      `CREATE SEQUENCE again.tries;
       CREATE FUNCTION again.now_and_then() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF nextval('again.tries') % 4 = 0 THEN
           RAISE 'could not serialize access' USING ERRCODE = 'serialization_failure';
         END IF;
         RETURN NULL;
       END $$;
       CREATE TRIGGER often AFTER INSERT OR UPDATE ON again.job EXECUTE FUNCTION again.now_and_then();`,
    );
    const submits = stream(scene.perdure);
    await submits.more(120);
    await submits.stop();
    expect(submits.refused).toEqual([]);
    await expectSound(url, scene, submits);
    const [row] = await ask<{ tries: string }>(server.url, "SELECT last_value AS tries FROM again.tries");
    expect(Number(row?.tries), "it failed often").toBeGreaterThan(60);
    expect(scene.logged, "no failure was logged").toEqual([]);
  },
  TEST_MS,
);
