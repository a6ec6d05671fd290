import { describe, expect, it } from "vitest";
import { type BudgetNow, NO_AMOUNT } from "../decision/budget.ts";
import { failure } from "../decision/failure.ts";
import type { Outcome } from "../decision/outcome.ts";
import type { Duration } from "../duration.ts";
import { RUN_KIND } from "../playbook/playbook.ts";
import type { PolicyFields } from "../policy/policy.ts";
import { resolvePolicy } from "../policy/resolve-policy.ts";
import { EVENT_FORMAT, shownNames } from "./event.ts";
import { evolve, type TimedEvent } from "./fold.ts";
import type { Job } from "./job.ts";
import {
  settleJob,
  startedData,
  startedText,
  startJob,
  storedFailure,
  submitJob,
  submittedText,
  succeededText,
  usageIn,
} from "./lifecycle.ts";
import {
  answered,
  completed,
  DEADLINE,
  exited,
  failed,
  INTERRUPTED,
  lost,
  MIDDLE,
  progressOf,
  QUEUE_TIMEOUT,
  RELEASED,
  T0,
  TestJobHistory,
  testJob,
  timedOut,
  usageOf,
  WAITING,
  waitingJob,
} from "./testing-job.ts";

const NOW = T0 + 1_000;

function settled(job: Job, outcome: Outcome, usage = usageOf(0)) {
  return settleJob(job, outcome, usage.tokensIn === 0 ? null : usage, NOW, MIDDLE);
}

describe("an attempt that waits for children", () => {
  it("leaves the job blocked, does not count and does not end it", () => {
    const job = testJob({ failures: 2, losses: 1, handbacks: 3, streak: 1, streakSession: "s0" });
    const { event, next, decision } = settled(job, WAITING, usageOf(5));
    expect(decision).toMatchObject({ kind: "block", step: "children", charge: null });
    expect(event).toMatchObject({ name: "attempt.waiting", data: { attempt: 1, waitsFor: ["job_a", "job_b"] } });
    expect(next).toMatchObject({ state: "blocked", failures: 2, losses: 1, finishedAt: null, expiresAt: null });
    expect(next).toMatchObject({ handbacks: 0, streak: 0, usage: usageOf(5), revision: 3 });
  });
});

describe("the failure of an attempt as it is stored", () => {
  const stored = (outcome: Outcome, policy: PolicyFields) => {
    const { event } = settled(testJob({ policy: resolvePolicy(policy) }), outcome);
    return storedFailure(outcome as Parameters<typeof storedFailure>[0], event);
  };

  it("is that of its outcome, with its stack, and with the line that decided where the message is another", () => {
    const stack = "HTTP 401 Unauthorized\nbye";
    const cause = failure({ kind: "exit", message: "exit code 1: bye", exitCode: 1, stack });
    const outcome: Outcome = { kind: "failed", failure: cause };
    expect(stored(outcome, { preset: "agent" })).toEqual({ ...cause, line: "HTTP 401 Unauthorized" });
    expect(stored(outcome, { preset: "default" })).toEqual(cause);
    const inMessage = failure({ kind: "exit", message: "exit code 1: HTTP 401 Unauthorized", exitCode: 1, stack });
    expect(stored({ kind: "failed", failure: inMessage }, { preset: "agent" })).toEqual(inMessage);
  });

  it("is that of the event where a completed attempt is to be repeated, and none where it succeeded", () => {
    const polling = { maxAttempts: 3, retryWhen: "result == 1" };
    expect(stored(completed(1), polling)).toMatchObject({ kind: "result", message: "the result matched retryWhen" });
    expect(stored(completed(2), polling)).toBeNull();
  });
});

