/** Settles attempts: reports of workers and findings of the reaper take the same path and the same decision. Removes files of
 *  ended jobs that are no longer needed. */

import { isPlain } from "../core/check.ts";
import { SUSPECT_STREAK } from "../core/decision/evidence.ts";
import { type Failure, failure } from "../core/decision/failure.ts";
import type { Outcome } from "../core/decision/outcome.ts";
import { takesResources } from "../core/input/resources.ts";
import { isTerminal, type Job, mostUsage } from "../core/job/job.ts";
import { type Settlement, settleJob } from "../core/job/lifecycle.ts";
import type { Report, ReportedOutcome, SettleAnswer } from "../core/worker-protocol.ts";
import { isOver, storable } from "../lib/text.ts";
import type { AttemptLease } from "../store/store.ts";
import { isWait, validatedWaits } from "./children/child-rules.ts";
import { LIMITS } from "./limits.ts";
import { notifyObserver, observed, type SettledAttempt } from "./observer.ts";
import type { EngineParts } from "./parts.ts";

/** Removes files of a job's attempts that are no longer needed. An error costs disk space, nothing else. */
export async function tidyOutputs({ outputs, log }: EngineParts, jobId: string): Promise<void> {
  await outputs
    ?.tidy(jobId)
    .catch((error: unknown) => log("warn", `cannot remove leftover files of ${jobId}: ${String(error)}`));
}

interface SettleOptions {
  /** The instant to settle at. The reaper passes when it searched: after a sleep in between, every lease would be expired. */
  readonly at?: number;
  /** Resolve only when leftover files are removed too: for a process that may exit right after. */
  readonly tidied?: boolean;
}

export async function settle(
  parts: EngineParts,
  given: readonly Report[],
  { at, tidied = false }: SettleOptions = {},
): Promise<SettleAnswer[]> {
  const { store, clock, hub } = parts;
  const reports = given.some(isWait) ? await validatedWaits(parts, given) : given;
  const now = at ?? clock.now();
  // Parents of children that end, and jobs that begin to wait: written or not, checking them costs little.
  let mayContinue: string[] | null = null;
  let runs: Set<string> | null = null;
  // The end of a job that takes cpu or memory frees capacity that others wait for.
  let freesCapacity = false;
  const decide = (job: Job, report: Report, held: AttemptLease) => {
    const settlement = decideReport(parts, job, report, held, now);
    const { state } = settlement.next;
    // A session that ran a suspect may take other jobs again.
    freesCapacity ||= takesResources(job.labels) || job.streak >= SUSPECT_STREAK;
    if (job.runId !== null && isTerminal(state)) {
      runs ??= new Set();
      runs.add(job.runId);
      return settlement;
    }
    const waits = state === "blocked" ? job.id : isTerminal(state) ? job.parentId : null;
    if (waits !== null) {
      mayContinue ??= [];
      mayContinue.push(waits);
    }
    return settlement;
  };
  const settling = () => store.settle(reports.map(storableReport), now, decide);
  const answers = await observed(parts, "settle", reports.length, settling);
  let ready = freesCapacity;
  const tidying: Promise<void>[] = [];
  answers.forEach((answer, i) => {
    if (answer.status !== "accepted") return;
    const { jobId, from } = reports[i] as Report;
    if (!isTerminal(answer.state)) ready = true;
    else {
      hub.ended(jobId);
      // A worker removes its own files.
      if (from.kind !== "worker") tidying.push(tidyOutputs(parts, jobId));
    }
  });
  if (ready) hub.ready.fire();
  hub.written.fire();
  if (mayContinue !== null) parts.childSignals.mayContinue(mayContinue);
  if (runs !== null) parts.runSignals.mayGoOn(runs);
  notifyObserver(parts, (observer) => {
    const settled = settledAttempts(reports, answers);
    if (settled.length > 0) observer.settled?.(settled);
  });
  if (tidied) await Promise.all(tidying);
  return answers;
}

