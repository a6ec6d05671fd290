/** Runs commands: each attempt in a directory of its own, with its input files and a clean environment, and an
 *  outcome that distinguishes exit codes, signals, limits and the command's own verdict. */
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { type Failure, failure } from "../../core/decision/failure.ts";
import { ConfigError } from "../../core/errors.ts";
import { type CheckedExec, checkExecInput } from "../../core/input/exec-input.ts";
import { isVerdict } from "../../core/input/verdict.ts";
import type { OutputChunk } from "../../core/task/work-options.ts";
import { type ClaimedJob, MAX_JOB_BODY_BYTES, NO_INPUT } from "../../core/worker-protocol.ts";
import type { Clock } from "../../lib/clock.ts";
import type { FieldLog } from "../../lib/log.ts";
import { AssetError, type Assets } from "../assets.ts";
import type { AttemptRun } from "../attempt-run.ts";
import type { ExecutionResult, Executor } from "../executor.ts";
import { Capture, type CapturedBytes, type CapturedText } from "./capture.ts";
import { type CommandEnd, runCommand } from "./command.ts";
import { environmentOf, filled, portVariables, userVariables } from "./environment.ts";
import { writeInputFiles } from "./input-files.ts";
import { endOf } from "./outcome.ts";
import { namespaceProblem } from "./pid-namespace.ts";
import { Ports } from "./ports.ts";
import { MARK } from "./processes.mjs";
import { checkProgram, checkUserAccess } from "./program.ts";
import { readUsage, readVerdict, usageTrouble } from "./result-files.ts";
import { resultText } from "./result-text.ts";
import { chownDirectory, chownPrevious, type RunUser } from "./run-user.ts";
import { SupervisorClient } from "./supervisor-client.ts";

/** A file that an attempt wrote to `artifacts/`. */
interface OutputFile {
  readonly name: string;
  readonly size: number;
  readonly mime: string;
  readonly sha256: string;
}

/** A running attempt, as its directory needs it. */
export interface RunningAttempt {
  readonly job: ClaimedJob;
  readonly session: string;
  readonly signal: AbortSignal;
  /** Adds a line to the log of the attempt. */
  readonly log: (message: string) => void;
}

/** The directories of attempts. */
export interface AttemptDirectories {
  /** Creates the directory of an attempt; `previous` is the directory of the previous attempt. */
  begin(
    jobId: string,
    attempt: number,
    keep: boolean,
    running: RunningAttempt,
  ): Promise<{ readonly dir: string; readonly previous: string | null }>;
  /** The files in `artifacts/`; `more` is the number of those left out: too many, or unreadable. */
  list(jobId: string, attempt: number): Promise<{ readonly files: readonly OutputFile[]; readonly more: number }>;
  /** The stored standard input of the job, from its start; null if it is missing. */
  openStdin?(jobId: string, running: RunningAttempt): Promise<FileHandle | null>;
  /** The output files exist and grow from now on. */
  follow?(running: RunningAttempt): void;
  /** The attempt has ended: flushes its files to disk, if they are stored here. Returns those that failed. */
  flush?(jobId: string, attempt: number): Promise<readonly { readonly name: string; readonly error: Error }[]>;
  /** The attempt has ended: uploads its remaining files, before its outcome is reported. Never throws. */
  finish?(running: RunningAttempt): Promise<void>;
  /** The report was answered. */
  release?(running: RunningAttempt): Promise<void>;
  /** The job has ended: removes its scratch files. */
  tidy(jobId: string): Promise<void>;
}

interface ExecOptions {
  readonly directories: AttemptDirectories;
  readonly assets: Assets;
  readonly clock: Clock;
  /** The worker's environment, from which a few base variables are copied. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly allowEnv: readonly string[];
  /** Variables with which a command reaches its server or database. */
  readonly access?: (job: ClaimedJob) => Readonly<Record<string, string>>;
  /** Run each command in its own pid namespace, where that is possible. */
  readonly isolate?: boolean;
  /** The user that commands run as, who must be able to enter `directories`; null: the worker's own. */
  readonly user?: RunUser | null;
  readonly log?: FieldLog;
  readonly onOutput?: ((chunk: OutputChunk) => Promise<void> | undefined) | undefined;
}

const USAGE_MS = 1_000;
const RESULT_TEXT_BYTES = 65_536;
const STREAMS: ReadonlySet<string> = new Set(["stdout.log", "stderr.log"]);
/** Logged flush errors: on a broken disk every file fails, and there may be a thousand. */
const MAX_LOGGED = 3;

export class ExecExecutor implements Executor {
  readonly kind = "exec";
  readonly #options: ExecOptions;
  readonly #supervisor: SupervisorClient;
  readonly #ports = new Ports();
  #hasWarned = false;
  readonly #tidying = new Set<Promise<void>>();

  constructor(options: ExecOptions) {
    this.#options = options;
    this.#supervisor = new SupervisorClient(options.clock);
  }

