/** Starts a run, or resumes the one of its key, and follows it to its end: `perdure run -f` and `perdure start --follow`. Without a
 *  server its steps run in this process. stdout has the result only. */
import { createHash, randomBytes } from "node:crypto";
import type { PlaybookInput } from "../../core/api/playbooks.ts";
import type { RunHandle, RunInfo, RunOptions, StepInfo } from "../../core/api/runs.ts";
import type { Perdure } from "../../core/api.ts";
import { PerdureError, show } from "../../core/errors.ts";
import { counted } from "../../core/format.ts";
import { runQueue } from "../../core/names.ts";
import type { InputRule, Playbook } from "../../core/playbook/playbook.ts";
import type { WorkerHandle } from "../../core/task/work-options.ts";
import { withFields } from "../../lib/log.ts";
import { systemClock } from "../../lib/system-clock.ts";
import type { CommandContext } from "../command.ts";
import { requirementError, usageError } from "../exit.ts";
import { runEndText, runFailureLine } from "../output/run-text.ts";
import { safeJson } from "../output/terminal-text.ts";
import { exitWithin, LAST_MS, onStopSignals, type StopRequest, untilUnread } from "../stop-signals.ts";
import type { StoreTarget } from "../target/store-target.ts";
import { type Target, withServer } from "../target/target.ts";
import { exitCodeOfRun, followRun } from "./follow-run.ts";
import { LiveLines } from "./live-lines.ts";
import { localRunWorker, queuesOf } from "./local-worker.ts";
import { asInputError, type RunInput, typedInput } from "./run-options.ts";
import { playbookTools } from "./tools.ts";

/** What is run: known when the engine or server is open. */
export interface FoundDefinition {
  readonly playbook: PlaybookInput;
  readonly inputs: Readonly<Record<string, InputRule>> | null;
  /** Those whose queues a worker here must serve. */
  readonly definitions: readonly Playbook[];
}

export interface RunPlaybookRequest {
  readonly find: (perdure: Perdure) => Promise<FoundDefinition>;
  readonly input: RunInput;
  readonly options: RunOptions;
}

interface OpenRun {
  readonly context: CommandContext;
  readonly perdure: Perdure;
  readonly target: Target;
  readonly lines: LiveLines;
  readonly worker: WorkerHandle | null;
}

export async function runPlaybook(
  context: CommandContext,
  target: Target,
  request: RunPlaybookRequest,
): Promise<number> {
  const { given, io } = context;
  const lines = new LiveLines(io, given.flag("quiet"));
  if (target.kind === "server") {
    return withServer(target, async (perdure) => {
      const found = await request.find(perdure);
      return runTo({ context, perdure, target, lines, worker: null }, found, request);
    });
  }
  if (given.flag("queue")) throw requirementError("--queue", "a server: pass --server or set PERDURE_URL");
  return here(context, target, request, lines);
}

/** In its own queue, so that no other command on this data takes its steps. With a key the queue is the same each time. */
async function here(
  context: CommandContext,
  target: StoreTarget,
  request: RunPlaybookRequest,
  lines: LiveLines,
): Promise<number> {
  const { key } = request.options;
  const hex = key === undefined ? randomBytes(8).toString("hex") : createHash("sha256").update(key).digest("hex");
  const queue = runQueue(hex);
  const local = await localRunWorker(context);
  const log = (level: string, message: string, fields?: Parameters<typeof withFields>[1]) => {
    if (level === "error") lines.note(`perdure: ${withFields(message, fields)}`);
  };
  const { withWorkingStore } = await import("../target/open-store.ts");
  return withWorkingStore(context, target, log, async (perdure) => {
    const found = await request.find(perdure);
    const named = await queuesOf(perdure, found.definitions, playbookTools(context));
    await using worker = await local.start(perdure, [queue, ...named]);
    const options = { ...request.options, queue };
    // Awaited here: the worker stops when this block is left.
    return await runTo({ context, perdure, target, lines, worker }, found, { ...request, options });
  });
}

async function runTo(open: OpenRun, found: FoundDefinition, request: RunPlaybookRequest): Promise<number> {
  const { context, lines, target } = open;
  const { run, exitCode } = await startOrResume(open, found, request);
  if (exitCode !== null) return exitCode;
  if (run.created && target.kind === "server") lines.note(`${run.id}: started on ${new URL(target.url).origin}`);
  else if (run.created) lines.note(`${run.id}: started`);
  const stop = await follow(open, run, request.options.key);
  if (stop?.kind !== "leave") return reportEnd(open, run, stop?.exitCode ?? null);
  const left =
    target.kind === "server"
      ? `still running on the server; see \`perdure steps ${run.id}\``
      : "interrupted; run again with the same --key to resume";
  lines.note(`${run.id}: ${left}`);
  return context.given.flag("json") ? reportEnd(open, run, stop.exitCode) : stop.exitCode;
}

interface StartedOrEnded {
  readonly run: RunHandle<unknown>;
  /** Not null if the run had already ended, which was printed. */
  readonly exitCode: number | null;
}

