/** F03, F41: processes that are stopped for longer than a lease of real time. If all of them slept, none is late; if
 *  one slept alone, it is late, and may get the same job again. */
import { describe, expect, it } from "vitest";
import { audit } from "./audit.ts";
import {
  type Child,
  open,
  pass,
  SOAK,
  SQLITE,
  STORES,
  startWorker,
  stopOutsideTransaction,
  stopped,
  TEST_MS,
  until,
} from "./kit.ts";

const SLEEPS = [
  { lease: 3_000, ms: 5_000 },
  { lease: 3_000, ms: 7_000 },
];

// Most of it is waiting in real time: the second store is tested in the long run.
describe.each(SOAK > 1 ? STORES : [SQLITE])("on $name", (store) => {
  describe("a machine that slept", () => {
    it.each(store.share === 1 ? SLEEPS : SLEEPS.slice(1))(
      "for $ms ms, with a lease of $lease ms, loses nothing: the first to wake holds the reaper",
      async ({ lease, ms }) => {
        const { url } = store.newPlace();
        const before = await open(url);
        const ids: string[] = [];
        for (let i = 0; i < 9; i++) ids.push((await before.submit("job", { work: "hold" })).id);
        await before.close(); // an engine in the test's own process would not have slept
        const workers = await Promise.all([0, 1, 2].map(() => startWorker(url, { lease, concurrency: 3 })));
        for (const worker of workers) {
          await until("each worker has its three jobs", () => started(worker).length === 3 || undefined);
        }

        for (const worker of workers) worker.signal("SIGSTOP");
        await Promise.all(workers.map(stopped));
        await pass(ms);
        const wokenAt = Date.now();
        for (const worker of workers) worker.signal("SIGCONT");

        // Reaping resumes when the hold is over. Two rounds, with all handlers still running.
        const heldUntil = await until("reaping is held", () => holds(workers).find((at) => at > wokenAt));
        await pass(heldUntil + 2_000 - Date.now());
        for (const worker of workers) worker.say("release");
        const after = await open(url);
        for (const id of ids) await (await after.job(id)).result({ timeout: "30s" });

        const { jobs, engineEvents } = await audit(after);
        for (const id of ids) expect(jobs.get(id)).toMatchObject({ state: "succeeded", attempt: 1, losses: 0 });
        const names = engineEvents.map((event) => event.name);
        expect(names).toContain("engine.reaping_held");
        expect(names).not.toContain("worker.lost");
        for (const worker of workers) expect([worker.lines.filter(isAbort), worker.errors]).toEqual([[], ""]);
      },
      TEST_MS,
    );
  });

  describe("a worker that slept alone", () => {
    it(
      "may get the same job again while its first attempt still runs",
      async () => {
        const LEASE_MS = 3_000;
        const { url } = store.newPlace();
        const perdure = await open(url, { lease: LEASE_MS });
        const worker = await startWorker(url, { lease: LEASE_MS, stopGrace: "60s" });
        const job = await perdure.submit("job", { work: "hold", first: { work: "hold", stubborn: true } });
        await worker.line(`start ${job.id} 1`);
        await stopOutsideTransaction(worker, perdure);
        await until("the attempt is lost", async () => ((await job.get()).losses === 1 ? true : undefined));
        worker.signal("SIGCONT");

        // Both attempts of the job are in one process now. The end of the first must not remove the second from the
        // attempts it holds: it would be released as never received after one more lease.
        await worker.line(`start ${job.id} 2`);
        worker.say("release 1");
        await worker.line(`end ${job.id} 1`);
        await expect(job.result({ timeout: 2 * LEASE_MS })).rejects.toMatchObject({ code: "result_timeout" });
        expect(await job.get()).toMatchObject({ state: "running", attempt: 2 });
        worker.say("release");
        expect(await job.result({ timeout: "60s" })).toEqual({ pid: worker.pid, attempt: 2 });
        await audit(perdure);
      },
      TEST_MS,
    );
  });
});

function started(worker: Child): string[] {
  return worker.lines.filter((line) => line.startsWith("start "));
}

function holds(workers: readonly Child[]): number[] {
  const lines = workers.flatMap((worker) => worker.lines).filter((line) => line.startsWith("held "));
  return lines.map((line) => Number(line.split(" ")[1]));
}

function isAbort(line: string): boolean {
  return line.startsWith("aborted");
}
