/** How a step ended, as conditions read it. The names are those of the conditions of policies. */
import type { Failure } from "../decision/failure.ts";
import type { StoredOutput } from "./run.ts";

/** A step that failed keeps this status, whether or not an arc handles it. */
export interface StepEnded {
  readonly status: "succeeded" | "failed" | "cancelled" | "skipped";
  readonly failure: Failure | null;
  /** Of the job; 0 of a step without a job. */
  readonly attempt: number;
}

/** Of a row whose end is not written yet, by its failure. */
export function endedOf({ step, failure, attempt }: StoredOutput): StepEnded {
  switch (step.state) {
    case "succeeded":
    case "skipped":
    case "cancelled":
      return { status: step.state, failure, attempt };
    case "handled":
    case "failed":
      return { status: "failed", failure, attempt };
    default:
      return { status: failure === null ? "succeeded" : "failed", failure, attempt };
  }
}

/** The message; null after a success, and of a step that was skipped. */
export function errorText({ status, failure }: StepEnded): string | null {
  if (status === "succeeded" || status === "skipped") return null;
  return failure?.message ?? status;
}

/** The names that state how a step ended, beside `result` and `data`. `fact` reads its output. */
export function endNames(end: StepEnded, fact: (name: string) => unknown): Record<string, unknown> {
  const { status, failure, attempt } = end;
  return {
    error: errorText(end),
    failure: failure === null ? null : shownFailure(failure),
    success: status === "succeeded",
    status,
    status_code: failure?.status ?? numberIn(fact("status_code")),
    exit_code: failure?.exitCode ?? numberIn(fact("exit_code")),
    signal: failure?.signal ?? null,
    attempt,
  };
}

/** What `result` is after a failure: the same as in a condition of a policy. */
export function failedResult(end: StepEnded): Record<string, unknown> {
  const { failure } = end;
  return {
    status_code: failure?.status ?? null,
    error: errorText(end),
    success: false,
    exit_code: failure?.exitCode ?? null,
    signal: failure?.signal ?? null,
  };
}

/** Without the stack, which is long and for people. */
function shownFailure({ stack, ...rest }: Failure): Record<string, unknown> {
  return rest;
}

function numberIn(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
