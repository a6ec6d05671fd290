import { describe, expect, it } from "vitest";
import { EVENT_FORMAT, type JobEventBody, type StoredDecision, shownNames } from "./event.ts";

const v = EVENT_FORMAT;

function decided(parts: Partial<StoredDecision>): StoredDecision {
  return { kind: "retry", step: "retry", class: "failure", match: { by: "onUnknown" }, ...parts };
}

function ended(name: string, parts: Partial<StoredDecision>): JobEventBody {
  return { name, data: { v, attempt: 1, decision: decided(parts) } } as JobEventBody;
}

describe("shownNames", () => {
  it.each<[string, JobEventBody, string[]]>([
    [
      "a success",
      ended("attempt.succeeded", { kind: "succeed", step: "completed" }),
      ["attempt.succeeded", "job.succeeded"],
    ],
    ["a retry after a failure", ended("attempt.failed", {}), ["attempt.failed", "job.retry_scheduled"]],
    ["a retry after a timeout", ended("attempt.timed_out", {}), ["attempt.timed_out", "job.retry_scheduled"]],
    ["a retry after a loss", ended("attempt.lost", {}), ["attempt.lost", "job.retry_scheduled"]],
    ["a wait", ended("attempt.waiting", { kind: "block", step: "children" }), ["attempt.waiting", "job.blocked"]],
    ["a handback", ended("attempt.interrupted", { step: "handback" }), ["attempt.interrupted", "job.retry_scheduled"]],
    ["a retry after a queue timeout", ended("job.queue_timeout", {}), ["job.queue_timeout", "job.retry_scheduled"]],
    ["a cancel", ended("attempt.failed", { kind: "cancel", step: "cancel" }), ["attempt.failed", "job.cancelled"]],
    [
      "a failure without another try",
      ended("attempt.failed", { kind: "fail", step: "not_retryable", reason: "rejected" }),
      ["attempt.failed", "job.failed"],
    ],
    [
      "the last of the runs",
      ended("attempt.failed", { kind: "fail", step: "exhausted", reason: "exhausted" }),
      ["attempt.failed", "job.retries_exhausted", "job.failed"],
    ],
    [
      "the last of the losses",
      ended("attempt.lost", { kind: "fail", step: "exhausted", reason: "lost" }),
      ["attempt.lost", "job.retries_exhausted", "job.failed"],
    ],
    [
      "poison",
      ended("attempt.lost", { kind: "fail", step: "poison", reason: "poison" }),
      ["attempt.lost", "job.failed"],
    ],
    [
      "a budget spent",
      ended("attempt.failed", { kind: "fail", step: "elapsed", reason: "budget" }),
      ["attempt.failed", "job.failed"],
    ],
  ])("names %s by what happened to the attempt, then by the consequence for the job", (_, event, names) => {
    expect(shownNames(event)).toEqual(names);
  });

  it.each<[JobEventBody]>([
    [{ name: "attempt.started", data: { v, attempt: 1, session: "s1", worker: "w1" } }],
    [{ name: "job.cancel_requested", data: { v, by: null } }],
    [{ name: "job.cancelled", data: { v, by: "ann" } }],
    [{ name: "job.discarded", data: { v, by: null } }],
    [{ name: "job.redriven", data: { v, by: null, runAt: 0, expiresAt: null } }],
    [{ name: "job.rescheduled", data: { v, by: null, runAt: 0, expiresAt: null } }],
  ])("shows the others under their own name only: %o", (event) => {
    expect(shownNames(event)).toEqual([event.name]);
  });
});
