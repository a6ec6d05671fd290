/** `perdure retry`: makes jobs due now. */
import { type CliCommand, READING } from "../command.ts";
import { forEach, givenIds } from "../jobs/for-each-job.ts";
import { warnIfStillWaiting } from "../submit/warn-no-worker.ts";
import { TARGET } from "../target/target.ts";

export const retry: CliCommand = {
  name: "retry",
  summary: "Run waiting or failed jobs now",
  usage: "perdure retry ID… [OPTIONS]",
  about:
    "A job that is delayed or waits for a retry becomes due now. One that failed or was cancelled is redriven, as by " +
    "`perdure redrive`. Exits with 1 if a job cannot be retried.",
  options: [...TARGET, ...READING],
  examples: ["perdure retry job_01m7gekg9zevv9a6xvvwmt1v8g"],

  async run(context) {
    return forEach(
      context,
      givenIds(context.given, retry),
      (perdure, id) => perdure.retry(id),
      (perdure, jobs) => warnIfStillWaiting(context, perdure, jobs),
    );
  },
};
