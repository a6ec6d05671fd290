/** A pid namespace for a command: when its first process ends, the kernel kills all the others, whatever they did to hide. It
 *  requires Linux, privileges, and `unshare`; without it, processes are found by their mark only.
 *
 *  The first process of a namespace ignores SIGTERM by default, so it is a shell that only waits for the command. `unshare`,
 *  whose end ends the namespace, must survive SIGTERM too: it is started with the signal ignored, and the default action is
 *  restored for the command.
 *
 *  The command drops the capabilities with which it could leave: with the right to mount it could unmount the namespace's /proc
 *  and see that of the host. As another user it keeps none. As root it keeps those for files, users, signals and ports, as in
 *  containers; this does not contain a root user who tries to escape. */
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

/** The signal in the exit code of the waiting shell, which has no other way to report it. */
export function signalIn(exitCode: number | null): NodeJS.Signals | null {
  const number = (exitCode ?? 0) - 128;
  const found = Object.entries(constants.signals).find(([, each]) => each === number);
  return (found?.[0] as NodeJS.Signals | undefined) ?? null;
}

let tried: Promise<string | null> | null = null;

/** Null if pid namespaces are available, else the reason. */
export function namespaceProblem(): Promise<string | null> {
  tried ??= new Promise((resolve) => {
    const [program, ...args] = inNamespace(["true"]);
    execFile(program, args, { timeout: 10_000 }, (error, _, stderr) => {
      resolve(error === null ? null : stderr.trim().split("\n")[0] || error.message);
    });
  });
  return tried;
}
