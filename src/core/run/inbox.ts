/** Which change of a job is a message to a run. Stores write the row in the transaction of the change, so that no end of a step and
 *  no command is ever lost. */
import type { JobEventBody } from "../job/event.ts";
import { isTerminal, type Job, type JobProgressFields } from "../job/job.ts";
import { RUN_KIND } from "../playbook/playbook.ts";
import type { RunMessageKind } from "./run.ts";

export interface NewMessage {
  readonly run: string;
  readonly kind: RunMessageKind;
  readonly ref: string | null;
  readonly body: object | null;
}

/** Null for most jobs: they are neither a step nor a run. */
export function messageOf(
  job: Pick<Job, "id" | "kind" | "runId" | "state">,
  event: JobEventBody,
  next: Pick<JobProgressFields, "state">,
): NewMessage | null {
  if (job.runId !== null && isTerminal(next.state) && !isTerminal(job.state)) {
    return { run: job.runId, kind: "ended", ref: job.id, body: null };
  }
  if (job.kind !== RUN_KIND) return null;
  if (event.name === "job.cancel_requested") return { run: job.id, kind: "cancel", ref: null, body: null };
  if (event.name === "job.redriven") return { run: job.id, kind: "redrive", ref: null, body: event.data.run ?? {} };
  return null;
}
