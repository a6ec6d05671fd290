/** Starts runs and prints their ids; with --wait, waits until they have ended and prints a line for each. */
import type { PlaybookInput } from "../../core/api/playbooks.ts";
import type { RunHandle, RunInfo, RunOptions } from "../../core/api/runs.ts";
import type { Perdure } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { systemClock } from "../../lib/system-clock.ts";
import type { CommandContext } from "../command.ts";
import { EXIT } from "../exit.ts";
import { runEndText, runFailureLine, runStateText } from "../output/run-text.ts";
import { painted } from "../output/terminal-text.ts";
import { untilInterrupted } from "../stop-signals.ts";
import { targetOf } from "../target/target.ts";
import { asInputError, type RunInput } from "./run-options.ts";

/** The run is stored, and nothing advances it. */
export const NO_SERVER = "no server is running on this data: the run continues when one is started with `perdure up`";

/** After a command on jobs: for runs that continue, and that no engine advances now. */
export function noteIfNoServer(context: CommandContext, jobs: readonly JobInfo[]): void {
  const isLive = jobs.some(({ kind, state }) => kind === RUN_KIND && state === "blocked");
  if (isLive && targetOf(context).kind === "store") context.out.note(NO_SERVER);
}

export interface RunToStart {
  readonly playbook: PlaybookInput;
  readonly input: RunInput;
  readonly options: RunOptions;
}

export async function startRun(
  { given, out }: CommandContext,
  perdure: Perdure,
  { playbook, input, options }: RunToStart,
): Promise<RunHandle<unknown>> {
  try {
    const run = await perdure.run(playbook, input, options);
    if (!given.flag("json")) out.line(run.id);
    if (!run.created) out.note(`${run.id} already exists for key ${options.key}`);
    return run;
  } catch (error) {
    throw asInputError(error, given);
  }
}

/** The runs as they ended, each printed when it has. */
export async function endsOf(
  { given, out }: CommandContext,
  runs: readonly RunHandle<unknown>[],
  signal: AbortSignal,
): Promise<RunInfo[]> {
  return Promise.all(
    runs.map(async (run) => {
      await run.result({ signal }).catch(unlessNotSucceeded);
      const info = await run.get();
      if (!given.flag("json") && !signal.aborted) printRunLine(out, info);
      return info;
    }),
  );
}

function unlessNotSucceeded(error: unknown): void {
  if (error instanceof PerdureError && ["job_failed", "job_cancelled", "result_timeout"].includes(error.code)) return;
  throw error;
}

export async function waitForRuns(context: CommandContext, runs: readonly RunHandle<unknown>[]): Promise<number> {
  return untilInterrupted(context, async (signal) => {
    const infos = await endsOf(context, runs, signal);
    if (context.given.flag("json") && !signal.aborted) {
      context.out.json(infos.map((info, i) => ({ created: runs[i]?.created, ...shownRun(info) })));
    }
    return infos.every(({ state }) => state === "succeeded") ? EXIT.done : EXIT.failed;
  });
}

export function printRunLine(out: CommandContext["out"], run: RunInfo): void {
  const why = runFailureLine(run);
  const [, rest = ""] = / (after .*)$/.exec(runEndText(run, systemClock.now())) ?? [];
  const tail = `  ${rest}${why === "" ? "" : `: ${why}`}`;
  out.line(run.id, "  ", run.name, "  ", runStateText(run), painted("dim", tail));
}

export function shownRun(run: RunInfo): Record<string, unknown> {
  const { id, name, playbook, state, reason, failedStep, madeSteps, submittedAt, finishedAt, result } = run;
  return { id, name, playbook, state, reason, failedStep, madeSteps, submittedAt, finishedAt, result };
}
