import { describe, expect, it } from "vitest";
import { type BudgetNow, NO_AMOUNT } from "../decision/budget.ts";
import { RUN_KIND } from "../playbook/playbook.ts";
import { resolvePolicy } from "../policy/resolve-policy.ts";
import { type Command, decideCommand } from "./command.ts";
import { EVENT_FORMAT } from "./event.ts";
import type { JobState } from "./job.ts";
import {
  completed,
  failed,
  INTERRUPTED,
  NO_COUNTS,
  progressOf,
  T0,
  type TestJobFields,
  TestJobHistory,
  testJob,
  usageOf,
} from "./testing-job.ts";

const NOW = T0 + 10_000;
const IN_BACKOFF: TestJobFields = { state: "queued", runAt: NOW + 30_000 };

/** What a command comes to: the event it writes, or why it writes none. */
function answer(parts: TestJobFields, command: Command): string {
  const decision = decideCommand(testJob(parts), command, NOW);
  return decision.kind === "apply" ? decision.event.name : `${decision.kind}: ${decision.message}`;
}

describe("decideCommand", () => {
  const reschedule: Command = { kind: "reschedule", runAt: NOW + 5_000 };
  // biome-ignore format: a table, one row a line
  const ROWS: [Exclude<Command["kind"], "unblock">, JobState, string][] = [
    ["cancel", "queued", "job.cancelled"],
    ["cancel", "blocked", "job.cancelled"],
    ["cancel", "running", "job.cancel_requested"],
    ["cancel", "succeeded", "noop: the job has already succeeded"],
    ["cancel", "failed", "noop: the job has already failed"],
    ["cancel", "cancelled", "noop: the job has already been cancelled"],
    ["retry", "queued", "noop: the job is already due"],
    ["retry", "blocked", "refuse: cannot retry a job that is blocked; it must be queued, failed or cancelled"],
    ["retry", "running", "refuse: cannot retry a job that is running; it must be queued, failed or cancelled"],
    ["retry", "succeeded", "refuse: cannot retry a job that is succeeded; it must be queued, failed or cancelled"],
    ["retry", "failed", "job.redriven"],
    ["retry", "cancelled", "job.redriven"],
    ["reschedule", "queued", "job.rescheduled"],
    ["reschedule", "blocked", "refuse: cannot reschedule a job that is blocked; it must be queued"],
    ["reschedule", "running", "refuse: cannot reschedule a job that is running; it must be queued"],
    ["reschedule", "succeeded", "refuse: cannot reschedule a job that is succeeded; it must be queued"],
    ["reschedule", "failed", "refuse: cannot reschedule a job that is failed; it must be queued"],
    ["reschedule", "cancelled", "refuse: cannot reschedule a job that is cancelled; it must be queued"],
    ["redrive", "queued", "refuse: cannot redrive a job that is queued; it must be failed or cancelled"],
    ["redrive", "blocked", "refuse: cannot redrive a job that is blocked; it must be failed or cancelled"],
    ["redrive", "running", "refuse: cannot redrive a job that is running; it must be failed or cancelled"],
    ["redrive", "succeeded", "refuse: cannot redrive a job that is succeeded; it must be failed or cancelled"],
    ["redrive", "failed", "job.redriven"],
    ["redrive", "cancelled", "job.redriven"],
    ["discard", "queued", "refuse: cannot discard a job that is queued; it must be failed"],
    ["discard", "blocked", "refuse: cannot discard a job that is blocked; it must be failed"],
    ["discard", "running", "refuse: cannot discard a job that is running; it must be failed"],
    ["discard", "succeeded", "refuse: cannot discard a job that is succeeded; it must be failed"],
    ["discard", "failed", "job.discarded"],
    ["discard", "cancelled", "refuse: cannot discard a job that is cancelled; it must be failed"],
  ];

  it.each(ROWS)("answers %s of a job that is %s with %s", (kind, state, expected) => {
    expect(answer({ state }, kind === "reschedule" ? reschedule : { kind })).toBe(expected);
  });

  it.each<[string, TestJobFields, Command, string]>([
    ["a second cancel", { cancelRequestedAt: NOW - 1 }, { kind: "cancel" }, "noop: a cancel was already requested"],
    [
      "a redrive of a run that has not ended",
      { kind: "playbook", state: "blocked", attempt: 0 },
      { kind: "redrive" },
      "refuse: cannot redrive a run that is running; it must be failed or cancelled",
    ],
    [
      "a second cancel of a run, which ends its handlers",
      { kind: "playbook", state: "blocked", attempt: 0, cancelRequestedAt: NOW - 1 },
      { kind: "cancel" },
      "job.cancel_requested",
    ],
    [
      "a cancel of a job that has the kind of runs since an earlier version",
      { kind: "playbook", state: "queued", attempt: 0 },
      { kind: "cancel" },
      "job.cancelled",
    ],
    [
      "a redrive after the chapter before",
      { state: "failed", chapter: 2 },
      { kind: "redrive", chapter: 1 },
      "noop: the job was redriven meanwhile",
    ],
    [
      "a second discard",
      { state: "failed", discardedAt: NOW - 1 },
      { kind: "discard" },
      "noop: the job was already discarded",
    ],
    [
      "a retry of a job due this instant",
      { state: "queued", runAt: NOW },
      { kind: "retry" },
      "noop: the job is already due",
    ],
    [
      "a reschedule to the same time",
      { state: "queued", runAt: NOW + 5_000 },
      reschedule,
      "noop: the job is already due at that time",
    ],
  ])("takes %s as fulfilled", (_, parts, command, expected) => {
    expect(answer(parts, command)).toBe(expected);
  });

  it("queues a blocked job, if it still waits since that attempt", () => {
    const blocked: TestJobFields = { state: "blocked", attempt: 3, expireInMs: 60_000 };
    const unblock = (attempt: number): Command => ({ kind: "unblock", attempt, runAt: NOW + 7 });
    expect(decideCommand(testJob(blocked), unblock(3), NOW)).toMatchObject({
      kind: "apply",
      event: { name: "job.unblocked", data: { by: null, runAt: NOW + 7, expiresAt: NOW + 60_007 } },
      next: { state: "queued", runAt: NOW + 7, expiresAt: NOW + 60_007, failures: 0, attempt: 3 },
    });
    for (const parts of [
      { ...blocked, attempt: 4 },
      { ...blocked, state: "queued" },
      { ...blocked, state: "failed" },
    ]) {
      expect(answer(parts as TestJobFields, unblock(3))).toBe("noop: the job is not waiting");
    }
  });

  it("records who requested it, if known", () => {
    for (const kind of ["cancel", "retry", "redrive", "discard"] as const) {
      const state = kind === "cancel" ? "queued" : "failed";
      expect(decideCommand(testJob({ state }), { kind, by: "ann" }, NOW)).toMatchObject({
        event: { data: { by: "ann" } },
      });
      expect(decideCommand(testJob({ state }), { kind }, NOW)).toMatchObject({ event: { data: { by: null } } });
    }
  });

  it("cancels a waiting job at once", () => {
    expect(decideCommand(testJob({ ...IN_BACKOFF, expiresAt: NOW + 60_000 }), { kind: "cancel" }, NOW)).toMatchObject({
      kind: "apply",
      next: { state: "cancelled", cancelRequestedAt: NOW, finishedAt: NOW, expiresAt: null, revision: 3 },
    });
  });

  it("only requests a running job to stop", () => {
    expect(decideCommand(testJob(), { kind: "cancel" }, NOW)).toMatchObject({
      next: { state: "running", cancelRequestedAt: NOW, finishedAt: null, revision: 3 },
    });
  });

  it("brings a job in backoff forward, and its expiry with it", () => {
    expect(
      decideCommand(testJob({ ...IN_BACKOFF, failures: 2, expireInMs: 7_000 }), { kind: "retry" }, NOW),
    ).toMatchObject({
      event: { name: "job.rescheduled", data: { v: EVENT_FORMAT, by: null, runAt: NOW, expiresAt: NOW + 7_000 } },
      next: { state: "queued", chapter: 1, runAt: NOW, expiresAt: NOW + 7_000, failures: 2 },
    });
  });

  it("moves a job to any time, without an expiry if it has none", () => {
    expect(decideCommand(testJob(IN_BACKOFF), reschedule, NOW)).toMatchObject({
      next: { state: "queued", runAt: NOW + 5_000, expiresAt: null },
    });
  });

  it("changes nothing of the job it was given", () => {
    const job = Object.freeze(testJob({ state: "failed" }));
    decideCommand(job, { kind: "redrive" }, NOW);
    expect(job).toEqual(testJob({ state: "failed" }));
  });
});