describe("submitJob", () => {
  it("names its parent", () => {
    const { event } = submitJob(waitingJob({ parentId: "job_parent" }), T0);
    expect(event.data).toMatchObject({ parentId: "job_parent" });
    expect(submittedText(event.data)).toBe(JSON.stringify(event.data));
  });

  it("has the id of the token that was used", () => {
    const { event } = submitJob({ ...waitingJob(), token: "abcd2345" }, T0);
    expect(event.data).toMatchObject({ token: "abcd2345" });
    expect(submittedText(event.data)).toBe(JSON.stringify(event.data));
  });

  it("queues a job with its first event", () => {
    const job = waitingJob({ runAt: T0 + 60_000, expireInMs: null, policy: { maxAttempts: 4 } });
    const { event, next } = submitJob(job, T0);
    expect(event).toEqual({
      name: "job.submitted",
      data: {
        ...{ v: EVENT_FORMAT, state: "queued", runAt: T0 + 60_000, expiresAt: null, maxAttempts: 4 },
        ...{ kind: "resize-image", queue: "default", namespace: "default" },
      },
    });
    expect(next).toEqual(progressOf(job));
    expect(next.revision).toBe(1);
  });

  it("counts its waiting time from when it is due", () => {
    const { event, next } = submitJob(waitingJob({ runAt: T0 + 60_000, expireInMs: 5_000 }), T0);
    expect(event.data).toMatchObject({ expiresAt: T0 + 65_000 });
    expect(next.expiresAt).toBe(T0 + 65_000);
  });
});

describe("startedData", () => {
  it("is the data of a start", () => {
    expect(startedData(3, "s3", "host-1")).toEqual({ v: EVENT_FORMAT, attempt: 3, session: "s3", worker: "host-1" });
  });
});

describe("succeededText", () => {
  it("is the event of an attempt that succeeded and changed no counter", () => {
    const data = JSON.parse(succeededText(7)) as unknown;
    const decision = { kind: "succeed", step: "completed", class: "completed" };
    expect(data).toEqual({ v: EVENT_FORMAT, attempt: 7, decision });
  });
});

