/** `perdure` as a user runs it: the built program in a child process. Tests wait for its output or its end. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdtempSync, readFileSync, realpathSync, rmSync, watch } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { whenFileIsOver } from "../file-is-over.ts";
import type { Said } from "./kit.ts";

/** The directory of `npm run build`, or PERDURE_TEST_DIST. */
const DIST = process.env.PERDURE_TEST_DIST ?? fileURLToPath(new URL("../../dist", import.meta.url));
export const PROGRAM = join(DIST, "cli", "main.js");

export interface Place {
  /** The working directory, and the data directory inside it. */
  readonly cwd: string;
  readonly data: string;
}

/** A new directory for one test; the first command that writes creates the data directory in it. */
export function newPlace(whenFinished: (remove: () => void) => void = onTestFinished): Place {
  const cwd = realpathSync(mkdtempSync(join(tmpdir(), "perdure-cli-")));
  whenFinished(() => rmSync(cwd, { recursive: true, force: true }));
  return { cwd, data: join(cwd, ".perdure") };
}

export interface Program {
  readonly pid: number;
  readonly child: ChildProcess;
  readonly ended: Promise<Said>;
  stdout: string;
  stderr: string;
  /** Resolves when stdout or stderr contains the text. */
  untilPrinted(text: string | RegExp): Promise<void>;
  kill(signal: NodeJS.Signals): void;
}

/** Processes that a failed test left running; they are killed when its file is over. */
const started = new Set<ChildProcess>();
whenFileIsOver(() => {
  for (const { pid = 0, spawnfile } of started) {
    try {
      process.kill(spawnfile === "/bin/sh" ? -pid : pid, "SIGKILL");
    } catch {
      // it has just ended
    }
  }
});

type Env = Readonly<Record<string, string>>;

/** A minimal environment. */
function environment(env: Env): Record<string, string> {
  return { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", LANG: "C.UTF-8", ...env };
}

export function start({ cwd }: Place, argv: readonly string[], env: Env = {}): Program {
  const child = spawn(process.execPath, [PROGRAM, ...argv], { cwd, env: environment(env), stdio: "pipe" });
  child.stdin.end();
  return followed(child);
}

/** Started by `/bin/sh`, which finds it as `$PERDURE_CLI`. */
export function startShell({ cwd }: Place, script: string, env: Env = {}): Program {
  const own = environment({ PERDURE_CLI: `${process.execPath} ${PROGRAM}`, ...env });
  const child = spawn("/bin/sh", ["-c", script], { cwd, env: own, stdio: "pipe", detached: true });
  child.stdin.end();
  return followed(child);
}

function followed(child: ChildProcess): Program {
  const waiting = new Set<() => void>();
  let isOver = false;
  const program: Program = {
    pid: child.pid as number,
    child,
    stdout: "",
    stderr: "",
    ended: new Promise((resolve) => {
      child.once("close", (code, signal) => {
        isOver = true;
        for (const check of waiting) check();
        resolve({ code: code ?? (signal === "SIGKILL" ? 137 : -1), stdout: program.stdout, stderr: program.stderr });
      });
    }),
    untilPrinted: (text) =>
      new Promise((resolve, reject) => {
        const check = () => {
          const streams = [program.stdout, program.stderr];
          const isPrinted = streams.some((all) => (typeof text === "string" ? all.includes(text) : text.test(all)));
          if (!isPrinted && !isOver) return;
          waiting.delete(check);
          if (isPrinted) resolve();
          else reject(new Error(`it ended without printing ${text}: ${streams.join("\n")}`));
        };
        waiting.add(check);
        check();
      }),
    kill: (signal) => void child.kill(signal),
  };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8").on("data", (text: string) => {
      program[name] += text;
      for (const check of waiting) check();
    });
  }
  started.add(child);
  child.once("close", () => started.delete(child));
  return program;
}

export function perdureIn(place: Place, argv: readonly string[], env?: Env): Promise<Said> {
  return start(place, argv, env).ended;
}

/** `perdure run … -- sh -c script`. */
export function runScript(place: Place, options: readonly string[], script: string, env?: Env): Promise<Said> {
  return perdureIn(place, ["run", ...options, "--", "sh", "-c", script], env);
}

export interface Ending {
  readonly id: string;
  readonly state: string;
  readonly reason: string | null;
  readonly exitCode: number;
  readonly attempts: readonly {
    readonly attempt: number;
    readonly outcome: string;
    readonly exitCode: number | null;
    readonly signal: string | null;
    readonly message: string | null;
    readonly delayMs: number | null;
  }[];
  readonly outputs: readonly { readonly name: string; readonly size: number }[];
}

/** The object that `--json` prints on the last line. */
export function endingOf({ stdout }: Said): Ending {
  return JSON.parse(stdout.trimEnd().split("\n").at(-1) as string) as Ending;
}

/** The job id at the start of a line of stderr. */
export function idIn({ stderr }: Pick<Said, "stderr">): string {
  return /^(job_\w{26}): /m.exec(stderr)?.[1] as string;
}

/** Resolves with the text of the file when it exists and is not empty. */
export function written(path: string): Promise<string> {
  return new Promise((resolve) => {
    const watcher = watch(join(path, ".."), () => check());
    const check = () => {
      let text = "";
      try {
        text = readFileSync(path, "utf8");
      } catch {
        return; // does not exist yet
      }
      if (text === "") return;
      watcher.close();
      resolve(text);
    };
    check();
  });
}

/** A duration for `sleep` that no other test uses, so that its process can be found by its arguments. */
export const longTime = () => randomInt(100_000_000, 1_000_000_000);

/** Live processes (not zombies) whose command line contains this text. */
export function processesWith(text: string): string[] {
  const lines = execFileSync("ps", ["-eo", "pid=,stat=,args="], { encoding: "utf8" }).split("\n");
  return lines.filter((line) => line.includes(text) && !/^\s*\d+\s+Z/.test(line));
}
