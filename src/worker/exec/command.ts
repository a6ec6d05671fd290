/** Runs one command, from its start to the end of the last process that it has started. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { type FileHandle, readFile } from "node:fs/promises";
import type { Readable } from "node:stream";
import { type Failure, failure } from "../../core/decision/failure.ts";
import type { CheckedExec } from "../../core/input/exec-input.ts";
import type { Clock } from "../../lib/clock.ts";
import { type Capture, PipeReader } from "./capture.ts";
import { devNull, inheritedFiles, outputPipes } from "./descriptors.ts";
import { inNamespace, signalIn } from "./pid-namespace.ts";
import { MARK } from "./processes.mjs";
import { startFailure } from "./program.ts";
import type { RunUser } from "./run-user.ts";
import type { ExceededLimit, SupervisorClient } from "./supervisor-client.ts";

export interface ExecCommandParts {
  readonly supervisor: SupervisorClient;
  readonly clock: Clock;
  readonly input: CheckedExec;
  readonly cwd: string;
  /** The directory of the attempt. */
  readonly dir: string;
  readonly env: Readonly<Record<string, string>>;
  /** Run in its own pid namespace. */
  readonly isIsolated: boolean;
  /** Null: the worker's own user. */
  readonly user: RunUser | null;
  /** Called last before the start: changes the owner of the files to `user`. */
  readonly handOver: () => Promise<void>;
  /** The mark of the command that this worker itself runs in, if any. */
  readonly outerMark: string | null;
  /** The standard input; closed here. Null: as `input` specifies. */
  readonly stdin: FileHandle | null;
  readonly stdout: Capture;
  readonly stderr: Capture;
  /** Called with raw output. If it returns a promise, reading pauses until that resolves. */
  readonly onOutput: (stream: "stdout" | "stderr", bytes: Buffer) => Promise<void> | undefined;
  /** Aborting it ends the command. */
  readonly signal: AbortSignal;
}

export type CommandEnd =
  | { readonly kind: "never started"; readonly failure: Failure }
  | {
      readonly kind: "ended";
      readonly exitCode: number | null;
      readonly signal: NodeJS.Signals | null;
      /** The limit that it was killed for. */
      readonly exceeded: ExceededLimit | null;
      /** It was killed, and the kernel ran out of memory during its run. */
      readonly isOutOfMemory: boolean;
      /** The worker had requested its end. */
      readonly wasStopped: boolean;
      /** Number of processes that could not be killed. */
      readonly left: number;
    };

/** Grace time for processes that are still running when the command has ended by itself. */
const LEFTOVER_GRACE_MS = 500;

export async function runCommand(parts: ExecCommandParts): Promise<CommandEnd> {
  try {
    return await runWith(parts);
  } finally {
    await parts.stdin?.close();
  }
}

async function runWith(parts: ExecCommandParts): Promise<CommandEnd> {
  const { supervisor, clock, input, signal } = parts;
  const killsBefore = await oomKills();
  if (signal.aborted) return ABORTED;
  const pipes = await outputPipes(parts.dir, parts.user);
  supervisor.ensureStarted();
  const { n, mark } = supervisor.next();
  try {
    await parts.handOver();
  } catch (error) {
    for (const pipe of pipes ?? []) {
      closeSync(pipe.write);
      pipe.read.destroy();
    }
    throw error;
  }
  const running = await start(parts, mark, pipes);
  if ("failure" in running) return running;
  const { child, stdout, stderr } = running;
  let exceeded: ExceededLimit | null = null;
  supervisor.watch(n, child.pid as number, input.limits, (limit) => {
    exceeded = limit;
  });
  const exited = new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    child.once("exit", (code, by) => resolve([code, by]));
  });
  const outputs = [new PipeReader(stdout, "stdout", parts), new PipeReader(stderr, "stderr", parts)];
  let ending: Promise<number> | null = null;
  const end = () => {
    ending ??= supervisor.end(n, input.graceMs);
  };
  signal.addEventListener("abort", end);
  if (signal.aborted) end();
  const [exitCode, signalled] = await exited;
  const by = signalled ?? (parts.isIsolated ? signalIn(exitCode) : null);
  signal.removeEventListener("abort", end);
  const wasStopped = ending !== null;
  const left = await (ending ?? supervisor.end(n, LEFTOVER_GRACE_MS));
  await Promise.all(outputs.map((output) => output.drain(clock)));
  const isOutOfMemory = by === "SIGKILL" && !wasStopped && (await oomKills()) > killsBefore;
  return { kind: "ended", exitCode, signal: by, exceeded, isOutOfMemory, wasStopped, left };
}