describe("settleJob", () => {
  const TWO = { maxAttempts: 2 };
  const polling = { ...TWO, retryWhen: "{{ result == 'pending' }}" };

  it.each<[string, Job, Outcome, string, object]>([
    ["a success", testJob(), completed(), "attempt.succeeded", {}],
    [
      "a polled result",
      testJob({ policy: polling }),
      completed("pending"),
      "attempt.failed",
      { failure: { kind: "result" } },
    ],
    ["a failure", testJob({ policy: TWO }), exited(7), "attempt.failed", { failure: { kind: "exit", exitCode: 7 } }],
    ["a timeout", testJob({ policy: TWO }), timedOut(), "attempt.timed_out", { failure: { kind: "timeout" } }],
    ["an interruption", testJob(), INTERRUPTED, "attempt.interrupted", { why: "interrupted" }],
    ["a release", testJob(), RELEASED, "attempt.interrupted", { why: "released" }],
    ["a queue timeout", waitingJob({ policy: TWO }), QUEUE_TIMEOUT, "job.queue_timeout", { why: "queue_timeout" }],
    ["a deadline", waitingJob(), DEADLINE, "job.queue_timeout", { why: "deadline" }],
    [
      "a loss",
      testJob(),
      { kind: "lost", why: "worker_gone", session: "s1", renewedAt: T0 + 5, by: "engine-1" },
      "attempt.lost",
      { why: "worker_gone", session: "s1", renewedAt: T0 + 5, by: "engine-1" },
    ],
  ])("writes one event for %s", (_, job, outcome, name, data) => {
    const { event, decision, next } = settled(job, outcome);
    expect(event).toMatchObject({ name, data: { v: EVENT_FORMAT, attempt: job.attempt, ...data } });
    expect(event.data).toMatchObject({ decision: { kind: decision.kind, step: decision.step } });
    expect(next).toEqual(evolve(job, { ...event, at: NOW } as TimedEvent));
    expect(next.revision).toBe(job.revision + 1);
  });

  it("stores a decision in full, with the counters beside it and only where they moved", () => {
    const { event } = settled(testJob({ handbacks: 3, policy: TWO }), failed());
    expect(event.data).toEqual({
      v: EVENT_FORMAT,
      attempt: 1,
      decision: {
        ...{ kind: "retry", step: "retry", class: "failure", match: { by: "onUnknown" }, runAt: NOW + 1_000 },
        charge: { to: "maxAttempts", used: 1, limit: 2, left: 1 },
        delay: { baseMs: 1_000, jitter: 0, delayMs: 1_000 },
      },
      counters: { failures: 1, handbacks: 0 },
      failure: expect.objectContaining({ message: "it broke" }),
    });
  });

  it("writes nothing that a plain success does not need", () => {
    expect(settled(testJob(), completed()).event).toEqual({
      name: "attempt.succeeded",
      data: {
        v: EVENT_FORMAT,
        attempt: 1,
        decision: { kind: "succeed", step: "completed", class: "completed" },
      },
    });
  });

  it("leaves the stack out of the event", () => {
    const outcome: Outcome = { kind: "failed", failure: failure({ kind: "error", message: "no", stack: "at x" }) };
    const { event } = settled(testJob(), outcome);
    expect(event.data).toMatchObject({ failure: { message: "no" } });
    expect(JSON.stringify(event)).not.toContain("at x");
  });

  it("adds the usage of the attempt before it decides, so that the attempt that exceeds a budget is the last", () => {
    const job = testJob({ usage: usageOf(60), policy: { maxAttempts: 9, budget: { tokens: 100, costUsd: null } } });
    expect(settled(job, failed(), usageOf(39)).next).toMatchObject({ state: "queued", usage: usageOf(99) });
    const { event, next } = settled(job, failed(), usageOf(40));
    expect(event.data).toMatchObject({ usage: usageOf(40), decision: { reason: "budget", detail: "tokens" } });
    expect(next).toMatchObject({ state: "failed", reason: "budget", usage: usageOf(100) });
  });

  it("counts the usage of the attempt in the budgets above before it decides", () => {
    const job = testJob({ policy: { maxAttempts: 9 } });
    const ends = (tokens: number) => settleJob(job, failed(), usageOf(tokens), NOW, MIDDLE, [above(60)]).next;
    expect(ends(39)).toMatchObject({ state: "queued" });
    expect(ends(40)).toMatchObject({ state: "failed", reason: "budget" });
    const unused = settleJob(job, failed(), null, NOW, MIDDLE, [above(60)]);
    expect(unused.next).toMatchObject({ state: "queued" });
    expect(usageIn(unused)).toBeNull();
    expect(usageIn(settleJob(job, completed(), usageOf(7), NOW, MIDDLE))).toEqual(usageOf(7));
    expect(usageIn(settleJob(waitingJob(), QUEUE_TIMEOUT, null, NOW, MIDDLE))).toBeNull();
  });

  it("restarts the waiting time at every retry", () => {
    const { event, next } = settled(testJob({ expireInMs: 5_000, policy: TWO }), failed());
    expect(event.data).toMatchObject({ expiresAt: NOW + 6_000 });
    expect(next).toMatchObject({ runAt: NOW + 1_000, expiresAt: NOW + 6_000 });
    expect(settled(testJob({ expireInMs: 5_000 }), failed()).event.data).not.toHaveProperty("expiresAt");
    expect(settled(testJob({ policy: TWO }), failed()).next.expiresAt).toBeNull();
  });

  it("keeps a condition's error for the story", () => {
    const { event } = settled(testJob({ policy: { ...TWO, retryWhen: "{{ attempt / 0 > 1 }}" } }), failed());
    expect(event.data).toMatchObject({
      decision: { match: { condition: "retryWhen" }, conditionError: expect.any(String) },
    });
  });

  it("calls a job that was claimed and given back, but never started, unschedulable", () => {
    const story = new TestJobHistory({ expireInMs: 5_000 }).run(RELEASED);
    expect(story.job).toMatchObject({ state: "queued", attempt: 1, firstStartedAt: null, runAt: T0 + 1_000 });
    story.settle(QUEUE_TIMEOUT, { afterMs: 5_000 });
    expect(story.job).toMatchObject({ state: "failed", reason: "unschedulable" });
  });
});

describe("startJob", () => {
  it("lets a job start while the budgets above it have something left, and ends it otherwise", () => {
    const job = waitingJob();
    expect(startJob(job, NOW, [above(99)])).toBeNull();
    expect(startJob(job, NOW, [above(100)])?.next).toMatchObject({ state: "failed", reason: "budget", attempt: 0 });
  });
});

