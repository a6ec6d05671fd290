/** What a claim hands to a worker. */
import { resourcesIn } from "../core/resources.ts";
import type { ClaimedJob } from "../core/work.ts";
import type { ClaimAnswer } from "./store.ts";
import { leaseToken, type StartedJob } from "./stored-job.ts";

export function claimedJob(generation: string, session: string, { job, payload, previous }: StartedJob): ClaimedJob {
  const claimed: ClaimedJob = {
    id: job.id,
    namespace: job.namespace,
    queue: job.queue,
    kind: job.kind,
    attempt: job.attempt,
    chapter: job.chapter,
    token: leaseToken(generation, session, job.attempt),
    payload,
    timeoutMs: job.timeoutMs,
    failures: job.failures,
    maxAttempts: job.policy.maxAttempts,
    tags: job.tags,
    previous,
  };
  const needs = resourcesIn(job.labels);
  return needs === null ? claimed : { ...claimed, needs };
}

export const DEAD: ClaimAnswer = Object.freeze({ alive: false, drain: false, jobs: [], nextAt: null, delivery: null });
/** Its lease is over: what it would get now, the reaper would take back at once and charge to the job. It gets more
 *  when it has renewed. */
export const LATE: ClaimAnswer = Object.freeze({ alive: true, drain: false, jobs: [], nextAt: null, delivery: null });
/** It was told to take no more. */
export const DRAINING: ClaimAnswer = Object.freeze({
  alive: true,
  drain: true,
  jobs: [],
  nextAt: null,
  delivery: null,
});

/** A session with more lanes than it can look through at once looks at the next ones this soon. */
export const NEXT_WINDOW_MS = 25;
