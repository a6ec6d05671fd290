/** Stores the command as a job, or finds the job that its key names already. */

import type { JobHandle } from "../../core/api.ts";
import { toMs } from "../../core/duration.ts";
import { PerdureError, show } from "../../core/errors.ts";
import { exec } from "../../core/input/builtin.ts";
import type { ExecInput } from "../../core/input/exec-input.ts";
import { isTerminal } from "../../core/job/job.ts";
import { changedTerms, type RedriveChanges, showTerms } from "../../core/job/redrive.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { PolicyFields } from "../../core/policy/policy.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { SubmitOptions } from "../../core/task/task.ts";
import { usageError } from "../exit.ts";
import type { PipedInput } from "../input/piped-input.ts";
import type { TimeText } from "../input/shared-options.ts";
import { type RunContext, reportEnd, runs } from "./run-context.ts";

export interface RunRequest {
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

type RunJobHandle = JobHandle<unknown>;

/** `exitCode`: it had ended already, and that was told. */
export type SubmittedRun = { readonly job: RunJobHandle; readonly exitCode: number | null };

export async function submitOrResume(
  here: RunContext,
  wanted: RunRequest,
  where: Pick<SubmitOptions, "queue" | "expireIn">,
): Promise<SubmittedRun> {
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
  here: RunContext,
  { input, retry, timeout, key, name, piped }: RunRequest,
  where: Pick<SubmitOptions, "queue" | "expireIn">,
): Promise<RunJobHandle> {
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
async function withItsInput({ perdure, say }: RunContext, key: string, input: ExecInput): Promise<RunJobHandle | null> {
  const { jobs } = await perdure.jobs({ key, limit: 1 });
  const [found] = jobs;
  const { stdinFile, ...rest } = (found?.payload ?? {}) as ExecInput;
  if (found === undefined || stdinFile === undefined || JSON.stringify(rest) !== JSON.stringify(input)) return null;
  say(
    `${found.id}: nothing is piped, so it keeps the ${stdinFile.bytes} bytes of standard input that are stored with it`,
  );
  return perdure.job(found.id);
}

async function redriven(
  { perdure, say }: RunContext,
  job: RunJobHandle,
  met: JobInfo,
  { changes, name }: RunRequest,
): Promise<RunJobHandle> {
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
function tellMet({ say }: RunContext, met: JobInfo, { retry, timeout }: RunRequest): void {
  const state = met.state === "running" ? `run ${met.attempt} may be under way in another process` : "it waits";
  say(`${met.id}: going on with the job of this key, after ${runs(met.attempt)}; ${state}`);
  const isOther = JSON.stringify(resolvePolicy(retry, "retry")) !== JSON.stringify(met.policy);
  if (isOther || (timeout === undefined ? null : toMs(timeout, "--timeout")) !== met.timeoutMs) {
    say(`${met.id}: it keeps the options it was submitted with`);
  }
}

/** An ended job, met again by its key. */
async function tellEnd(here: RunContext, job: RunJobHandle, { state }: JobInfo): Promise<number> {
  for (const line of (await job.explain()).text.split("\n")) here.say(line);
  if (state !== "succeeded") here.say("To run it once more, add --again.");
  return reportEnd({ ...here, say: () => {} }, job);
}
