/** A step of a run as the API returns it, from its row and its job: the same for what is stored and for a simulation. */
import type { StepInfo } from "../api/runs.ts";
import type { Failure } from "../decision/failure.ts";
import type { Job } from "../job/job.ts";
import type { StepType } from "../playbook/playbook.ts";
import type { StepRow } from "./run.ts";

export function shownStep(row: StepRow, job: Job | null, type: StepType | null, failure: Failure | null): StepInfo {
  return {
    n: row.n,
    step: row.node,
    type,
    visit: row.visit,
    item: row.item < 0 ? null : row.item,
    try: row.try,
    state: row.state,
    job: row.job,
    jobState: job?.state ?? null,
    attempt: job?.attempt ?? 0,
    maxAttempts: job?.policy.maxAttempts ?? null,
    nextRunAt: job?.state === "queued" ? job.runAt : null,
    reason: job?.reason ?? null,
    failure,
    waitsUntil: row.state === "waiting" ? row.due : null,
    startedAt: row.at,
    endedAt: row.endedAt,
  };
}