/** A budget of 100 tokens, of another job. */
function above(tokens: number): BudgetNow {
  const limit = { tokens: 100, costUsd: null };
  return { jobId: "job_p", limit, spent: { tokens, costUsd: 0 }, live: NO_AMOUNT, reserved: NO_AMOUNT };
}

// Whole stories: the presets against the numbers of their source documents.

/** The end of a story: state or reason, runs started, and what was charged. */
function end({ job }: TestJobHistory) {
  return { end: job.reason ?? job.state, runs: job.attempt, failures: job.failures, losses: job.losses };
}

function storyOf(policy: PolicyFields): TestJobHistory {
  return new TestJobHistory({ policy: resolvePolicy(policy) });
}

const times = <T>(n: number, value: T): T[] => Array.from({ length: n }, () => value);

describe("preset default", () => {
  it("allows one attempt: a failure is the end", () => {
    expect(end(storyOf({}).run(failed()))).toEqual({ end: "exhausted", runs: 1, failures: 1, losses: 0 });
    expect(end(storyOf({}).run(timedOut()))).toEqual({ end: "timeout", runs: 1, failures: 1, losses: 0 });
  });

  it("backs off by 1 s, 2 s, 4 s up to 1 min when attempts are allowed", () => {
    const story = storyOf({ maxAttempts: 9 }).run(...times(9, failed()));
    expect(story.delays).toEqual([1, 2, 4, 8, 16, 32, 60, 60].map((s) => s * 1_000));
    expect(end(story)).toEqual({ end: "exhausted", runs: 9, failures: 9, losses: 0 });
  });

  it("draws its jitter from 20 % less to 20 % more", () => {
    const delay = (random: number) => storyOf({ maxAttempts: 2 }).start().settle(failed(), { random }).delays;
    expect([0, 0.5, 0.999_999].map(delay)).toEqual([[800], [1_000], [1_200]]);
  });

  it("brings a lost job back at once, then by 1 s, 2 s up to 30 s, a hundred times", () => {
    const story = storyOf({}).run(...times(100, lost(60_000)));
    expect(story.delays.slice(0, 9)).toEqual([0, 1, 2, 4, 8, 16, 30, 30, 30].map((s) => s * 1_000));
    expect(end(story)).toEqual({ end: "queued", runs: 100, failures: 0, losses: 100 });
    expect(end(story.run(lost(60_000)))).toEqual({ end: "lost", runs: 101, failures: 0, losses: 101 });
  });

  it("gives up a job that kills three workers in a row", () => {
    const story = storyOf({}).run(lost(), lost(30_000), lost());
    expect(end(story)).toEqual({ end: "poison", runs: 3, failures: 0, losses: 3 });
    expect(story.delays).toEqual([0, 1_000]);
  });

  it("does not take a job for poison that survived one worker in between", () => {
    expect(end(storyOf({ maxAttempts: 2 }).run(lost(), lost(), failed(), lost(), lost(), completed()))).toEqual({
      ...{ end: "succeeded", runs: 6, failures: 1, losses: 4 },
    });
  });

  it("does not retry a request that is wrong, and does retry one that comes too soon", () => {
    const isRetried = (status: number) => storyOf({ maxAttempts: 2 }).run(answered(status)).last.kind === "retry";
    const all = Array.from({ length: 200 }, (_, i) => 400 + i);
    expect(all.filter((status) => status < 500 && isRetried(status))).toEqual([408, 425, 429]);
    expect(all.filter((status) => status >= 500 && !isRetried(status))).toEqual([]);
  });

  it("waits for Retry-After", () => {
    expect(storyOf({ maxAttempts: 2 }).run(answered(429, { retryAfterMs: 90_000 })).delays).toEqual([90_000]);
  });

  it("ends with the first loss when it may run at most once", () => {
    expect(end(storyOf({ atMostOnce: true }).run(lost()))).toEqual({ end: "lost", runs: 1, failures: 0, losses: 1 });
  });
});

