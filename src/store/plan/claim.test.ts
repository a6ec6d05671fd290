import { describe, expect, it } from "vitest";
import { type ClaimingState, DEAD, firstAnswer, noJobs, refusedClaim } from "./claim.ts";

const NOW = 1_000;
const FREE: ClaimingState = { isOver: false, isDraining: false, isLate: false, aloneUntil: null };

describe("a session that claims", () => {
  it("may claim unless something prevents it", () => {
    expect(refusedClaim(FREE, NOW)).toBeNull();
    expect(refusedClaim({ ...FREE, aloneUntil: NOW }, NOW)).toBeNull();
  });

  it("gets no jobs when it has ended, is draining, is late or runs a suspect alone, in this order", () => {
    const all = { isOver: true, isDraining: true, isLate: true, aloneUntil: NOW + 1 };
    expect(refusedClaim(all, NOW)).toEqual(DEAD);
    expect(refusedClaim({ ...all, isOver: false }, NOW)).toMatchObject({ alive: true, drain: true, nextAt: null });
    expect(refusedClaim({ ...all, isOver: false, isDraining: false }, NOW)).toEqual(noJobs(null));
    expect(refusedClaim({ ...FREE, aloneUntil: NOW + 1 }, NOW)).toEqual(noJobs(NOW + 1));
  });
});

it("a first answer has a reply number only with a claim id and jobs", () => {
  const job = { id: "job_1" } as never;
  expect(firstAnswer({ claimId: "c" }, [job], [])).toEqual({ ...noJobs(null), jobs: [job], delivery: 1 });
  expect(firstAnswer({ claimId: null }, [job], []).delivery).toBeNull();
  const overBudget = [{ jobId: "job_2", parentId: null }];
  expect(firstAnswer({ claimId: "c" }, [], overBudget)).toEqual({ ...noJobs(null), overBudget });
});
