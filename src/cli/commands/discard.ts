/** `perdure discard`: removes failed jobs from the dead letters. */
import { type CliCommand, READING } from "../command.ts";
import { forEach, givenIds } from "../jobs/for-each-job.ts";
import { TARGET } from "../target/target.ts";

export const discard: CliCommand = {
  name: "discard",
  summary: "Remove failed jobs from the dead letters",
  usage: "perdure discard ID… [OPTIONS]",
  about:
    "For failed jobs that need no more attention. They stay failed, and are kept as long as other failed jobs. Exits with 1 " +
    "if a job cannot be discarded.",
  options: [...TARGET, ...READING],
  examples: ["perdure discard job_01m7gekg9zevv9a6xvvwmt1v8g"],

  async run(context) {
    return forEach(context, givenIds(context.given, discard), (perdure, id) => perdure.discard(id));
  },
};
