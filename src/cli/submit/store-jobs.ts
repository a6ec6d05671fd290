/** The common part of `perdure submit` and `perdure apply`: submits jobs that were read, prints their ids, and with --wait
 *  waits until they have ended. Nothing is checked again. */

import type { JobHandle } from "../../core/api/jobs.ts";
import type { RunHandle } from "../../core/api/runs.ts";
import type { Perdure } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { SubmitEntry } from "../../core/task/task.ts";
import { isId } from "../../lib/id.ts";
import { impliedParent, type JobToStore, submitAll } from "../apply/named-jobs.ts";
import type { CommandContext } from "../command.ts";
import { endOf, printLine, shownJob } from "../commands/wait.ts";
import { EXIT, usageError } from "../exit.ts";
import { fullId, nullIfForbidden } from "../jobs/job-reference.ts";
import { endsOf, NO_SERVER, type RunToStart, shownRun, startRun } from "../playbooks/start-runs.ts";
import { reportIfWaiting } from "../run/why-waiting.ts";
import { untilInterrupted } from "../stop-signals.ts";
import { type Target, withPerdure } from "../target/target.ts";
import { type StoredEntry, warnIfNoWorker } from "./warn-no-worker.ts";

export interface StoreJobsRequest {
  /** For messages: `submit`. */
  readonly command: string;
  readonly target: Target;
  readonly jobs: readonly JobToStore[];
  /** Started after the jobs. */
  readonly runs?: readonly RunToStart[];
  /** Print a list even for a single job. */
  readonly isList: boolean;
  /** Begins the warning that no worker takes the only job: a reason why it may be a mistake. */
  readonly doubt?: string | null;
}

/** Returns the exit code. */
export async function storeJobs(context: CommandContext, request: StoreJobsRequest): Promise<number> {
  if (request.target.kind === "store") await (await import("../target/open-store.ts")).makeStore(request.target);
  return withPerdure(context, (perdure) => storeIn(context, perdure, request));
}

/** The same with an open engine or client. */
export async function storeIn(context: CommandContext, perdure: Perdure, wanted: StoreJobsRequest): Promise<number> {
  const { given, out } = context;
  const request = { ...wanted, jobs: await Promise.all(wanted.jobs.map((job) => withWholeParent(perdure, job))) };
  if (request.isList) for (const job of request.jobs) await checkParent(perdure, job);
  if (request.target.kind === "store" && context.io.env.PERDURE_JOB_ID) {
    out.note("this job runs without a server, so jobs that it submits are not its children; see `perdure up`");
  }
  const stored = await storeAll(context, perdure, request);
  const runs: RunHandle<unknown>[] = [];
  for (const run of request.runs ?? []) runs.push(await startRun(context, perdure, run));
  if (request.target.kind === "store" && runs.some(({ created }) => created)) out.note(NO_SERVER);
  const warnings = await warnIfNoWorker(context, perdure, stored.jobs, request);
  if (given.flag("wait")) return waitForEnds(context, perdure, { ...stored, runs, warnings }, request);
  if (given.flag("json")) {
    const shown = stored.jobs.map(({ job: { id, created } }) => ({ id, created, ...warningOf(id, warnings) }));
    out.json(request.isList ? [...shown, ...runs.map(({ id, created }) => ({ id, created }))] : shown[0]);
  }
  return stored.failed === 0 ? EXIT.done : EXIT.failed;
}

/** Resolves a short id of the parent. */
async function withWholeParent(perdure: Perdure, job: JobToStore): Promise<JobToStore> {
  const short = job.entry.options?.parent;
  if (short === undefined || isId(short, "job")) return job;
  const parent = await fullId(perdure, short).catch((error: unknown) => {
    if (!(error instanceof PerdureError) || error.code !== "job_not_found") throw error;
    throw usageError(`${job.parentWhere ?? job.where ?? "--parent"}: ${error.message}`);
  });
  return { ...job, entry: { ...job.entry, options: { ...job.entry.options, parent } } };
}

