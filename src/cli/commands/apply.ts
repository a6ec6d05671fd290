/** `perdure apply`: submits the jobs of files, of Perdure or another system, and starts runs of the playbooks in them. */
import type { RunOptions } from "../../core/api/runs.ts";
import { show } from "../../core/errors.ts";
import { withDialectHelp } from "../../dialects/cli/registry.ts";
import { dialectSettingsFor } from "../apply/dialect-settings.ts";
import { KINDS } from "../apply/documents.ts";
import { showDry } from "../apply/dry-run.ts";
import { namedBy } from "../apply/named-jobs.ts";
import { readJobFiles } from "../apply/read-jobs.ts";
import { type Arguments, type CliCommand, READING } from "../command.ts";
import { EXIT, missingArgument, usageError } from "../exit.ts";
import { checkedPlaybook } from "../playbooks/given-playbooks.ts";
import type { PlaybookWithFiles } from "../playbooks/playbook-files.ts";
import { checkedInput, type RunInput } from "../playbooks/run-options.ts";
import type { RunToStart } from "../playbooks/start-runs.ts";
import { checkedOptions, INPUT_OPTIONS, pairsOf } from "../submit/entry-from-options.ts";
import { storeJobs } from "../submit/store-jobs.ts";
import { TARGET, targetOf } from "../target/target.ts";

const PARAM = INPUT_OPTIONS.find(({ name }) => name === "param") as (typeof INPUT_OPTIONS)[number];

export const apply: CliCommand = {
  name: "apply",
  summary: "Submit the jobs and start the playbooks of files",
  usage: "perdure apply -f FILE [-f FILE…] [-p KEY=VALUE…] [OPTIONS]",
  options: [
    {
      ...{ name: "file", short: "f", type: "string", value: "FILE", multiple: true },
      help: "A file, YAML or JSON; - reads standard input.",
    },
    {
      ...PARAM,
      help: "A parameter, for files that take them, or an input of a playbook; KEY:=JSON for any value but text.",
    },
    {
      ...{ name: "key", type: "string", value: "KEY" },
      help: "For files with one job: at most one job has this key; given again, it finds that job. It replaces the key that follows from a document's name.",
    },
    { name: "dialect", type: "string", value: "NAME", help: `What the files are: ${KINDS.join(", ")}.` },
    {
      name: "dry-run",
      type: "boolean",
      help: "Check the files, show their jobs with attempts, backoff, budget and timeout, and store nothing.",
    },
    { name: "wait", short: "w", type: "boolean", help: "Wait until all jobs have ended." },
    ...TARGET,
    ...READING,
  ],
  ...withDialectHelp("apply", {
    about:
      "A playbook starts a run, with -p as its input. The kind of a file is detected; if it is ambiguous, pass --dialect. A file can have several documents, with --- between " +
      "them. If one has an error, no job is stored; a document whose key belongs to another job is refused by itself. " +
      "Fields that Perdure does not support are printed as notes. With --wait, exits as `perdure wait` does.",
    examples: [
      "perdure apply -f job.yaml",
      "perdure apply -f roles.yaml -f task.yaml --wait",
      "perdure apply -f actions/fetch.yaml -p url=https://example.org",
      "perdure apply -f part.yaml --key part-1",
      "perdure apply -f orders.yaml -p city=Oslo --wait",
    ],
  }),

  async run(context) {
    const { given, io, out } = context;
    given.atMost(0);
    const files = given.texts("file");
    if (files.length === 0) throw missingArgument("file", apply.usage);
    // Everything is checked before anything is created or stored.
    const target = targetOf(context);
    const {
      jobs: read,
      playbooks,
      notes,
    } = await readJobFiles({
      ...{ files, io, dialect: given.text("dialect"), parameters: pairsOf(given, "param") },
      settings: () => dialectSettingsFor(context, target),
    });
    const found = playbooks.map((source) => checkedPlaybook(context, target, source));
    const key = checkKey(given, read.length, found.length);
    const jobs = found.length > 0 ? read : keyed(given, read);
    const input = pairsOf(given, "param");
    const runs = found.map((playbook) => runToStart(given, playbook, input, key));
    for (const note of notes) out.note(`note: ${note}`);
    if (given.flag("dry-run")) return showDry(context, target, jobs, found);
    if (jobs.length + runs.length === 0) {
      if (given.flag("json")) out.json([]);
      out.note("no jobs in these files");
      return EXIT.done;
    }
    return storeJobs(context, { command: "apply", target, jobs, runs, isList: true });
  },
};

/** A key of the command line is that of one job or one run. */
function checkKey(given: Arguments, jobs: number, runs: number): string | undefined {
  const key = given.text("key");
  if (key !== undefined && runs > 0 && jobs + runs > 1) {
    throw usageError(
      `--key requires files with one job or playbook, and these have ${jobs + runs}; apply them one by one`,
    );
  }
  return key;
}

function runToStart(
  given: Arguments,
  { given: playbook, readings }: PlaybookWithFiles,
  input: RunInput,
  key: string | undefined,
): RunToStart {
  const read = readings[0]?.playbook ?? null;
  const checked = read === null ? input : checkedInput(given, input, read.inputs);
  return { playbook, input: checked, options: key === undefined ? {} : (checkedOptions(given, { key }) as RunOptions) };
}

type AppliedJobs = Awaited<ReturnType<typeof readJobFiles>>["jobs"];

/** With the key of the command line, which makes it safe to apply a file again: a command that submits its children like this
 *  finds them in its next attempt. */
function keyed(given: Arguments, jobs: AppliedJobs): AppliedJobs {
  const key = given.text("key");
  const [job] = jobs;
  if (key === undefined) return jobs;
  if (job === undefined || jobs.length > 1) {
    throw usageError(`--key requires files with one job, and these have ${jobs.length}; apply them one by one`);
  }
  const { entry, where } = job;
  // The key of a name is only a default.
  if (entry.options?.key !== undefined && namedBy(job) === null)
    throw usageError(`--key: ${where} already has the key ${show(entry.options.key)}`);
  return [{ ...job, entry: { ...entry, options: { ...entry.options, ...checkedOptions(given, { key }) } } }];
}
