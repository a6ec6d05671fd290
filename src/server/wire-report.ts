/** A report as it came over the wire, made into the engine's: what was left out is filled in. Lengths and forms of texts
 *  are put right by the engine. */
import type { ReportWire } from "../contract/worker-schemas.ts";
import { MAX_DURATION_MS } from "../core/duration.ts";
import { type Failure, failure } from "../core/failure.ts";
import type { Report, ReportedOutcome } from "../core/work.ts";
import { storable } from "../lib/text.ts";
import { isJson } from "./wire-job.ts";

export function toReport(report: ReportWire): Report {
  return {
    jobId: report.jobId,
    attempt: report.attempt,
    from: { kind: "worker", token: report.token, reportId: storable(report.reportId, MAX_ID) },
    outcome: toOutcome(report.outcome),
    usage: report.usage ?? null,
    progress: keptProgress(report.progress),
    log: report.log ?? null,
  };
}

const MAX_ID = 100;
const MAX_PROGRESS = 4_096;

function toOutcome(outcome: ReportWire["outcome"]): ReportedOutcome {
  if ("failure" in outcome) return { kind: outcome.kind, failure: toFailure(outcome.failure as Partial<Failure>) };
  if (outcome.kind === "completed") return { kind: "completed", result: resultOf(outcome) };
  if (outcome.kind === "waiting") return { kind: "waiting", children: waitedFor(outcome) };
  return { kind: outcome.kind };
}

function waitedFor(outcome: { readonly children?: readonly string[] }): readonly string[] {
  return outcome.children ?? [];
}

function resultOf(outcome: { readonly result?: string | null }): string | null {
  return outcome.result ?? null;
}

function toFailure(given: Partial<Failure>): Failure {
  const full = failure(given as Failure);
  const { retryAfterMs } = full;
  // A fraction, or the far end of time, must not become a `runAt`.
  return retryAfterMs === null ? full : { ...full, retryAfterMs: Math.round(Math.min(retryAfterMs, MAX_DURATION_MS)) };
}

/** What is no JSON, or too long to be kept whole, is not kept: it is for people to look at, and not worth a refusal. */
export function keptProgress(progress: string | null | undefined): string | null {
  if (progress == null || progress.length > MAX_PROGRESS || !isJson(progress)) return null;
  return progress;
}
