/** Builders for the conformance suite: jobs, sessions and reports with defaults, the engine's decision with a fixed
 *  random number, and a `Bench` that holds the store under test. Time is a number passed to each call. */
import { createHash } from "node:crypto";
import { failure } from "../../core/decision/failure.ts";
import type { Outcome } from "../../core/decision/outcome.ts";
import { decideCommand } from "../../core/job/command.ts";
import { type Job, mostUsage, type Usage } from "../../core/job/job.ts";
import { settleJob, submitJob } from "../../core/job/lifecycle.ts";
import { MIDDLE, T0 } from "../../core/job/testing-job.ts";
import type { PolicyInput } from "../../core/policy/policy.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { ClaimedJob, NewSession, Report, ReportedOutcome } from "../../core/worker-protocol.ts";
import { idMaker } from "../../lib/id.ts";
import type { AttemptLease, DecideCommand, DecideReport, NewJob, Store } from "../store.ts";

export { T0 };
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const DAY = 1_440 * MINUTE;
export const LEASE = 15 * SECOND;

/** Ids in increasing order, the same in every run. */
let drawn = 1;
const makeId = idMaker({
  now: () => T0,
  randomBytes(bytes) {
    for (let i = 0; i < bytes.length; i++) {
      drawn = (drawn * 48_271) % 2_147_483_647;
      bytes[i] = drawn & 0xff;
    }
  },
});
export const jobId = () => makeId("job");

export interface JobParts extends Partial<Omit<NewJob, "policy" | "transition">> {
  readonly retry?: PolicyInput;
  /** When it was submitted. */
  readonly at?: number;
}

/** Two attempts, one second apart. */
export const TWICE: PolicyInput = { maxAttempts: 2, backoff: { type: "fixed", delay: SECOND, jitter: 0 } };

/** A job of kind "work", due at its submit, with a single attempt. */
export function newJob({ retry = 1, at = T0, ...parts }: JobParts = {}): NewJob {
  const { namespace = "default", queue = "default", kind = "work", payload = '{"n":1}', key = null } = parts;
  const policy = resolvePolicy(retry);
  const runAt = parts.runAt ?? at;
  const expireInMs = parts.expireInMs ?? null;
  return {
    id: jobId(),
    labels: {},
    priority: 5,
    timeoutMs: null,
    deadlineAt: null,
    tags: [],
    parent: null,
    depth: 0,
    annotations: null,
    name: null,
    action: null,
    bodyHash: key === null ? null : hash(`${kind} ${queue} ${payload}`),
    ...parts,
    ...{ namespace, queue, kind, payload, key, runAt, expireInMs, policy },
    policyHash: hash(JSON.stringify(policy)),
    transition: submitJob(
      { kind, queue, namespace, runAt, expireInMs, policy, parentId: parts.parent?.id ?? null },
      at,
    ),
  };
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

export function newSession(parts: Partial<NewSession> = {}): NewSession {
  return {
    id: makeId("ses"),
    namespace: "default",
    name: "worker-1",
    host: "host-1",
    pid: 1,
    process: null,
    kinds: ["work"],
    queues: null,
    labels: {},
    slots: 10,
    leaseMs: LEASE,
    ...parts,
  };
}

// Outcomes and reports.

export function done(result: string | null = '"done"'): ReportedOutcome {
  return { kind: "completed", result };
}

export function broke(message = "it broke"): ReportedOutcome {
  return { kind: "failed", failure: failure({ kind: "error", message }) };
}

/** The ids of jobs that it waits for. */
export function waiting(children: readonly string[]): ReportedOutcome {
  return { kind: "waiting", children };
}

export const LOST: ReportedOutcome = { kind: "lost" };
export const RELEASED: ReportedOutcome = { kind: "released" };
export const INTERRUPTED: ReportedOutcome = { kind: "interrupted" };

export function usageOf(tokensIn: number, tokensOut = 0, costUsd = 0): Usage {
  return { tokensIn, tokensOut, costUsd };
}

let reports = 0;

export interface ReportParts {
  readonly reportId?: string;
  readonly token?: string;
  readonly attempt?: number;
  readonly usage?: Usage | null;
  readonly log?: string | null;
}

/** A worker's report of a job that it holds. */
export function reportOf(job: ClaimedJob, outcome: ReportedOutcome = done(), parts: ReportParts = {}): Report {
  reports += 1;
  const { reportId = `report-${reports}`, token = job.token, attempt = job.attempt, usage = null, log = null } = parts;
  return { jobId: job.id, attempt, from: { kind: "worker", token, reportId }, outcome, usage, log };
}

type Place = { readonly jobId: string; readonly attempt: number };

export function reaped({ jobId, attempt }: Place): Report {
  return { jobId, attempt, from: { kind: "reaper" }, outcome: LOST, usage: null, log: null };
}

export function released({ jobId, attempt }: Place, session: string): Report {
  return { jobId, attempt, from: { kind: "release", session }, outcome: RELEASED, usage: null, log: null };
}

export function overdue({ jobId, attempt }: Place, kind: "queue_timeout" | "deadline" = "queue_timeout"): Report {
  return { jobId, attempt, from: { kind: "expiry" }, outcome: { kind }, usage: null, log: null };
}

export function placeOf({ id, attempt }: { readonly id: string; readonly attempt: number }): Place {
  return { jobId: id, attempt };
}

/** How many lanes a namespace has. */
export async function lanesIn(store: Store, namespace = "default"): Promise<number> {
  return (await store.queues.laneUse({ namespace, owners: [], lanes: [] })).total;
}

// Decisions.

/** The decision as the engine makes it (engine/settle.ts), with one fixed random number. */
export function decideAt(now: number, random = MIDDLE): DecideReport {
  return (job, report, held) =>
    settleJob(
      job,
      outcomeOf(job, report.outcome, held),
      mostUsage(report.usage, held.usage),
      now,
      random,
      held.budgets,
    );
}

function outcomeOf(job: Job, reported: ReportedOutcome, held: AttemptLease): Outcome {
  switch (reported.kind) {
    case "completed": {
      const asked = job.policy.retryWhen !== null && reported.result !== null;
      return { kind: "completed", result: asked ? JSON.parse(reported.result as string) : null };
    }
    case "failed":
    case "timeout":
      return { kind: reported.kind, failure: reported.failure };
    case "lost": {
      const why = held.ended ? "worker_gone" : "lease_expired";
      const lost = { kind: "lost", why, session: held.session, renewedAt: held.renewedAt, by: "engine-1" } as const;
      return held.crash === undefined ? lost : { ...lost, crash: held.crash };
    }
    case "waiting":
      return reported;
    case "released":
      return { kind: "released", session: held.session };
    default:
      return { kind: reported.kind };
  }
}

export function decideCommandAt(now: number): DecideCommand {
  return (job, command, _parent, budgets) => decideCommand(job, command, now, budgets);
}
