/** Two servers and their workers over one PostgreSQL database, each killed with -9 at random and restarted while jobs
 *  are submitted at both servers. Nothing acknowledged is lost, and everything ends once, soon after the last kill. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { Dice } from "../dice.ts";
import { newSchema } from "../postgres/kit.ts";
import { SEED } from "../tier.ts";
import { drained, reckon, tally } from "./final-check.ts";
import {
  connect,
  IS_SOAK,
  linesIn,
  newHome,
  output,
  type Proc,
  resultOf,
  Server,
  spawnWorker,
  TEST_MS,
  until,
} from "./kit.ts";
import { startSubmitters } from "./submitters.ts";

const KILLS = IS_SOAK ? 300 : 3;
const WORKERS = IS_SOAK ? 4 : 2;
/** With a lease of 2 s, for all of: processes to start, leases to end, jobs to run. Takes a tenth of that on an idle
 *  machine. */
const ALL_DONE_WITHIN_MS = 90_000;

it("loses nothing while servers and workers are killed at random", {
  timeout: IS_SOAK ? 3_600_000 : 2 * TEST_MS,
}, async () => {
  console.log(`fleet: PERDURE_SEED=${SEED}`);
  const dice = new Dice(SEED);
  const effects = join(newHome(), "effects");
  const { url: db } = newSchema("e2e");
  const args = ["--lease", "2s"];
  const first = await Server.start({ db, args });
  const servers = [first, await Server.start({ db, args })] as const;

  // The same number of workers at each server, each with its directory: restarted, it finds the files of its
  // predecessor. An exit on another host is only detected by the lease.
  const homes = Array.from({ length: WORKERS }, newHome);
  const work = (i: number) => {
    const own = { home: homes[i] as string, args: ["--name", `w${i}`], elsewhere: i >= WORKERS / 2, tokenOf: first };
    return spawnWorker(servers[i % 2] as Server, own);
  };
  const workers: Proc[] = homes.map((_, i) => work(i));
  await Promise.all(workers.map((one) => one.ready));

  // Both servers accept the same token.
  const quick = { patience: "1s", timeout: "5s" } as const;
  const clients = [
    await connect(servers[0].url, first.token, quick),
    await connect(servers[1].url, first.token, quick),
  ] as const;
  const submitters = startSubmitters({ clients, effects });
  const waiting = await connect(servers[1].url, first.token);
  const waited = await waiting.submit(
    "effect",
    { effects, ms: 100 },
    { delay: "5s", retry: { workerLost: { poison: false, maxRetries: 99 } } },
  );
  const result = resultOf(waited);

  const killed = { servers: 0, workers: 0 };
  for (let kill = 0; kill < KILLS; kill++) {
    const goal = submitters.acknowledged.size + 5 + dice.below(IS_SOAK ? 40 : 20);
    await until("more jobs are acknowledged", () => submitters.acknowledged.size >= goal);
    if (kill % 3 === 0) {
      const server = dice.pick(servers);
      await server.proc.kill();
      server.again();
      killed.servers += 1;
    } else {
      const i = dice.below(workers.length);
      await workers[i]?.kill();
      workers[i] = work(i);
      killed.workers += 1;
    }
  }
  // The last kill hits all of them at once, with whatever they hold.
  await Promise.all([...workers, ...servers.map(({ proc }) => proc)].map((proc) => proc.kill()));
  for (const server of servers) server.again();
  for (const i of workers.keys()) workers[i] = work(i);
  const lastKillAt = performance.now();
  await submitters.stop();
  const client = await connect(servers[0].url, first.token);
  await drained(client, ALL_DONE_WITHIN_MS - (performance.now() - lastKillAt));
  const tookMs = Math.round(performance.now() - lastKillAt);
  expect(tookMs).toBeLessThanOrEqual(ALL_DONE_WITHIN_MS);

  expect(await result).toMatchObject({ attempt: expect.any(Number) });
  const audited = await reckon(client, submitters.acknowledged);
  const { lost, attempts, unsuccessful } = tally(audited);
  const { repeated, acknowledged } = submitters;
  console.log(`fleet: ${JSON.stringify({ jobs: acknowledged.size, killed, repeated, attempts, lost, tookMs })}`);
  expect(acknowledged.size).toBeGreaterThan(KILLS * 5);
  expect(submitters.twice).toEqual([]);
  expect(audited.jobs.size).toBe(acknowledged.size + 1);
  expect(unsuccessful).toEqual([]);
  // (job, attempt) is never repeated.
  const runs = linesIn(effects);
  expect(new Set(runs).size).toBe(runs.length);
  const commands = [...audited.jobs.values()].filter(({ kind }) => kind === "exec");
  for (const { id, key, attempt } of commands) {
    expect(await output(client, id, attempt, "stdout.log")).toBe(`out ${key?.slice(4)}\n`);
  }
  // Both servers return the same.
  const others = await connect(servers[1].url, first.token);
  expect(await others.queues()).toEqual(await client.queues());
});
