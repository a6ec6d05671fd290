/** Jobs that fluster's own files cannot make: of other doors, other policies, redriven, handed back. */
import { describe, expect, it } from "vitest";
import type { Outcome } from "../../core/decision/outcome.ts";
import type { JobEvent } from "../../core/job/event.ts";
import type { Job } from "../../core/job/job.ts";
import {
  completed,
  DEADLINE,
  exited,
  failed,
  INTERRUPTED,
  lost,
  QUEUE_TIMEOUT,
  RELEASED,
  T0,
  TestJobHistory,
  timedOut,
  WAITING,
} from "../../core/job/testing-job.ts";
import type { AttemptRow, JobInfo } from "../../core/job/views.ts";
import { presets } from "../../core/policy/presets.ts";
import { flusterStatus } from "./view.ts";

/** A story with the rows that a store would write. */
class Told extends TestJobHistory {
  readonly rows: AttemptRow[] = [];

  override settle(outcome: Outcome | ((job: Job) => Outcome), ending = {}): this {
    const { startedAt, attempt, chapter, worker } = this.job;
    const settled = typeof outcome === "function" ? outcome(this.job) : outcome;
    super.settle(settled, ending);
    if (settled.kind === "queue_timeout" || settled.kind === "deadline") return this;
    this.rows.push({
      ...{ jobId: this.job.id, attempt, chapter, session: worker, startedAt: startedAt as number, endedAt: this.now },
      ...{ outcome: settled.kind, failure: "failure" in settled ? settled.failure : null },
      ...{ usage: null, result: null, log: null },
    });
    return this;
  }

  /** With the latest `rows` alone, of which a view reads a number. */
  status(now?: number, rows = Number.POSITIVE_INFINITY) {
    const rest = { payload: null, annotations: {}, name: this.job.kind, failure: null, liveUsage: null, budgets: [] };
    const job: JobInfo = { ...this.job, ...rest, result: undefined, progress: undefined };
    const events = this.events.map((event) => ({ ...event, seq: event.n, jobId: job.id })) as JobEvent[];
    const attempts = this.rows.slice(Math.max(0, this.rows.length - rows));
    const parts = { job, attempts, events, workerName: () => null };
    return flusterStatus(now === undefined ? parts : { ...parts, now });
  }
}

const told = (policy = presets.fluster, parts: Partial<Job> = {}) => new Told({ ...parts, policy });

describe("a job that is not from fluster", () => {
  it("is named by its key, else by its kind", () => {
    expect(told().status()).toMatchObject({ name: "resize-image", parent_job_id: null });
    expect(told(presets.fluster, { key: "img-42" }).status().name).toBe("img-42");
    expect(told(presets.fluster, { parentId: "job_p" }).status().parent_job_id).toBe("job_p");
  });

  it("may have lost its annotations and its events, and is shown all the same", () => {
    const { job } = told().run(exited(1));
    for (const state of ["queued", "running", "blocked", "succeeded", "failed", "cancelled"] as const) {
      const bare = {
        ...job,
        state,
        payload: null,
        result: undefined,
        progress: undefined,
        liveUsage: null,
        budgets: [],
      } as unknown as JobInfo;
      const status = flusterStatus({ job: bare, attempts: [], events: [], workerName: () => null });
      expect(status.job_id).toBe(job.id);
    }
  });

  it("that never started has nothing to show", () => {
    expect(told().status()).toEqual({
      ...{ job_id: told().job.id, name: "resize-image", parent_job_id: null, state: "PENDING" },
      ...{ exit_code: null, error: null, started_at_ms: null, finished_at_ms: null, worker_id: null },
      ...{ failure_count: 0, preemption_count: 0, current_attempt_id: 0, attempts: [] },
      ...{ max_retries_failure: 0, max_retries_preemption: 100, next_retry_delay_ms: 0, retry_available_at_ms: 0 },
    });
  });
});

