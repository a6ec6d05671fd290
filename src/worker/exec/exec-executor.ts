/** Runs commands: each attempt in a directory of its own, with its input files and a clean environment, and an
 *  outcome that distinguishes exit codes, signals, limits and the command's own verdict. */
import { type FileHandle, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Failure, failure } from "../../core/decision/failure.ts";
import { ConfigError } from "../../core/errors.ts";
import { type CheckedExec, checkExecInput } from "../../core/input/exec-input.ts";
import { isVerdict } from "../../core/input/verdict.ts";
import type { OutputChunk } from "../../core/task/work-options.ts";
import { type ClaimedJob, NO_INPUT } from "../../core/worker-protocol.ts";
import type { Clock } from "../../lib/clock.ts";
import { isOver } from "../../lib/text.ts";
import type { AttemptRun } from "../attempt-run.ts";
import type { ExecutionResult, Executor } from "../executor.ts";
import { Capture, type CapturedBytes } from "./capture.ts";
import { type CommandEnd, runCommand } from "./command.ts";
import { environmentOf, filled, portVariables, userVariables } from "./environment.ts";
import { endOf } from "./outcome.ts";
import { whyNoNamespace } from "./pid-namespace.ts";
import { Ports } from "./ports.ts";
import { MARK } from "./processes.mjs";
import { whyNot, whyNotAs } from "./program.ts";
import { readUsage, readVerdict, usageTrouble } from "./result-files.ts";
import { giveDirectory, giveEarlier, type RunUser } from "./run-user.ts";
import { SupervisorClient } from "./supervisor-client.ts";

// The files that a job brings along, put where its command finds them: `inputs/` in the attempt's own directory. Each
// attempt gets them anew, whatever the one before did to its own. Names and contents were checked by
// `checkExecInput`.

const INPUTS = "inputs";

/** All are there, for the owner alone, when the promise resolves. A job without files gets no directory. */
async function writeInputFiles(dir: string, files: Readonly<Record<string, string>>): Promise<void> {
  const entries = Object.entries(files);
  if (entries.length === 0) return;
  const inputs = join(dir, INPUTS);
  await mkdir(inputs, { mode: 0o700 });
  for (const [name, content] of entries) {
    // wx: two names that this file system takes for one must not overwrite each other.
    await writeFile(join(inputs, name), Buffer.from(content, "base64"), { mode: 0o600, flag: "wx" });
  }
}

// Runs commands: each attempt in a directory of its own, with a clean environment, and an outcome that tells exit
// codes, signals, limits and the command's own verdict apart.

/** A file that an attempt left for the user. */
interface OutputFile {
  readonly name: string;
  readonly size: number;
  readonly mime: string;
  readonly sha256: string;
}

/** An attempt, as its place sees it. */
export interface AttemptDirectory {
  readonly job: ClaimedJob;
  readonly session: string;
  readonly signal: AbortSignal;
  /** A line in the log of the attempt. */
  readonly log: (message: string) => void;
}

/** Where attempts write. */
export interface AttemptDirectories {
  /** Makes the directory of an attempt, and says where the one before it lies. */
  begin(
    jobId: string,
    attempt: number,
    keep: boolean,
    placed: AttemptDirectory,
  ): Promise<{ readonly dir: string; readonly previous: string | null }>;
  /** What it left in `artifacts/`; `more` were too many, or could not be read. */
  list(jobId: string, attempt: number): Promise<{ readonly files: readonly OutputFile[]; readonly more: number }>;
  /** The input that the job brought along, at its start; null if it is missing. */
  openStdin?(jobId: string, placed: AttemptDirectory): Promise<FileHandle | null>;
  /** Its output files are there, and grow from now on. */
  follow?(placed: AttemptDirectory): void;
  /** It has ended: what it left is put on the disk, where it is kept here. The answer is what could not be. */
  flush?(jobId: string, attempt: number): Promise<readonly { readonly name: string; readonly error: Error }[]>;
  /** It has ended: what it left is brought to where it is kept, before anybody hears of its end. Never throws. */
  finish?(placed: AttemptDirectory): Promise<void>;
  /** Its report was answered. */
  release?(placed: AttemptDirectory): Promise<void>;
  /** Removes scratch files: the job has ended. */
  tidy(jobId: string): Promise<void>;
}

interface ExecOptions {
  readonly places: AttemptDirectories;
  readonly clock: Clock;
  /** The worker's environment, from which the base is taken. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly allowEnv: readonly string[];
  /** What a command finds to reach its server, or the data it is in. */
  readonly access?: (job: ClaimedJob) => Readonly<Record<string, string>>;
  /** Commands get a pid namespace of their own, where it can be had. */
  readonly isolate?: boolean;
  /** The user that commands run as; null: the worker's own. Their places must be within its reach. */
  readonly user?: RunUser | null;
  readonly log?: (level: "warn", message: string) => void;
  readonly onOutput?: ((chunk: OutputChunk) => Promise<void> | undefined) | undefined;
}

