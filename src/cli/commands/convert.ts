/** `perdure convert`: prints a file of another system as a Perdure job file. Stores nothing; from a server it only reads the
 *  settings. */

import { dialectSettingsFor } from "../apply/dialect-settings.ts";
import { KINDS } from "../apply/documents.ts";
import { readJobFiles } from "../apply/read-jobs.ts";
import { toJobFile } from "../apply/to-job-file.ts";
import type { CliCommand } from "../command.ts";
import { EXIT, missingArgument, usageError } from "../exit.ts";
import { yamlText } from "../output/yaml-text.ts";
import { INPUT_OPTIONS, pairsOf } from "../submit/entry-from-options.ts";
import { TARGET, targetOf } from "../target/target.ts";

const PARAM = INPUT_OPTIONS.find(({ name }) => name === "param") as (typeof INPUT_OPTIONS)[number];

export const convert: CliCommand = {
  name: "convert",
  summary: "Convert a file of another system to a Perdure job file",
  usage: "perdure convert -f FILE [-p KEY=VALUE…] [OPTIONS]",
  about:
    "Prints a job file for `perdure submit -f`, with the jobs that `perdure apply` would store. Defaults of the settings, of " +
    "the server if there is one, are written into the result. What cannot be expressed is listed in comments at the top and " +
    "on stderr.",
  options: [
    {
      ...{ name: "file", short: "f", type: "string", value: "FILE", multiple: true },
      help: "A file, YAML or JSON; - reads standard input.",
    },
    { ...PARAM, help: "A parameter, for files that take them; KEY:=JSON for any value other than text." },
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
    if (files.length === 0) throw missingArgument("FILE", convert.usage);
    const { jobs, playbooks, notes } = await readJobFiles({
      ...{ files, io, dialect: given.text("dialect"), parameters: pairsOf(given, "param") },
      settings: () => dialectSettingsFor(context, targetOf(context)),
    });
    const [playbook] = playbooks;
    if (playbook !== undefined) throw usageError(`${playbook.yaml.where([])}: a playbook is not converted to jobs`);
    for (const note of notes) out.note(`note: ${note}`);
    if (jobs.length === 0) throw usageError(`${files.join(", ")}: no job in it`);
    const converted = jobs.map(({ entry }) => toJobFile(entry));
    const file = converted.length === 1 ? converted[0] : { jobs: converted };
    if (given.flag("json")) out.json(file);
    else out.block([...notes.map((note) => `# ${note.replaceAll(/\s+/g, " ")}`), yamlText(file)].join("\n"));
    return EXIT.done;
  },
};
