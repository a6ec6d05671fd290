/** `perdure retry`: runs jobs now. */
import { type CliCommand, READING } from "../command.ts";
import { forEach, givenIds } from "../jobs/for-each-job.ts";
import { TARGET } from "../target/target.ts";

export const retry: CliCommand = {
  name: "retry",
  summary: "Run waiting jobs now, and failed ones again",
  usage: "perdure retry ID… [OPTIONS]",
  about:
    "A job that waits, for its time or for a retry, is due now. One that failed or was cancelled is redriven, as by " +
    "`perdure redrive`. Exits with 1 if that cannot be done for one of them.",
  options: [...TARGET, ...READING],
  examples: ["perdure retry job_01m7gekg9zevv9a6xvvwmt1v8g"],

  async run(context) {
    return forEach(context, givenIds(context.given, retry), (perdure, id) => perdure.retry(id));
  },
};