const USAGE_MS = 1_000;
const STREAMS: ReadonlySet<string> = new Set(["stdout.log", "stderr.log"]);
/** Of files that could not be flushed: a broken disk takes none, and there may be a thousand. */
const MAX_TOLD = 3;
/** What the engine takes as a result. */
const MAX_RESULT_BYTES = 1_048_576;

export class ExecExecutor implements Executor {
  readonly kind = "exec";
  readonly #options: ExecOptions;
  readonly #guard: SupervisorClient;
  readonly #ports = new Ports();
  #isTold = false;
  readonly #tidying = new Set<Promise<void>>();

  constructor(options: ExecOptions) {
    this.#options = options;
    this.#guard = new SupervisorClient(options.clock);
  }

  async run(run: AttemptRun): Promise<ExecutionResult> {
    const executed = await this.#tryRun(run);
    const { places } = this.#options;
    if (places.finish === undefined && places.flush === undefined) return executed;
    run.workDone();
    const kept = await this.#flushed(run, executed);
    await places.finish?.(run);
    return kept;
  }

  /** What is reported as stored must be found again after a power cut. Where the disk took less than all, an end that relies
   *  on it is none; that output is missing fails no command, as when the disk is full. */
  async #flushed(run: AttemptRun, executed: ExecutionResult): Promise<ExecutionResult> {
    const { id, attempt } = run.job;
    const lacking = (await this.#options.places.flush?.(id, attempt)) ?? [];
    for (const { name, error } of lacking.slice(0, MAX_TOLD)) {
      run.log(`${name} could not be written to the disk: ${error.message}`);
    }
    const [first] = lacking.filter(({ name }) => !STREAMS.has(name));
    if (first === undefined || executed.outcome.kind !== "completed") return executed;
    const { code = null, message } = first.error as NodeJS.ErrnoException;
    const told = `its files could not be written to the disk (${first.name}: ${message})`;
    return failed(failure({ kind: "error", name: "OutputError", code, message: told }));
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
      return failed(failure({ kind: "error", name: "ExecError", code, message: `cannot run the command: ${message}` }));
    }
  }

  answered(run: AttemptRun): void {
    const releasing = this.#options.places.release?.(run);
    if (releasing !== undefined) this.#tidyUp(releasing);
  }

  jobEnded(jobId: string): void {
    this.#tidyUp(this.#options.places.tidy(jobId));
  }

  #tidyUp(work: Promise<void>): void {
    const tidying = work.finally(() => this.#tidying.delete(tidying));
    this.#tidying.add(tidying);
  }

  force(): void {
    this.#guard.force();
  }

  /** When no command runs any more. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#tidying);
    this.#guard.close();
  }

  async #run(run: AttemptRun, input: CheckedExec, ports: readonly number[]): Promise<ExecutionResult> {
    const { places, clock, onOutput } = this.#options;
    const { id: jobId, attempt } = run.job;
    run.stopGraceMs = input.graceMs + 8_000; // we end it ourselves, and need a little longer than its grace
    const { dir, previous } = await places.begin(jobId, attempt, input.keep, run);
    // What an earlier attempt left running, of a worker that died together with its supervisor, would overlap this one.
    if (previous !== null) await this.#guard.clear(jobId);
    const { user = null } = this.#options;
    if (previous !== null && user !== null) await giveEarlier(previous, user);
    await writeInputFiles(dir, input.files);
    const env = this.#environment(run, input, { dir, previous, ports });
    const cwd = input.cwd ?? dir;
    const refused = (await whyNot(input.argv[0], cwd, env.PATH as string)) ?? whyNotAs(user, input.cwd);
    if (refused !== null) return failed(refused);
    const stdin = await this.#stdin(run, input);
    const stdout = new Capture(join(dir, "stdout.log"), input.outputCap);
    const stderr = new Capture(join(dir, "stderr.log"), input.outputCap);
    try {
      await Promise.all([stdout.open(), stderr.open()]);
    } catch (error) {
      await stdin?.close();
      throw error;
    }
    places.follow?.(run);
    const stopUsage = this.#followUsage(run, join(dir, "usage.json"));
    const end = await runCommand({
      ...{ guard: this.#guard, clock, input, cwd, dir, env, stdin, stdout, stderr, signal: run.signal },
      outerMark: this.#options.env[MARK] ?? null,
      isIsolated: await this.#mayIsolate(),
      user,
      handOver: async () => {
        if (user === null) return;
        await stdin?.chown(user.uid, user.gid);
        await giveDirectory(dir, user);
      },
      onOutput: (stream, bytes) => careful(run, () => onOutput?.({ jobId, attempt, stream, bytes })),
    });
    await stopUsage();
    const said = { line: stderr.tellingLine(), tail: stderr.lastLines() };
    const written = await Promise.all([stdout.close(), stderr.close()]);
    for (const capture of [stdout, stderr]) {
      if (capture.trouble !== null) run.log(`its output could not be kept: ${capture.trouble}`);
    }
    return this.#judge(run, end, { dir, said, written });
  }

  /** Opened anew for each attempt, which so reads it from the start; null where the job brought nothing. */
  async #stdin(run: AttemptRun, { stdinFile }: CheckedExec): Promise<FileHandle | null> {
    if (stdinFile === null) return null;
    const file = (await this.#options.places.openStdin?.(run.job.id, run)) ?? null;
    if (file === null) throw new Error("the piped input of the job is missing");
    const { size } = await file.stat();
    if (size === stdinFile.bytes) return file;
    await file.close();
    throw new Error(`the piped input of the job has ${size} bytes instead of ${stdinFile.bytes}`);
  }

  async #judge(
    run: AttemptRun,
    end: CommandEnd,
    { dir, said, written }: { dir: string; said: { line: string; tail: string }; written: readonly CapturedBytes[] },
  ): Promise<ExecutionResult> {
    if (end.kind === "never started") return failed(end.failure);
    if (end.left > 0) run.log(`${end.left} of its processes could not be ended`);
    const verdict = await readVerdict(join(dir, "result.json"), this.#options.user?.uid);
    if ("usage" in verdict && verdict.usage !== null) run.usageSoFar(verdict.usage);
    if ("usageTrouble" in verdict && verdict.usageTrouble !== null) {
      run.log(`not all of the usage in its result.json is counted: ${verdict.usageTrouble}`);
    }
    const judged = endOf(end, verdict, said.line, said.tail);
    const hasVerdict = isVerdict(verdict);
    if (judged.kind !== "completed") return { outcome: judged, isVerdict: hasVerdict };
    const { files, more } = await this.#options.places.list(run.job.id, run.job.attempt);
    const [stdout, stderr] = written;
    const result = { exitCode: judged.exitCode, output: judged.output, outputs: files, stdout, stderr };
    const text = JSON.stringify(more === 0 ? result : { ...result, moreOutputs: more });
    if (!isOver(text, MAX_RESULT_BYTES)) return { outcome: { kind: "completed", result: text }, isVerdict: hasVerdict };
    const short = JSON.stringify({ ...result, outputs: [], moreOutputs: files.length + more });
    if (!isOver(short, MAX_RESULT_BYTES))
      return { outcome: { kind: "completed", result: short }, isVerdict: hasVerdict };
    const message = `the output in its result.json is over ${MAX_RESULT_BYTES} bytes as JSON; leave it in artifacts/`;
    return failed(failure({ kind: "result", class: "logical", message, exitCode: judged.exitCode }));
  }

  async #mayIsolate(): Promise<boolean> {
    if (this.#options.isolate !== true) return false;
    const why = await whyNoNamespace();
    if (why !== null && !this.#isTold) {
      this.#isTold = true;
      this.#options.log?.(
        "warn",
        `no pid namespaces here (${why}): processes of commands are found by their mark alone`,
      );
    }
    return why === null;
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

  /** Hears what the command writes of its usage, while it runs and once more at the end. */
  #followUsage(run: AttemptRun, path: string): () => Promise<void> {
    const { clock } = this.#options;
    let isOver = false;
    const look = async () => {
      const usage = await readUsage(path, this.#options.user?.uid);
      if (usage !== null) run.usageSoFar(usage);
    };
    let cancel = () => {};
    const again = () => {
      cancel = clock.after(USAGE_MS, () => void look().finally(() => isOver || again()));
    };
    again();
    return async () => {
      isOver = true;
      cancel();
      await look();
      const trouble = await usageTrouble(path, this.#options.user?.uid);
      if (trouble !== null) run.log(`not all of its usage.json is counted: ${trouble}`);
    };
  }
}

function checkedPayload(payload: string): CheckedExec {
  return checkExecInput(payload === NO_INPUT ? {} : JSON.parse(payload), "exec");
}

/** Whoever looks on must not be able to stop the work. */
function careful(run: AttemptRun, call: () => Promise<void> | undefined): Promise<void> | undefined {
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
