/** Jobs as they are sent and reports as they are received. JSON bodies are copied byte for byte: parsing them would
 *  change numbers, repeated keys and escapes. */

import type { ReportWire } from "../contract/worker-schemas.ts";
import { type Failure, failure } from "../core/decision/failure.ts";
import { MAX_DURATION_MS } from "../core/duration.ts";
import { NO_INPUT, type Report, type ReportedOutcome } from "../core/worker-protocol.ts";
import { storable } from "../lib/text.ts";
import type { JobRow } from "../store/store.ts";

// A job as it goes out: all fields of its row, with payload, result and progress as the JSON that they are, byte for
// byte. They are put into the text as they lie in the store: parsing them would change numbers, doubled keys and
// escapes.

export function wireJob(row: JobRow): string {
  const { payload, result, progress, ...fields } = row;
  let text = JSON.stringify(fields).slice(0, -1);
  // Absent is not null: a job without an input, or one that has no result yet.
  if (payload !== NO_INPUT) text += `,"payload":${payload}`;
  if (result !== null) text += `,"result":${result}`;
  if (progress !== null && isJson(progress)) text += `,"progress":${progress}`;
  return `${text}}`;
}

/** Progress is cut to its limit behind the server's door, and half of a value would break the reply it stands in. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// A report as it came over the wire, made into the engine's: what was left out is filled in. Lengths and forms of
// texts are put right by the engine.

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
