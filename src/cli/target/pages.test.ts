/** Commands read workers and queues page by page, keep none of them, and stop when they have found what they need. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { LIMIT } from "../../contract/wire.ts";
import type { JobInfo, QueueCounts, SessionRow } from "../../core/job/views.ts";
import { checkQueues, checkWorkers, type WorkReader } from "../doctor/work-checks.ts";
import { eachQueue, eachWorker } from "./pages.ts";

const NOW = 1_000_000;

/** Workers and queues in pages, and how many were read. */
function behind(workers: readonly Partial<SessionRow>[], queues: readonly Partial<QueueCounts>[] = []) {
  const pages = { workers: 0, queues: 0 };
  const rows = workers.map((worker, i) => ({
    ...{ id: `ses_${i}`, name: `w${i}`, namespace: "default", kinds: ["k"], queues: null, labels: {}, running: 0 },
    ...{ endedAt: null, drainingAt: null, leaseEndsAt: NOW + 1, renewedAt: NOW, ...worker },
  })) as unknown as SessionRow[];
  const counts = queues as QueueCounts[];
  const looked: WorkReader = {
    async workers(page) {
      if (page === undefined) throw new Error("all workers at once");
      pages.workers += 1;
      const from = rows.findIndex(({ id }) => id === page.after) + 1;
      return rows.slice(from, from + LIMIT.workers);
    },
    async queues(page) {
      if (page === undefined) throw new Error("all queues at once");
      pages.queues += 1;
      return counts.filter(({ queue }) => queue > (page.after ?? "")).slice(0, LIMIT.queues);
    },
    jobs: async () => ({ jobs: [], next: null }),
    redriveMany: async () => ({ dryRun: true, jobs: [], skipped: [], more: false }),
  };
  return { looked, pages };
}

const many = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i));
const queueNames = many(2_000, (i) => ({
  queue: `q${String(i).padStart(4, "0")}`,
  paused: false,
  pausedAt: null,
  due: 1,
}));

describe("workers and queues", () => {
  it.each([0, 1, 199, 200, 201, 400, 450])("are read to the end: %i", async (count) => {
    const { looked, pages } = behind(many(count, () => ({})));
    const ids: string[] = [];
    for await (const { id } of eachWorker(looked)) ids.push(id);
    expect(ids).toEqual(many(count, (i) => `ses_${i}`));
    expect(pages.workers).toBe(Math.floor(count / 200) + 1);
  });

  it("are read only as far as needed", async () => {
    const { looked, pages } = behind(
      many(1_000, () => ({})),
      queueNames,
    );
    for await (const { id } of eachWorker(looked)) if (id === "ses_10") break;
    for await (const { queue } of eachQueue(looked)) if (queue === "q1999") break;
    expect(pages).toEqual({ workers: 1, queues: 2 });
  });

  it("are not read all at once by any command", () => {
    const files = readdirSync("src/cli", { recursive: true, encoding: "utf8" }).filter((file) =>
      /(?<!\.test)\.ts$/.test(file),
    );
    expect(files.length).toBeGreaterThan(50);
    expect(files.filter((file) => /\.(workers|queues)\(\)/.test(readFileSync(`src/cli/${file}`, "utf8")))).toEqual([]);
  });
});

describe("perdure doctor", () => {
  const job = {
    id: "job_1",
    namespace: "default",
    kind: "k",
    queue: "q0001",
    labels: {},
    runAt: NOW,
    worker: "ses_449",
  };
  const withJob = (looked: WorkReader, more: object = {}): WorkReader => ({
    ...looked,
    jobs: async () => ({ jobs: [{ ...job, ...more } as unknown as JobInfo], next: null }),
  });

  it("counts all workers, and reports a running job without a session", async () => {
    const { looked, pages } = behind(many(450, (i) => (i === 7 ? { drainingAt: 1 } : {})));
    expect(await checkWorkers(withJob(looked), NOW)).toMatchObject([{ message: "449 workers alive, 1 draining" }]);
    expect(pages.workers).toBe(3);
    const [, orphan] = await checkWorkers(withJob(looked, { worker: "ses_450" }), NOW);
    expect(orphan?.message).toContain("1 job in state running without a session: job_1");
  });

  it("reads workers until one takes the waiting job, and all queues to find paused ones", async () => {
    const { looked, pages } = behind(
      many(450, () => ({})),
      queueNames,
    );
    expect(await checkQueues(withJob(looked), NOW)).toMatchObject([
      { message: expect.stringContaining("2000 jobs due") },
    ]);
    expect(pages).toEqual({ workers: 1, queues: 3 });
    const [unserved] = await checkQueues(withJob(looked, { kind: "other" }), NOW);
    expect(unserved?.message).toContain("no live worker takes kind other from queue q0001");
    const paused = behind(
      many(450, () => ({})),
      [{ ...queueNames[1], paused: true } as QueueCounts],
    );
    const found = await checkQueues(withJob(paused.looked, { kind: "other" }), NOW);
    expect(found.map(({ message }) => message)).toEqual(["the queue q0001 is paused, with 1 job due"]);
  });
});
