/** F04: a handler that blocks the event loop, so that nothing renews its lease. */
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { audit } from "./audit.ts";
import { newFile, open, startWorker, TEST_MS, until } from "./kit.ts";

describe("a handler that blocks its process past the lease", () => {
  it(
    "loses its job to another process, and there is one winner",
    async () => {
      const url = newFile();
      const perdure = await open(url, { lease: "1s" });
      const blocked = await startWorker(url);
      const go = join(dirname(url), "go");
      const job = await perdure.submit("job", { work: "quick", first: { work: "block", untilFile: go } });
      await blocked.line(`start ${job.id} 1`);
      const other = await startWorker(url);

      expect(await job.result({ timeout: "60s" })).toEqual({ pid: other.pid, attempt: 2 });
      writeFileSync(go, "");
      await until("the late report is kept", async () => {
        const { text } = await job.explain();
        return text.includes("A late report of attempt 1 (completed)") || undefined;
      });
      const { jobs } = await audit(perdure);
      expect(jobs.get(job.id)).toMatchObject({ state: "succeeded", attempt: 2, losses: 1, failures: 0 });
      expect(jobs.get(job.id)?.result).toEqual({ pid: other.pid, attempt: 2 });
      expect([blocked.errors, other.errors]).toEqual(["", ""]);

      // Afterwards it continues in a new session.
      await other.kill();
      const next = await perdure.submit("job", { work: "quick" });
      expect(await next.result({ timeout: "60s" })).toMatchObject({ pid: blocked.pid, attempt: 1 });
    },
    TEST_MS,
  );

  it(
    "loses nothing if no other process is awake to notice",
    async () => {
      const url = newFile();
      const before = await open(url);
      // Blocks for less and more than the lease, alternately, beside handlers that only wait.
      const blocks = [400, 1_200, 1_700, 2_300, 3_500];
      const inputs = blocks.flatMap((ms) => [
        { work: "block", ms },
        { work: "sleep", ms },
      ]);
      const ids: string[] = [];
      for (const input of inputs) ids.push((await before.submit("job", input)).id);
      await before.close();

      const worker = await startWorker(url, { lease: "1s", concurrency: 3 });
      for (const id of ids) await worker.line(`end ${id} 1`);
      worker.signal("SIGTERM");
      await worker.ended;
      expect(worker.errors).toBe("");

      const { jobs, engineEvents } = await audit(await open(url));
      for (const id of ids) expect(jobs.get(id)).toMatchObject({ state: "succeeded", attempt: 1, losses: 0 });
      expect(engineEvents.map((event) => event.name)).not.toContain("worker.lost");
    },
    TEST_MS,
  );
});
