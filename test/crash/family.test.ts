/** Parents and children under kill -9: parents that wait, children that end while no process is there to wake them,
 *  cancels that are passed on. Whatever is killed, each child exists once, and every parent ends with the results of
 *  its children. */
import { describe, expect, it } from "vitest";
import { IS_FULL } from "../tier.ts";
import { audit } from "./audit.ts";
import { type Child, Dice, open, pass, SOAK, STORES, start, TEST_MS, until } from "./kit.ts";

const FAMILIES = 100 * SOAK;
const WORKERS = 3;

describe.each(STORES)("families on $name", (store) => {
  it.runIf(IS_FULL)(
    "all end with their children's results, while workers are killed at random",
    async () => {
      const dice = new Dice("families");
      const { url } = store.newPlace();
      const perdure = await open(url, { lease: "1s" });
      const work = () => start("family", { url });
      const workers: Child[] = Array.from({ length: WORKERS }, work);
      const retry = { maxAttempts: 3, workerLost: { maxRetries: 1_000, poison: false as const } };
      const count = Math.max(10, Math.round(FAMILIES * store.share));
      const answers = await perdure.submitMany(
        Array.from({ length: count }, (_, i) => ({
          ...{ task: "grandparent", options: { retry } },
          input: [
            [i, i + 1, i + 2],
            [10 * i, 1, 2],
          ],
        })),
      );
      const jobs = answers.map((answer) => (answer.ok ? answer.job : null)).filter((job) => job !== null);
      const results = Promise.all(jobs.map((job) => job.result()));
      let isOver = false;
      void results.then(() => {
        isOver = true;
      });
      let kills = 0;
      while (!isOver && kills < 12) {
        await pass(dice.between(150, 500));
        const victim = dice.between(0, WORKERS - 1);
        await workers[victim]?.kill();
        workers[victim] = work();
        kills += 1;
      }
      console.log(`families: ${kills} workers killed`);
      expect(await results).toEqual(jobs.map((_, i) => [3 * i + 3, 10 * i + 3]));
      const { jobs: all } = await audit(perdure);
      // Each child once, whatever ran twice.
      expect(all.size).toBe(count * (1 + 2 + 6));
      for (const job of all.values()) expect([job.id, job.state]).toEqual([job.id, "succeeded"]);
    },
    TEST_MS,
  );

  it(
    "are cancelled to the last grandchild, even if the cancelling process is killed at once",
    async () => {
      const { url } = store.newPlace();
      const perdure = await open(url, { lease: "1s" });
      const worker = start("family", { url, concurrency: 1 });
      await worker.line("ready");
      const job = await perdure.submit("grandparent", [Array(20).fill(1), Array(20).fill(2)]);
      const live = async () => (await perdure.jobs({ state: ["queued", "running", "blocked"], limit: 1_000 })).jobs;
      await until("the grandchildren exist", async () => (await live()).length > 20 || undefined);
      await worker.kill();
      const other = start("family", { url, concurrency: 1 });
      await other.line("ready");
      const cancelling = perdure.cancel(job.id);
      await other.kill();
      expect((await cancelling).cancelRequestedAt).not.toBe(null);
      const last = start("family", { url });
      await until("all have ended", async () => (await live()).length === 0 || undefined);
      const { jobs } = await audit(perdure);
      const ends = [...jobs.values()].map(({ state }) => state);
      expect(new Set(ends)).toEqual(new Set(ends.includes("succeeded") ? ["cancelled", "succeeded"] : ["cancelled"]));
      expect(jobs.get(job.id)?.state).toBe("cancelled");
      expect(last.errors).toBe("");
    },
    TEST_MS,
  );
});
