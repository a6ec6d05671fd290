/** The end of a run as `result()` returns or throws it, in this process and over the wire. */
import type { RunHandle, RunInfo } from "../api/runs.ts";
import { failureText } from "../decision/failure.ts";
import { PerdureError } from "../errors.ts";
import type { JobEvent } from "../job/event.ts";
import type { FailReason } from "../job/job.ts";
import { JobFailedError } from "../job/job-end.ts";

/** The error that `result()` throws for a chapter; null where it succeeded. */
export async function errorOfRun(
  run: RunInfo,
  chapter: number,
  handle: Pick<RunHandle<unknown>, "events">,
): Promise<PerdureError | null> {
  if (run.chapter === chapter) {
    if (run.state === "failed") return failed(run);
    return run.state === "cancelled" ? new PerdureError("job_cancelled", `${run.id} was cancelled`) : null;
  }
  // It was redriven since, so this chapter did not succeed.
  let current = 1;
  let reason: FailReason | null = null;
  let message: string | null = null;
  for await (const event of handle.events()) {
    if (event.name === "job.redriven") current += 1;
    if (current > chapter) break;
    if (event.name !== "run.ended") continue;
    const { data } = event as JobEvent & { readonly name: "run.ended" };
    reason = data.reason;
    message = data.message;
  }
  if (reason === null) {
    return new PerdureError("job_cancelled", `${run.id} was cancelled and has been redriven since`);
  }
  return new JobFailedError(
    run.id,
    reason,
    null,
    0,
    `${run.id} failed (${reason})${message === null ? "" : `: ${message}`}`,
  );
}

function failed({ id, reason, failure }: RunInfo): JobFailedError {
  const why = failure === null ? "" : `: ${failureText(failure)}`;
  return new JobFailedError(id, reason ?? "step", failure, 0, `${id} failed (${reason})${why}`);
}
