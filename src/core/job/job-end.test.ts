import { describe, expect, it } from "vitest";
import { failure } from "../decision/failure.ts";
import type { PerdureEvent } from "./event.ts";
import { earlierChapterEnd, errorOfEnd, type JobEndFields, lastFailure, resultTimeout } from "./job-end.ts";
import type { AttemptRow } from "./views.ts";

const ID = "job_1";

function ended(fields: Partial<JobEndFields>): JobEndFields {
  return { id: ID, chapter: 1, state: "succeeded", reason: null, attempt: 1, ...fields };
}

function attempt(n: number, chapter: number, message: string | null): AttemptRow {
  return {
    ...{
      jobId: ID,
      attempt: n,
      chapter,
      session: null,
      startedAt: 0,
      endedAt: 1,
      usage: null,
      result: null,
      log: null,
    },
    ...{ outcome: message === null ? "completed" : "failed" },
    failure: message === null ? null : failure({ kind: "error", message }),
  };
}

/** As much of a job's events as tells its chapters apart. */
async function* story(...names: string[]): AsyncGenerator<PerdureEvent, void, void> {
  let attempts = 0;
  for (const text of names) {
    const [name = "", reason] = text.split(" ");
    if (name === "attempt.started") attempts += 1;
    const decision = reason === undefined ? {} : { decision: reason === "again" ? {} : { reason } };
    yield { name, data: { v: 1, attempt: attempts, ...decision } } as unknown as PerdureEvent;
  }
}

/** A handle that must be asked for nothing it was not given. */
function handle(attempts?: AttemptRow[], events?: AsyncGenerator<PerdureEvent, void, void>) {
  return {
    attempts: async () => attempts ?? expect.unreachable("asked for attempts"),
    events: () => events ?? expect.unreachable("asked for events"),
  };
}

const TWO_CHAPTERS = [
  ...["job.submitted", "attempt.started", "attempt.failed again", "attempt.started", "attempt.failed exhausted"],
  ...["job.redriven", "attempt.started", "attempt.failed rejected"],
];

describe("the end of the requested chapter", () => {
  it("is not an error when it succeeded, and nothing more is read", async () => {
    expect(await errorOfEnd(ended({}), 1, handle())).toBeNull();
  });

  it("is the reason and the last failure of that chapter when it failed", async () => {
    const attempts = [attempt(1, 1, "old"), attempt(2, 2, "first"), attempt(3, 2, "last")];
    const job = ended({ chapter: 2, state: "failed", reason: "exhausted", attempt: 3 });
    const error = await errorOfEnd(job, 2, handle(attempts));
    expect(error).toMatchObject({ code: "job_failed", reason: "exhausted", attempt: 3, failure: { message: "last" } });
    expect(error?.message).toBe("job_1 failed (exhausted) after 3 attempts: last");
  });

  it("has no failure when it failed without an attempt", async () => {
    const job = ended({ state: "failed", reason: "timeout", attempt: 0 });
    expect(await errorOfEnd(job, 1, handle([]))).toMatchObject({ reason: "timeout", failure: null });
  });

  it("is an error when it was cancelled", async () => {
    expect(await errorOfEnd(ended({ state: "cancelled" }), 1, handle())).toMatchObject({ code: "job_cancelled" });
  });
});

describe("the end of an earlier chapter", () => {
  it("is that of the chapter, whatever happened since", async () => {
    const attempts = [attempt(1, 1, "a"), attempt(2, 1, "b"), attempt(3, 2, "c")];
    const error = await errorOfEnd(ended({ chapter: 3 }), 1, handle(attempts, story(...TWO_CHAPTERS)));
    expect(error).toMatchObject({ code: "job_failed", reason: "exhausted", attempt: 2, failure: { message: "b" } });
  });

  it("is found in the middle of the story too", async () => {
    expect(await earlierChapterEnd(story(...TWO_CHAPTERS, "job.redriven"), 2)).toEqual({
      reason: "rejected",
      attempt: 3,
    });
  });

  it("was a cancel when its last decision names no reason", async () => {
    const events = story("job.submitted", "attempt.started", "attempt.failed again", "job.cancelled", "job.redriven");
    const error = await errorOfEnd(ended({ chapter: 2, state: "running" }), 1, handle(undefined, events));
    expect(error).toMatchObject({ code: "job_cancelled" });
    expect(error?.message).toContain("job_1 was cancelled and has been redriven since");
  });

  it("may be a wait that ran out", async () => {
    const events = story("job.submitted", "job.queue_timeout unschedulable", "job.redriven");
    expect(await earlierChapterEnd(events, 1)).toEqual({ reason: "unschedulable", attempt: 0 });
  });
});

it("takes the last attempt of a chapter, also when that one did not fail", () => {
  expect(lastFailure([attempt(1, 1, "a"), attempt(2, 1, null)], 1)).toBeNull();
  expect(lastFailure([], 1)).toBeNull();
});

it("shows how long it waited", () => {
  expect(resultTimeout(ID, 50)).toMatchObject({
    code: "result_timeout",
    message: "job_1 did not end within 50 ms; it continues",
  });
});
