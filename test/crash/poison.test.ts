/** F09: a job that kills its worker every time it runs. */
import type { Perdure, SubmitManyAnswer } from "perdure";
import { describe, expect, it } from "vitest";
import { IS_FULL } from "../tier.ts";
import { audit } from "./audit.ts";
import { type Child, drained, open, SQLITE, STORES, start, TEST_MS, until } from "./kit.ts";

it(
  "is failed as poison after three quick losses, while healthy jobs continue",
  async () => {
    const { url } = SQLITE.newPlace();
    const perdure = await open(url, { lease: "1s" });
    const answers = await perdure.submitMany(healthy(150));
    const poison = await perdure.submit("job", { work: "poison" });
    answers.push(...(await perdure.submitMany(healthy(150))));

    // Two workers, each restarted as soon as it exits.
    const first = supervise(url, async () => {});
    const second = supervise(url, async () => {});
    await expect(poison.result({ timeout: "120s" })).rejects.toMatchObject({ code: "job_failed", reason: "poison" });
    await drained(perdure);
    // The last exit may not have been noticed yet.
    await until("three deaths are noticed", () => first.deaths() + second.deaths() >= 3 || undefined);
    await Promise.all([first.end(), second.end()]);

    expect(first.deaths() + second.deaths()).toBe(3);
    await expectOnePoison(perdure, poison.id, answers);

    // A person may try it again: a new chapter, with counters reset.
    expect(await perdure.redrive(poison.id)).toMatchObject({ chapter: 2, losses: 0, streak: 0 });
  },
  TEST_MS,
);

// The store decides which jobs may run beside a suspect.
describe.each(STORES)("on $name", (store) => {
  it.runIf(IS_FULL)(
    "does not take down the jobs that were lost beside it",
    async () => {
      const { url } = store.newPlace();
      const perdure = await open(url, { lease: "1s" });
      const poison = await perdure.submit("job", { work: "poison" });
      const answers = await perdure.submitMany(healthy(9, 300));

      // One worker with capacity for all ten. It restarts only when everything is due again: jobs lost together start
      // together, unless something separates them.
      const worker = supervise(url, async () => {
        await until("everything that waits is due", async () => {
          const [queue] = await perdure.queues();
          const { queued = 0, running = 0 } = queue?.counts ?? {};
          return running === 0 && queue?.due === queued ? true : undefined;
        });
      });
      await expect(poison.result({ timeout: "120s" })).rejects.toMatchObject({ code: "job_failed", reason: "poison" });
      await drained(perdure);
      await until("three deaths are noticed", () => worker.deaths() >= 3 || undefined);
      await worker.end();
      expect(worker.deaths()).toBe(3);
      await expectOnePoison(perdure, poison.id, answers);
    },
    TEST_MS,
  );
});

function healthy(count: number, ms?: number) {
  return Array.from({ length: count }, (_, i) => ({ task: "job", input: { work: "sleep", ms: ms ?? i % 30 } }));
}

/** Keeps a worker running, like an init system, and counts how often it exited by itself. */
function supervise(url: string, beforeRestart: () => Promise<void>) {
  let over = false;
  let deaths = 0;
  let worker: Child | null = null;
  const supervised = (async () => {
    while (!over) {
      // With a short lease a busy machine would lose workers by itself, which would count against the job. The kernel
      // reports exits.
      worker = start("worker", { url, quiet: true, lease: "60s" });
      const { signal } = await worker.ended;
      expect([signal, worker.errors]).toEqual(["SIGKILL", ""]);
      if (over) return;
      deaths += 1;
      await beforeRestart();
    }
  })();
  return {
    deaths: () => deaths,
    async end(): Promise<void> {
      over = true;
      worker?.signal("SIGKILL");
      await supervised;
    },
  };
}

async function expectOnePoison(perdure: Perdure, id: string, others: readonly SubmitManyAnswer[]): Promise<void> {
  const { jobs } = await audit(perdure);
  expect(jobs.get(id)).toMatchObject({ state: "failed", reason: "poison", attempt: 3, losses: 3 });
  for (const answer of others) {
    expect(answer.ok && jobs.get(answer.job.id)).toMatchObject({ state: "succeeded", failures: 0 });
  }
}
