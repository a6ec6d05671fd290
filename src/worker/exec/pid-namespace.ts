/** A pid namespace for a command: when its first process ends, the kernel ends all the others, whatever they did to hide.
 *  It needs privileges, Linux, and `unshare`; where it cannot be had, processes are found by their mark alone.
 *
 *  The first process of a namespace would ignore SIGTERM, so it is a shell that only waits for the command. `unshare`, which
 *  takes the namespace with it when it ends, must outlive SIGTERM too: it starts with the signal ignored, and the command
 *  gets it back.
 *
 *  The command gives up the privileges by which it could leave: with the right to mount it would only have to unmount the /proc of
 *  the namespace to see that of the host. As another user it keeps none. As root it keeps those that concern files, users, signals
 *  and ports, which is what containers leave; that is no wall against a root that looks for a way out. */
import { execFile } from "node:child_process";
import { constants } from "node:os";
import type { RunUser } from "./run-user.ts";

const WAIT = 'exec 3<&0; env --default-signal=TERM "$@" <&3 3<&- & exec 3<&-; wait $!';
const UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"];
const ROOT_KEEPS = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+net_bind_service";

export function inNamespace(argv: readonly string[], user: RunUser | null = null): [string, ...string[]] {
  const own = [...WAIT_FOR, "setpriv", ...privileges(user), "--", ...argv];
  return ["/bin/sh", "-c", 'trap "" TERM; exec "$@"', "sh", ...UNSHARE, ...own];
}

const WAIT_FOR = ["/bin/sh", "-c", WAIT, "sh"];

function privileges(user: RunUser | null): string[] {
  const none = ["--no-new-privs", "--inh-caps=-all"];
  if (user === null) return [...none, `--bounding-set=${ROOT_KEEPS}`];
  return [...none, "--bounding-set=-all", `--reuid=${user.uid}`, `--regid=${user.gid}`, "--clear-groups"];
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
