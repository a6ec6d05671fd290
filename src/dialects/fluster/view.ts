/** A job as fluster's `JobStatus` shows it.
 *
 *  `attempts` has all that have ended, each with how it truly ended, and so the last one too once the job is over
 *  (`attempts.ts`). fluster writes an attempt into its history before its end is known, and the last one never. Here an
 *  attempt is closed first and then decided on.
 *
 *  The counters are what was charged to the two budgets, over all redrives, as `attempts` and `current_attempt_id` go on through
 *  all of them: "Number of job failures". After a redrive, which fluster does not know and which grants the retries anew, they
 *  may so pass their limits. */
import { shortageText } from "../../core/budget.ts";
import { isTerminal } from "../../core/job.ts";
import type { JobInfo } from "../../core/views.ts";
import { chargedBefore } from "../counted.ts";
import type { ViewParts } from "../dialect.ts";
import {
  type Decided,
  type FlusterAttempt,
  type FlusterState,
  flusterAttempts,
  isDecided,
  TERMINATED,
  workerOf,
} from "./attempts.ts";
import { flusterEcho } from "./retry.ts";

/** The tag of all jobs that came in as fluster's, by a file or by its controller's calls. */
export const FLUSTER_TAG = "fluster";
/** The annotation that keeps a job's name. */
export const FLUSTER_NAME = "fluster/name";

/** A job as fluster's API shows it.
 *  @example
 *  const { state, exit_code }: FlusterStatus = await fluster(perdure).status(job.id); */
export interface FlusterStatus {
  readonly job_id: string;
  readonly name: string;
  readonly parent_job_id: string | null;
  readonly state: FlusterState;
  // Of the attempt that runs or the one that ended the job; null while it waits.
  readonly exit_code: number | null;
  readonly error: string | null;
  readonly started_at_ms: number | null;
  readonly finished_at_ms: number | null;
  readonly worker_id: string | null;
  readonly failure_count: number;
  readonly preemption_count: number;
  /** From 0; of a job that waits, the attempt that comes next, and of one that has ended, the last that there was. */
  readonly current_attempt_id: number;
  readonly attempts: readonly FlusterAttempt[];
  readonly max_retries_failure: number;
  readonly max_retries_preemption: number;
  /** Of the retry that it waits for; 0 if it waits for none. */
  readonly next_retry_delay_ms: number;
  /** 0 if it is ready, or not waiting. Who has no clock may show an instant that has passed, which is ready too. */
  readonly retry_available_at_ms: number;
}

/** What of the events the view needs. */
interface Story {
  /** Since the last redrive. */
  readonly decided: readonly Decided[];
  /** Whether it was a run that ended the job, and not a wait. */
  readonly endedByRun: boolean;
  /** The latest instant that is known. */
  readonly now: number;
}

export function flusterStatus(parts: ViewParts): FlusterStatus {
  const { job } = parts;
  const story = storyOf(parts);
  const state = stateOf(job, story);
  const attempts = flusterAttempts(parts);
  const isCurrent = ["running", "succeeded"].includes(job.state) || (isTerminal(job.state) && story.endedByRun);
  const last = isCurrent ? attempts.findLast(({ attempt_id }) => attempt_id === job.attempt - 1) : undefined;
  const waitsFor = job.state === "queued" ? story.decided.at(-1)?.data.decision : undefined;
  const before = chargedBefore(parts.events);
  const unscheduled = parts.events.filter(({ name, data }) => {
    return name === "job.queue_timeout" && data.decision.charge?.to === "maxAttempts";
  });
  return {
    job_id: job.id,
    name: job.annotations?.[FLUSTER_NAME] ?? job.key ?? job.kind,
    parent_job_id: job.parentId ?? null,
    state,
    exit_code: state === "SUCCEEDED" ? 0 : (last?.exit_code ?? null),
    error: errorOf(job, state, last, story),
    started_at_ms: isCurrent ? job.startedAt : null,
    finished_at_ms: job.finishedAt,
    worker_id: isCurrent ? workerOf(job.attempt, job.worker, parts) : null,
    // With us a wait that ran out is charged to the failures; in fluster nothing has failed.
    failure_count: Math.max(0, before.failures + job.failures - unscheduled.length),
    preemption_count: before.losses + job.losses,
    current_attempt_id: isWaiting(job) ? job.attempt : Math.max(0, job.attempt - 1),
    attempts,
    ...flusterEcho(job.policy),
    next_retry_delay_ms: waitsFor?.kind === "retry" ? (waitsFor.delay?.delayMs ?? 0) : 0,
    retry_available_at_ms: job.state === "queued" && job.runAt > story.now ? job.runAt : 0,
  };
}

function storyOf({ job, events, now }: ViewParts): Story {
  const latest = events.slice(events.findLastIndex(({ name }) => name === "job.redriven") + 1);
  const ends = latest.filter((event) => event.name === "job.cancelled" || isDecided(event));
  return {
    decided: latest.filter(isDecided),
    endedByRun: ends.at(-1)?.name.startsWith("attempt.") ?? false,
    now: now ?? events.at(-1)?.at ?? job.submittedAt,
  };
}

function stateOf({ state, reason }: JobInfo, { decided }: Story): FlusterState {
  switch (state) {
    case "queued":
    case "blocked": // it waits, and no worker has it
      return "PENDING";
    case "running":
      return "RUNNING";
    case "succeeded":
      return "SUCCEEDED";
    case "cancelled":
      return "KILLED";
    case "failed": {
      const last = decided.at(-1);
      // Also when it waited for a retry, which is another reason of ours.
      if (last?.name === "job.queue_timeout" || reason === "unschedulable") return "UNSCHEDULABLE";
      if (last?.data.decision.class === "lost" || reason === "lost" || reason === "poison") return "WORKER_FAILED";
      return "FAILED";
    }
  }
}

function errorOf(job: JobInfo, state: FlusterState, last: FlusterAttempt | undefined, story: Story): string | null {
  switch (state) {
    case "KILLED":
      return TERMINATED;
    case "UNSCHEDULABLE": {
      const event = story.decided.at(-1);
      if (event?.name === "job.queue_timeout" && event.data.why === "deadline") return "Scheduling deadline exceeded";
      return `Scheduling timeout exceeded${job.expireInMs === null ? "" : ` (${job.expireInMs / 1_000}s)`}`;
    }
    case "FAILED":
    case "WORKER_FAILED": {
      const shortage = story.decided.at(-1)?.data.decision.shortage;
      if (shortage !== undefined) return `Budget exceeded: ${shortageText(shortage)}`;
      return last?.error ?? job.reason;
    }
    default:
      return null;
  }
}

function isWaiting({ state }: JobInfo): boolean {
  return state === "queued" || state === "blocked";
}
