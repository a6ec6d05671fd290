/** `perdure wait`: waits for jobs to end. */

import type { JobHandle } from "../../core/api/jobs.ts";
import type { Perdure } from "../../core/api.ts";
import { failureText } from "../../core/decision/failure.ts";
import { toMs } from "../../core/duration.ts";
import { PerdureError } from "../../core/errors.ts";
import { counted } from "../../core/format.ts";
import type { JobFailedError } from "../../core/job/job-end.ts";
import { jobName, oneLine } from "../../core/job/job-name.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { conflictError, EXIT } from "../exit.ts";
import { timeOf } from "../input/shared-options.ts";
import { givenIds } from "../jobs/for-each-job.ts";
import { fullId } from "../jobs/job-reference.ts";
import { stateText } from "../output/job-text.ts";
import { showSince } from "../output/print.ts";
import { painted } from "../output/terminal-text.ts";
import { printRunLine, shownRun } from "../playbooks/start-runs.ts";
import { attempts, EXIT_CODES } from "../run/run-context.ts";
import { reportIfWaiting } from "../run/why-waiting.ts";
import { untilInterrupted } from "../stop-signals.ts";
import { TARGET, type Target, targetOf, withPerdure } from "../target/target.ts";

export const wait: CliCommand = {
  name: "wait",
  summary: "Wait for jobs to end",
  usage: "perdure wait ID… [OPTIONS]",
  about:
    "Prints a line for each job as it ends. Exits with 0 if all have succeeded, 1 if one failed or was cancelled, 124 after " +
    "a timeout. The jobs keep running when the wait ends.",
  options: [
    { name: "timeout", type: "string", value: "TIME", help: "Wait no longer than this: 30s, 5m. 0s does not wait." },
    { name: "quiet", short: "q", type: "boolean", help: "Print nothing; use the exit code." },
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure wait job_01m7gekg9zevv9a6xvvwmt1v8g",
    "perdure wait -q --timeout 10m job_01m7gekg9zevv9a6xvvwmt1v8g",
  ],

  async run(context) {
    const { given } = context;
    const ids = givenIds(given, wait);
    if (given.flag("json") && given.flag("quiet")) throw conflictError("--json", "--quiet");
    const timeout = timeOf(given, "timeout");
    const timeoutMs = timeout === undefined ? null : toMs(timeout, "--timeout");
    const at = targetOf(context).kind;
    return withPerdure(context, (perdure) =>
      untilInterrupted(context, (signal) => waitForAll(context, { perdure, at }, ids, { timeoutMs, signal })),
    );
  },
};

interface WaitLimits {
  readonly timeoutMs: number | null;
  readonly signal: AbortSignal;
}

type WaitResult = "succeeded" | "failed" | "cancelled" | "timeout";

async function waitForAll(
  { given, out }: CommandContext,
  { perdure, at }: { readonly perdure: Perdure; readonly at: Target["kind"] },
  ids: readonly string[],
  patience: WaitLimits,
): Promise<number> {
  // All of them first: a job that does not exist is reported before anything is waited for.
  const whole = new Set(await Promise.all(ids.map((id) => fullId(perdure, id))));
  const jobs = await Promise.all([...whole].map((id) => perdure.job(id)));
  const ends: WaitResult[] = [];
  const over = new AbortController();
  const note = (text: string) => given.flag("quiet") || out.note(text);
  for (const job of jobs.slice(0, 3)) void reportIfWaiting({ perdure, note, at }, job, over.signal);
  const infos = await Promise.all(
    jobs.map(async (job) => {
      const { end, why } = await endOf(job, patience);
      ends.push(end);
      if (given.flag("quiet") || patience.signal.aborted) return null;
      const info = await job.get();
      if (info.kind === RUN_KIND) {
        const run = await (await perdure.runHandle(job.id)).get();
        if (!given.flag("json")) printRunLine(out, run);
        return shownRun(run);
      }
      if (!given.flag("json")) printLine(out, info, why);
      return shownJob(info);
    }),
  );
  over.abort();
  if (given.flag("json")) out.json(infos.filter((info) => info !== null));
  if (ends.some((end) => end === "failed" || end === "cancelled")) return EXIT.failed;
  if (!ends.includes("timeout")) return EXIT.done;
  const open = ends.filter((end) => end === "timeout").length;
  note(`timed out: ${open} of ${counted(jobs.length, "job")} ${open === 1 ? "has" : "have"} not ended`);
  return EXIT_CODES.timeout;
}

/** How it ended, with the message of its last failure if it failed. */
export async function endOf(
  job: JobHandle<unknown>,
  { timeoutMs, signal }: WaitLimits,
): Promise<{ readonly end: WaitResult; readonly why: string | null }> {
  try {
    await job.result({ signal, ...(timeoutMs === null ? {} : { timeout: timeoutMs }) });
    return { end: "succeeded", why: null };
  } catch (error) {
    if (error instanceof PerdureError) {
      if (error.code === "job_failed") {
        const { failure = null } = error as Partial<JobFailedError>;
        return { end: "failed", why: failure === null ? null : failureText(failure) };
      }
      if (error.code === "job_cancelled") return { end: "cancelled", why: null };
      if (error.code === "result_timeout") return { end: "timeout", why: null };
    }
    throw error;
  }
}

const MAX_WHY = 200;

export function printLine(out: CommandContext["out"], info: JobInfo, why: string | null): void {
  const took = showSince(info.submittedAt, info.finishedAt ?? Date.now());
  const rest = `  after ${attempts(info.attempt)}, ${took}${why === null ? "" : `: ${oneLine(why, MAX_WHY)}`}`;
  out.line(info.id, "  ", jobName(info), "  ", stateText(info, Date.now(), new Map()), painted("dim", rest));
}

export function shownJob({
  id,
  name,
  state,
  reason,
  attempt,
  submittedAt,
  finishedAt,
  result,
}: JobInfo): Record<string, unknown> {
  return { id, name, state, reason, attempt, submittedAt, finishedAt, result };
}