describe("preset opal", () => {
  it("retries after 8 s and succeeds on attempt 2 (its test #1)", () => {
    const story = storyOf({ preset: "opal" }).run(lost(), completed());
    expect(story.delays).toEqual([8_000]);
    expect(end(story)).toEqual({ end: "succeeded", runs: 2, failures: 0, losses: 1 });
  });

  it("fails as lost after two lost runs in all (its test #2)", () => {
    const story = storyOf({ preset: "opal" }).run(lost(), lost());
    expect(story.delays).toEqual([8_000]);
    expect(story.last).toMatchObject({ charge: { to: "maxAttempts", used: 2, limit: 2, left: 0 } });
    expect(end(story)).toEqual({ end: "lost", runs: 2, failures: 0, losses: 2 });
  });

  it("uses 15 s from the second retry on, and never the 3 s", () => {
    const story = storyOf({ preset: "opal", maxAttempts: 5 }).run(...times(5, lost()));
    expect(story.delays).toEqual([8_000, 15_000, 15_000, 15_000]);
    expect(end(story)).toMatchObject({ end: "lost", runs: 5 });
  });

  it("does not retry what the engine reports", () => {
    for (const outcome of [failed("engine error"), exited(1), failed({ class: "invalid" }), timedOut()]) {
      expect(storyOf({ preset: "opal" }).run(outcome).job).toMatchObject({ state: "failed", attempt: 1, failures: 1 });
    }
  });

  it("does retry a worker out of memory, from the same two runs", () => {
    const oom = failed({ kind: "oom", exitCode: 137, message: "worker_oom" });
    const story = storyOf({ preset: "opal" }).run(oom, oom);
    expect(story.delays).toEqual([8_000]);
    expect(end(story)).toEqual({ end: "exhausted", runs: 2, failures: 2, losses: 0 });
    expect(end(storyOf({ preset: "opal" }).run(oom, lost()))).toEqual({ end: "lost", runs: 2, failures: 1, losses: 1 });
    expect(end(storyOf({ preset: "opal" }).run(lost(), oom))).toMatchObject({ end: "exhausted", runs: 2 });
  });
});

describe("preset fluster", () => {
  // max_retries_failure 3 and max_retries_preemption 100.
  const both = () => storyOf({ preset: "fluster", maxAttempts: 4 });
  const spend: Record<string, () => TestJobHistory> = {
    "failures first": () => both().run(...times(3, exited(1)), ...times(100, lost())),
    "losses first": () => both().run(...times(100, lost()), ...times(3, exited(1))),
    "failures in between": () => both().run(...[10, 40, 50].flatMap((n) => [...times(n, lost()), exited(1)])),
  };

  it.each(Object.keys(spend))("lets it fail 3 times and be preempted 100 times, %s; run 104 may succeed", (order) => {
    const story = spend[order]?.() as TestJobHistory;
    expect(end(story)).toEqual({ end: "queued", runs: 103, failures: 3, losses: 100 });
    expect(end(story.run(completed()))).toEqual({ end: "succeeded", runs: 104, failures: 3, losses: 100 });
  });

  it.each(Object.keys(spend))("ends it with the 4th failure, %s", (order) => {
    const story = spend[order]?.().run(exited(1)) as TestJobHistory;
    expect(end(story)).toEqual({ end: "exhausted", runs: 104, failures: 4, losses: 100 });
  });

  it.each(Object.keys(spend))("ends it with the 101st loss, %s", (order) => {
    const story = spend[order]?.().run(lost()) as TestJobHistory;
    expect(end(story)).toEqual({ end: "lost", runs: 104, failures: 3, losses: 101 });
  });

  it("delays failures by 1 s, 2 s, 4 s, and preemptions not at all", () => {
    const story = both().run(lost(), exited(1), lost(), lost(), exited(1), lost(), exited(1));
    expect(story.delays).toEqual([0, 1_000, 0, 0, 2_000, 0, 4_000]);
  });

  it("doubles up to the delay that was set (its example of 5 retries within 30 s)", () => {
    const story = storyOf({ preset: "fluster", maxAttempts: 7, backoff: { max: "30s" } }).run(...times(7, exited(1)));
    expect(story.delays).toEqual([1, 2, 4, 8, 16, 30].map((s) => s * 1_000));
  });

  it("grants no failure by default", () => {
    expect(end(storyOf({ preset: "fluster" }).run(exited(1)))).toEqual({
      ...{ end: "exhausted", runs: 1, failures: 1, losses: 0 },
    });
  });

  it("retries only on the exit codes that are named", () => {
    const policy = { preset: "fluster", maxAttempts: 4, retryOnExitCodes: [137, 139] } as const;
    expect(end(storyOf(policy).run(exited(137), exited(139), exited(1)))).toMatchObject({ end: "rejected", runs: 3 });
  });

  it("does not retry on the exit codes that are denied", () => {
    const policy = { preset: "fluster", maxAttempts: 4, noRetryOnExitCodes: [1] } as const;
    expect(end(storyOf(policy).run(exited(2), exited(1)))).toMatchObject({ end: "rejected", runs: 2, failures: 2 });
  });

  it("does not retry a job that somebody terminated", () => {
    const story = both().start();
    story.command({ kind: "cancel" });
    expect(end(story.settle(exited(143)))).toEqual({ end: "cancelled", runs: 1, failures: 0, losses: 0 });
  });
});