type NeverStarted = Extract<CommandEnd, { kind: "never started" }>;

const ABORTED: NeverStarted = {
  kind: "never started",
  failure: failure({ kind: "error", name: "AbortError", message: "stopped before it was started" }),
};

interface Running {
  readonly child: ChildProcess;
  readonly stdout: Readable;
  readonly stderr: Readable;
}

/** Starts the program in its own session, by which its processes are found. */
async function start(
  { input, cwd, dir, env, outerMark, isIsolated, user, stdin }: ExecCommandParts,
  mark: string,
  pipes: Awaited<ReturnType<typeof outputPipes>>,
): Promise<Running | NeverStarted> {
  const own = within(limited(input), cwd === dir || user === null ? null : cwd);
  const [program, ...args] = isIsolated ? inNamespace(own, user) : own;
  const stdio: (number | "ignore" | "pipe")[] = [
    stdin?.fd ?? (input.stdin === null ? "ignore" : "pipe"),
    pipes?.[0].write ?? "pipe",
    pipes?.[1].write ?? "pipe",
  ];
  for (const fd of inheritedFiles()) {
    while (stdio.length < fd) stdio.push("ignore");
    stdio[fd] = devNull();
  }
  try {
    const child = spawn(program, args, {
      // With another user, a directory named by the job is entered by that user: root could enter any.
      cwd: user === null ? cwd : dir,
      ...(user === null || isIsolated ? {} : { uid: user.uid, gid: user.gid }), // drops supplementary groups too
      env: { ...env, [MARK]: outerMark === null ? mark : `${outerMark},${mark}` },
      detached: true,
      stdio,
    });
    child.on("error", () => {}); // reported by `started`, or a signal that could not be sent
    child.stdin?.on("error", () => {}); // a command need not read its input
    child.stdin?.end(input.stdin ?? "");
    await started(child);
    const [stdout, stderr] = pipes ?? [];
    return {
      child,
      stdout: stdout?.read ?? (child.stdout as Readable),
      stderr: stderr?.read ?? (child.stderr as Readable),
    };
  } catch (error) {
    for (const pipe of pipes ?? []) pipe.read.destroy();
    const { code = "EIO" } = error as NodeJS.ErrnoException;
    // The program itself exists: that was checked before.
    const what = code === "ENOENT" ? `the interpreter of ${input.argv[0]}` : input.argv[0];
    return { kind: "never started", failure: startFailure(code, what) };
  } finally {
    for (const pipe of pipes ?? []) closeSync(pipe.write);
  }
}

/** Only a shell can set these limits. The values are passed as arguments, not as shell text. `ulimit -f` counts blocks of 512. */
function limited({ argv, limits: { fileSize, openFiles }, umask }: CheckedExec): [string, ...string[]] {
  if (fileSize === undefined && openFiles === undefined && umask === null) return [...argv];
  const script =
    'f=$1 n=$2 u=$3; shift 3; [ -z "$f" ] || ulimit -f "$f" || exit 126; [ -z "$n" ] || ulimit -n "$n" || exit 126; ' +
    '[ -z "$u" ] || umask "$u" || exit 126; exec "$@"';
  const blocks = fileSize === undefined ? "" : String(Math.ceil(fileSize / 512));
  const mask = umask === null ? "" : umask.toString(8).padStart(4, "0");
  return ["/bin/sh", "-c", script, "sh", blocks, String(openFiles ?? ""), mask, ...argv];
}

function within(argv: [string, ...string[]], cwd: string | null): [string, ...string[]] {
  if (cwd === null) return argv;
  return ["/bin/sh", "-c", 'cd -- "$1" || exit 126; shift; exec "$@"', "sh", cwd, ...argv];
}

function started(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", reject);
  });
}

/** The kernel's count of out-of-memory kills; 0 if it is not available. */
async function oomKills(): Promise<number> {
  const text = await readFile("/proc/vmstat", "latin1").catch(() => "");
  return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
}
