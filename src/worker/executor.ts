/** The interface for running attempts of one kind (a command, an HTTP request), and the executor for task handlers. An executor
 *  returns an outcome and never throws. */

import { type Failure, failure, failureFrom, InvalidInputError } from "../core/decision/failure.ts";
import { type StandardSchema, validated } from "../core/task/schema.ts";
import { type AnyTask, WaitingError } from "../core/task/task.ts";
import { NO_INPUT, type ReportedOutcome } from "../core/worker-protocol.ts";
import type { AttemptRun } from "./attempt-run.ts";

export interface Executor {
  readonly kind: string;
  /** Runs the attempt to its end. Never throws, and ends what it started when `run.signal` is aborted. */
  run(run: AttemptRun): Promise<ExecutionResult>;
  /** From now on, everything that is running or is stopped later ends without a grace time. */
  force?(): void;
  /** The report was answered: the attempt is finished for this worker. */
  answered?(run: AttemptRun): void;
  /** The report was accepted, and the job has ended with it. */
  jobEnded?(jobId: string): void;
}

export interface ExecutionResult {
  readonly outcome: ReportedOutcome;
  /** The task itself stated its outcome: that counts even if it was stopped meanwhile. */
  readonly isVerdict?: boolean;
}

/** Runs a task's handler in this process. Returns an outcome and never throws. It cannot stop a handler that ignores its
 *  signal, nor keep the lease of one that blocks the event loop; the engine then ignores the report of that attempt. */
export async function runFunction(task: AnyTask, run: AttemptRun): Promise<ReportedOutcome> {
  let result: unknown;
  // Starts the handler on a fresh stack: its errors cost half as much without the frames of the claim loop.
  await undefined;
  try {
    const { schema } = task.options;
    const given = inputOf(run.job.payload);
    const input = schema === undefined ? given : await checked(schema, given);
    result = await task.handler(input as never, run);
  } catch (thrown) {
    const cause = failureFrom(thrown);
    if (run.waitsFor !== null) return waiting(run, thrown instanceof WaitingError ? null : `error: ${cause.message}`);
    return { kind: "failed", failure: withoutOurFrames(cause) };
  }
  if (run.waitsFor !== null) return waiting(run, result === undefined ? null : "result");
  if (result === undefined) return { kind: "completed", result: null };
  try {
    const text = JSON.stringify(result);
    if (text !== undefined) return { kind: "completed", result: text };
    return notJson(`a ${typeof result}`);
  } catch (error) {
    return notJson(failureFrom(error).message);
  }
}

/** Its result or error is discarded, since the handler starts over in the next attempt. */
function waiting(run: AttemptRun, discarded: string | null): ReportedOutcome {
  if (discarded !== null) run.log(`waiting for children; the attempt's own outcome is discarded (${discarded})`);
  return { kind: "waiting", children: run.waitsFor ?? [] };
}

/** This code in a stack, as a path or a URL: this module, or the chunk of the build that contains it. */
const THIS_FILE = `${new URL(import.meta.url).pathname}:`;

/** Cuts the frames of Perdure off the end of a stack, which are about the worker and not the handler. */
function withoutOurFrames(cause: Failure): Failure {
  const lines = cause.stack?.split("\n") ?? [];
  let end = lines.findLastIndex((line) => line.includes(THIS_FILE));
  if (cause.stack === null || end < 0) return cause;
  while (end > 1 && lines[end - 1]?.includes(THIS_FILE)) end -= 1;
  return { ...cause, stack: lines.slice(0, end).join("\n") };
}

/** A mistake in the task: another attempt would return the same. */
function notJson(why: string): ReportedOutcome {
  const message = `the handler's result is not JSON: ${why}`;
  return { kind: "failed", failure: failure({ kind: "result", class: "logical", message }) };
}

/** The submitter may not have known the schema, or had another version of it. */
async function checked(schema: StandardSchema, given: unknown): Promise<unknown> {
  const found = await validated(schema, given);
  if ("problem" in found) throw new InvalidInputError(`the input does not match the task's schema: ${found.problem}`);
  return found.value;
}

/** Undefined for a job without input, so that a default of the handler's parameter applies. */
function inputOf(payload: string): unknown {
  return payload === NO_INPUT ? undefined : JSON.parse(payload);
}
