import { describe, expect, it } from "vitest";
import { EVENT_FORMAT, type JobEventBody, type StoredDecision } from "./event.ts";
import { BEFORE, evolve, foldEvents, type TimedEvent } from "./fold.ts";
import type { JobProgressFields } from "./job.ts";
import {
  answered,
  completed,
  DEADLINE,
  failed,
  INTERRUPTED,
  type KeptEvent,
  lost,
  NO_COUNTS,
  progressOf,
  QUEUE_TIMEOUT,
  RELEASED,
  T0,
  TestJobHistory,
  testJob,
  testRule,
  timedOut,
  usageOf,
} from "./testing-job.ts";

const v = EVENT_FORMAT;
const AT = T0 + 5_000;

/** A running job in which every field says something. */
const RUNNING: JobProgressFields = progressOf(
  testJob({
    attempt: 7,
    revision: 12,
    chapter: 2,
    failures: 1,
    losses: 2,
    defers: 3,
    handbacks: 4,
    streak: 1,
    streakSession: "s6",
    ruleCounts: { 0: 1 },
    usage: usageOf(10, 0.5),
  }),
);
const FAILED: JobProgressFields = {
  ...RUNNING,
  state: "failed",
  reason: "exhausted",
  finishedAt: T0 + 1_000,
  cancelRequestedAt: T0 + 900,
  discardedAt: T0 + 2_000,
};

function happened(body: JobEventBody, at = AT): TimedEvent {
  return { ...body, at } as TimedEvent;
}

function ended(decision: Partial<StoredDecision>, more: object = {}, name = "attempt.failed"): TimedEvent {
  const stored = { kind: "retry", step: "retry", class: "failure", match: { by: "onUnknown" }, ...decision };
  return { name, at: AT, data: { v, attempt: 7, decision: stored, ...more } } as TimedEvent;
}

describe("evolve", () => {
  it("begins with the submit, whatever the state before", () => {
    const data = { state: "queued", runAt: AT, expiresAt: AT + 60_000, kind: "k", queue: "q" } as const;
    const submitted = happened({ name: "job.submitted", data: { v, ...data, namespace: "n", maxAttempts: 1 } });
    const expected = { ...BEFORE, state: "queued", runAt: AT, expiresAt: AT + 60_000, revision: 1 };
    expect(evolve(BEFORE, submitted)).toEqual(expected);
  });

  it.each<[string, JobProgressFields, TimedEvent, Partial<JobProgressFields>]>([
    [
      "a first start begins the chapter's clock and ends the wait",
      { ...RUNNING, state: "queued", firstStartedAt: null, expiresAt: T0 + 60_000 },
      happened({ name: "attempt.started", data: { v, attempt: 8, session: "s8", worker: "w" } }),
      { state: "running", attempt: 8, worker: "s8", startedAt: AT, firstStartedAt: AT, expiresAt: null },
    ],
    [
      "a later start leaves the chapter's clock alone",
      { ...RUNNING, state: "queued" },
      happened({ name: "attempt.started", data: { v, attempt: 8, session: "s8", worker: "w" } }),
      { state: "running", attempt: 8, worker: "s8", startedAt: AT },
    ],
    [
      "a retry queues it, with the counters that moved",
      RUNNING,
      ended({ runAt: AT + 1_000 }, { counters: { failures: 2, handbacks: 0 }, expiresAt: AT + 61_000 }),
      { state: "queued", runAt: AT + 1_000, expiresAt: AT + 61_000, failures: 2, handbacks: 0 },
    ],
    [
      "a retry without an expiry waits for as long as it takes",
      RUNNING,
      ended({ runAt: AT }, {}, "attempt.interrupted"),
      { state: "queued", runAt: AT, expiresAt: null },
    ],
    [
      "a release of the chapter's first run sets its clock back: it had not started",
      RUNNING,
      ended({ runAt: AT }, { why: "released" }, "attempt.interrupted"),
      { state: "queued", runAt: AT, firstStartedAt: null },
    ],
    [
      "a release of a later run leaves the chapter's clock alone",
      { ...RUNNING, startedAt: T0 + 1 },
      ended({ runAt: AT }, { why: "released" }, "attempt.interrupted"),
      { state: "queued", runAt: AT },
    ],
    [
      "an interruption leaves the chapter's clock alone",
      RUNNING,
      ended({ runAt: AT }, { why: "interrupted" }, "attempt.interrupted"),
      { state: "queued", runAt: AT },
    ],
    [
      "a success finishes it, with the usage of the run added",
      RUNNING,
      ended({ kind: "succeed" }, { usage: usageOf(5, 0.25) }, "attempt.succeeded"),
      { state: "succeeded", finishedAt: AT, usage: usageOf(15, 0.75) },
    ],
    [
      "a cancel finishes it",
      { ...RUNNING, cancelRequestedAt: T0 + 1 },
      ended({ kind: "cancel" }, {}, "attempt.lost"),
      { state: "cancelled", finishedAt: AT },
    ],
    [
      "a failure finishes it, with its reason",
      RUNNING,
      ended({ kind: "fail", reason: "poison" }, {}, "attempt.lost"),
      { state: "failed", reason: "poison", finishedAt: AT },
    ],
    [
      "a timeout in the queue ends the wait",
      { ...RUNNING, state: "queued", expiresAt: AT - 1 },
      ended({ kind: "fail", reason: "unschedulable" }, {}, "job.queue_timeout"),
      { state: "failed", reason: "unschedulable", finishedAt: AT, expiresAt: null },
    ],
    [
      "a cancel request is remembered while it runs",
      RUNNING,
      happened({ name: "job.cancel_requested", data: { v, by: "ann" } }),
      { cancelRequestedAt: AT },
    ],
    [
      "a cancel in the queue finishes it at once",
      { ...RUNNING, state: "queued", expiresAt: AT + 1 },
      happened({ name: "job.cancelled", data: { v, by: "ann" } }),
      { state: "cancelled", cancelRequestedAt: AT, finishedAt: AT, expiresAt: null },
    ],
    [
      "a discarded job stays failed",
      { ...FAILED, discardedAt: null },
      happened({ name: "job.discarded", data: { v, by: null } }),
      { discardedAt: AT },
    ],
    [
      "a rescheduled job is due at another time",
      { ...RUNNING, state: "queued" },
      happened({ name: "job.rescheduled", data: { v, by: null, runAt: AT + 9, expiresAt: AT + 99 } }),
      { runAt: AT + 9, expiresAt: AT + 99 },
    ],
    [
      "a redrive opens the next chapter: counters restart, attempt, revision and usage go on",
      FAILED,
      happened({ name: "job.redriven", data: { v, by: null, runAt: AT, expiresAt: AT + 99 } }),
      {
        ...{ state: "queued", reason: null, chapter: 3, runAt: AT, expiresAt: AT + 99 },
        ...NO_COUNTS,
        ...{ cancelRequestedAt: null, firstStartedAt: null, finishedAt: null, discardedAt: null },
      },
    ],
  ])("%s", (_, before, event, changes) => {
    expect(evolve(before, event)).toEqual({ ...before, revision: before.revision + 1, ...changes });
  });
});