/** Those that changed something. */
export function settledAttempts(reports: readonly Report[], answers: readonly SettleAnswer[]): SettledAttempt[] {
  return reports.flatMap(({ jobId, attempt, outcome }, i) => {
    const answer = answers[i];
    if (answer?.status !== "accepted" || answer.repeated) return [];
    return [{ jobId, attempt, outcome: outcome.kind, state: answer.state }];
  });
}

function decideReport(parts: EngineParts, job: Job, report: Report, held: AttemptLease, now: number): Settlement {
  const usage = mostUsage(report.usage, held.usage);
  return settleJob(job, outcomeOf(job, report.outcome, held, parts.name), usage, now, parts.random(), held.budgets);
}

/** The field of a request's or command's result that conditions see as `data`. */
const DATA: Readonly<Record<string, string>> = { http: "body", exec: "output" };

/** Converts a reported outcome to the one that is decided on. A result is parsed only if a condition needs it. */
function outcomeOf(job: Job, reported: ReportedOutcome, held: AttemptLease, by: string): Outcome {
  switch (reported.kind) {
    case "completed": {
      const { result } = reported;
      if (job.policy.retryWhen === null || result === null) return { kind: "completed", result: null };
      const value: unknown = JSON.parse(result);
      const data = DATA[job.kind];
      if (data === undefined || !isPlain(value)) return { kind: "completed", result: value };
      return { kind: "completed", result: value, data: (value as Record<string, unknown>)[data] ?? null };
    }
    case "failed":
    case "timeout":
      return { kind: reported.kind, failure: reported.failure };
    case "lost": {
      const { session, renewedAt, ended, crash } = held;
      const lost = { kind: "lost", why: ended ? "worker_gone" : "lease_expired", session, renewedAt, by } as const;
      return crash === undefined ? lost : { ...lost, crash };
    }
    case "waiting":
      return reported;
    case "released":
      return { kind: "released", session: held.session };
    default:
      return { kind: reported.kind };
  }
}

/** Cuts texts to their limits. A result that cannot be stored fails the attempt: a retry would not help. */
function storableReport(report: Report): Report {
  const log = report.log === null || report.log === "" ? null : storable(report.log, LIMITS.logChunk);
  const progress = report.progress ? storable(report.progress, LIMITS.progress) : null;
  return { ...report, log, progress, outcome: cleanedOutcome(report.outcome) };
}

function cleanedOutcome(outcome: ReportedOutcome): ReportedOutcome {
  if (outcome.kind === "completed") {
    const message = outcome.result === null ? null : unkeepable(outcome.result);
    if (message === null) return outcome;
    return { kind: "failed", failure: failure({ kind: "result", class: "logical", message }) };
  }
  if (outcome.kind === "waiting") return cleanedWait(outcome.children);
  return "failure" in outcome ? { kind: outcome.kind, failure: cleanedFailure(outcome.failure) } : outcome;
}

/** A list that is too long fails the attempt: a retry would not help. */
function cleanedWait(children: readonly string[]): ReportedOutcome {
  const ids = [...new Set(children)];
  if (ids.length <= LIMITS.waitsFor) return { kind: "waiting", children: ids };
  const message = `must wait for at most ${LIMITS.waitsFor} children; got ${ids.length}`;
  return { kind: "failed", failure: failure({ kind: "result", class: "logical", message }) };
}

/** What is wrong with a result, or null. */
function unkeepable(result: string): string | null {
  if (isOver(result, LIMITS.payloadBytes)) return `the result is over the limit of ${LIMITS.payloadBytes} bytes`;
  if (!result.isWellFormed()) return "the result is not well-formed text";
  try {
    JSON.parse(result);
    return null;
  } catch {
    return "the result is not JSON";
  }
}

function cleanedFailure(cause: Failure): Failure {
  const short = (text: string | null) => (text === null ? null : storable(text, LIMITS.name));
  return {
    ...cause,
    message: storable(cause.message, LIMITS.failureMessage),
    name: short(cause.name),
    code: short(cause.code),
    signal: short(cause.signal),
    stack: cause.stack === null ? null : storable(cause.stack, LIMITS.stack),
  };
}
