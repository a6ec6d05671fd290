import { describe, expect, it } from "vitest";
import { newJob } from "../conformance/kit.ts";
import { isFree, type KeyOwner, keyAnswer } from "./insert.ts";

const job = newJob({ key: "k" });
const OWNER: KeyOwner = { id: "job_1", bodyHash: job.bodyHash ?? "", state: 1, chapter: 2, until: null };

describe("a submit key that exists", () => {
  it("answers with its job", () => {
    const answer = { status: "exists", id: "job_1", state: "running", chapter: 2, pruned: false };
    expect(keyAnswer(job, OWNER)).toEqual(answer);
    expect(keyAnswer(job, { ...OWNER, until: 9 })).toEqual({ ...answer, pruned: true });
  });

  it("answers with a job of the same list, which has no row yet", () => {
    expect(keyAnswer(job, { ...OWNER, state: null, chapter: null })).toMatchObject({ state: "queued", chapter: 1 });
  });

  it("is a conflict for another kind, queue or payload", () => {
    expect(keyAnswer(job, { ...OWNER, bodyHash: "other" })).toEqual({ status: "conflict", id: "job_1" });
  });

  it("is free once the window of its stub is over", () => {
    expect([null, 8, 9, 10].map((until) => isFree({ ...OWNER, until }, 9))).toEqual([false, true, true, false]);
  });
});