describe("a redrive", () => {
  function exhausted(): TestJobHistory {
    const story = new TestJobHistory({ expireInMs: 60_000, policy: { maxAttempts: 2, maxElapsedMs: 10_000 } });
    story.start().settle(INTERRUPTED);
    story.start().settle(failed(), { usage: usageOf(7, 0.5), afterMs: 500 });
    return story.run(failed());
  }

  it("resets counters and elapsed time; attempt and revision continue", () => {
    const story = exhausted();
    expect(story.job).toMatchObject({ state: "failed", reason: "exhausted", attempt: 3, failures: 2, chapter: 1 });
    const { revision } = story.job;
    story.now += 3_600_000;
    expect(story.command({ kind: "redrive", by: "ann" }).kind).toBe("apply");
    expect(progressOf(story.job)).toEqual({
      ...{ state: "queued", reason: null, chapter: 2, attempt: 3, revision: revision + 1 },
      ...NO_COUNTS,
      ...{ runAt: story.now, expiresAt: story.now + 60_000, cancelRequestedAt: null, worker: "s3" },
      ...{ startedAt: story.job.startedAt, firstStartedAt: null, finishedAt: null, discardedAt: null },
      usage: usageOf(7, 0.5),
    });
  });

  it("grants the whole of the budget again", () => {
    const story = exhausted();
    story.now += 3_600_000;
    story.command({ kind: "redrive" });
    story.run(failed());
    expect(story.last).toMatchObject({ kind: "retry", charge: { used: 1, limit: 2, left: 1 } });
    story.run(completed());
    expect(story.job).toMatchObject({ state: "succeeded", chapter: 2, attempt: 5, failures: 1 });
  });

  it("drops the cancel before it", () => {
    const story = new TestJobHistory({ policy: { maxAttempts: 2 } }).start();
    story.command({ kind: "cancel" });
    story.settle(failed());
    expect(story.job.state).toBe("cancelled");
    story.command({ kind: "retry" });
    story.run(failed());
    expect(story.job).toMatchObject({ state: "queued", chapter: 2, cancelRequestedAt: null });
  });

  it("brings a discarded job back among the living", () => {
    const story = exhausted();
    story.command({ kind: "discard" });
    expect(story.job).toMatchObject({ state: "failed", discardedAt: story.now });
    story.command({ kind: "redrive" });
    expect(story.job).toMatchObject({ state: "queued", discardedAt: null });
  });

  it("does not forget what was used: budgets are counted over all attempts", () => {
    const story = new TestJobHistory({ policy: { maxAttempts: 9, budget: { tokens: 100, costUsd: null } } });
    story.start().settle(failed(), { usage: usageOf(100) });
    expect(story.job).toMatchObject({ state: "failed", reason: "budget" });
    const refused = decideCommand(story.job, { kind: "redrive" }, T0);
    expect(refused).toMatchObject({ kind: "refuse", isBudget: true });
    const grant = (tokens: number) => ({ kind: "redrive", changes: { budget: { tokens } } }) as const;
    const granted = decideCommand(story.job, grant(1), T0);
    const policy = { budget: { tokens: 101, costUsd: null } };
    expect(granted).toMatchObject({ kind: "apply", terms: { policy }, budgets: [{ limit: policy.budget }] });
    expect(granted).toMatchObject({ event: { data: { budget: { tokens: 1 }, changed: { policy } } } });
  });

  it.each([
    [{ tokens: 1 }, "neither the job nor any of its ancestors has a budget of tokens"],
    [{ costUsd: 1_000_000_000 }, "the budget of job_p would be 1000000001 USD; the limit is 1000000000"],
  ])("does not grant what no budget has, or no budget may have: %j", (budget, message) => {
    const { job } = new TestJobHistory().start().settle(failed());
    const limit = { tokens: null, costUsd: 1 };
    const above = [{ jobId: "job_p", limit, spent: NO_AMOUNT, live: NO_AMOUNT, reserved: NO_AMOUNT }];
    const decision = decideCommand(job, { kind: "redrive", changes: { budget } }, T0, above);
    expect(decision).toEqual({ kind: "refuse", message: `cannot grant more budget: ${message}` });
  });

  it("is refused with changes that do not fit the rest of the job's policy", () => {
    const { backoff } = resolvePolicy({ backoff: { min: "30s" } });
    const { job } = new TestJobHistory({ policy: { backoff } }).start().settle(failed());
    const changes = { retry: { backoff: { max: "10s" as const } } };
    expect(decideCommand(job, { kind: "redrive", changes }, T0)).toEqual({
      kind: "refuse",
      message: expect.stringMatching(
        /^cannot redrive the job with these changes: .*max: must be at least min, .*; got "10s"/,
      ),
    });
  });

  it("is refused by any budget that covers the job, and grants to all of them", () => {
    const { job } = new TestJobHistory().start().settle(failed());
    const budget = (jobId: string, costUsd: number, spent: number): BudgetNow => ({
      ...{ jobId, limit: { tokens: null, costUsd }, spent: { tokens: 9, costUsd: spent } },
      ...{ live: NO_AMOUNT, reserved: NO_AMOUNT },
    });
    const above = [budget("job_p", 1, 0.5), budget("job_r", 2, 2.5)];
    expect(decideCommand(job, { kind: "redrive" }, T0, above)).toMatchObject({
      ...{ kind: "refuse", isBudget: true },
      message: expect.stringContaining(
        "the budget of job_r (2 USD, 2.5 spent) has nothing left; redrive with --budget",
      ),
    });
    const grant = (costUsd: number) => ({ kind: "redrive", changes: { budget: { costUsd } } }) as const;
    expect(decideCommand(job, grant(0.5), T0, above)).toMatchObject({ kind: "refuse", isBudget: true });
    expect(decideCommand(job, grant(0.75), T0, above)).toMatchObject({
      ...{ kind: "apply", budgets: [{ limit: { costUsd: 1.75 } }, { limit: { costUsd: 2.75 } }] },
      event: { data: { budget: { costUsd: 0.75 } } },
    });
    expect(decideCommand(job, grant(1), T0)).toMatchObject({
      kind: "refuse",
      message: expect.stringContaining("neither"),
    });
  });
});

