/** A job as the adapters hold it, and the small codes and texts that both write. */
import { createHash } from "node:crypto";
import { type Failure, failure } from "../core/decision/failure.ts";
import { FAIL_REASONS, type FailReason, JOB_STATES, type Job, type JobProgressFields } from "../core/job/job.ts";
import type { Policy } from "../core/policy/policy.ts";

export const STATE_CODES = Object.fromEntries(JOB_STATES.map((state, code) => [state, code])) as Record<
  (typeof JOB_STATES)[number],
  number
>;

/** A job with the fields that only the store knows. */
export interface StoredJob extends Job {
  /** Its number in the database. */
  readonly no: number;
  readonly lane: number;
  readonly session: number | null;
  readonly liveUsage: string | null;
  readonly progress: string | null;
  /** The number of the nearest job with a budget, from itself upwards; null if there is none. */
  readonly budget: number | null;
  /** Of a step: the number of its run's job, which is its parent. */
  readonly run: number | null;
}

/** A job without the store's own fields. */
export function toFacts({ no: _no, lane: _lane, session: _session, ...rest }: StoredJob): Job {
  const { liveUsage: _usage, progress: _progress, budget: _budget, run: _run, ...job } = rest;
  return job;
}

/** A job that was just claimed. */
export interface StartedJob {
  readonly job: StoredJob;
  readonly payload: string;
  /** How the previous attempt failed, as JSON. */
  readonly previous: string | null;
}

export const NO_TAGS: readonly string[] = Object.freeze([]);

const NO_ANNOTATIONS: Readonly<Record<string, string>> = Object.freeze({});

export function toAnnotations(text: string | null): Readonly<Record<string, string>> {
  return text === null ? NO_ANNOTATIONS : (JSON.parse(text) as Record<string, string>);
}

const LOST = JSON.stringify(failure({ kind: "lost", message: "worker lost" }));

/** SQL for the failure that a list shows for a job that has not ended: of its latest failed attempt since the last
 *  redrive. Expects attempts of the job, latest first. Released and interrupted attempts are skipped. A lost worker
 *  leaves no failure, so one is made up for it. The first attempt of an older redrive ends the search: there may be
 *  thousands behind it. `chapter` is an SQL expression. */
export function openFailure(chapter: string): { readonly column: string; readonly where: string } {
  return {
    column: `case when chapter <> ${chapter} then null when outcome = 'lost' then '${LOST}' else failure end`,
    where: `(chapter <> ${chapter} or outcome not in ('released', 'interrupted'))`,
  };
}

/** A failure as lists show it. */
export function toFailure(text: string | null | undefined): Failure | null {
  return text == null ? null : { ...(JSON.parse(text) as Failure), stack: null };
}

export function toReason(text: string | null): FailReason | null {
  return text !== null && (FAIL_REASONS as readonly string[]).includes(text) ? (text as FailReason) : null;
}

export function parseOrNull<T>(text: string | null): T | null {
  return text === null ? null : (JSON.parse(text) as T);
}

export function jsonOrNull(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

/** A policy is stored once under this name, as `NewJob.policyHash` has it. */
export function hashOfPolicy(policy: Policy): string {
  return createHash("sha256").update(JSON.stringify(policy)).digest("base64url");
}

/** When the sweep must check a waiting job. */
export function checkAt(expiresAt: number | null, deadlineAt: number | null): number | null {
  if (expiresAt === null || deadlineAt === null) return expiresAt ?? deadlineAt;
  return Math.min(expiresAt, deadlineAt);
}

/** Nothing but the state, its end and its revision changes. */
export function isPlainSuccess(job: StoredJob, next: JobProgressFields): boolean {
  return next.state === "succeeded" && next.usage === null && job.liveUsage === null && isRested(job);
}

/** Nothing but the state, the time, the failures and the revision changes. */
export function isPlainRetry(job: StoredJob, next: JobProgressFields): boolean {
  return (
    next.state === "queued" &&
    next.failures === job.failures + 1 &&
    next.defers === job.defers &&
    next.ruleCounts === job.ruleCounts &&
    next.usage === null &&
    job.liveUsage === null &&
    job.expireInMs === null &&
    job.deadlineAt === null &&
    isRested(job)
  );
}

function isRested(job: StoredJob): boolean {
  return job.handbacks === 0 && job.streak === 0;
}

/** Whether a command cancels the job and its children. */
export function isCancel({ name }: { readonly name: string }): boolean {
  return name === "job.cancelled" || name === "job.cancel_requested";
}

/** More than a process runs at a time; beyond it jobs are read again. */
export const MAX_STARTED = 20_000;

/** The proof that a session holds an attempt: format, store generation, session, attempt. Opaque to workers. */
export function leaseToken(generation: string, session: string, attempt: number): string {
  return `1.${generation}.${session}.${attempt}`;
}

export function sessionIn(token: string): string | null {
  return token.split(".")[2] ?? null;
}

/** Whether two submits with one key mean the same job: one of their hashes is equal. */
export function isSameBody(stored: string, given: string | null): boolean {
  if (stored === given) return true;
  const hashes = stored.split(" ");
  return (given ?? "").split(" ").some((hash) => hashes.includes(hash));
}
