/** F03: a worker that is stopped until its lease is over finds its job held by another when it resumes. The test ends
 *  the lease in the database instead of waiting: a lease short enough to wait for is lost by chance on a busy
 *  machine. */
import type { Perdure, PerdureEvent } from "perdure";
import { describe, expect, it } from "vitest";
import { audit } from "./audit.ts";
import { endLease, open, STORES, startWorker, stopOutsideTransaction, TEST_MS, until } from "./kit.ts";

/** Longer than any pause of a busy machine. */
const LEASE = "120s";

describe.each(STORES)("on $name", (store) => {
  describe("a worker that slept alone", () => {
    it.each([
      { when: "the next attempt still runs", work: "hold" },
      { when: "the next attempt has won", work: "quick" },
    ])(
      "has lost its job once, and reports too late: $when",
      async ({ work }) => {
        const { url } = store.newPlace();
        const perdure = await open(url);
        const zombie = await startWorker(url, { lease: LEASE });
        const job = await perdure.submit("job", { work, first: { work: "hold", stubborn: true } });
        await zombie.line(`start ${job.id} 1`);
        const healthy = await startWorker(url, { lease: LEASE });
        await stopOutsideTransaction(zombie, perdure);
        await endLease(zombie);
        await healthy.line(work === "hold" ? `start ${job.id} 2` : `end ${job.id} 2`);
        if (work === "quick") await job.result({ timeout: "60s" });
        const recorded = await eventsOf(perdure, job.id);

        // The answer to its next renewal aborts the handler, which ignores the signal and reports a result.
        zombie.signal("SIGCONT");
        expect(await zombie.line(`aborted ${job.id} 1`)).toMatch(/lost/);
        zombie.say("release 1");
        await until("its late report is kept", async () => {
          const { text } = await job.explain();
          return text.includes("A late report of attempt 1 (completed)") || undefined;
        });
        expect(await eventsOf(perdure, job.id), "it changed nothing").toEqual(recorded);

        healthy.say("release");
        expect(await job.result({ timeout: "60s" })).toEqual({ pid: healthy.pid, attempt: 2 });
        const { jobs, events } = await audit(perdure);
        expect(jobs.get(job.id)).toMatchObject({ state: "succeeded", attempt: 2, losses: 1, failures: 0 });
        expect(events.get(job.id)?.map((event) => event.name)).toEqual([
          ...["job.submitted", "attempt.started", "attempt.lost"],
          ...["attempt.started", "attempt.succeeded"],
        ]);

        // Then it works normally again.
        await healthy.kill();
        const next = await perdure.submit("job", { work: "quick" });
        expect(await next.result({ timeout: "60s" })).toEqual({ pid: zombie.pid, attempt: 1 });
        expect(zombie.errors).toBe("");
      },
      TEST_MS,
    );
  });
});

async function eventsOf(perdure: Perdure, id: string): Promise<PerdureEvent[]> {
  const events: PerdureEvent[] = [];
  for await (const event of (await perdure.job(id)).events()) events.push(event);
  return events;
}
