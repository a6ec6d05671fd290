/** A job without payload, result and lease, as plain data. */
import type { Policy } from "../policy/policy.ts";

export const JOB_STATES = ["queued", "running", "blocked", "succeeded", "failed", "cancelled"] as const;
/** The state of a job.
 *  @example
 *  const ended: JobState[] = ["succeeded", "failed", "cancelled"]; */
export type JobState = (typeof JOB_STATES)[number];

export const FAIL_REASONS = [
  "exhausted",
  "lost",
  "rejected",
  "invalid",
  "timeout",
  "budget",
  "unschedulable",
  "poison",
  "step",
] as const;
/** Why a job failed.
 *  @example
 *  const { reason } = await job.get();
 *  if (reason === ("timeout" satisfies FailReason)) console.log("it needs more time"); */
export type FailReason = (typeof FAIL_REASONS)[number];

/** The tokens and the money that attempts used, as the sum over all attempts of a job, across redrives.
 *  @example
 *  const spent: Usage = { tokensIn: 1_200, tokensOut: 300, costUsd: 0.02 };
 *  ctx.usage(spent); */
export interface Usage {
  readonly tokensIn: number;
  readonly tokensOut: number;
  readonly costUsd: number;
}

/** The fields that `foldEvents` rebuilds from the events of a job.
 *  @example
 *  const { state, attempt, failures }: JobProgressFields = foldEvents(events); */
export interface JobProgressFields {
  readonly state: JobState;
  /** Why it failed; null in every other state. */
  readonly reason: FailReason | null;
  /** 1, plus 1 for each redrive. */
  readonly chapter: number;
  /** Attempts started so far, across redrives. It only grows, so it is the fencing number. */
  readonly attempt: number;
  /** The number of events of this job. */
  readonly revision: number;
  /** Attempts that count as failures since the last redrive. */
  readonly failures: number;
  /** Attempts that count as lost since the last redrive. */
  readonly losses: number;
  /** Retries by `defer` rules since the last redrive, which do not count as attempts. */
  readonly defers: number;
  /** Interruptions and releases in a row, which do not count as attempts; the 20th counts as a loss. */
  readonly handbacks: number;
  /** Quick losses in a row in different sessions (poison guard). */
  readonly streak: number;
  /** The session of the last loss in the streak. */
  readonly streakSession: string | null;
  /** The evidence of the streak against the job, in tenths of a power of ten (see `evidence.ts`). */
  readonly evidence: number;
  /** Matches of each rule with `maxRetries`, by its index. */
  readonly ruleCounts: Readonly<Record<number, number>> | null;
  /** When it is due; for a job that is not queued, when its last attempt was due. */
  readonly runAt: number;
  /** When it expires (`runAt + expireIn`, without the time that its queue is paused); null while not queued. */
  readonly expiresAt: number | null;
  readonly cancelRequestedAt: number | null;
  /** The session of the running or the latest attempt. */
  readonly worker: string | null;
  /** The start of the running or the latest attempt. */
  readonly startedAt: number | null;
  /** The first start since the last redrive, from which `maxElapsed` counts. */
  readonly firstStartedAt: number | null;
  readonly finishedAt: number | null;
  /** When a person removed it from the dead letters. */
  readonly discardedAt: number | null;
  readonly usage: Usage | null;
}

/** A job without payload and result.
 *  @example
 *  const counted = (job: Job) => job.failures + job.losses; */
export interface Job extends JobProgressFields {
  readonly id: string;
  readonly namespace: string;
  readonly queue: string;
  readonly kind: string;
  readonly priority: number;
  readonly key: string | null;
  readonly tags: readonly string[];
  /** Labels a worker must have to run it. */
  readonly labels: Readonly<Record<string, string>>;
  readonly submittedAt: number;
  /** The parent job that submitted it; null where there is none. */
  readonly parentId: string | null;
  /** The run that it is a step of; null for a job that is not a step. A step's parent is its run. */
  readonly runId: string | null;
  /** The number of its ancestors. */
  readonly depth: number;
  readonly timeoutMs: number | null;
  readonly expireInMs: number | null;
  /** No attempt may start after this instant. */
  readonly deadlineAt: number | null;
  readonly policy: Policy;
}

/** The limit of each number that an attempt reports: the sum of a million of them is still exact enough. */
export const MAX_USAGE = 1e15;

export function isTerminal(state: JobState): boolean {
  return state === "succeeded" || state === "failed" || state === "cancelled";
}

export function addUsage(a: Usage | null, b: Usage | null): Usage | null {
  if (b === null) return a;
  if (a === null) return b;
  return {
    tokensIn: a.tokensIn + b.tokensIn,
    tokensOut: a.tokensOut + b.tokensOut,
    costUsd: money(a.costUsd + b.costUsd),
  };
}

/** Rounded to 1e-9 USD, so that three times 0.3 is 0.9. */
export function money(usd: number): number {
  return Math.round(usd * 1e9) / 1e9;
}

/** The later of two reports of the same attempt: totals only grow, so each number is the larger one. */
export function mostUsage(a: Usage | null, b: Usage | null): Usage | null {
  if (a === null || b === null) return a ?? b;
  return {
    tokensIn: Math.max(a.tokensIn, b.tokensIn),
    tokensOut: Math.max(a.tokensOut, b.tokensOut),
    costUsd: Math.max(a.costUsd, b.costUsd),
  };
}