describe("the end of a job", () => {
  it.each<[string, Told, object]>([
    ["a failure", told().run(exited(7)), { state: "FAILED", exit_code: 7, error: "exit code 7", failure_count: 1 }],
    ["a timeout", told().run(timedOut()), { state: "FAILED", exit_code: null, failure_count: 1 }],
    ["a success", told().run(completed({ exitCode: 0 })), { state: "SUCCEEDED", exit_code: 0, error: null }],
    [
      "poison",
      told(presets.default).run(lost(), lost(), lost()),
      { state: "WORKER_FAILED", error: "Worker worker-s3 failed: its lease expired", preemption_count: 3 },
    ],
    [
      "a loss beyond the time it had",
      told({ ...presets.default, maxElapsedMs: 0 }).run(lost(60_000), lost(60_000)),
      { state: "WORKER_FAILED" },
    ],
    [
      "a deadline",
      told().settle(DEADLINE),
      { state: "UNSCHEDULABLE", error: "Scheduling deadline exceeded", worker_id: null, failure_count: 0 },
    ],
  ])("by %s", (_, story, wanted) => {
    expect(story.status()).toMatchObject(wanted);
  });

  it("by an expired wait for a retry is UNSCHEDULABLE too, after the earlier attempt", () => {
    const policy = { ...presets.default, maxAttempts: 2 };
    const story = told(policy, { expireInMs: 30_000 }).run(exited(1)).settle(QUEUE_TIMEOUT, { afterMs: 30_000 });
    expect(story.status()).toMatchObject({
      ...{ state: "UNSCHEDULABLE", error: "Scheduling timeout exceeded (30s)", started_at_ms: null, worker_id: null },
      ...{ failure_count: 1, current_attempt_id: 0, exit_code: null },
    });
    expect(story.status().attempts).toMatchObject([{ attempt_id: 0, state: "FAILED" }]);
  });

  it("by a wait with an unknown limit is shown without it", () => {
    expect(told().settle(QUEUE_TIMEOUT).status()).toMatchObject({
      ...{ state: "UNSCHEDULABLE", error: "Scheduling timeout exceeded", failure_count: 0, current_attempt_id: 0 },
    });
  });

  it("by a cancel is KILLED, whether it ran or waited", () => {
    const waiting = told({ ...presets.fluster, maxAttempts: 3 }).run(exited(1));
    waiting.command({ kind: "cancel" });
    expect(waiting.status()).toMatchObject({ state: "KILLED", started_at_ms: null, current_attempt_id: 0 });
    expect(waiting.status().attempts).toMatchObject([{ state: "FAILED" }]);

    const running = told().start();
    running.command({ kind: "cancel" });
    running.settle(failed({ kind: "signal", signal: "SIGTERM", exitCode: 143 }));
    expect(running.status()).toMatchObject({
      ...{ state: "KILLED", error: "Terminated by user", exit_code: 143, failure_count: 0 },
      ...{ started_at_ms: T0, worker_id: "worker-s1", current_attempt_id: 0 },
    });
    expect(running.status().attempts).toMatchObject([{ state: "KILLED", is_worker_failure: false }]);
  });
});

