/** `perdure cancel`: ends jobs, at once if they wait, by their signal if they run. */
import { type Command, READING } from "../command.ts";
import { forEach, givenIds } from "../each-job.ts";
import { TARGET } from "../target.ts";

export const cancel: Command = {
  name: "cancel",
  summary: "Cancel jobs",
  usage: "perdure cancel ID… [OPTIONS]",
  about:
    "A job that waits is cancelled at once. One that runs is told to stop, and is cancelled when it has: `perdure wait` tells. " +
    "Exits with 1 if one of them could not be cancelled.",
  options: [...TARGET, ...READING],
  examples: ["perdure cancel job_01m7gekg9zevv9a6xvvwmt1v8g"],

  async run(context) {
    return forEach(context, givenIds(context.given, cancel), (perdure, id) => perdure.cancel(id));
  },
};