  async run(run: AttemptRun): Promise<ExecutionResult> {
    const executed = await this.#tryRun(run);
    const { directories } = this.#options;
    if (directories.finish === undefined && directories.flush === undefined) return executed;
    run.workDone();
    const kept = await this.#flushed(run, executed);
    await directories.finish?.(run);
    return kept;
  }

  /** Files that are reported as stored must survive a power cut: a completed attempt fails if one of its files cannot be flushed.
   *  Missing stdout or stderr does not fail a command, as with a full disk. */
  async #flushed(run: AttemptRun, executed: ExecutionResult): Promise<ExecutionResult> {
    const { id, attempt } = run.job;
    const lacking = (await this.#options.directories.flush?.(id, attempt)) ?? [];
    for (const { name, error } of lacking.slice(0, MAX_LOGGED)) {
      run.log(`${name} could not be written to disk: ${error.message}`);
    }
    const [first] = lacking.filter(({ name }) => !STREAMS.has(name));
    if (first === undefined || executed.outcome.kind !== "completed") return executed;
    const { code = null, message } = first.error as NodeJS.ErrnoException;
    const text = `output files could not be written to disk (${first.name}: ${message})`;
    return failed(failure({ kind: "error", name: "OutputError", code, message: text }));
  }

  async #tryRun(run: AttemptRun): Promise<ExecutionResult> {
    try {
      const input = checkedPayload(run.job.payload);
      const ports = await this.#ports.take(input.ports.length);
      try {
        return await this.#run(run, input, ports);
      } finally {
        this.#ports.giveBack(ports);
      }
    } catch (error) {
      if (error instanceof ConfigError)
        return failed(failure({ kind: "error", class: "invalid", message: error.message }));
      const { code = null, message } = error as NodeJS.ErrnoException;
      if (error instanceof AssetError) return failed(failure({ kind: "error", class: "invalid", code, message }));
      return failed(failure({ kind: "error", name: "ExecError", code, message: `cannot run the command: ${message}` }));
    }
  }

  answered(run: AttemptRun): void {
    const releasing = this.#options.directories.release?.(run);
    if (releasing !== undefined) this.#tidyUp(releasing);
  }

  jobEnded(jobId: string): void {
    this.#tidyUp(this.#options.directories.tidy(jobId));
  }

  #tidyUp(work: Promise<void>): void {
    const tidying = work.finally(() => this.#tidying.delete(tidying));
    this.#tidying.add(tidying);
  }

  force(): void {
    this.#supervisor.force();
  }

  /** To be called when no command is running any more. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#tidying);
    this.#supervisor.close();
  }

  async #run(run: AttemptRun, input: CheckedExec, ports: readonly number[]): Promise<ExecutionResult> {
    const { directories, clock, onOutput } = this.#options;
    const { id: jobId, attempt } = run.job;
    run.stopGraceMs = input.graceMs + 8_000; // the supervisor ends it, and needs a little longer than its grace time
    const { dir, previous } = await directories.begin(jobId, attempt, input.keep, run);
    // If a worker was killed together with its supervisor, processes of its attempt may still be running.
    if (previous !== null) await this.#supervisor.clear(jobId);
    const { user = null } = this.#options;
    if (previous !== null && user !== null) await chownPrevious(previous, user);
    await writeInputFiles(dir, input, (hash) => this.#options.assets.get(hash, run.signal));
    const env = this.#environment(run, input, { dir, previous, ports });
    const cwd = input.cwd ?? dir;
    const problem = (await checkProgram(input.argv[0], cwd, env.PATH as string)) ?? checkUserAccess(user, input.cwd);
    if (problem !== null) return failed(problem);
    const stdin = await this.#stdin(run, input);
    const textCap = input.resultStdout ? RESULT_TEXT_BYTES : 0;
    const stdout = new Capture(join(dir, "stdout.log"), input.outputCap, textCap);
    const stderr = new Capture(join(dir, "stderr.log"), input.outputCap);
    try {
      await Promise.all([stdout.open(), stderr.open()]);
    } catch (error) {
      await stdin?.close();
      throw error;
    }
    directories.follow?.(run);
    const stopUsage = this.#followUsage(run, join(dir, "usage.json"));
    const end = await runCommand({
      ...{ supervisor: this.#supervisor, clock, input, cwd, dir, env, stdin, stdout, stderr, signal: run.signal },
      outerMark: this.#options.env[MARK] ?? null,
      isIsolated: await this.#mayIsolate(),
      user,
      handOver: async () => {
        if (user === null) return;
        await stdin?.chown(user.uid, user.gid);
        await chownDirectory(dir, user);
      },
      onOutput: (stream, bytes) => logErrors(run, () => onOutput?.({ jobId, attempt, stream, bytes })),
    });
    await stopUsage();
    const errorOutput = { line: stderr.summary(), tail: stderr.lastLines() };
    const written = await Promise.all([stdout.close(), stderr.close()]);
    const text = input.resultStdout ? stdout.text() : null;
    for (const capture of [stdout, stderr]) {
      if (capture.trouble !== null) run.log(`output could not be stored: ${capture.trouble}`);
    }
    return this.#judge(run, end, { dir, errorOutput, written, text });
  }

  /** The stored standard input, opened for each attempt, so that each reads it from the start; null if the job has none. */
  async #stdin(run: AttemptRun, { stdinFile }: CheckedExec): Promise<FileHandle | null> {
    if (stdinFile === null) return null;
    const file = (await this.#options.directories.openStdin?.(run.job.id, run)) ?? null;
    if (file === null) throw new Error("the piped input of the job is missing");
    const { size } = await file.stat();
    if (size === stdinFile.bytes) return file;
    await file.close();
    throw new Error(`the piped input of the job has ${size} bytes instead of ${stdinFile.bytes}`);
  }

  async #judge(run: AttemptRun, end: CommandEnd, files: JudgedFiles): Promise<ExecutionResult> {
    const { dir, errorOutput, written, text } = files;
    if (end.kind === "never started") return failed(end.failure);
    if (end.left > 0) run.log(`${end.left} processes could not be killed`);
    const verdict = await readVerdict(join(dir, "result.json"), this.#options.user?.uid);
    if ("usage" in verdict && verdict.usage !== null) run.usageSoFar(verdict.usage);
    if ("usageTrouble" in verdict && verdict.usageTrouble !== null) {
      run.log(`not all usage in result.json is counted: ${verdict.usageTrouble}`);
    }
    const judged = endOf(end, verdict, errorOutput.line, errorOutput.tail);
    const hasVerdict = isVerdict(verdict);
    if (judged.kind !== "completed") return { outcome: judged, isVerdict: hasVerdict };
    const { exitCode, output } = judged;
    const listed = await this.#options.directories.list(run.job.id, run.job.attempt);
    const result = resultText({ exitCode, output }, { ...listed, written, text });
    if (result !== null) return { outcome: { kind: "completed", result }, isVerdict: hasVerdict };
    const message = `the output in result.json is over ${MAX_JOB_BODY_BYTES} bytes as JSON; write it to artifacts/`;
    return failed(failure({ kind: "result", class: "logical", message, exitCode }));
  }

  async #mayIsolate(): Promise<boolean> {
    if (this.#options.isolate !== true) return false;
    const problem = await namespaceProblem();
    if (problem !== null && !this.#hasWarned) {
      this.#hasWarned = true;
      this.#options.log?.("warn", "pid namespaces unavailable, processes are found by their mark only", {
        error: problem,
      });
    }
    return problem === null;
  }

  #environment(
    run: AttemptRun,
    input: CheckedExec,
    { dir, previous, ports }: { dir: string; previous: string | null; ports: readonly number[] },
  ) {
    const { env, allowEnv: allow, access, user = null } = this.#options;
    const from = user === null ? env : { ...env, ...userVariables(user, dir) };
    const own = {
      ...access?.(run.job),
      ...portVariables(input.ports, ports),
      PERDURE_JOB_ID: run.job.id,
      PERDURE_ATTEMPT: String(run.job.attempt),
      PERDURE_OUTPUT_DIR: dir,
      PERDURE_RESULT_FILE: join(dir, "result.json"),
      PERDURE_USAGE_FILE: join(dir, "usage.json"),
      ...(previous === null ? {} : { PERDURE_PREVIOUS_OUTPUT_DIR: previous }),
    };
    return environmentOf({ from, job: input.env, filled: filled(input, run.job, ports), allow, own });
  }

  /** Reads usage.json while the command runs, and a last time when the returned function is called. */
  #followUsage(run: AttemptRun, path: string): () => Promise<void> {
    const { clock } = this.#options;
    let isOver = false;
    const read = async () => {
      const usage = await readUsage(path, this.#options.user?.uid);
      if (usage !== null) run.usageSoFar(usage);
    };
    let cancel = () => {};
    const schedule = () => {
      cancel = clock.after(USAGE_MS, () => void read().finally(() => isOver || schedule()));
    };
    schedule();
    return async () => {
      isOver = true;
      cancel();
      await read();
      const trouble = await usageTrouble(path, this.#options.user?.uid);
      if (trouble !== null) run.log(`not all usage in usage.json is counted: ${trouble}`);
    };
  }
}

interface JudgedFiles {
  readonly dir: string;
  readonly errorOutput: { readonly line: string; readonly tail: string };
  readonly written: readonly [CapturedBytes, CapturedBytes];
  /** The text of stdout, if the result contains it. */
  readonly text: CapturedText | null;
}

function checkedPayload(payload: string): CheckedExec {
  return checkExecInput(payload === NO_INPUT ? {} : JSON.parse(payload), "exec");
}

/** An error of `onOutput` is logged; it must not stop the command. */
function logErrors(run: AttemptRun, call: () => Promise<void> | undefined): Promise<void> | undefined {
  const fails = (error: unknown) => run.log(`onOutput failed: ${String(error)}`);
  try {
    return call()?.catch(fails);
  } catch (error) {
    fails(error);
    return undefined;
  }
}

function failed(cause: Failure): ExecutionResult {
  return { outcome: { kind: "failed", failure: cause } };
}