/** Checks parents before any job of the files is stored. A parent that ends meanwhile is reported for each job. */
async function checkParent(perdure: Perdure, { entry: { options }, ...places }: JobToStore): Promise<void> {
  const parent = options?.parent;
  const where = places.parentWhere ?? places.where;
  if (parent === undefined) return;
  try {
    const state = (await nullIfForbidden(perdure.job(parent).then((job) => job.get())))?.state;
    if (state !== undefined && isTerminal(state))
      throw usageError(`${where}: its parent ${parent} has ended (${state})`);
  } catch (error) {
    if (!(error instanceof PerdureError) || error.code !== "job_not_found") throw error;
    throw usageError(`${where}: its parent: ${error.message}`);
  }
}

interface StoredEntries {
  readonly jobs: readonly StoredEntry[];
  readonly failed: number;
}

/** For programs; for people it is printed on stderr. */
function warningOf(id: string, warnings: ReadonlyMap<string, string>): { warning?: string } {
  const warning = warnings.get(id);
  return warning === undefined ? {} : { warning };
}

async function storeAll(
  { given, io, out }: CommandContext,
  perdure: Perdure,
  { jobs, command, target }: StoreJobsRequest,
): Promise<StoredEntries> {
  const [only] = jobs;
  const printed = (job: JobHandle<unknown>, key: string | undefined, note: string | null = null) => {
    if (!given.flag("json")) out.line(job.id);
    if (!job.created) out.note(note ?? `${job.id} already exists for key ${key}`);
    return job;
  };
  if (only?.where === null) {
    const { task, input, options } = await withUpload(perdure, only);
    const job = printed(await perdure.submit(task as string, input, options), options?.key);
    return { jobs: [{ job, entry: only.entry }], failed: 0 };
  }
  const outcomes = await submitAll(perdure, jobs, impliedParent(io, target));
  const stored = outcomes.flatMap((outcome, i): StoredEntry[] => {
    const { entry, where } = jobs[i] as JobToStore;
    if (outcome.ok) return [{ job: printed(outcome.job, entry.options?.key, outcome.note), entry }];
    out.note(`perdure ${command}: ${where}: ${outcome.message}`);
    return [];
  });
  return { jobs: stored, failed: outcomes.length - stored.length };
}

/** Stores piped input now; the submit makes it the job's input. */
async function withUpload(perdure: Perdure, { entry, piped }: JobToStore): Promise<SubmitEntry> {
  if (piped == null) return entry;
  const { id: upload, bytes, sha256 } = await piped.upload(perdure);
  const input = { ...(entry.input as object), stdinFile: { bytes, sha256 } };
  return { ...entry, input, options: { ...entry.options, upload } };
}

async function waitForEnds(
  context: CommandContext,
  perdure: Perdure,
  {
    jobs,
    failed,
    runs,
    warnings,
  }: StoredEntries & { readonly runs: readonly RunHandle<unknown>[]; readonly warnings: ReadonlyMap<string, string> },
  { isList, target }: StoreJobsRequest,
): Promise<number> {
  const { given, out } = context;
  const handles = jobs.map(({ job }) => job);
  return untilInterrupted(context, async (signal) => {
    const over = new AbortController();
    const there = { perdure, note: (text: string) => out.note(text), at: target.kind };
    const unwarned = handles.filter(({ id }) => !warnings.has(id));
    for (const job of unwarned.slice(0, 3)) void reportIfWaiting(there, job, over.signal);
    const ended = endsOf(context, runs, signal);
    const ends = await Promise.all(
      handles.map(async (job) => {
        const { end, why } = await endOf(job, { timeoutMs: null, signal });
        if (!given.flag("json") && !signal.aborted) printLine(out, await job.get(), why);
        return end;
      }),
    );
    const runInfos = await ended;
    over.abort();
    if (given.flag("json") && !signal.aborted) {
      const infos = await Promise.all(handles.map((job) => job.get()));
      const shown = infos.map((info, i) => ({ created: handles[i]?.created, ...shownJob(info) }));
      const shownRuns = runInfos.map((run, i) => ({ created: runs[i]?.created, ...shownRun(run) }));
      out.json(isList ? [...shown, ...shownRuns] : shown[0]);
    }
    const isDone = runInfos.every(({ state }) => state === "succeeded");
    return failed === 0 && isDone && ends.every((end) => end === "succeeded") ? EXIT.done : EXIT.failed;
  });
}