describe("foldEvents", () => {
  it("gives the state of the row after every event of a long history", () => {
    const story = new TestJobHistory({
      expireInMs: 60_000,
      policy: {
        maxAttempts: 5,
        rules: [testRule({ status: [[429, 429]] }, "defer"), testRule({ kind: ["oom"] }, "retry", { maxRetries: 2 })],
      },
    });
    const same = () => expect(story.fold()).toEqual(progressOf(story.job));
    same();
    for (const outcome of [
      INTERRUPTED,
      RELEASED,
      failed(),
      lost(),
      timedOut(),
      failed({ kind: "oom" }),
      answered(429),
    ]) {
      story.start();
      same();
      story.settle(outcome, { usage: usageOf(3, 0.1) });
      same();
    }
    story.settle(QUEUE_TIMEOUT, { afterMs: 60_000 });
    same();
    story.start().command({ kind: "cancel", by: "ann" });
    same();
    story.settle(failed());
    expect(story.job.state).toBe("cancelled");
    same();
    story.command({ kind: "redrive" });
    same();
    story.settle(DEADLINE);
    expect(story.job).toMatchObject({ state: "failed", reason: "unschedulable", chapter: 2 });
    same();
    story.command({ kind: "discard" });
    same();
    story.command({ kind: "retry" });
    story.command({ kind: "reschedule", runAt: T0 + 999_999 });
    same();
    story.run(completed());
    expect(story.job).toMatchObject({ state: "succeeded", chapter: 3, attempt: 9, revision: story.events.length });
    same();
  });

  const story = new TestJobHistory().run(failed());
  const [submitted, started, ...rest] = story.events as [KeptEvent, KeptEvent, ...KeptEvent[]];

  it("reads events of format 1, which a program may have kept", () => {
    const kept = story.events.map((event) => {
      const data = { ...event.data, v: 1 };
      // As 0.1.0 stored the decision: a number for the step, and a text for what matched.
      if (!("decision" in data)) return { ...event, data } as KeptEvent;
      const { match: _match, ...decision } = data.decision;
      return { ...event, data: { ...data, decision: { ...decision, step: 10, matched: "onUnknown" } } } as never;
    });
    expect(foldEvents(kept)).toEqual(foldEvents(story.events));
  });

  it.each<[string, KeptEvent[], RegExp]>([
    ["no events", [], /at least one event/],
    ["a gap", [submitted, ...rest], /event 3 follows event 1/],
    ["an event twice", [submitted, started, started], /event 2 follows event 2/],
    ["another first event", [{ ...started, n: 1 } as KeptEvent], /event 1 is attempt.started/],
    ["a second submission", [submitted, { ...submitted, n: 2 } as KeptEvent], /event 2 is job.submitted/],
    [
      "a format of the future",
      [submitted, { ...started, data: { ...started.data, v: EVENT_FORMAT + 1 } } as KeptEvent],
      /event 2 has format 3/,
    ],
  ])("refuses %s", (_, events, message) => {
    expect(() => foldEvents(events)).toThrow(message);
  });
});

describe("a run", () => {
  const live: JobProgressFields = { ...RUNNING, state: "blocked" };

  it("changes nothing but its revision when it advances", () => {
    const event = happened({ name: "run.advanced", data: { v, messages: 1, changes: [] } });
    expect(evolve(live, event)).toEqual({ ...live, revision: 13 });
  });

  it("ends as its last event has it", () => {
    const data = { v, state: "failed", reason: "step", message: "pay failed", step: "pay" } as const;
    const ended = { ...live, revision: 13, state: "failed", reason: "step", finishedAt: AT };
    expect(evolve(live, happened({ name: "run.ended", data }))).toEqual(ended);
  });
});
