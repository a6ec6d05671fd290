/** F01, F14: workers and submitters are killed with -9 at random, over and over, while thousands of jobs are
 *  processed. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { IS_FULL, inFull } from "../tier.ts";
import { audit } from "./audit.ts";
import {
  type Child,
  Dice,
  drained,
  LineFile,
  open,
  POSTGRES,
  SOAK,
  SQLITE,
  start,
  startWorker,
  TEST_MS,
  until,
} from "./kit.ts";

const JOBS = (IS_FULL ? 2_000 : 300) * SOAK;
const WORKERS = IS_FULL ? 4 : 2;
const KILLS = IS_FULL ? 10 : 3;

/** Job i does bodies[i mod length]: most are quick, some fail once, a few fail always, a few take a while. */
const BODIES = [
  ...Array(6).fill({ work: "quick" }),
  { work: "fail-first" },
  { work: "fail-first" },
  { work: "sleep", ms: 40 },
  ...Array(9).fill({ work: "quick" }),
  { work: "fail" },
  { work: "sleep", ms: 250 },
];
/** Two failures each, with a short backoff, so that the retries of the last jobs do not determine the duration. */
const RETRY = { maxAttempts: 2, backoff: { type: "fixed", delay: "50ms" } };

describe.each(inFull([POSTGRES, SQLITE]))("on $name", (store) => {
  it(
    `loses none of its jobs while ${WORKERS} workers and the submitter are killed at random`,
    async () => {
      const dice = new Dice("workers");
      const count = JOBS * store.share;
      const { url, directory } = store.newPlace();
      const acks = new LineFile(join(directory, "acks"));
      const effects = new LineFile(join(directory, "effects"));
      const perdure = await open(url, { lease: "1s" });

      const all: Child[] = [];
      const work = () => {
        const child = start("worker", { url, effects: effects.path, quiet: true });
        all.push(child);
        return child;
      };
      const workers = Array.from({ length: WORKERS }, work);

      const submitting = submitAll(url, count, acks, dice, all);
      const least = Math.floor(KILLS * store.share) + 1;
      const kills = await killWorkers(workers, work, effects, dice, submitting, least);
      const submitKills = await submitting;
      console.log(`workers: ${kills} workers and ${submitKills} submitters killed`);

      // The live ones are killed now, one of them certainly while it holds a job; one healthy worker must be able to
      // finish everything.
      const held = await perdure.submit("job", { work: "quick", first: { work: "hold" } }, { priority: 1 });
      await until("the held job was started", () => effects.look().includes(`${held.id} 1`) || undefined);
      await Promise.all(workers.map((child) => child.kill()));
      all.push(await startWorker(url, { effects: effects.path, concurrency: 50 }));
      await drained(perdure);

      const { jobs, events } = await audit(perdure);
      const acknowledged = acks.look().map((line) => line.split(" ") as [string, string]);
      for (const [i, id] of acknowledged) expect(jobs.get(id)?.key).toBe(`job-${i}`);
      expect(new Set(acknowledged.map(([i]) => i)).size).toBe(count);
      expect(jobs.size).toBe(count + 1);
      expect(kills).toBeGreaterThan(KILLS * store.share);

      // Only jobs that always fail have failed, or those that were lost three times in a row.
      for (const job of jobs.values()) {
        const { work: what } = job.payload as { work: string };
        if (job.reason === "poison") continue;
        expect([job.id, job.state, job.reason]).toEqual([
          job.id,
          what === "fail" ? "failed" : "succeeded",
          what === "fail" ? "exhausted" : null,
        ]);
      }
      const poisoned = [...jobs.values()].filter((job) => job.reason === "poison").length;
      const lost = [...events.values()].flat().filter((event) => event.name === "attempt.lost").length;
      console.log(`workers: ${lost} attempts were lost, ${poisoned} jobs were taken for poison`);
      expect(lost).toBeGreaterThan(0);

      // (job, attempt) is the fencing token that handlers get: it is never repeated.
      const starts = effects.look();
      expect(new Set(starts).size).toBe(starts.length);

      // A redrive starts a second chapter, which also ends once.
      const failed = [...jobs.values()].filter((job) => job.state === "failed").slice(0, 50);
      for (const job of failed) await perdure.redrive(job.id);
      await drained(perdure);
      const again = await audit(perdure);
      for (const job of failed) expect(again.jobs.get(job.id)?.chapter).toBe(2);

      // No process reported an error, killed or not.
      for (const child of all) expect(child.errors).toBe("");
    },
    TEST_MS,
  );
});

/** Kills one worker after another, each after a random number of further starts, and starts a new one in its place. */
async function killWorkers(
  workers: Child[],
  work: () => Child,
  effects: LineFile,
  dice: Dice,
  submitting: Promise<unknown>,
  least: number,
): Promise<number> {
  let kills = 0;
  let submitted = false;
  const end = () => {
    submitted = true;
  };
  submitting.then(end, end); // reported to whoever awaits it
  // A fast submitter is done before many were killed: then the others follow at once, while its jobs are run.
  while (!submitted || kills < least) {
    const next = effects.look().length + dice.between(20, 150);
    await until(
      "more jobs were started, or all submitted",
      () => submitted || effects.look().length >= next || undefined,
    );
    const victim = dice.between(0, workers.length - 1);
    await workers[victim]?.kill();
    workers[victim] = work();
    kills += 1;
  }
  return kills;
}

/** Submits all jobs with a process that is killed repeatedly and continues after its last acknowledged job. */
async function submitAll(url: string, count: number, acks: LineFile, dice: Dice, all: Child[]): Promise<number> {
  for (let kills = 0; ; kills++) {
    const done = firstUnacknowledged(acks);
    const batch = dice.pick([1, 7, 40]);
    const child = start("submitter", {
      url,
      from: done,
      to: count,
      acks: acks.path,
      batch,
      bodies: BODIES,
      retry: RETRY,
    });
    all.push(child);
    const stopAt = done + dice.between(100, 600);
    const isDone = await until("the submitter continued", () => {
      if (child.lines.includes("done")) return true;
      if (child.isOver) throw new Error(`the submitter ended: ${child.lines.at(-1)}\n${child.errors}`);
      return acks.look().length >= stopAt ? false : undefined;
    });
    if (isDone) return kills;
    await child.kill();
  }
}

/** They are acknowledged in order. */
function firstUnacknowledged(acks: LineFile): number {
  const last = acks.look().at(-1);
  return last === undefined ? 0 : Number.parseInt(last, 10) + 1;
}
