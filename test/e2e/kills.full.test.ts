/** F01: workers and servers killed with -9 at random while jobs run, with the poison guard enabled. Nothing
 *  acknowledged is lost, everything ends once and within its limits, soon after the last kill, and no job fails as
 *  poison because of the kills. `npm run test:kills -- --kills 1000` runs it with other numbers, which come in the
 *  environment. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { Dice } from "../dice.ts";
import { newSchema } from "../postgres/kit.ts";
import { SEED } from "../tier.ts";
import { drained, reckon, tally } from "./final-check.ts";
import { connect, linesIn, newHome, type Proc, pass, Server, spawnWorker, until } from "./kit.ts";
import { GUARDED, startSubmitters } from "./submitters.ts";

const given = (name: string, usual: number) => Number(process.env[`PERDURE_${name}`] ?? usual);
const KILLS = given("KILLS", 12);
const WORKERS = given("KILL_WORKERS", 4);
const SLOTS = given("KILL_SLOTS", 4);
const EVERY_MS = given("KILL_EVERY_MS", 200);
/** One in this many kills is of a server. */
const SERVER_EVERY = 10;
/** Killing a worker that is still starting tests nothing: at most this many start at a time. */
const STARTING = Math.max(1, Math.floor(WORKERS / 2));
const TELL_EVERY = 20;
/** After the last kill, for: processes to start, leases to end, backoffs of up to 30 s, and waiting jobs to run. */
const ALL_DONE_WITHIN_MS = 180_000;

it(`fails no job as poison and loses nothing in ${KILLS} kills`, { timeout: 600_000 + KILLS * 20_000 }, async () => {
  console.log(`kills: ${KILLS} of ${WORKERS} workers with ${SLOTS} slots and 2 servers, PERDURE_SEED=${SEED}`);
  const dice = new Dice(SEED);
  const effects = join(newHome(), "effects");
  const { url: db } = newSchema("kills");
  const args = ["--lease", "5s"];
  const first = await Server.start({ db, args });
  const servers = [first, await Server.start({ db, args })] as const;
  const homes = Array.from({ length: WORKERS }, newHome);
  // For half of them the kernel reports the exit, for the others only the lease ends.
  const work = (i: number) =>
    spawnWorker(servers[i % 2] as Server, {
      ...{ home: homes[i] as string, elsewhere: i >= WORKERS / 2, tokenOf: first },
      args: ["--name", `w${i}`, "--concurrency", String(SLOTS)],
    });
  const workers: Proc[] = homes.map((_, i) => work(i));
  const isUp = new Set<Proc>();
  const watch = (proc: Proc) => void proc.ready.then(() => isUp.add(proc)).catch(() => {});
  workers.forEach(watch);
  await Promise.all(workers.map((one) => one.ready));

  const quick = { patience: "1s", timeout: "5s" } as const;
  const clients = [
    await connect(servers[0].url, first.token, quick),
    await connect(servers[1].url, first.token, quick),
  ] as const;
  const submitters = startSubmitters({ clients, effects, retry: GUARDED });
  const killed = { servers: 0, workers: 0 };
  const beganAt = performance.now();
  for (let kill = 1; kill <= KILLS; kill++) {
    const goal = submitters.acknowledged.size + 1;
    await until("more jobs are acknowledged", () => submitters.acknowledged.size >= goal);
    if (kill % SERVER_EVERY === 0) {
      const server = dice.pick(servers);
      await server.proc.kill();
      server.again();
      killed.servers += 1;
    } else {
      await until("enough workers are up", () => workers.filter((one) => isUp.has(one)).length >= WORKERS - STARTING);
      const [i] = dice.pick([...workers.entries()].filter(([, one]) => isUp.has(one)) as [[number, Proc]]);
      const proc = workers[i] as Proc;
      await proc.kill();
      isUp.delete(proc);
      workers[i] = work(i);
      watch(workers[i]);
      killed.workers += 1;
    }
    if (kill % TELL_EVERY === 0 || kill === KILLS) {
      const seconds = Math.round((performance.now() - beganAt) / 1_000);
      console.log(`kills: ${kill} of ${KILLS} after ${seconds} s, ${submitters.acknowledged.size} jobs acknowledged`);
    }
    await pass(EVERY_MS);
  }
  const lastKillAt = performance.now();
  await submitters.stop();
  const client = await connect(servers[0].url, first.token);
  await drained(client, ALL_DONE_WITHIN_MS); // I9
  const tookMs = Math.round(performance.now() - lastKillAt);

  const { repeated, acknowledged } = submitters;
  const audited = await reckon(client, acknowledged); // I1, I2 and the histories
  const { lost, attempts, unsuccessful } = tally(audited);
  const jobs = [...audited.jobs.values()];
  const poison = jobs.filter(({ reason }) => reason === "poison").length;
  const most = Math.max(...jobs.map(({ losses }) => losses));
  const result = { jobs: jobs.length, killed, repeated, attempts, lost, most, poison, tookMs };
  console.log(`kills: result ${JSON.stringify(result)}`);
  expect(poison).toBe(0);
  expect(unsuccessful).toEqual([]);
  expect(submitters.twice).toEqual([]);
  expect(jobs).toHaveLength(acknowledged.size);
  // I4: nothing exceeds its limits, nor is counted twice.
  const over = jobs.filter(
    ({ failures, losses, attempt }) => failures > 3 || losses > 1_000 || failures + losses > attempt,
  );
  expect(over.map(({ id }) => id)).toEqual([]);
  // (job, attempt) is never repeated.
  const runs = linesIn(effects);
  expect(new Set(runs).size).toBe(runs.length);
});
