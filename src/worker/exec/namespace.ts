/** A pid namespace for a command: when its first process ends, the kernel ends all the others, whatever they did to hide.
 *  It needs privileges, Linux, and `unshare`; where it cannot be had, processes are found by their mark alone.
 *
 *  The first process of a namespace would ignore SIGTERM, so it is a shell that only waits for the command. `unshare`, which
 *  takes the namespace with it when it ends, must outlive SIGTERM too: it starts with the signal ignored, and the command
 *  gets it back. */
import { execFile } from "node:child_process";
import { constants } from "node:os";

const WAIT = 'exec 3<&0; env --default-signal=TERM "$@" <&3 3<&- & exec 3<&-; wait $!';
const UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"];

export function inNamespace(argv: readonly string[]): [string, ...string[]] {
  return ["/bin/sh", "-c", 'trap "" TERM; exec "$@"', "sh", ...UNSHARE, "/bin/sh", "-c", WAIT, "sh", ...argv];
}

/** The shell tells of a signal by the exit code only. */
export function signalIn(exitCode: number | null): NodeJS.Signals | null {
  const number = (exitCode ?? 0) - 128;
  const found = Object.entries(constants.signals).find(([, each]) => each === number);
  return (found?.[0] as NodeJS.Signals | undefined) ?? null;
}

let tried: Promise<string | null> | null = null;

/** Null if it can be had here; else why not. */
export function whyNoNamespace(): Promise<string | null> {
  tried ??= new Promise((resolve) => {
    const [program, ...args] = inNamespace(["true"]);
    execFile(program, args, { timeout: 10_000 }, (error, _, stderr) => {
      resolve(error === null ? null : stderr.trim().split("\n")[0] || error.message);
    });
  });
  return tried;
}
