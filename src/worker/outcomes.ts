/** What a worker reports by itself, where the handler did not say how it ended or could not be quoted. */
import { failure } from "../core/decision/failure.ts";
import type { Report, ReportedOutcome } from "../core/worker-protocol.ts";
import type { AttemptRun, StopCause } from "./attempt-run.ts";

const TOO_MUCH = "ReportRefused";

/** Of a report that was refused: that it was, and why. */
export function inShort(report: Report, why: string): Report {
  const message = `the report of this run was refused: ${why.slice(0, 500)}`;
  const cause = failure({ kind: "result", class: "logical", name: TOO_MUCH, message });
  return { ...report, outcome: { kind: "failed", failure: cause }, usage: null, progress: null, log: null };
}

export function isShort({ outcome }: Report): boolean {
  if (outcome.kind === "failed") return outcome.failure.name === TOO_MUCH;
  return !("result" in outcome) && !("children" in outcome);
}

export function timedOut(run: AttemptRun): ReportedOutcome {
  const message = `timed out after ${run.job.timeoutMs} ms`;
  return { kind: "timeout", failure: failure({ kind: "timeout", name: "TimeoutError", message }) };
}

/** Stopped for what it has cost; that the job ends with it follows from its usage. */
export function overspent(): ReportedOutcome {
  const message = "the job has spent its budget of tokens or money";
  return { kind: "failed", failure: failure({ kind: "error", name: "BudgetError", message }) };
}

/** The handler did not stop when asked: the attempt ends without it. */
export function givenUp(run: AttemptRun, cause: StopCause): ReportedOutcome {
  if (cause === "timeout") return timedOut(run);
  if (cause === "budget") return overspent();
  if (cause === "shutdown") return { kind: "interrupted" };
  if (cause === "lost") return { kind: "lost" };
  const message = `the handler did not stop in time after: ${cause}`;
  return { kind: "failed", failure: failure({ kind: "error", name: "AbortError", message }) };
}
