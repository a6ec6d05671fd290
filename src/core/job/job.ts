/** A job as decisions see it: its row without payload, result and lease. Everything here is plain data. */
import type { Policy } from "../policy/policy.ts";

export const JOB_STATES = ["queued", "running", "blocked", "succeeded", "failed", "cancelled"] as const;
/** Where a job is in its life.
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
] as const;
/** Why a job failed for good.
 *  @example
 *  const { reason } = await job.get();
 *  if (reason === ("timeout" satisfies FailReason)) console.log("give it more time"); */
export type FailReason = (typeof FAIL_REASONS)[number];

/** What attempts cost in a model's tokens and in money; added up over all attempts of a job, chapters included.
 *  @example
 *  const spent: Usage = { tokensIn: 1_200, tokensOut: 300, costUsd: 0.02 };
 *  ctx.usage(spent); */
export interface Usage {
  readonly tokensIn: number;
  readonly tokensOut: number;
  readonly costUsd: number;
}

/** What `foldEvents` can rebuild from a job's events alone.
 *  @example
 *  const { state, attempt, failures }: JobProgressFields = foldEvents(events); */
export interface JobProgressFields {
  readonly state: JobState;
  /** Why it failed; null in every other state. */
  readonly reason: FailReason | null;
  /** 1-based; a redrive opens the next. */
  readonly chapter: number;
  /** Runs started so far, over all chapters. Only ever grows, so it serves as the fence. */
  readonly attempt: number;
  /** Number of events written about this job. */
  readonly revision: number;
  /** Runs charged to the job itself in this chapter. */
  readonly failures: number;
  /** Runs charged to lost workers in this chapter. */
  readonly losses: number;
  /** Retries granted by `defer` rules in this chapter, not charged. */
  readonly defers: number;
  /** Interruptions and releases in a row, not charged; the 20th counts as a loss. */
  readonly handbacks: number;
  /** Quick losses in a row in different sessions (poison guard). */
  readonly streak: number;
  /** The session of the last loss in the streak. */
  readonly streakSession: string | null;
  /** What the losses of the streak say against it, in tenths of a power of ten (see `evidence.ts`). */
  readonly evidence: number;
  /** Matches of each rule that has a `maxRetries` of its own, by the rule's index. */
  readonly ruleCounts: Readonly<Record<number, number>> | null;
  /** When it may run next; for a job that is not queued, when its last run was due. */
  readonly runAt: number;
  /** When it will have waited too long (`runAt + expireIn`), pauses of its queue not counted; null while not queued. */
  readonly expiresAt: number | null;
  readonly cancelRequestedAt: number | null;
  /** Session id of the running or the latest attempt. */
  readonly worker: string | null;
  /** Start of the running or the latest attempt. */
  readonly startedAt: number | null;
  /** First start in this chapter: `maxElapsed` counts from here. */
  readonly firstStartedAt: number | null;
  readonly finishedAt: number | null;
  /** Taken out of the dead letters by a person. */
  readonly discardedAt: number | null;
  readonly usage: Usage | null;
}

/** A job as decisions see it: without payload and result.
 *  @example
 *  const charged = (job: Job) => job.failures + job.losses; */
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
  /** The job that submitted it, as its child; null for a job of its own. */
  readonly parentId: string | null;
  /** Parents above it. */
  readonly depth: number;
  readonly timeoutMs: number | null;
  readonly expireInMs: number | null;
  /** No run may start after this instant. */
  readonly deadlineAt: number | null;
  readonly policy: Policy;
}

/** Of each number that an attempt may tell: a million of them added up are still a number. */
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

/** To the millionth of a thousandth of a dollar: three times 0.3 is 0.9, and spends a budget of 0.9. */
export function money(usd: number): number {
  return Math.round(usd * 1e9) / 1e9;
}

/** Of two accounts of the same attempt: totals only grow, so of each number the larger is the later one. */
export function mostUsage(a: Usage | null, b: Usage | null): Usage | null {
  if (a === null || b === null) return a ?? b;
  return {
    tokensIn: Math.max(a.tokensIn, b.tokensIn),
    tokensOut: Math.max(a.tokensOut, b.tokensOut),
    costUsd: Math.max(a.costUsd, b.costUsd),
  };
}
