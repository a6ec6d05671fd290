/** F09: a job that kills its worker every time it runs. */
import type { Perdure, SubmitManyAnswer } from "perdure";
import { describe, expect, it } from "vitest";
import { IS_FULL } from "../tier.ts";
import { audit } from "./audit.ts";
import { type Child, drained, open, SQLITE, STORES, start, TEST_MS, until } from "./kit.ts";

it(
  "is failed as poison after three quick losses, while healthy jobs go on",
  async () => {
    const { url } = SQLITE.newPlace();
    const perdure = await open(url, { lease: "1s" });
    const answers = await perdure.submitMany(healthy(150));
    const poison = await perdure.submit("job", { work: "poison" });
    answers.push(...(await perdure.submitMany(healthy(150))));

    // Two workers, each restarted as soon as it dies.
    const first = supervise(url, async () => {});
    const second = supervise(url, async () => {});
    await expect(poison.result({ timeout: "120s" })).rejects.toMatchObject({ code: "job_failed", reason: "poison" });
    await drained(perdure);
    // The last one may not have been heard of yet.
    await until("three deaths are noticed", () => first.deaths() + second.deaths() >= 3 || undefined);
    await Promise.all([first.end(), second.end()]);

    expect(first.deaths() + second.deaths()).toBe(3);
    await expectOnePoison(perdure, poison.id, answers);

    // A person may try it again: a new chapter, with a clean slate.
    expect(await perdure.redrive(poison.id)).toMatchObject({ chapter: 2, losses: 0, streak: 0 });
  },
  TEST_MS,
);

// Who may be tried beside whom is decided by the store.
describe.each(STORES)("on $name", (store) => {
  it.runIf(IS_FULL)(
    "does not drag along the jobs that die beside it time and again",
    async () => {
      const { url } = store.newPlace();
      const perdure = await open(url, { lease: "1s" });
      const poison = await perdure.submit("job", { work: "poison" });
      const answers = await perdure.submitMany(healthy(9, 300));

      // One worker with room for all ten. It comes back only when everything is due again: what died together is
      // started together, as long as nothing keeps it apart.
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

/** Keeps a worker running, as an init system would, and counts how often it died by itself. */
function supervise(url: string, beforeRestart: () => Promise<void>) {
  let over = false;
  let deaths = 0;
  let worker: Child | null = null;
  const supervised = (async () => {
    while (!over) {
      // With a short lease a busy machine would lose workers by itself, and that counts for the job. The kernel tells of deaths.
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
