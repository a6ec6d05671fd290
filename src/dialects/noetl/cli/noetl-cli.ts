/** NoETL on the command line. */
import type { DialectCli } from "../../cli/dialect-cli.ts";

export const noetlCli: DialectCli = {
  name: "noetl",
  help: { events: { examples: ["perdure events --view noetl job_01m7gekg9zevv9a6xvvwmt1v8g"] } },
};
