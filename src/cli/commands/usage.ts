/** `perdure usage`: what a running job has used so far. Within a job it knows which one it is, and shows the job's own token. */
import type { Usage } from "../../core/job/job.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { fullId } from "../jobs/job-reference.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const usage: CliCommand = {
  name: "usage",
  summary: "Tell what a running job has used of tokens and money",
  usage: "perdure usage [ID] [OPTIONS]",
  about:
    "Numbers are totals of the run so far, and never shrink. A job that has spent its budget is stopped. Within a command " +
    "that a server runs, the job is this one; a program may as well write $PERDURE_USAGE_FILE. A server takes it only with the " +
    "job's own token, which its command has; on local data any job can be named.",
  options: [
    { name: "tokens-in", type: "string", value: "N", help: "Tokens that went in, so far." },
    { name: "tokens-out", type: "string", value: "N", help: "Tokens that came out, so far." },
    { name: "cost-usd", type: "string", value: "N", help: "Money spent so far, in US dollars." },
    ...TARGET,
    ...READING,
  ],
  examples: ["perdure usage --tokens-in 1200 --tokens-out 300 --cost-usd 0.02"],

  async run(context) {
    const total = totalOf(context);
    const { given, io, out } = context;
    const short = given.optionalJobId() ?? io.env.PERDURE_JOB_ID;
    if (!short) throw usageError("which job? Give its id; only within a command of a job it is known");
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
    throw usageError(`--${name}: got ${JSON.stringify(text)}; give a number from 0 on`);
  };
  if (!["tokens-in", "tokens-out", "cost-usd"].some((name) => given.flag(name))) {
    throw usageError("nothing to tell: give --tokens-in, --tokens-out or --cost-usd");
  }
  return { tokensIn: number("tokens-in"), tokensOut: number("tokens-out"), costUsd: number("cost-usd") };
}
