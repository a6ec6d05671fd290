/** Stores the command as a job, or finds the job that its key names already. */
import { exec } from "../../core/builtin.ts";
import { toMs } from "../../core/duration.ts";
import { PerdureError, show } from "../../core/errors.ts";
import type { ExecInput } from "../../core/exec-input.ts";
import type { JobHandle } from "../../core/face.ts";
import { isTerminal } from "../../core/job.ts";
import type { PolicyFields } from "../../core/policy.ts";
import { changedTerms, type RedriveChanges, showTerms } from "../../core/redrive.ts";
import { resolvePolicy } from "../../core/resolve-policy.ts";
import type { SubmitOptions } from "../../core/submit-options.ts";
import type { JobInfo } from "../../core/views.ts";
import { usageError } from "../exit.ts";
import { type Here, runs } from "./here.ts";
import type { PipedInput } from "./piped-input.ts";
import type { TimeText } from "./policy.ts";
import { report } from "./report.ts";

export interface Wanted {
  readonly input: ExecInput;
  readonly retry: PolicyFields;
  readonly timeout: TimeText | undefined;
  readonly key: string | undefined;
  readonly name: string | undefined;
  /** What of it was given: with --again, a redrive changes that. */
  readonly changes: RedriveChanges;
  /** What its command reads. */
  readonly piped: PipedInput | null;
}

type Run = JobHandle<unknown>;

/** `exitCode`: it had ended already, and that was told. */
export type Met = { readonly job: Run; readonly exitCode: number | null };

export async function submitOrMeet(
  here: Here,
  wanted: Wanted,
  where: Pick<SubmitOptions, "queue" | "expireIn">,
): Promise<Met> {
  const job = await submitted(here, wanted, where);
  if (job.created) return { job, exitCode: null };
  const met = await job.get();
  if (!isTerminal(met.state)) {
    tellMet(here, met, wanted);
    return { job, exitCode: null };
  }
  if (here.context.given.flag("again")) return { job: await redriven(here, job, met, wanted), exitCode: null };
  return { job, exitCode: await tellEnd(here, job, met) };
}

async function submitted(
  here: Here,
  { input, retry, timeout, key, name, piped }: Wanted,
  where: Pick<SubmitOptions, "queue" | "expireIn">,
): Promise<Run> {
  const { perdure } = here;
  const before = key === undefined || piped !== null ? null : await withItsInput(here, key, input);
  if (before !== null) return before;
  const named = {
    ...(key === undefined ? {} : { key }),
    ...(timeout === undefined ? {} : { timeout }),
    ...(name && { name }),
  };
  try {
    if (piped === null) return await perdure.submit(exec, input, { ...where, retry, ...named });
    const { id: upload, bytes, sha256 } = await piped.upload(perdure);
    return await perdure.submit(...([exec, { ...input, stdinFile: { bytes, sha256 } }] as const), {
      ...where,
      retry,
      ...named,
      upload,
    });
  } catch (error) {
    if (!(error instanceof PerdureError) || error.code !== "key_conflict") throw error;
    const [, id = "a job"] = /belongs to (\S+),/.exec(error.message) ?? [];
    throw usageError(
      `--key: ${show(key)} belongs to ${id}, which has another command, directory, environment, queue or standard input; use another key`,
    );
  }
}

/** The job of this key, if it has a stored input and nothing is piped this time: it goes on with what it has. Null: it is for the
 *  submit to find out. */
async function withItsInput({ perdure, say }: Here, key: string, input: ExecInput): Promise<Run | null> {
  const { jobs } = await perdure.jobs({ key, limit: 1 });
  const [found] = jobs;
  const { stdinFile, ...rest } = (found?.payload ?? {}) as ExecInput;
  if (found === undefined || stdinFile === undefined || JSON.stringify(rest) !== JSON.stringify(input)) return null;
  say(
    `${found.id}: nothing is piped, so it keeps the ${stdinFile.bytes} bytes of standard input that are stored with it`,
  );
  return perdure.job(found.id);
}

async function redriven({ perdure, say }: Here, job: Run, met: JobInfo, { changes, name }: Wanted): Promise<Run> {
  if (met.state === "succeeded") {
    throw usageError(`--again: ${job.id} has succeeded, which is final; use another --key to run the command anew`);
  }
  if (name !== undefined && name !== met.name) {
    throw usageError(
      `--name: ${job.id} has the name ${show(met.name)}, which a redrive does not change; leave --name out, or use another --key`,
    );
  }
  const changed = changedTerms(met, await perdure.redrive(job.id, changes));
  say(`${job.id}: redriven after ${runs(met.attempt)}${changed === null ? "" : `, with ${showTerms(changed)}`}`);
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
