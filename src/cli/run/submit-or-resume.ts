/** Submits the command as a job; if its key exists, resumes or redrives that job. */

import type { JobHandle } from "../../core/api/jobs.ts";
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
import { attempts, type RunContext, reportEnd } from "./run-context.ts";

export interface RunRequest {
  readonly input: ExecInput;
  readonly retry: PolicyFields;
  readonly timeout: TimeText | undefined;
  readonly key: string | undefined;
  readonly name: string | undefined;
  /** The given options: with --again the redrive applies them. */
  readonly changes: RedriveChanges;
  /** The standard input of the command. */
  readonly piped: PipedInput | null;
}

type RunJobHandle = JobHandle<unknown>;

export interface SubmittedRun {
  readonly job: RunJobHandle;
  /** Attempts that had ended before. */
  readonly ended: number;
  /** Not null if the job had already ended, which was printed. */
  readonly exitCode: number | null;
}

export async function submitOrResume(
  here: RunContext,
  wanted: RunRequest,
  where: Pick<SubmitOptions, "queue" | "expireIn">,
): Promise<SubmittedRun> {
  const job = await submitted(here, wanted, where);
  if (job.created) return { job, ended: 0, exitCode: null };
  const found = await job.get();
  if (!isTerminal(found.state)) {
    reportResumed(here, found, wanted);
    return { job, ended: found.state === "running" ? found.attempt - 1 : found.attempt, exitCode: null };
  }
  if (here.context.given.flag("again")) {
    return { job: await redriven(here, job, found, wanted), ended: found.attempt, exitCode: null };
  }
  return { job, ended: found.attempt, exitCode: await reportEnded(here, job, found) };
}

async function submitted(
  here: RunContext,
  { input, retry, timeout, key, name, piped }: RunRequest,
  where: Pick<SubmitOptions, "queue" | "expireIn">,
): Promise<RunJobHandle> {
  const { perdure } = here;
  const found = key === undefined || piped !== null ? null : await withStoredInput(here, key, input);
  if (found !== null) return found;
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

/** The job with this key, if it has stored standard input and nothing is piped now: it keeps that input. Null: the submit
 *  decides. */
async function withStoredInput(
  { perdure, note }: RunContext,
  key: string,
  input: ExecInput,
): Promise<RunJobHandle | null> {
  const { jobs } = await perdure.jobs({ key, limit: 1 });
  const [found] = jobs;
  const { stdinFile, ...rest } = (found?.payload ?? {}) as ExecInput;
  if (found === undefined || stdinFile === undefined || JSON.stringify(rest) !== JSON.stringify(input)) return null;
  note(`${found.id}: nothing is piped; using the ${stdinFile.bytes} bytes of standard input stored with the job`);
  return perdure.job(found.id);
}

async function redriven(
  { perdure, note }: RunContext,
  job: RunJobHandle,
  found: JobInfo,
  { changes, name }: RunRequest,
): Promise<RunJobHandle> {
  if (found.state === "succeeded") {
    throw usageError(`--again: ${job.id} has succeeded, which is final; use another --key to run the command again`);
  }
  if (name !== undefined && name !== found.name) {
    throw usageError(
      `--name: ${job.id} has the name ${show(found.name)}, which a redrive does not change; leave --name out, or use another --key`,
    );
  }
  const changed = changedTerms(found, await perdure.redrive(job.id, changes));
  note(`${job.id}: redriven after ${attempts(found.attempt)}${changed === null ? "" : `, with ${showTerms(changed)}`}`);
  return perdure.job(job.id);
}

function reportResumed(
  { note }: RunContext,
  { id, attempt, state, policy, timeoutMs }: JobInfo,
  given: RunRequest,
): void {
  note(`${id}: resuming the job with this key (${attempts(attempt)} so far, ${state})`);
  const isOther = JSON.stringify(resolvePolicy(given.retry, "retry")) !== JSON.stringify(policy);
  if (isOther || (given.timeout === undefined ? null : toMs(given.timeout, "--timeout")) !== timeoutMs) {
    note(`${id}: the job keeps the options it was submitted with`);
  }
}

/** Reports a job with this key that had already ended. */
async function reportEnded(here: RunContext, job: RunJobHandle, { state }: JobInfo): Promise<number> {
  for (const line of (await job.explain()).text.split("\n")) here.note(line);
  if (state !== "succeeded") here.note("To redrive the job, add --again.");
  return reportEnd({ ...here, note: () => {} }, job);
}
