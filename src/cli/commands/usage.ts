/** `perdure usage`: reports what a running job has used so far. Within a job it finds the job's id and token by itself. */
import type { Usage } from "../../core/job/job.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { EXIT, usageError, valueError } from "../exit.ts";
import { fullId } from "../jobs/job-reference.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const usage: CliCommand = {
  name: "usage",
  summary: "Report the tokens and money that a running job has used",
  usage: "perdure usage [ID] [OPTIONS]",
  about:
    "Numbers are totals of the attempt so far, and never decrease. A job that has spent its budget is stopped. Within a " +
    "command of a job, ID can be left out, and writing to $PERDURE_USAGE_FILE does the same. A server accepts this only with " +
    "the job's own token, which its command has; on local data any job can be named.",
  options: [
    { name: "tokens-in", type: "string", value: "N", help: "Input tokens used so far." },
    { name: "tokens-out", type: "string", value: "N", help: "Output tokens used so far." },
    { name: "cost-usd", type: "string", value: "N", help: "Money spent so far, in US dollars." },
    ...TARGET,
    ...READING,
  ],
  examples: ["perdure usage --tokens-in 1200 --tokens-out 300 --cost-usd 0.02"],

  async run(context) {
    const total = totalOf(context);
    const { given, io, out } = context;
    const short = given.optionalJobId() ?? io.env.PERDURE_JOB_ID;
    if (!short) throw usageError("missing ID; only within a command of a job it can be left out");
    const id = await withPerdure(context, async (perdure) => {
      const id = await fullId(perdure, short);
      const { attempt } = await (await perdure.job(id)).get();
      const own = id === io.env.PERDURE_JOB_ID ? Number(io.env.PERDURE_ATTEMPT) : Number.NaN;
      await perdure.setUsage(id, Number.isInteger(own) ? own : attempt, total);
      return id;
    });
    if (given.flag("json")) out.json({ id, ...total });
    return EXIT.done;
  },
};

function totalOf({ given }: CommandContext): Usage {
  const number = (name: string) => {
    const text = given.text(name);
    if (text === undefined) return 0;
    if (/^\d{1,15}(\.\d{1,9})?$/.test(text)) return Number(text);
    throw valueError(`--${name}`, text, "a number, 0 or more");
  };
  if (!["tokens-in", "tokens-out", "cost-usd"].some((name) => given.flag(name))) {
    throw usageError("nothing to report: pass --tokens-in, --tokens-out or --cost-usd");
  }
  return { tokensIn: number("tokens-in"), tokensOut: number("tokens-out"), costUsd: number("cost-usd") };
}
