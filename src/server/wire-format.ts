/** Jobs as they are sent and reports as they are received. JSON bodies are copied byte for byte: parsing them would
 *  change numbers, repeated keys and escapes. */

import { toWireUsage } from "../contract/wire.ts";
import type { ReportWire } from "../contract/worker-schemas.ts";
import type { Failure } from "../core/decision/failure.ts";
import { MAX_DURATION_MS } from "../core/duration.ts";
import { NO_INPUT, type Report, type ReportedOutcome } from "../core/worker-protocol.ts";
import { storable } from "../lib/text.ts";
import type { JobRow } from "../store/store.ts";

/** A job as JSON text: the fields of its row, with payload, result and progress inserted as stored. */
export function wireJob(row: JobRow): string {
  const { payload, result, progress, ...fields } = row;
  let text = JSON.stringify(fields).slice(0, -1);
  // Absent is not null: a job without an input, or one that has no result yet.
  if (payload !== NO_INPUT) text += `,"payload":${payload}`;
  if (result !== null) text += `,"result":${result}`;
  if (progress !== null && isJson(progress)) text += `,"progress":${progress}`;
  return `${text}}`;
}

/** Stored progress may have been cut at its limit, and half of a value would break the reply. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Converts a received report for the engine and fills in omitted fields. The engine limits and normalizes texts. */
export function toReport(report: ReportWire): Report {
  return {
    jobId: report.jobId,
    attempt: report.attempt,
    from: { kind: "worker", token: report.token, reportId: storable(report.reportId, MAX_ID) },
    outcome: toOutcome(report.outcome),
    usage: report.usage == null ? null : toWireUsage(report.usage),
    progress: keptProgress(report.progress),
    log: report.log ?? null,
  };
}

const MAX_ID = 100;
const MAX_PROGRESS = 4_096;

function toOutcome(outcome: ReportWire["outcome"]): ReportedOutcome {
  // Only the fields of its kind: others have not been checked.
  switch (outcome.kind) {
    case "completed":
      return { kind: "completed", result: (outcome as { readonly result?: string | null }).result ?? null };
    case "waiting":
      return { kind: "waiting", children: (outcome as { readonly children: readonly string[] }).children };
    case "failed":
    case "timeout":
      return { kind: outcome.kind, failure: toFailure((outcome as { readonly failure: WireFailure }).failure) };
    default:
      return { kind: outcome.kind };
  }
}

type WireFailure = Partial<Failure> & Pick<Failure, "kind" | "message">;

function toFailure({ kind, message, ...given }: WireFailure): Failure {
  const { name = null, code = null, exitCode = null, signal = null, status = null, stack = null } = given;
  const { class: cls = "transient", retryAfterMs: asked = null } = given;
  const full = { kind, class: cls, message, name, code, exitCode, signal, status, retryAfterMs: asked, stack };
  const { retryAfterMs } = full;
  // `runAt` must be a whole number within the supported range.
  return retryAfterMs === null ? full : { ...full, retryAfterMs: Math.round(Math.min(retryAfterMs, MAX_DURATION_MS)) };
}

/** Progress that is not JSON, or too long, is dropped: it is only shown to people, so the report is not refused for it. */
export function keptProgress(progress: string | null | undefined): string | null {
  if (progress == null || progress.length > MAX_PROGRESS || !isJson(progress)) return null;
  return progress;
}
