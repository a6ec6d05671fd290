/** Invariants of any job, and of parents and children, whatever happened to them before. */
import { expect } from "vitest";
import { decideCommand } from "../../src/core/job/command.ts";
import type { JobEvent } from "../../src/core/job/event.ts";
import { evolve, foldEvents } from "../../src/core/job/fold.ts";
import { isTerminal, type JobProgressFields } from "../../src/core/job/job.ts";
import type { JobRow } from "../../src/store/store.ts";
import type { Bench } from "../kit.ts";

/** The counters that a wait must not change. */
const CHARGED = ["failures", "losses", "defers", "ruleCounts"] as const;

/** Its events, its attempts and its row must agree, and respect its policy. */
export async function checkJob(bench: Bench, job: JobRow): Promise<void> {
  const events = (await bench.store.events.page({ after: 0, limit: -1, jobId: job.id })).events as JobEvent[];
  const { payload: _p, result, progress: _g, ...row } = job;
  expect(row).toMatchObject(foldEvents(events));
  const { maxAttempts, workerLost } = job.policy;
  const shared = workerLost.charge === "shared";
  expect(shared ? job.failures + job.losses : job.failures).toBeLessThanOrEqual(maxAttempts);
  if (!shared) expect(job.losses).toBeLessThanOrEqual(workerLost.maxRetries + 1);

  let before: JobProgressFields | null = null;
  for (const event of events) {
    if (event.name === "attempt.started" && before !== null) {
      expect(before.state, "only a waiting job starts").toBe("queued");
      expect(before.cancelRequestedAt, "nothing starts after a cancel").toBeNull();
      expect(event.at, "never early").toBeGreaterThanOrEqual(before.runAt);
      expect(event.data.attempt).toBe(before.attempt + 1);
      if (job.deadlineAt !== null) expect(event.at, "not after its deadline").toBeLessThan(job.deadlineAt);
    }
    if (event.name === "attempt.waiting") {
      const { counters, decision } = event.data;
      expect(before?.state).toBe("running");
      expect(decision, "a wait is not counted").toMatchObject({
        kind: before?.cancelRequestedAt === null ? "block" : "cancel",
        class: "waiting",
      });
      expect(decision.charge).toBeUndefined();
      for (const name of CHARGED) expect(counters?.[name] ?? before?.[name]).toEqual(before?.[name]);
    }
    if (event.name === "job.unblocked") expect(before?.state).toBe("blocked");
    if (before !== null && isTerminal(before.state)) {
      expect(["job.redriven", "job.discarded"], "terminal is final").toContain(event.name);
    }
    before = before === null ? foldEvents([event]) : evolve(before, event);
  }

  const chapter = events.slice(events.findLastIndex(({ name }) => name === "job.redriven") + 1);
  const decided = chapter.flatMap((event) =>
    "decision" in event.data ? [{ ...event.data.decision, name: event.name }] : [],
  );
  const free = ["handback", "waiting"];
  const paid = decided.filter((each) => !["cancel", "succeed"].includes(each.kind) && !free.includes(each.class));
  expect(paid.filter((each) => each.class === "lost").length, "each loss is counted").toBe(job.losses);
  const failed = paid.filter((each) => each.class !== "lost" && each.step !== "budget" && each.step !== "deadline");
  expect(failed.length, "and each failure").toBe(job.failures);

  const attempts = await bench.attempts(job.id);
  const open = job.state === "running" ? 1 : 0;
  expect(attempts.map(({ attempt }) => attempt)).toEqual(Array.from({ length: job.attempt - open }, (_, i) => i + 1));
  if (job.state === "succeeded") expect(JSON.parse(result as string)).toEqual({ attempt: job.attempt });
  expect(decideCommand(job, { kind: "cancel" }, 0).kind).toBe(
    isTerminal(job.state) || job.cancelRequestedAt ? "noop" : "apply",
  );
  const told = await bench.engine.explain(job.id);
  expect(told).toMatchObject({ state: job.state, reason: job.reason, chapter: job.chapter });
}

/** After a sweep, with nothing in progress. */
export async function checkFamilies(bench: Bench, jobs: readonly JobRow[]): Promise<void> {
  const byId = new Map(jobs.map((job) => [job.id, job]));
  const eventsOf = async (id: string) =>
    (await bench.store.events.page({ after: 0, limit: -1, jobId: id })).events as JobEvent[];
  const keys = new Set<string>();
  for (const job of jobs) {
    if (job.state === "blocked") {
      const wait = (await eventsOf(job.id)).findLast((event) => event.name === "attempt.waiting");
      const waitsFor = wait?.data.waitsFor ?? [];
      const states = waitsFor.map((id) => byId.get(id)?.state ?? "succeeded");
      expect(states.every(isTerminal), `${job.id} waits, though all jobs it waits for have ended`).toBe(false);
    }
    const parent = byId.get(job.parentId ?? "");
    if (parent === undefined) continue;
    expect(job.depth).toBe(parent.depth + 1);
    expect(keys.has(job.key as string), `${job.key} exists twice`).toBe(false);
    keys.add(job.key as string);
    if (parent.cancelRequestedAt === null || isTerminal(job.state) || job.cancelRequestedAt !== null) continue;
    // Only a deliberate redrive can have brought it back.
    const isCancel = ({ name }: JobEvent) => name === "job.cancel_requested" || name === "job.cancelled";
    const asked = (await eventsOf(parent.id)).findLast(isCancel)?.seq as number;
    const redriven = (await eventsOf(job.id)).findLast(({ name }) => name === "job.redriven");
    expect(redriven?.seq ?? 0, `${job.id} is live, though ${parent.id} was cancelled`).toBeGreaterThan(asked);
  }
}
