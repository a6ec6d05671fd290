/** F27: connections are exhausted, on our side or on the server's. Calls wait for a bounded time and then report it;
 *  renewals have a reserved connection, so that no worker counts as lost because others wait. */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { JobHandle } from "../../src/index.ts";
import { ask, until, withClient } from "../postgres/client.ts";
import { type PostgresServer, startServer } from "../postgres/server.ts";
import { type Answers, expectSound, openScene, pass, type Scene, stream, submitOne, TEST_MS } from "./kit.ts";

const MAX_CONNECTIONS = 14;
const LEASE_MS = 3_000;

let server: PostgresServer;
beforeAll(async () => {
  server = await startServer({ settings: { shared_buffers: "16MB", max_connections: String(MAX_CONNECTIONS) } });
});
afterAll(() => server.stop("immediate"));

/** Handlers that are still running when everything is over. */
async function hold(scene: Scene, count: number) {
  const jobs: JobHandle<unknown>[] = [];
  for (let i = 1; i <= count; i++) jobs.push(await scene.perdure.submit("job", { n: -i, work: "hold" }));
  await until("they run", async () => jobs.every(({ id }) => scene.starts.includes(`${id} 1`)));
  return {
    async expectKept(): Promise<void> {
      expect(scene.aborts, "no handler was aborted").toEqual([]);
      scene.release();
      for (const job of jobs) expect(await job.result({ timeout: "30s" })).toEqual({ attempt: 1 });
    },
  };
}

async function waitingForLocks(): Promise<number> {
  const sql = "SELECT FROM pg_stat_activity WHERE application_name = 'perdure' AND wait_event_type = 'Lock'";
  return (await ask(server.url, sql)).length;
}

describe("a pool whose connections all wait", () => {
  it(
    "still renews its leases, and continues when it can",
    async () => {
      const url = `${server.url}?schema=pool`;
      const scene = await openScene({ url, lease: LEASE_MS, connections: 2 });
      const held = await hold(scene, 4);
      const answers: Answers = { acknowledged: new Map(), refused: [] };
      await withClient(server.url, async (foreign) => {
        // Keys that another transaction is about to take: submits with them wait for its outcome.
        await foreign.query("BEGIN");
        const values = "SELECT 'default', 'n-' || n, 'job_x', 'x', 0 FROM generate_series(0, 2, 2) n";
        await foreign.query(`INSERT INTO pool.submit_key (namespace, key, id, body_hash, at) ${values}`);
        const first = submitKeyed(scene, 0, answers);
        await until("one waits", async () => (await waitingForLocks()) === 1);
        const second = submitKeyed(scene, 2, answers);
        await until("all connections of the pool wait", async () => (await waitingForLocks()) === 2);
        // It gets its turn when a waiting call releases its lock for a moment, or is refused.
        await submitOne(scene.perdure, 4, false, answers);
        for (const { code } of answers.refused) expect(code).toBe("store_unavailable");
        const [session] = await ask<{ late: boolean }>(
          server.url,
          `SELECT lease_ends_at < extract(epoch FROM clock_timestamp()) * 1000 AS late FROM pool.session`,
        );
        expect(session, "the lease was kept").toEqual({ late: false });
        await foreign.query("ROLLBACK");
        await Promise.all([first, second]);
      });
      await held.expectKept();
      await expectSound(url, scene, answers);
    },
    TEST_MS,
  );

  it(
    "renews its leases although another engine hangs in the middle of its beat",
    async () => {
      const url = `${server.url}?schema=beat`;
      const scene = await openScene({ url, lease: LEASE_MS, connections: 2 });
      const held = await hold(scene, 4);
      const submits = stream(scene.perdure, { writers: 2, everyMs: 25 });
      await withClient(server.url, async (foreign) => {
        await foreign.query("BEGIN");
        await foreign.query("SELECT FROM beat.meta ORDER BY name FOR UPDATE"); // as a beat begins
        await pass(7_000); // longer than a lease, and than the retries of a call
        expect(scene.aborts, "no handler was aborted").toEqual([]);
        await foreign.query("ROLLBACK");
      });
      await submits.more(10);
      await submits.stop();
      await held.expectKept();
      await expectSound(url, scene, submits);
    },
    TEST_MS,
  );
});

async function submitKeyed(scene: Scene, n: number, { acknowledged }: Answers) {
  acknowledged.set(n, (await scene.perdure.submit("job", { n, work: "quick" }, { key: `n-${n}` })).id);
}

it(
  "a server without a free connection: calls wait, then fail with the reason, and nothing is lost",
  async () => {
    const url = `${server.url}?schema=no_room`;
    const scene = await openScene({ url, lease: LEASE_MS, connections: 3 });
    const held = await hold(scene, 4);
    const submits = stream(scene.perdure, { writers: 3, everyMs: 25 });
    await submits.more(30);

    const [guard] = await openClients(1); // connected before all connections are taken
    const took: Client[] = [];
    onTestFinished(async () => void (await Promise.all(took.map((client) => client.end()))));
    const OURS = "FROM pg_stat_activity WHERE application_name = 'perdure'";
    /** Also takes connections that the engine gets in between. */
    const takeAll = async () => {
      while ((await guard?.query(`SELECT pg_terminate_backend(pid) ${OURS}`))?.rowCount !== 0) {
        took.push(...(await openClients(MAX_CONNECTIONS)));
      }
    };
    const refused = (code: string) => submits.refused.filter((one) => one.code === code).length;
    const began = performance.now();
    await until("submits are refused", async () => {
      await takeAll();
      return refused("store_unavailable") >= 3;
    });
    expect(performance.now() - began).toBeLessThan(30_000);
    // Calls whose connection was taken away have an unknown outcome.
    expect(refused("store_unavailable") + refused("store_unknown")).toBe(submits.refused.length);

    await Promise.all([...took.splice(0), guard as Client].map((client) => client.end()));
    await submits.more(30);
    await submits.stop();
    scene.aborts.length = 0; // silent for longer than a lease, its handlers were aborted, and continued
    await held.expectKept();
    await expectSound(url, scene, submits);
  },
  TEST_MS,
);

/** As many as the server accepts. */
async function openClients(count: number): Promise<Client[]> {
  const clients: Client[] = [];
  for (let i = 0; i < count; i++) {
    const client = new Client({ connectionString: server.url });
    client.on("error", () => {});
    try {
      await client.connect();
    } catch (error) {
      expect(error).toMatchObject({ code: "53300" });
      return clients;
    }
    clients.push(client);
  }
  return clients;
}
