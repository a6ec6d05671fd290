/** F11: a process that receives SIGTERM. Nothing counts as an attempt because of it; if it is killed on the way, the
 *  lease does the rest. */
import { describe, expect, it } from "vitest";
import { IS_FULL } from "../tier.ts";
import { audit } from "./audit.ts";
import { Dice, drained, open, pass, STORES, startWorker, TEST_MS } from "./kit.ts";

describe.each(STORES)("on $name", (store) => {
  describe("SIGTERM, and a process that calls close()", () => {
    it(
      "finishes what ends within the grace time and claims no more",
      async () => {
        const { url } = store.newPlace();
        const perdure = await open(url);
        const worker = await startWorker(url, { concurrency: 1, grace: "60s" });
        const job = await perdure.submit("job", { work: "hold" });
        const waiting = await perdure.submit("job", { work: "quick" });
        await worker.line(`start ${job.id} 1`);
        worker.signal("SIGTERM");
        await worker.line("draining");
        worker.say("release");
        expect(await worker.ended).toEqual({ code: 0, signal: null });

        expect(await job.result({ timeout: "60s" })).toEqual({ pid: worker.pid, attempt: 1 });
        expect(await waiting.get()).toMatchObject({ state: "queued", attempt: 0 });
        expect(worker.errors).toBe("");
        const { engineEvents } = await audit(perdure);
        expect(engineEvents.map((event) => event.name)).toContain("worker.stopped");
      },
      TEST_MS,
    );

    it.each([
      ["listens to its signal", false],
      ["does not listen", true],
    ])(
      "releases the job of a handler that %s, not counted as an attempt",
      async (_, stubborn) => {
        const { url } = store.newPlace();
        const perdure = await open(url);
        const worker = await startWorker(url, { lease: "15s", grace: 0, stopGrace: "300ms" });
        const job = await perdure.submit("job", { work: "quick", first: { work: "hold", stubborn } });
        await worker.line(`start ${job.id} 1`);
        const other = await startWorker(url, { lease: "15s" });
        worker.signal("SIGTERM");
        expect(await worker.line(`aborted ${job.id} 1`)).toContain("shutting down");

        expect(await job.result({ timeout: "60s" })).toEqual({ pid: other.pid, attempt: 2 });
        expect(await worker.ended).toEqual({ code: 0, signal: null });
        const { jobs, events } = await audit(perdure);
        expect(jobs.get(job.id)).toMatchObject({ state: "succeeded", failures: 0, losses: 0 });
        expect(events.get(job.id)?.map((event) => event.name)).toEqual([
          ...["job.submitted", "attempt.started", "attempt.interrupted"],
          ...["attempt.started", "attempt.succeeded"],
        ]);
        expect([worker.errors, other.errors]).toEqual(["", ""]);
      },
      TEST_MS,
    );
  });

  describe("SIGKILL during the drain", () => {
    it(
      "of a handler that keeps running is a lost worker, once",
      async () => {
        const { url } = store.newPlace();
        const perdure = await open(url, { lease: "1s" });
        const worker = await startWorker(url, { grace: 0, stopGrace: "60s" });
        const job = await perdure.submit("job", { work: "quick", first: { work: "hold", stubborn: true } });
        await worker.line(`start ${job.id} 1`);
        const other = await startWorker(url);
        worker.signal("SIGTERM");
        await worker.line(`aborted ${job.id} 1`);
        await worker.kill();

        expect(await job.result({ timeout: "60s" })).toEqual({ pid: other.pid, attempt: 2 });
        const { jobs } = await audit(perdure);
        expect(jobs.get(job.id)).toMatchObject({ state: "succeeded", failures: 0, losses: 1 });
      },
      TEST_MS,
    );

    it.runIf(IS_FULL)(
      "at any moment leaves no job behind that no worker takes",
      async () => {
        const dice = new Dice("drain");
        const rounds = Math.ceil(8 * store.share);
        const { url } = store.newPlace();
        const perdure = await open(url, { lease: "1s" });
        const policy = { workerLost: { poison: false as const, backoff: { type: "none" as const } } };
        for (let round = 0; round < rounds; round++) {
          const worker = await startWorker(url, { grace: 20, stopGrace: "50ms", concurrency: 20 });
          const works = Array.from({ length: 40 }, (_, i) => ({
            work: "sleep",
            ms: dice.between(0, 60),
            stubborn: i % 3 === 0,
          }));
          await perdure.submitMany(works.map((input) => ({ task: "job", input, options: { retry: policy } })));
          await worker.line("start");
          worker.signal("SIGTERM");
          await worker.line("draining");
          await pass(dice.next() * 150);
          await worker.kill();
          expect(worker.errors).toBe("");
        }
        await startWorker(url, { concurrency: 50 });
        await drained(perdure);
        const { jobs } = await audit(perdure);
        expect(jobs.size).toBe(40 * rounds);
        for (const job of jobs.values()) expect(job).toMatchObject({ state: "succeeded", failures: 0 });
      },
      TEST_MS,
    );
  });
});
