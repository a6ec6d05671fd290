/** Submits the command, runs it in this process, and follows it to its end. */
import { createHash, randomBytes } from "node:crypto";
import { exec } from "../../core/builtin.ts";
import { toMs } from "../../core/duration.ts";
import { PerdureError, show } from "../../core/errors.ts";
import type { ExecInput } from "../../core/exec-input.ts";
import { isTerminal } from "../../core/job.ts";
import type { PolicyFields } from "../../core/policy.ts";
import { resolvePolicy } from "../../core/resolve-policy.ts";
import type { JobHandle } from "../../embedded/job-handle.ts";
import type { JobInfo } from "../../embedded/job-info.ts";
import { Perdure } from "../../embedded/perdure.ts";
import type { Context } from "../command.ts";
import { dataDir } from "../data.ts";
import { usageError } from "../exit.ts";
import { madeDir } from "./data-dir.ts";
import { follow } from "./follow.ts";
import { type Here, runs } from "./here.ts";
import { LiveOutput } from "./live-output.ts";
import { report } from "./report.ts";

export interface Wanted {
  readonly input: ExecInput;
  readonly retry: PolicyFields;
  readonly timeout: string | undefined;
  readonly key: string | undefined;
}

type Run = JobHandle<unknown>;

/** Nobody can go on with a job that has no key: what a killed process left behind is not kept waiting for ever. */
const ABANDONED_AFTER = "1h";

export async function runHere(context: Context, wanted: Wanted): Promise<number> {
  const dir = madeDir(dataDir(context));
  const live = new LiveOutput(context.io);
  const say = (text: string) => {
    if (context.given.flag("quiet")) return;
    live.endLine("stderr");
    context.out.note(text);
  };
  const logger = (level: string, message: string) => {
    if (level === "error") say(`perdure: ${message}`);
  };
  const perdure = await Perdure.open({ url: dir.file, logger });
  try {
    return await runJob({ perdure, context, live, say }, wanted);
  } finally {
    await perdure.close({ grace: 0 });
  }
}

async function runJob(here: Here, wanted: Wanted): Promise<number> {
  const { say } = here;
  const { key } = wanted;
  // A queue of its own, so that no other `perdure run` on this data takes it; by its key, who comes later finds it again.
  const name = key === undefined ? randomBytes(8).toString("hex") : createHash("sha256").update(key).digest("hex");
  const queue = `run-${name.slice(0, 16)}`;
  let job = await submitted(here, wanted, queue);
  if (!job.created) {
    const met = await job.get();
    if (isTerminal(met.state) && !here.context.given.flag("again")) return tellEnd(here, job, met);
    if (isTerminal(met.state)) job = await redriven(here, job, met);
    else tellMet(here, met, wanted);
  }
  const asked = await follow(here, job, queue, key !== undefined);
  if (asked?.kind === "leave") {
    say(`${job.id}: handed back, nothing is charged; run it again with the same --key to go on`);
    return report({ ...here, say: () => {} }, job, asked.exitCode);
  }
  return report(here, job, asked?.exitCode ?? null);
}

async function submitted({ perdure }: Here, { input, retry, timeout, key }: Wanted, queue: string): Promise<Run> {
  const named = key === undefined ? { expireIn: ABANDONED_AFTER } : { key };
  try {
    return await perdure.submit(exec, input, { queue, retry, ...named, ...(timeout === undefined ? {} : { timeout }) });
  } catch (error) {
    if (!(error instanceof PerdureError) || error.code !== "key_conflict") throw error;
    const [, id = "a job"] = /belongs to (\S+),/.exec(error.message) ?? [];
    throw usageError(
      `--key: ${show(key)} belongs to ${id}, which has another command, directory or environment; use another key`,
    );
  }
}

async function redriven({ perdure, say }: Here, job: Run, { state, attempt }: JobInfo): Promise<Run> {
  if (state === "succeeded") {
    throw usageError(`--again: ${job.id} has succeeded, which is final; use another --key to run the command anew`);
  }
  await perdure.redrive(job.id);
  say(`${job.id}: once more, after ${runs(attempt)}`);
  return perdure.job(job.id);
}

/** A job of this key is under way. */
function tellMet({ say }: Here, met: JobInfo, { retry, timeout }: Wanted): void {
  const state = met.state === "running" ? `run ${met.attempt} may be under way in another process` : "it waits";
  say(`${met.id}: going on with the job of this key, after ${runs(met.attempt)}; ${state}`);
  const isOther = JSON.stringify(resolvePolicy(retry, "retry")) !== JSON.stringify(met.policy);
  if (isOther || (timeout === undefined ? null : toMs(timeout, "--timeout")) !== met.timeoutMs) {
    say(`${met.id}: it keeps the options it was submitted with`);
  }
}

/** An ended job, met again by its key. */
async function tellEnd(here: Here, job: Run, { state }: JobInfo): Promise<number> {
  for (const line of (await job.explain()).text.split("\n")) here.say(line);
  if (state !== "succeeded") here.say("To run it once more, add --again.");
  return report({ ...here, say: () => {} }, job);
}