describe("a run and its steps", () => {
  const run: TestJobFields = { kind: RUN_KIND, state: "blocked", attempt: 0 };
  const step: TestJobFields = { runId: "job_1", parentId: "job_1" };

  it.each<[string, TestJobFields, Command, string]>([
    ["a cancel of a run", run, { kind: "cancel" }, "job.cancel_requested"],
    [
      "a second one, for its handlers",
      { ...run, cancelRequestedAt: NOW - 1 },
      { kind: "cancel" },
      "job.cancel_requested",
    ],
    [
      "a cancel of a run that ended",
      { ...run, state: "failed" },
      { kind: "cancel" },
      "noop: the job has already failed",
    ],
    [
      "a cancel of a job of an earlier version",
      { kind: RUN_KIND, state: "queued" },
      { kind: "cancel" },
      "job.cancelled",
    ],
    ["a cancel of a step", { ...step, state: "queued" }, { kind: "cancel" }, "job.cancelled"],
    ["a redrive by its run", { ...step, state: "failed" }, { kind: "redrive", asRun: "job_1" }, "job.redriven"],
    ...(["redrive", "retry", "discard"] as const).map((kind): [string, TestJobFields, Command, string] => {
      const verb = kind === "retry" ? "redrive" : kind;
      const why = `refuse: cannot ${verb} a step of a run: it belongs to job_1; use perdure ${verb} job_1`;
      return [`a ${kind} of a step`, { ...step, state: "failed" }, { kind }, why];
    }),
  ])("answers %s", (_, parts, command, expected) => {
    expect(answer(parts, command)).toBe(expected);
  });

  it("blocks a run that is redriven, and records what it repeats", () => {
    const command: Command = { kind: "redrive", run: { from: ["pay"] } };
    const decision = decideCommand(testJob({ ...run, state: "failed" }), command, NOW);
    expect(decision).toMatchObject({
      event: { name: "job.redriven", data: { run: { from: ["pay"] } } },
      next: { state: "blocked", chapter: 2 },
    });
  });
});