async function startOrResume(
  open: OpenRun,
  { playbook, inputs }: FoundDefinition,
  { input, options }: RunPlaybookRequest,
): Promise<StartedOrEnded> {
  const { context, perdure, lines } = open;
  const { given } = context;
  let run: RunHandle<unknown>;
  try {
    run = await perdure.run(playbook, typedInput(given, input, inputs), options);
  } catch (error) {
    if (error instanceof PerdureError && error.code === "key_conflict") {
      const [, id = "a run"] = /belongs to (\S+),/.exec(error.message) ?? [];
      throw usageError(
        `--key: ${show(options.key)} belongs to ${id}, which has another playbook or input; use another key`,
      );
    }
    throw asInputError(error, given);
  }
  if (run.created) return { run, exitCode: null };
  const info = await run.get();
  if (info.state === "running") {
    lines.note(`${run.id}: resuming the run with this key (${counted(info.madeSteps, "step")} so far)`);
    return { run, exitCode: null };
  }
  if (!given.flag("again")) return { run, exitCode: await reportEnd(open, run, null) };
  if (info.state === "succeeded") {
    throw usageError(`--again: ${run.id} has succeeded, which is final; use another --key to start another run`);
  }
  await run.redrive();
  lines.note(`${run.id}: redriven after ${counted(info.madeSteps, "step")}`);
  return { run: await perdure.runHandle(run.id), exitCode: null };
}

/** Null when the run has ended, or the signal on which this process must stop: the run was then cancelled or left running. */
async function follow(
  { context, perdure, target, lines, worker }: OpenRun,
  run: RunHandle<unknown>,
  key: string | undefined,
): Promise<StopRequest | null> {
  const over = new AbortController();
  let [force, release] = [(exitCode: number): void => process.exit(exitCode), () => {}];
  const signals = onStopSignals((exitCode) => force(exitCode));
  if (worker !== null) {
    force = (exitCode) => {
      void worker.stop({ grace: 0, force: true }).catch(() => {});
      release = exitWithin(exitCode, LAST_MS);
    };
  }
  const followed = followRun({ perdure, run, lines, at: target.kind, signal: over.signal }).then(() => null);
  try {
    const stop = await Promise.race([followed, signals.requested, untilUnread(context)]);
    if (stop === null) return null;
    if (stop.kind === "leave" && (target.kind === "server" || key !== undefined)) {
      await worker?.stop({ grace: 0 });
      return stop;
    }
    if (stop.exitCode === 130) lines.note(`${run.id}: cancelling; press Ctrl-C again to exit now`);
    await run.cancel().catch(unlessEnded);
    await followed;
    return { kind: "cancel", exitCode: stop.exitCode };
  } finally {
    over.abort();
    followed.catch(() => {});
    signals.stop();
    lines.close();
    release();
  }
}

/** A run of this process has its own queue, which only the same command serves again. */
function howToRepair({ context: { given }, target }: OpenRun, id: string): string {
  if (target.kind === "server") return `To repeat what failed: \`perdure redrive ${id}\`.`;
  if (given.text("key") !== undefined) return "To repeat what failed, run the same command with --again.";
  return "To be able to repeat only what failed, start it with --key.";
}

/** Ignores the error of a run that has ended meanwhile. */
function unlessEnded(error: unknown): void {
  if (!(error instanceof PerdureError) || error.code !== "wrong_state") throw error;
}

/** Prints how the run ended, and its result on stdout. `signalExit`: the exit code of a signal. */
async function reportEnd(open: OpenRun, run: RunHandle<unknown>, signalExit: number | null): Promise<number> {
  const { context, perdure, lines } = open;
  const { given, io } = context;
  const info = await run.get();
  const exitCode = signalExit ?? exitCodeOfRun(info);
  if (info.state !== "running") {
    const why = runFailureLine(info);
    lines.note(`${run.id}: ${runEndText(info, systemClock.now())}${why === "" ? "" : `: ${why}`}`);
    if (info.state === "failed") lines.note(`See \`perdure explain ${run.id}\`. ${howToRepair(open, run.id)}`);
  }
  if (given.flag("json")) {
    const shown = { ...shownEnd(info, exitCode), steps: (await stepsOf(perdure, run.id)).map(shownStep) };
    io.stdout.write(`${safeJson(JSON.stringify(shown))}\n`);
  } else if (info.state === "succeeded") {
    io.stdout.write(`${safeJson(JSON.stringify(info.result ?? null, null, 2))}\n`);
  }
  return exitCode;
}

function shownEnd({ id, name, state, reason, failedStep, failure, result }: RunInfo, exitCode: number): object {
  return { id, name, state, reason, failedStep, failure, exitCode, result: result ?? null };
}

/** As many as a list shows; `perdure steps --all --json` has all of them. */
const SHOWN_STEPS = 1_000;

function stepsOf(perdure: Perdure, id: string): Promise<StepInfo[]> {
  return perdure.steps(id, { items: false, limit: SHOWN_STEPS });
}

function shownStep({ n, step, type, visit, try: attemptOfRun, state, job, attempt, failure }: StepInfo): object {
  return { n, step, type, visit, try: attemptOfRun, state, job, attempt, message: failure?.message ?? null };
}