describe("preset noetl", () => {
  const unavailable = answered(503, { message: "503 Service Unavailable" });
  const shown = (story: TestJobHistory) => story.events.flatMap((event) => shownNames(event));

  it("tells the documented timeline of a success on the third attempt: 1.0 s, 2.0 s", () => {
    const story = storyOf({ preset: "noetl" }).run(unavailable, unavailable, completed());
    expect(story.delays).toEqual([1_000, 2_000]);
    expect(story.now).toBe(T0 + 3_000);
    expect(shown(story)).toEqual([
      "job.submitted",
      ...times(2, ["attempt.started", "attempt.failed", "job.retry_scheduled"]).flat(),
      ...["attempt.started", "attempt.succeeded", "job.succeeded"],
    ]);
  });

  it("tells the documented timeline of a job that is exhausted at attempt 3 of 3", () => {
    const story = storyOf({ preset: "noetl" }).run(unavailable, unavailable, unavailable);
    expect(story.last).toMatchObject({ charge: { used: 3, limit: 3, left: 0 } });
    expect(end(story)).toEqual({ end: "exhausted", runs: 3, failures: 3, losses: 0 });
    expect(shown(story).slice(-4)).toEqual([
      ...["attempt.started", "attempt.failed", "job.retries_exhausted", "job.failed"],
    ]);
  });

  it("has no exhausted event where a condition refused the retry", () => {
    const story = storyOf({ preset: "noetl", retryWhen: "{{ status_code >= 500 }}" }).run(answered(404));
    expect(shown(story).slice(-2)).toEqual(["attempt.failed", "job.failed"]);
    expect(end(story)).toMatchObject({ end: "rejected", runs: 1 });
  });

  it("runs the full documented configuration", () => {
    const policy: PolicyFields = {
      preset: "noetl",
      maxAttempts: 5,
      backoff: { initial: "1s", factor: 2, max: "60s", jitter: true },
      retryWhen: "{{ status_code >= 500 or error != None }}",
      stopWhen: "{{ status_code == 200 and success == True }}",
    };
    const story = storyOf(policy);
    story.start().settle(unavailable, { random: 0 });
    story.start().settle(failed("connect ECONNREFUSED"), { random: 0.999_999 });
    expect(story.delays).toEqual([500, 3_000]);
    expect(end(story.run(completed({ ok: true }, { statusCode: 200 })))).toMatchObject({ end: "succeeded", runs: 3 });
  });

  it("has no jitter by default", () => {
    expect(storyOf({ preset: "noetl" }).start().settle(unavailable, { random: 0 }).delays).toEqual([1_000]);
  });

  it("polls until the reply arrives, within its attempts", () => {
    const policy = { preset: "noetl", retryWhen: "{{ status_code == 202 }}" } as const;
    const pending = completed(null, { statusCode: 202 });
    const ready = completed(null, { statusCode: 200 });
    expect(end(storyOf(policy).run(pending, pending, ready))).toMatchObject({ end: "succeeded", runs: 3, failures: 2 });
    expect(end(storyOf(policy).run(pending, pending, pending))).toMatchObject({ end: "exhausted", runs: 3 });
  });

  it("counts an expired lease like any attempt, so that a poison job does not loop forever", () => {
    const story = storyOf({ preset: "noetl" }).run(lost(), unavailable, lost());
    expect(story.delays).toEqual([1_000, 2_000]);
    expect(end(story)).toEqual({ end: "lost", runs: 3, failures: 1, losses: 2 });
  });
});

