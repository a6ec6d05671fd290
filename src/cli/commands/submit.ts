/** `perdure submit`: stores jobs for workers to run. */
import { namedJob, withDialectHelp } from "../../dialects/cli/registry.ts";
import { dialectSettingsFor } from "../apply/dialect-settings.ts";
import type { JobToStore } from "../apply/named-jobs.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { conflictError, missingArgument, requirementError } from "../exit.ts";
import { readJobFile } from "../input/job-file.ts";
import { pipedInput, STDIN } from "../input/piped-input.ts";
import { ENV } from "../input/shared-options.ts";
import { commandEntry, INPUT_OPTIONS, JOB_OPTIONS, kindEntry } from "../submit/entry-from-options.ts";
import { storeJobs } from "../submit/store-jobs.ts";
import { TARGET, type Target, targetOf } from "../target/target.ts";

export const submit: CliCommand = {
  name: "submit",
  summary: "Submit jobs for workers to run",
  usage: "perdure submit KIND | -f FILE | - | -- COMMAND [ARGS…]  [OPTIONS]",
  options: [
    {
      ...{ name: "file", short: "f", type: "string", value: "FILE" },
      help: "Submit the jobs of a file, YAML or JSON; - reads standard input.",
    },
    ...INPUT_OPTIONS,
    ENV,
    { name: "cwd", type: "string", value: "DIR", help: "The working directory of a command." },
    { ...STDIN, help: "Store standard input, up to 64 MiB, with a command: each attempt reads it from the start." },
    ...JOB_OPTIONS,
    { name: "wait", short: "w", type: "boolean", help: "Wait until all of them have ended." },
    ...TARGET,
    ...READING,
  ],
  ...withDialectHelp("submit", {
    about:
      "Prints the id of each job once it is stored. A file has one job, or many under `jobs:`; with a mistake in it no job is " +
      "stored. A command is a job of kind exec; it runs in this directory if its worker is on this machine, else in " +
      "a new directory. With --wait, exits as `perdure wait` does.",
    examples: [
      "perdure submit resize --input '{\"width\": 640}' --queue images",
      "perdure submit mail -p to=a@example.org -p tries:=3 --key mail-17",
      "perdure submit --max-attempts 3 --wait -- ./backup.sh --full",
      "perdure submit -f jobs.yaml",
    ],
  }),

  async run(context) {
    const { given } = context;
    // Everything is checked before anything is created or stored.
    const target = targetOf(context);
    const jobs = await jobsOf(context, target);
    const piped = await pipedInput(context, given.flag("stdin") ? "read" : "leave");
    try {
      const request = { command: "submit", target, isList: given.flag("file"), doubt: doubtOf(jobs) };
      return await storeJobs(context, { ...request, jobs: jobs.map((job) => ({ ...job, piped })) });
    } finally {
      await piped?.close();
    }
  },
};

/** A name with a dot may have been meant as an action, whose kind would be exec. */
function doubtOf([job]: readonly JobToStore[]): string | null {
  const { task } = job?.entry ?? {};
  const isTyped = job?.where === null && typeof task === "string" && task.indexOf(".") > 0;
  return isTyped ? `no packs were found, so ${task} is an ordinary kind` : null;
}

async function jobsOf(context: CommandContext, target: Target): Promise<JobToStore[]> {
  const { given, io } = context;
  const { positionals, afterDashes } = given;
  // A dash alone means standard input, as after -f.
  const isStdin = positionals.length === 1 && positionals[0] === "-" && afterDashes === null;
  const file = given.text("file") ?? (isStdin ? "-" : undefined);
  if (given.flag("stdin") && afterDashes === null) throw requirementError("--stdin", "a command after --");
  if (file !== undefined) {
    const extra = [...INPUT_OPTIONS, ENV, { name: "cwd" }, ...JOB_OPTIONS].find(({ name }) => given.flag(name));
    if (extra !== undefined) throw conflictError(`--${extra.name}`, "--file", "put it into the file");
    given.atMost(isStdin ? 1 : 0);
    return readJobFile(file, io);
  }
  if (afterDashes === null) {
    if (positionals.length === 0) throw missingArgument("KIND, file or command", submit.usage);
    const entry = (await namedJob(context, () => dialectSettingsFor(context, target))) ?? (await kindEntry(context));
    return [{ entry, where: null }];
  }
  if (afterDashes.length === 0) throw missingArgument("COMMAND after --", submit.usage);
  if (positionals.length > afterDashes.length) throw conflictError("a kind", "a command after --");
  return [{ entry: commandEntry(context, afterDashes, target), where: null }];
}
