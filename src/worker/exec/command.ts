/** One command from its start to the end of the last process that came of it. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { type FileHandle, readFile } from "node:fs/promises";
import type { Readable } from "node:stream";
import { type Failure, failure } from "../../core/decision/failure.ts";
import type { CheckedExec } from "../../core/input/exec-input.ts";
import type { Clock } from "../../lib/clock.ts";
import { type Capture, Listener } from "./capture.ts";
import { inheritedFiles, nothingFile, outputPipes } from "./descriptors.ts";
import { inNamespace, signalIn } from "./pid-namespace.ts";
import { MARK } from "./processes.mjs";
import { startFailure } from "./program.ts";
import type { RunUser } from "./run-user.ts";
import type { ExceededLimit, SupervisorClient } from "./supervisor-client.ts";

export interface ExecCommandParts {
  readonly guard: SupervisorClient;
  readonly clock: Clock;
  readonly input: CheckedExec;
  readonly cwd: string;
  /** The attempt's own. */
  readonly dir: string;
  readonly env: Readonly<Record<string, string>>;
  /** In a pid namespace of its own. */
  readonly isIsolated: boolean;
  /** Null: the worker's own. */
  readonly user: RunUser | null;
  /** The last thing before it is started: what was made for it becomes its own. */
  readonly handOver: () => Promise<void>;
  /** Of the command that this worker itself is a part of. */
  readonly outerMark: string | null;
  /** Becomes its standard input, and is closed here; null: what `input` says. */
  readonly stdin: FileHandle | null;
  readonly stdout: Capture;
  readonly stderr: Capture;
  /** Sees what is written, as it is. A promise holds the command up until it resolves. */
  readonly onOutput: (stream: "stdout" | "stderr", bytes: Buffer) => Promise<void> | undefined;
  /** Aborted: it is ended. */
  readonly signal: AbortSignal;
}

export type CommandEnd =
  | { readonly kind: "never started"; readonly failure: Failure }
  | {
      readonly kind: "ended";
      readonly exitCode: number | null;
      readonly signal: NodeJS.Signals | null;
      /** The limit it was killed for. */
      readonly exceeded: ExceededLimit | null;
      /** The kernel ran out of memory while it ran, and somebody killed it. */
      readonly isOutOfMemory: boolean;
      /** We had asked it to stop before it ended. */
      readonly wasAsked: boolean;
      /** Processes that could not be ended. */
      readonly left: number;
    };

/** What a command leaves behind when it ends by itself gets so long to end too. */
const LEFTOVER_GRACE_MS = 500;

export async function runCommand(parts: ExecCommandParts): Promise<CommandEnd> {
  try {
    return await runWith(parts);
  } finally {
    await parts.stdin?.close();
  }
}

async function runWith(parts: ExecCommandParts): Promise<CommandEnd> {
  const { guard, clock, input, signal } = parts;
  const killsBefore = await oomKills();
  if (signal.aborted) return ABORTED;
  const pipes = await outputPipes(parts.dir, parts.user);
  guard.ready();
  const { n, mark } = guard.next();
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
  guard.watch(n, child.pid as number, input.limits, (limit) => {
    exceeded = limit;
  });
  const exited = new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    child.once("exit", (code, by) => resolve([code, by]));
  });
  const outputs = [new Listener(stdout, "stdout", parts), new Listener(stderr, "stderr", parts)];
  let ending: Promise<number> | null = null;
  const end = () => {
    ending ??= guard.end(n, input.graceMs);
  };
  signal.addEventListener("abort", end);
  if (signal.aborted) end();
  const [exitCode, signalled] = await exited;
  const by = signalled ?? (parts.isIsolated ? signalIn(exitCode) : null);
  signal.removeEventListener("abort", end);
  const wasAsked = ending !== null;
  const left = await (ending ?? guard.end(n, LEFTOVER_GRACE_MS));
  await Promise.all(outputs.map((output) => output.drain(clock)));
  const isOutOfMemory = by === "SIGKILL" && !wasAsked && (await oomKills()) > killsBefore;
  return { kind: "ended", exitCode, signal: by, exceeded, isOutOfMemory, wasAsked, left };
}

type NeverStarted = Extract<CommandEnd, { kind: "never started" }>;

const ABORTED: NeverStarted = {
  kind: "never started",
  failure: failure({ kind: "error", name: "AbortError", message: "it was asked to stop before it began" }),
};

interface Running {
  readonly child: ChildProcess;
  readonly stdout: Readable;
  readonly stderr: Readable;
}

/** The program in a session of its own, so that all of it can be found. */
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
    stdio[fd] = nothingFile();
  }
  try {
    const child = spawn(program, args, {
      // A directory that the job names is entered as its user: as root we would get into any.
      cwd: user === null ? cwd : dir,
      ...(user === null || isIsolated ? {} : { uid: user.uid, gid: user.gid }), // other groups are given up with it
      env: { ...env, [MARK]: outerMark === null ? mark : `${outerMark},${mark}` },
      detached: true,
      stdio,
    });
    child.on("error", () => {}); // told by `started`, or a signal that could not be sent
    child.stdin?.on("error", () => {}); // it need not read what it is given
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
    // That the program itself is there was seen before.
    const what = code === "ENOENT" ? `the interpreter of ${input.argv[0]}` : input.argv[0];
    return { kind: "never started", failure: startFailure(code, what) };
  } finally {
    for (const pipe of pipes ?? []) closeSync(pipe.write);
  }
}

/** Only a shell can set these; the values are its arguments and no text of it. Files are counted in blocks of 512. */
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

/** How often the kernel has killed for want of memory; 0 where it does not say. */
async function oomKills(): Promise<number> {
  const text = await readFile("/proc/vmstat", "latin1").catch(() => "");
  return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
}