describe("preset attune", () => {
  const three = () => storyOf({ preset: "attune", maxAttempts: 4 }); // max_retries 3

  it("grants no retry by default", () => {
    expect(end(storyOf({ preset: "attune" }).run(failed("Connection refused")))).toMatchObject({
      end: "exhausted",
      runs: 1,
    });
  });

  it("backs off by about 1 s, 2 s, 4 s, within 20 %", () => {
    const delays = (random: number) => {
      const story = three();
      for (let i = 0; i < 4; i++) story.start().settle(failed("temporary glitch"), { random });
      return story.delays;
    };
    expect([0, 0.5, 0.999_999].map(delays)).toEqual([
      [800, 1_600, 3_200],
      [1_000, 2_000, 4_000],
      [1_200, 2_400, 4_800],
    ]);
  });

  it("never waits longer than 300 s before jitter, which may lead beyond", () => {
    const story = storyOf({ preset: "attune", maxAttempts: 20 }).run(...times(18, failed("temporary")));
    expect(Math.max(...story.delays)).toBe(300_000);
    story.start().settle(failed("temporary"), { random: 0.999_999_9 });
    expect(story.delays.at(-1)).toBe(360_000);
  });

  it.each([
    "Worker queue TTL expired",
    "worker unavailable: no heartbeat",
    "Action timeout after 120s",
    "request timed out",
    "Worker heartbeat stale",
    "transient failure",
    "Temporary failure in name resolution",
    "Connection refused",
    "connection reset by peer",
    "connect ECONNREFUSED 127.0.0.1:5432",
    "read ECONNRESET",
  ])("takes %o for transient", (message) => {
    expect(three().run(failed(message)).last).toMatchObject({ kind: "retry", match: { by: "list", list: "retryOn" } });
  });

  it.each([
    ["Validation error: name is required", { by: "list", list: "noRetryOn" }],
    ["Validation error: timeout must be positive", { by: "list", list: "noRetryOn" }],
    ["Permission denied", { by: "list", list: "noRetryOn" }],
    ["Action not found", { by: "list", list: "noRetryOn" }],
    ["Invalid parameters", { by: "list", list: "noRetryOn" }],
    ["connection closed", { by: "onUnknown" }],
    ["something else", { by: "onUnknown" }],
  ])("takes %o for permanent", (message, match) => {
    expect(three().run(failed(message)).last).toMatchObject({ kind: "fail", reason: "rejected", match });
  });

  it("retries a queue timeout, a timeout and a lost worker from the same budget", () => {
    const story = three().settle(QUEUE_TIMEOUT).run(timedOut(), lost());
    expect(story.delays).toEqual([1_000, 2_000, 4_000]);
    expect(end(story.run(completed()))).toEqual({ end: "succeeded", runs: 3, failures: 2, losses: 1 });
  });
});

