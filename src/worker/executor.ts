/** How a worker runs jobs of a kind (the handler of a task, a command, an HTTP request), and the executor for
 *  handlers. It returns an outcome and never throws; it cannot stop a handler that ignores its signal, such an
 *  attempt is fenced off. */

import { type Failure, failure, failureFrom, InvalidInputError } from "../core/decision/failure.ts";
import { type StandardSchema, validated } from "../core/task/schema.ts";
import { type AnyTask, WaitingError } from "../core/task/task.ts";
import { NO_INPUT, type ReportedOutcome } from "../core/worker-protocol.ts";
import type { AttemptRun } from "./attempt-run.ts";

// How a worker runs jobs of a kind: a function of a task, a command, an HTTP request.

export interface Executor {
  readonly kind: string;
  /** Runs the attempt to its end. Never throws, and ends what it started when `run.signal` is aborted. */
  run(run: AttemptRun): Promise<ExecutionResult>;
  /** What runs, and what is asked to stop from now on, is ended without any grace. */
  force?(): void;
  /** The report was answered: nobody will ask for this attempt again. */
  answered?(run: AttemptRun): void;
  /** The report was accepted, and the job has ended with it. */
  jobEnded?(jobId: string): void;
}

export interface ExecutionResult {
  readonly outcome: ReportedOutcome;
  /** The task itself said how it ended: that counts, also when it was asked to stop meanwhile. */
  readonly isVerdict?: boolean;
}

// Runs a task's handler in this process. Returns an outcome and never throws. What it cannot do: stop a handler that
// ignores its signal, or keep one that blocks the event loop from missing its lease; such a run is fenced off.

export async function runFunction(task: AnyTask, run: AttemptRun): Promise<ReportedOutcome> {
  let result: unknown;
  // The handler starts on a stack of its own: without the claim loop's frames its errors cost half as much.
  await undefined;
  try {
    const { schema } = task.options;
    const given = inputOf(run.job.payload);
    const input = schema === undefined ? given : await checked(schema, given);
    result = await task.handler(input as never, run);
  } catch (thrown) {
    const cause = failureFrom(thrown);
    if (run.waitsFor !== null)
      return waiting(run, thrown instanceof WaitingError ? null : `its error: ${cause.message}`);
    return { kind: "failed", failure: withoutOurFrames(cause) };
  }
  if (run.waitsFor !== null) return waiting(run, result === undefined ? null : "its result");
  if (result === undefined) return { kind: "completed", result: null };
  try {
    const text = JSON.stringify(result);
    if (text !== undefined) return { kind: "completed", result: text };
    return notJson(`a ${typeof result}`);
  } catch (error) {
    return notJson(failureFrom(error).message);
  }
}

/** What it says besides is of no use: it is called again from the top. */
function waiting(run: AttemptRun, dropped: string | null): ReportedOutcome {
  if (dropped !== null) run.log(`this run ended to wait for children; dropped is ${dropped}`);
  return { kind: "waiting", children: run.waitsFor ?? [] };
}

/** How a stack names the file of this code, be it by path or by URL: this module, or the chunk of the build that holds it. */
const THIS_FILE = `${new URL(import.meta.url).pathname}:`;

/** Cuts the frames of Perdure off the end of a stack: those are about the worker, and not about the handler. */
function withoutOurFrames(cause: Failure): Failure {
  const lines = cause.stack?.split("\n") ?? [];
  let end = lines.findLastIndex((line) => line.includes(THIS_FILE));
  if (cause.stack === null || end < 0) return cause;
  while (end > 1 && lines[end - 1]?.includes(THIS_FILE)) end -= 1;
  return { ...cause, stack: lines.slice(0, end).join("\n") };
}

/** Running it again would give the same: the task itself is at fault. */
function notJson(why: string): ReportedOutcome {
  const message = `the handler's result is not JSON: ${why}`;
  return { kind: "failed", failure: failure({ kind: "result", class: "logical", message }) };
}

/** A job may come from where its schema was not known, or was another. */
async function checked(schema: StandardSchema, given: unknown): Promise<unknown> {
  const found = await validated(schema, given);
  if ("problem" in found) throw new InvalidInputError(`the input does not fit the task's schema: ${found.problem}`);
  return found.value;
}

/** Nothing was given: then the handler gets nothing, and a default for its parameter applies. */
function inputOf(payload: string): unknown {
  return payload === NO_INPUT ? undefined : JSON.parse(payload);
}
