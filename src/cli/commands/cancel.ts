/** `perdure cancel`: cancels jobs; a waiting one at once, a running one by its abort signal. */

import type { Perdure } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { type CliCommand, READING } from "../command.ts";
import { forEach, givenIds } from "../jobs/for-each-job.ts";
import { nullIfForbidden } from "../jobs/job-reference.ts";
import { showLocal } from "../output/print.ts";
import { noteIfNoServer } from "../playbooks/start-runs.ts";
import { TARGET } from "../target/target.ts";

export const cancel: CliCommand = {
  name: "cancel",
  summary: "Cancel jobs",
  usage: "perdure cancel ID… [OPTIONS]",
  about:
    "A job that waits is cancelled at once, and so is a running one whose worker's session no longer exists. Any other running " +
    "job gets a cancel request, and is cancelled when its attempt has stopped: `perdure wait` waits for that. " +
    "Exits with 1 if a job could not be cancelled, or had already ended.",
  options: [...TARGET, ...READING],
  examples: ["perdure cancel job_01m7gekg9zevv9a6xvvwmt1v8g"],

  async run(context) {
    return forEach(context, givenIds(context.given, cancel), cancelOne, async (_, jobs) => {
      noteIfNoServer(context, jobs);
    });
  },
};

/** The library accepts a cancel of an ended job, so that it can be repeated; for a person it is an error, as it had no effect. */
async function cancelOne(perdure: Perdure, id: string): Promise<JobInfo> {
  const before = await nullIfForbidden(perdure.job(id).then((job) => job.get()));
  if (before !== null && isTerminal(before.state)) throw alreadyEnded(before);
  const job = await perdure.cancel(id);
  // It may have ended by itself in between.
  if (isTerminal(job.state) && job.state !== "cancelled") throw alreadyEnded(job);
  return job;
}

function alreadyEnded({ id, state, reason, finishedAt }: JobInfo): PerdureError {
  const how = reason === null ? state : `${state} (${reason})`;
  const at = finishedAt === null ? "" : ` at ${showLocal(finishedAt)}`;
  return new PerdureError("wrong_state", `${id} already ended: ${how}${at}; nothing was cancelled`);
}