describe("preset agent", () => {
  const crash = failed({ kind: "exit", exitCode: 7, message: "exit code 7: entrypoint crash" });

  it("runs a legionary three times, 15 s and 30 s apart", () => {
    const story = storyOf({ preset: "agent", maxAttempts: 3, backoff: { initial: "15s" } }).run(crash, crash, crash);
    expect(story.delays).toEqual([15_000, 30_000]);
    expect(end(story)).toEqual({ end: "exhausted", runs: 3, failures: 3, losses: 0 });
  });

  it("runs a tribune once", () => {
    expect(end(storyOf({ preset: "agent" }).run(crash))).toMatchObject({ end: "exhausted", runs: 1 });
  });

  it("doubles from 30 s up to 300 s", () => {
    const story = storyOf({ preset: "agent", maxAttempts: 7 }).run(...times(7, crash));
    expect(story.delays).toEqual([30, 60, 120, 240, 300, 300].map((s) => s * 1_000));
  });

  it("draws its jitter within 25 %, and waits for a second at least", () => {
    const delay = (random: number, initial: Duration) =>
      storyOf({ preset: "agent", maxAttempts: 2, backoff: { initial } }).start().settle(crash, { random }).delays[0];
    expect([delay(0, "30s"), delay(0.999_999_9, "30s"), delay(0, "100ms")]).toEqual([22_500, 37_500, 1_000]);
  });

  it("retries what is transient: exit codes, lack of memory, timeouts and lost pods", () => {
    const story = storyOf({ preset: "agent", maxAttempts: 5 });
    story.run(crash, failed({ kind: "oom", exitCode: 137 }), timedOut(), lost(), completed());
    expect(end(story)).toEqual({ end: "succeeded", runs: 5, failures: 3, losses: 1 });
  });

  it("does not retry what the agent itself reports", () => {
    const verdict = failed({ kind: "exit", class: "logical", message: "I can't do this" });
    expect(end(storyOf({ preset: "agent", maxAttempts: 5 }).run(verdict))).toMatchObject({ end: "rejected", runs: 1 });
  });

  it.each([answered(401), answered(403), failed("Authentication failed"), failed("invalid API key")])(
    "does not retry a wrong key, which does not heal: %o",
    (outcome) => {
      const story = storyOf({ preset: "agent", maxAttempts: 5 }).run(outcome);
      expect(story.last).toMatchObject({ kind: "fail", reason: "rejected", match: { by: "preset", preset: "agent" } });
    },
  );

  it("adds up what attempts cost, and ends when the budget is spent", () => {
    const story = storyOf({ preset: "agent", maxAttempts: 9, budget: { costUsd: 1 } });
    for (const cost of [0.4, 0.4, 0.4]) story.start().settle(crash, { usage: usageOf(100, cost) });
    expect(story.job).toMatchObject({ state: "failed", reason: "budget", attempt: 3, failures: 2 });
    expect(story.job.usage?.costUsd).toBeCloseTo(1.2);
  });

  it("notes on a success that its retryWhen could not be evaluated", () => {
    const job = testJob({ policy: { retryWhen: "{{ attempt / 0 > 1 }}" } });
    const { decision, event } = settleJob(job, completed(), null, T0, MIDDLE);
    expect(decision.kind).toBe("succeed");
    const { conditionError } = (event.data as { decision: { conditionError?: string } }).decision;
    expect(conditionError).toMatch(/zero/);
  });

  it("writes a submission as the same text, whatever was submitted before", () => {
    const usual = { kind: "k", queue: "default", namespace: "default", runAt: T0, expireInMs: null };
    const policy = resolvePolicy();
    const jobs = [
      ...[{}, {}, { kind: 'q"\n\\' }, { queue: "other" }, { namespace: "n" }, { expireInMs: 5 }, { priority: 0 }],
      ...[{ timeoutMs: 1 }, { deadlineAt: T0 }, { labels: { gpu: "a" } }, { labels: {} }, { priority: 5 }, {}],
      { policy: resolvePolicy({ maxAttempts: 4 }) },
    ].map((job) => ({ ...usual, policy, ...job }));
    for (const job of jobs) {
      for (const by of [null, 'me "\n']) {
        const { data } = submitJob(job, T0, by).event;
        expect(submittedText(data)).toBe(JSON.stringify(data));
        expect(data.by).toBe(by ?? undefined);
      }
    }
  });

  it("writes the start of an attempt as the same text, whatever the names", () => {
    for (const [session, worker] of [
      ["ses_1", "alpha"],
      ['"attempt":0', 'a\n"b\\'],
    ] as const) {
      expect(JSON.parse(startedText(session, worker)(7))).toEqual(startedData(7, session, worker));
    }
  });
});

it("stores the job of a run as blocked: no worker claims it", () => {
  const facts = { kind: RUN_KIND, queue: "q", namespace: "n", runAt: 0, expireInMs: null, policy: resolvePolicy(1) };
  expect(submitJob(facts, 0)).toMatchObject({ event: { data: { state: "blocked" } }, next: { state: "blocked" } });
});
