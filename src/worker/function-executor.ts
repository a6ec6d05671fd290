/** Runs a task's handler in this process. Returns an outcome and never throws. What it cannot do: stop a handler that
 *  ignores its signal, or keep one that blocks the event loop from missing its lease; such a run is fenced off. */
import { failure, failureFrom } from "../core/failure.ts";
import type { AnyTask } from "../core/task.ts";
import { NO_INPUT, type ReportedOutcome } from "../core/work.ts";
import type { AttemptRun } from "./attempt-run.ts";

export async function runFunction(task: AnyTask, run: AttemptRun): Promise<ReportedOutcome> {
  let result: unknown;
  try {
    result = await task.handler(inputOf(run.job.payload) as never, run);
  } catch (thrown) {
    return { kind: "failed", failure: failureFrom(thrown) };
  }
  if (result === undefined) return { kind: "completed", result: null };
  try {
    const text = JSON.stringify(result);
    if (text !== undefined) return { kind: "completed", result: text };
    return notJson(`a ${typeof result}`);
  } catch (error) {
    return notJson(failureFrom(error).message);
  }
}

/** Running it again would give the same: the task itself is at fault. */
function notJson(why: string): ReportedOutcome {
  const message = `the handler's result is not JSON: ${why}`;
  return { kind: "failed", failure: failure({ kind: "result", class: "logical", message }) };
}

/** Nothing was given: then the handler gets nothing, and a default for its parameter applies. */
function inputOf(payload: string): unknown {
  return payload === NO_INPUT ? undefined : JSON.parse(payload);
}
