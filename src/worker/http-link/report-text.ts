/** A report as JSON text, within the limits of the wire: what is over them the engine would cut, or refuse, anyway. */
import type { ReportWire } from "../../contract/worker-schemas.ts";
import { type Failure, failure } from "../../core/failure.ts";
import type { Report, ReportedOutcome } from "../../core/work.ts";
import { isOver } from "../../lib/text.ts";

/** What the engine takes as a result. */
const MAX_RESULT_BYTES = 1_048_576;
const MAX_TEXT = 100_000;
const MAX_NAME = 1_000;
const MAX_CODE = 2_147_483_647;

export function reportText({ jobId, attempt, from, outcome, usage, progress, log }: Report): string {
  if (from.kind !== "worker") throw new Error(`a worker does not report as ${from.kind}`);
  const { token, reportId } = from;
  const wire: ReportWire = { jobId, attempt, token, reportId, outcome: wireOutcome(outcome) };
  if (usage !== null) wire.usage = usage;
  if (progress) wire.progress = progress;
  if (log) wire.log = log;
  return JSON.stringify(wire);
}

function wireOutcome(outcome: ReportedOutcome): ReportWire["outcome"] {
  switch (outcome.kind) {
    case "completed":
      if (outcome.result === null || !isOver(outcome.result, MAX_RESULT_BYTES)) return outcome;
      return { kind: "failed", failure: tooLarge() };
    case "waiting":
      return { kind: outcome.kind, children: [...outcome.children] };
    case "failed":
    case "timeout":
      return { kind: outcome.kind, failure: wireFailure(outcome.failure) };
    case "interrupted":
    case "released":
    case "lost":
      return { kind: outcome.kind };
    default:
      throw new Error(`a worker does not report ${outcome.kind}`);
  }
}

/** Too large to be sent only to be refused. */
function tooLarge(): Failure {
  const message = `the result is over the limit of ${MAX_RESULT_BYTES} bytes`;
  return failure({ kind: "result", class: "logical", message });
}

function wireFailure(cause: Failure): Failure {
  const short = (text: string | null) => (text === null ? null : text.slice(0, MAX_NAME));
  return {
    ...cause,
    message: cause.message.slice(0, MAX_TEXT),
    name: short(cause.name),
    code: short(cause.code),
    signal: short(cause.signal),
    exitCode: within(cause.exitCode, -MAX_CODE - 1, MAX_CODE),
    status: within(cause.status, 0, 9_999),
    stack: cause.stack === null ? null : cause.stack.slice(0, MAX_TEXT),
  };
}

/** A whole number of the wire, or none. */
function within(value: number | null, least: number, most: number): number | null {
  return value !== null && Number.isInteger(value) && value >= least && value <= most ? value : null;
}
