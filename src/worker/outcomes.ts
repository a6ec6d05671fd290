/** Outcomes that a worker reports by itself: for timeouts, stop requests, and reports that were refused. */
import { failure } from "../core/decision/failure.ts";
import { showMs } from "../core/duration.ts";
import type { Report, ReportedOutcome } from "../core/worker-protocol.ts";
import type { AttemptRun, StopCause } from "./attempt-run.ts";

const REPORT_REFUSED = "ReportRefused";

/** Replaces a report that was refused: a failure that gives the reason. */
export function refusedReport(report: Report, why: string): Report {
  const message = `the report of this attempt was refused: ${why.slice(0, 500)}`;
  const cause = failure({ kind: "result", class: "logical", name: REPORT_REFUSED, message });
  return { ...report, outcome: { kind: "failed", failure: cause }, usage: null, progress: null, log: null };
}

/** Whether a report is as small as it can be: there is nothing left to leave out. */
export function isMinimal({ outcome }: Report): boolean {
  if (outcome.kind === "failed") return outcome.failure.name === REPORT_REFUSED;
  return !("result" in outcome) && !("children" in outcome);
}

export function timedOut(run: AttemptRun): ReportedOutcome {
  const message = `timed out after ${showMs(run.job.timeoutMs ?? 0)}`;
  return { kind: "timeout", failure: failure({ kind: "timeout", name: "TimeoutError", message }) };
}

/** Stopped because the budget is spent; from the usage the engine decides that the job ends. */
export function overspent(): ReportedOutcome {
  const message = "the job has spent its budget of tokens or money";
  return { kind: "failed", failure: failure({ kind: "error", name: "BudgetError", message }) };
}

/** The handler did not stop within its grace time: the attempt ends without it. */
export function abandoned(run: AttemptRun, cause: StopCause): ReportedOutcome {
  if (cause === "timeout") return timedOut(run);
  if (cause === "budget") return overspent();
  if (cause === "shutdown") return { kind: "interrupted" };
  if (cause === "lost") return { kind: "lost" };
  const message = `the handler did not stop within its grace time (${cause})`;
  return { kind: "failed", failure: failure({ kind: "error", name: "AbortError", message }) };
}
