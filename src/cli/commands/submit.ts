/** `perdure submit`: stores jobs for workers to run. */
import type { JobHandle, Perdure } from "../../core/face.ts";
import type { SubmitEntry } from "../../core/submit-options.ts";
import { type Command, type Context, READING } from "../command.ts";
import { madeData } from "../direct.ts";
import { ENV } from "../env-option.ts";
import { EXIT, usageError } from "../exit.ts";
import { untilLeft } from "../follow/until-left.ts";
import { readJobFile } from "../job-file.ts";
import { tellIfStuck } from "../run/stuck.ts";
import { commandEntry, kindEntry } from "../submit/entry.ts";
import { INPUT_OPTIONS, WISH_OPTIONS } from "../submit/options.ts";
import { TARGET, type Target, targetOf, withPerdure } from "../target.ts";
import { workerState } from "../worker-text.ts";
import { endOf, printLine, shownJob } from "./wait.ts";

export const submit: Command = {
  name: "submit",
  summary: "Submit jobs for workers to run",
  usage: "perdure submit KIND | -f FILE | - | -- COMMAND [ARGS…]  [OPTIONS]",
  about:
    "Prints the id of each job, which is stored for good then. A file has one job, or many under `jobs:`; with a mistake in " +
    "it none of them is stored. A command is a job of the kind exec; it runs in this directory if its worker is on this " +
    "machine, else in one of its own. With --wait, exits as `perdure wait` does.",
  options: [
    {
      ...{ name: "file", short: "f", type: "string", value: "FILE" },
      help: "Submit the jobs of a file, YAML or JSON; - reads standard input.",
    },
    ...INPUT_OPTIONS,
    ENV,
    { name: "cwd", type: "string", value: "DIR", help: "The working directory of a command." },
    ...WISH_OPTIONS,
    { name: "wait", short: "w", type: "boolean", help: "Wait until they have ended." },
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure submit resize --input '{\"width\": 640}' --queue images",
    "perdure submit mail -p to=a@example.org -p tries:=3 --key mail-17",
    "perdure submit --max-attempts 3 --wait -- ./backup.sh --full",
    "perdure submit -f jobs.yaml",
  ],

  async run(context) {
    const { given } = context;
    // All of it is checked before anything is made or stored.
    const target = targetOf(context);
    const jobs = await jobsOf(context, target);
    if (target.kind === "data") await madeData(target.dir);
    return withPerdure(context, async (perdure) => {
      const stored = await storeAll(context, perdure, jobs);
      if (target.kind === "data" && stored.handles.length > 0) await tellIfAlone(context, perdure);
      if (given.flag("wait")) return waitForEnds(context, perdure, stored);
      if (given.flag("json")) {
        const shown = stored.handles.map(({ id, created }) => ({ id, created }));
        context.out.json(given.flag("file") ? shown : shown[0]);
      }
      return stored.failed === 0 ? EXIT.done : EXIT.failed;
    });
  },
};

interface Wanted {
  readonly entry: SubmitEntry;
  /** Its place in a file; null on the command line. */
  readonly where: string | null;
}

async function jobsOf(context: Context, target: Target): Promise<Wanted[]> {
  const { given, io } = context;
  const { positionals, afterDashes } = given;
  // A dash alone stands for standard input, as it does after -f.
  const isStdin = positionals.length === 1 && positionals[0] === "-" && afterDashes === null;
  const file = given.text("file") ?? (isStdin ? "-" : undefined);
  if (file !== undefined) {
    const extra = [...INPUT_OPTIONS, ENV, { name: "cwd" }, ...WISH_OPTIONS].find(({ name }) => given.flag(name));
    if (extra !== undefined) throw usageError(`--${extra.name}: with --file it belongs into the file`);
    given.atMost(isStdin ? 1 : 0);
    return readJobFile(file, io);
  }
  if (afterDashes === null) {
    if (positionals.length === 0) throw usageError(`what to submit? Usage: ${submit.usage}`);
    return [{ entry: await kindEntry(context), where: null }];
  }
  if (afterDashes.length === 0) throw usageError(`no command after --; usage: ${submit.usage}`);
  if (positionals.length > afterDashes.length) throw usageError("a kind and a command after --: give one of them");
  return [{ entry: commandEntry(context, afterDashes, target), where: null }];
}

interface Stored {
  readonly handles: readonly JobHandle<unknown>[];
  readonly failed: number;
}

async function storeAll({ given, out }: Context, perdure: Perdure, jobs: readonly Wanted[]): Promise<Stored> {
  const [only] = jobs;
  const told = (job: JobHandle<unknown>, key: string | undefined) => {
    if (!given.flag("json")) out.line(job.id);
    if (!job.created) out.note(`${job.id} was there already: the key ${key} names it`);
    return job;
  };
  if (only?.where === null) {
    const { task, input, options } = only.entry;
    return { handles: [told(await perdure.submit(task as string, input, options), options?.key)], failed: 0 };
  }
  const answers = await perdure.submitMany(jobs.map(({ entry }) => entry));
  const handles = answers.flatMap((answer, i) => {
    const { entry, where } = jobs[i] as Wanted;
    if (answer.ok) return [told(answer.job, entry.options?.key)];
    out.note(`perdure submit: ${where}: ${answer.error.message}`);
    return [];
  });
  return { handles, failed: answers.length - handles.length };
}

/** Data without a server: nobody may be there to run it, and nobody else would say so. */
async function tellIfAlone({ out }: Context, perdure: Perdure): Promise<void> {
  const workers = await perdure.workers();
  if (workers.some((worker) => workerState(worker, Date.now()) === "alive")) return;
  out.note("no worker is there yet; start one with `perdure up`");
}

async function waitForEnds(context: Context, perdure: Perdure, { handles, failed }: Stored): Promise<number> {
  const { given, out } = context;
  return untilLeft(context, async (signal) => {
    const over = new AbortController();
    for (const job of handles.slice(0, 3))
      void tellIfStuck({ perdure, say: (text) => out.note(text) }, job, over.signal);
    const ends = await Promise.all(
      handles.map(async (job) => {
        const end = await endOf(job, { timeoutMs: null, signal });
        if (!given.flag("json") && !signal.aborted) printLine(out, await job.get());
        return end;
      }),
    );
    over.abort();
    if (given.flag("json") && !signal.aborted) {
      const infos = await Promise.all(handles.map((job) => job.get()));
      const shown = infos.map((info, i) => ({ created: handles[i]?.created, ...shownJob(info) }));
      out.json(given.flag("file") ? shown : shown[0]);
    }
    return failed === 0 && ends.every((end) => end === "succeeded") ? EXIT.done : EXIT.failed;
  });
}