describe("attempts", () => {
  it("returned before they began, and those that wait for children, are KILLED and not counted", () => {
    const story = told().run(RELEASED, WAITING);
    const attempts = [
      { attempt_id: 0, error: "Worker worker-s1 returned it before it began; not counted" },
      { attempt_id: 1, error: "Ended to wait for its children; not counted" },
    ].map((each) => ({ ...each, state: "KILLED", exit_code: null, is_worker_failure: false }));
    expect(story.status()).toMatchObject({ state: "PENDING", attempts, current_attempt_id: 2, failure_count: 0 });
    story.command({ kind: "unblock", attempt: 2, runAt: story.now });
    story.run(completed());
    expect(story.status()).toMatchObject({
      ...{ state: "SUCCEEDED", current_attempt_id: 2, failure_count: 0, preemption_count: 0 },
      attempts: [...attempts, { attempt_id: 2, state: "SUCCEEDED" }],
    });
  });

  it("have no gaps in their ids, whatever ended them, and current_attempt_id goes with them", () => {
    const story = told({ ...presets.fluster, maxAttempts: 1_000 });
    const check = () => {
      const { attempts, current_attempt_id, state } = story.status();
      expect(attempts.map(({ attempt_id }) => attempt_id)).toEqual(attempts.map((_, i) => i));
      const isOver = !["PENDING", "RUNNING"].includes(state);
      // The one that runs or comes next, or the last that there was.
      expect(current_attempt_id).toBe(isOver ? Math.max(0, attempts.length - 1) : attempts.length);
    };
    check();
    for (const outcome of [RELEASED, INTERRUPTED, lost(), exited(1), timedOut(), WAITING, RELEASED, completed()]) {
      story.start();
      check();
      story.settle(outcome);
      check();
      if (outcome === WAITING) story.command({ kind: "unblock", attempt: story.job.attempt, runAt: story.now });
    }
    expect(story.status().attempts).toHaveLength(8);

    const redriven = told().run(RELEASED, exited(1));
    redriven.command({ kind: "redrive" });
    redriven.start().command({ kind: "cancel" });
    redriven.settle(RELEASED);
    expect(redriven.status()).toMatchObject({
      ...{ state: "KILLED", current_attempt_id: 2 },
      attempts: [
        { attempt_id: 0, state: "KILLED" },
        { attempt_id: 1, state: "FAILED" },
        { attempt_id: 2, state: "KILLED", error: "Terminated by user" },
      ],
    });
  });

  it("that are more than are read are the same from the events", () => {
    const story = told({ ...presets.fluster, maxAttempts: 1_000 });
    const outcomes = [RELEASED, INTERRUPTED, lost(), exited(3), timedOut(), WAITING];
    for (let i = 0; i < 60; i++) {
      for (const outcome of outcomes) {
        story.run(outcome);
        if (outcome === WAITING) story.command({ kind: "unblock", attempt: story.job.attempt, runAt: story.now });
      }
    }
    story.run(completed());
    const whole = story.status();
    expect(whole.attempts.map(({ attempt_id }) => attempt_id)).toEqual([...Array(361).keys()]);
    expect(story.status(undefined, 300)).toEqual(whole);
    expect(story.status(undefined, 0)).toEqual(whole);
  });

  it("that a shutdown ended were killed by their worker, which has not failed, and cost nothing", () => {
    const story = told().run(INTERRUPTED);
    expect(story.status()).toMatchObject({ state: "PENDING", preemption_count: 0, failure_count: 0, error: null });
    const error = "Worker worker-s1 was shut down and returned it; not counted";
    expect(story.status().attempts).toMatchObject([{ state: "KILLED", is_worker_failure: false, error }]);
  });

  it("that a shutdown ended are failures of the worker if they are counted as such", () => {
    const once = told({ ...presets.fluster, workerLost: { ...presets.fluster.workerLost, maxRetries: 0 } });
    expect(once.run(INTERRUPTED).status()).toMatchObject({
      ...{ state: "WORKER_FAILED", preemption_count: 1, error: "Worker worker-s1 failed: it was shut down" },
      attempts: [{ state: "WORKER_FAILED", is_worker_failure: true }],
    });
    const error = "Worker worker-s20 failed: the job was handed back 20 times in a row";
    const often = told()
      .run(...Array(20).fill(RELEASED))
      .status();
    expect(often.preemption_count).toBe(1);
    expect(often.attempts.map(({ state }) => state)).toEqual([...Array(19).fill("KILLED"), "WORKER_FAILED"]);
    expect(often.attempts[19]).toMatchObject({ attempt_id: 19, is_worker_failure: true, error });
  });

  it("whose worker was lost or shut down while they were terminated are KILLED, and no preemption", () => {
    for (const outcome of [lost(), INTERRUPTED]) {
      const story = told().start();
      story.command({ kind: "cancel" });
      expect(story.settle(outcome).status()).toMatchObject({
        ...{ state: "KILLED", preemption_count: 0 },
        attempts: [{ state: "KILLED", is_worker_failure: false, error: "Terminated by user" }],
      });
    }
  });

  it("are what the counters count, however they end", () => {
    const policy = { ...presets.fluster, maxAttempts: 1_000 };
    const outcomes = [exited(1), lost(), INTERRUPTED, RELEASED, timedOut()];
    // All orders of four.
    for (let i = 0; i < outcomes.length ** 4; i++) {
      const plays = [0, 1, 2, 3].map((k) => outcomes[Math.floor(i / outcomes.length ** k) % outcomes.length]);
      const { attempts, failure_count, preemption_count } = told(policy)
        .run(...(plays as Outcome[]))
        .status();
      expect(attempts.filter(({ state }) => state === "FAILED")).toHaveLength(failure_count);
      expect(attempts.filter(({ state }) => state === "WORKER_FAILED")).toHaveLength(preemption_count);
      expect(attempts.filter(({ is_worker_failure }) => is_worker_failure)).toHaveLength(preemption_count);
    }
  });

  it("whose result a condition did not like have failed", () => {
    const policy = { ...presets.noetl, retryWhen: "{{ result == 1 }}" };
    expect(told(policy).run(completed(1), completed(2)).status()).toMatchObject({
      state: "SUCCEEDED",
      attempts: [{ state: "FAILED" }, { state: "SUCCEEDED", exit_code: 0, error: null }],
    });
  });

  it("stay through a redrive, with ids and counters that go on", () => {
    const story = told().run(exited(1));
    story.command({ kind: "redrive" });
    expect(story.status()).toMatchObject({
      ...{ state: "PENDING", failure_count: 1, current_attempt_id: 1, finished_at_ms: null, next_retry_delay_ms: 0 },
      attempts: [{ attempt_id: 0, state: "FAILED" }],
    });
  });
});

describe("a retry", () => {
  const story = told({ ...presets.fluster, maxAttempts: 3 }).run(exited(1));

  it("is available when its delay is over", () => {
    expect(story.status()).toMatchObject({ next_retry_delay_ms: 1_000, retry_available_at_ms: T0 + 1_000 });
    expect(story.status(T0 + 999)).toMatchObject({ retry_available_at_ms: T0 + 1_000 });
    expect(story.status(T0 + 1_000)).toMatchObject({ next_retry_delay_ms: 1_000, retry_available_at_ms: 0 });
  });

  it("that someone moved is available then", () => {
    const moved = told({ ...presets.fluster, maxAttempts: 3 }).run(exited(1));
    moved.command({ kind: "reschedule", runAt: T0 + 5_000 });
    expect(moved.status().retry_available_at_ms).toBe(T0 + 5_000);
    moved.command({ kind: "retry" });
    expect(moved.status().retry_available_at_ms).toBe(0);
  });
});
