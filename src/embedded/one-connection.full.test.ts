/** A pool of one connection: every method gets its turn, and none holds the connection while it waits for another. */
import { expect, it, onTestFinished } from "vitest";
import { aborted, all, gate } from "../../test/kit.ts";
import { until, withClient } from "../../test/postgres/client.ts";
import { newSchema } from "../../test/postgres/kit.ts";
import { type JobHandle, Perdure, task } from "../index.ts";

/** `close` waits at least this long for calls that do not end (embedded/perdure.ts). */
const GIVES_UP_MS = 5_000;
const RETRY = { maxAttempts: 3, backoff: { type: "fixed", delay: 10 } } as const;

async function open(url: string) {
  const logged: string[] = [];
  const logger = (level: string, message: string) => void logged.push(`${level}: ${message}`);
  const retention = { succeeded: 0, failed: 0, cancelled: 0 };
  const perdure = await Perdure.open({ url, connections: 1, retention, keyWindow: 0, logger });
  onTestFinished(() => perdure.close({ grace: 0 }));
  return { perdure, logged };
}

function handles(answers: Awaited<ReturnType<Perdure["submitMany"]>>): JobHandle<unknown>[] {
  return answers.map((answer) => {
    if (!answer.ok) throw answer.error;
    return answer.job;
  });
}

it("handles submits, work, commands, reads and prunes at the same time", async () => {
  const { url } = newSchema("one_connection");
  const { perdure, logged } = await open(url);
  let running = 0;
  const full = gate();
  const ran: number[] = [];
  const hold = task("hold", async (_input: undefined, { signal }) => {
    running += 1;
    if (running === 50) full.open();
    throw await aborted(signal);
  });
  const job = task("job", { retry: RETRY }, ({ n }: { n: number }, { attempt }) => {
    if (n % 5 === 0 && attempt === 1) throw new Error("not yet");
    ran.push(n);
  });
  await perdure.work([hold], { concurrency: 50 });
  const worker = await perdure.work([job], { concurrency: 50 });
  const held = handles(await perdure.submitMany(Array.from({ length: 50 }, () => ({ task: hold }))));
  await full.passed;

  const seen: number[] = [];
  const leave = new AbortController();
  const following = (async () => {
    for await (const { seq } of perdure.events({ follow: true, signal: leave.signal })) seen.push(seq);
  })();
  const submits = Array.from({ length: 300 }, (_, n) =>
    perdure.submit(job, { n }, n % 3 === 0 ? { key: `key-${n}`, queue: `queue-${n % 7}`, tags: ["t"] } : {}),
  );
  const listed = perdure.submitMany(Array.from({ length: 700 }, (_, i) => ({ task: job, input: { n: i + 300 } })));
  const within = withClient(url, async (client) => {
    await client.query("begin");
    const made = await perdure.submit(job, { n: 1_000 }, { client, key: "within", queue: "new" });
    await client.query("commit");
    return made;
  });
  const cancels = held.map(({ id }) => perdure.cancel(id));
  // At the same time, so that prunes race with submits and reports: ended jobs are deleted at once.
  const others = Array.from({ length: 20 }, () => [
    perdure.prune(),
    perdure.queues(),
    perdure.jobs({ state: ["running"] }),
    perdure.workers(),
  ]).flat();
  const made = [...(await Promise.all(submits)), ...handles(await listed), await within];
  await Promise.all([...cancels, ...others]);
  await until("all have ended and are pruned", async () => {
    await perdure.prune();
    return (await perdure.jobs()).jobs.length === 0;
  });
  expect(new Set(made.map(({ id }) => id)).size).toBe(1_001);
  expect(ran.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 1_001 }, (_, n) => n));
  expect(worker.running).toBe(0);
  leave.abort();
  await following;
  expect(seen, "in order, each once").toEqual([...new Set(seen)].toSorted((a, b) => a - b));

  const began = performance.now();
  await perdure.close();
  expect(performance.now() - began).toBeLessThan(GIVES_UP_MS);
  expect(logged, "no call timed out").toEqual([]);
});

it("closes in the middle of everything, and leaves no job running without a session", async () => {
  const { url } = newSchema("one_connection");
  const { perdure, logged } = await open(url);
  const many = gate();
  let started = 0;
  const job = task("job", async (_input: undefined, { signal }) => {
    started += 1;
    if (started === 60) many.open();
    // Some end at once, the others run until they are aborted.
    if (started % 5 !== 0) return;
    throw await aborted(signal);
  });
  await perdure.work([job], { concurrency: 50 });
  const jobs = handles(await perdure.submitMany(Array.from({ length: 400 }, () => ({ task: job }))));
  await many.passed;
  const cancels = jobs.slice(0, 20).map(({ id }) => perdure.cancel(id).catch((error: unknown) => error));
  const prune = perdure.prune();
  const began = performance.now();
  await perdure.close({ grace: 0 });
  expect(performance.now() - began).toBeLessThan(GIVES_UP_MS);
  await Promise.all([...cancels, prune]);
  expect(logged).toEqual([]);

  const again = await open(url);
  expect((await again.perdure.jobs({ state: ["running"] })).jobs).toEqual([]);
  const names = (await all(again.perdure.events())).map(({ name }) => name);
  expect(names).toContain("attempt.interrupted");
  expect(names).not.toContain("attempt.lost");
});
