/** What the steps of `perdure run` share: the open engine or client, the live output, its own lines on stderr, the final
 *  report and the exit code. */

import type { JobHandle } from "../../core/api/jobs.ts";
import type { Perdure } from "../../core/api.ts";
import { showMs } from "../../core/duration.ts";
import { madeName } from "../../core/job/job-name.ts";
import type { AttemptRow, JobInfo } from "../../core/job/views.ts";
import type { CommandContext } from "../command.ts";
import type { LiveOutput } from "../output/live-output.ts";
import { safeJson } from "../output/terminal-text.ts";

export interface RunContext {
  readonly perdure: Perdure;
  readonly context: CommandContext;
  readonly live: LiveOutput;
  /** Prints a line on stderr; none with --quiet. */
  readonly note: (text: string) => void;
}

export function attempts(count: number): string {
  return `${count} ${count === 1 ? "attempt" : "attempts"}`;
}

/** Starts a new line first if the command's last line is not ended. */
export function noteWriter({ given, out }: CommandContext, live: LiveOutput): RunContext["note"] {
  return (text) => {
    if (given.flag("quiet")) return;
    live.endLine("stderr");
    out.note(text);
  };
}

// The exit code of `perdure run`: the command's own exit code, if there is one.

/** As in shells and `timeout`. */
export const EXIT_CODES = { timeout: 124, ours: 125, notRunnable: 126, notFound: 127, interrupted: 130 } as const;

export function exitCodeOfJob(job: JobInfo, attempts: readonly AttemptRow[]): number {
  // Also if the verdict was "completed" and the exit code was not 0.
  if (job.state === "succeeded") return 0;
  if (job.state === "cancelled") return EXIT_CODES.interrupted;
  const last = attempts.findLast((attempt) => attempt.failure !== null);
  if (job.reason === "timeout" || last?.outcome === "timeout") return EXIT_CODES.timeout;
  const failure = last?.failure ?? null;
  if (failure === null || job.reason === "lost" || job.reason === "poison") return EXIT_CODES.ours;
  if (failure.name === "WorkingDirectoryError") return EXIT_CODES.notRunnable;
  if (failure.name === "SpawnError") return failure.code === "ENOENT" ? EXIT_CODES.notFound : EXIT_CODES.notRunnable;
  // A verdict "failed" with exit code 0 is still a failure.
  return failure.exitCode === null || failure.exitCode === 0 ? 1 : failure.exitCode;
}

/** Prints how the job ended, with --json also as one object, and returns the exit code. `signalExit`: the exit code of a signal. */
export async function reportEnd(
  { perdure, context, live, note }: RunContext,
  job: JobHandle<unknown>,
  signalExit: number | null = null,
): Promise<number> {
  const { given, io } = context;
  const [info, rows] = [await job.get(), await job.attempts()];
  const exitCode = signalExit ?? exitCodeOfJob(info, rows);
  const took = info.finishedAt === null ? "" : `, ${showMs(info.finishedAt - info.submittedAt)}`;
  const how = info.reason === null ? info.state : `${info.state} (${info.reason})`;
  // Only an explicit name: one made from the command adds nothing.
  const named = info.name === madeName(info) ? "" : ` (${info.name})`;
  note(`${job.id}${named}: ${how} after ${attempts(info.attempt)}${took}`);
  if (!given.flag("json")) return exitCode;
  const { attempts: explained } = await job.explain();
  const winner = info.state === "succeeded" ? info.attempt : null;
  const { files } = winner === null ? { files: [] } : await (await perdure.outputs(job.id)).files(winner);
  const tried = rows.map(({ attempt, outcome, startedAt, endedAt, failure, result }) => ({
    attempt,
    outcome,
    exitCode: failure?.exitCode ?? exitCodeIn(result),
    signal: failure?.signal ?? null,
    message: failure?.message ?? null,
    startedAt,
    endedAt,
    delayMs: explained.find((each) => each.attempt === attempt)?.delay?.delayMs ?? null,
  }));
  const { state, reason } = info;
  live.endLine("stdout");
  io.stdout.write(
    `${safeJson(JSON.stringify({ id: job.id, name: info.name, state, reason, exitCode, attempts: tried, outputs: files }))}\n`,
  );
  return exitCode;
}

function exitCodeIn(result: string | null): number | null {
  if (result === null) return null;
  const { exitCode } = JSON.parse(result) as { exitCode?: unknown };
  return typeof exitCode === "number" ? exitCode : null;
}
