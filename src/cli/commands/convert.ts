/** `perdure convert`: a file of another system as a job file of ours. Nothing is stored; a server is asked for its settings and
 *  nothing else. */

import { dialectSettingsFor } from "../apply/dialect-settings.ts";
import { KINDS } from "../apply/documents.ts";
import { readJobFiles } from "../apply/read-jobs.ts";
import { toJobFile } from "../apply/to-job-file.ts";
import type { CliCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { INPUT_OPTIONS, pairsOf } from "../submit/entry-from-options.ts";
import { TARGET, targetOf } from "../target/target.ts";
import { yamlText } from "../yaml/write.ts";

const PARAM = INPUT_OPTIONS.find(({ name }) => name === "param") as (typeof INPUT_OPTIONS)[number];

export const convert: CliCommand = {
  name: "convert",
  summary: "Turn a file of another system into a job file of Perdure",
  usage: "perdure convert -f FILE [-p KEY=VALUE…] [OPTIONS]",
  about:
    "Prints a job file that `perdure submit -f` takes, for the same jobs that `perdure apply` would store. Defaults come from " +
    "the settings of the server, if there is one, else from those here, and stand in the result. What cannot be expressed is named, in comments at its top and on stderr.",
  options: [
    {
      ...{ name: "file", short: "f", type: "string", value: "FILE", multiple: true },
      help: "A file, YAML or JSON; - reads standard input.",
    },
    { ...PARAM, help: "A parameter, for files that take them; KEY:=JSON for any value but text." },
    { name: "dialect", type: "string", value: "NAME", help: `What the files are: ${KINDS.join(", ")}.` },
    { name: "json", type: "boolean", help: "Print JSON instead of YAML." },
    ...TARGET,
  ],
  examples: [
    "perdure convert -f task.yaml > job.yaml",
    "perdure convert -f action.yaml -p url=https://example.org --json",
  ],

  async run(context) {
    const { given, io, out } = context;
    given.atMost(0);
    const files = given.texts("file");
    if (files.length === 0) throw usageError(`which file? Usage: ${convert.usage}`);
    const { jobs, notes } = await readJobFiles({
      ...{ files, io, dialect: given.text("dialect"), parameters: pairsOf(given, "param") },
      settings: () => dialectSettingsFor(context, targetOf(context)),
    });
    for (const note of notes) out.note(`note: ${note}`);
    if (jobs.length === 0) throw usageError(`${files.join(", ")}: there is no job in it`);
    const converted = jobs.map(({ entry }) => toJobFile(entry));
    const file = converted.length === 1 ? converted[0] : { jobs: converted };
    if (given.flag("json")) out.json(file);
    else out.block([...notes.map((note) => `# ${note.replaceAll(/\s+/g, " ")}`), yamlText(file)].join("\n"));
    return EXIT.done;
  },
};
