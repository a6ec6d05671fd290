/** A reference by a name that very many jobs have. */
import { expect, it } from "vitest";
import type { JobsFilter } from "../../core/job/jobs-filter.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { fullId } from "./job-reference.ts";

it("is searched page by page up to a limit, and then refused as ambiguous", async () => {
  let calls = 0;
  const copy = { id: "job_copy", annotations: { "resubmit-of": "job_first" } } as unknown as JobInfo;
  const perdure = {
    job: () => Promise.reject(new Error("not called")),
    async jobs({ name, limit = 0 }: JobsFilter = {}) {
      if (name === undefined) return { jobs: [], next: null };
      calls += 1;
      return { jobs: Array.from({ length: limit }, () => copy), next: "more" };
    },
  };
  await expect(fullId(perdure, "weekly")).rejects.toThrow('more than 400 jobs may have the name "weekly"; pass the id');
  expect(calls).toBe(20);
});
