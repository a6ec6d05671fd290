/** Proof that a process has ended: on Linux the kernel knows, within one boot of one machine and one pid namespace. It saves
 *  waiting for the lease of a worker that was killed. Without proof (another system, another container, a stopped process) the
 *  answer is no, and the lease decides. */
import { readFileSync, readlinkSync } from "node:fs";

/** Identifies a process: boot, pid namespace, and start time, since pids are reused. Null if that cannot be found out. */
export function processName(pid: number | "self" = "self"): string | null {
  const boot = bootAndNamespace();
  const start = startTime(pid);
  return boot === null || start === null || start === HIDDEN ? null : `${boot} ${start}`;
}

export function hasEnded(session: { readonly pid: number; readonly process?: string | null }): boolean {
  const boot = bootAndNamespace();
  if (boot === null || !session.process?.startsWith(`${boot} `)) return false;
  const start = startTime(session.pid);
  if (start === HIDDEN) return false;
  return start === null || `${boot} ${start}` !== session.process;
}

/** Whether `hasEnded` can decide: the process belongs to this boot of this machine, and to this pid namespace. */
export function isOfThisBoot({ process }: { readonly process?: string | null }): boolean {
  const boot = bootAndNamespace();
  return boot !== null && process?.startsWith(`${boot} `) === true;
}

const HIDDEN = "hidden";

let cached: string | null | undefined;

function bootAndNamespace(): string | null {
  if (cached === undefined) {
    try {
      const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
      cached = `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
    } catch {
      cached = null;
    }
  }
  return cached;
}

/** The start time of a process, in ticks since boot; null if it has exited, or is a zombie. */
function startTime(pid: number | "self"): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in brackets may hold anything; the fields after it do not.
    const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" || state === "X" ? null : (fields[18] ?? null);
  } catch (error) {
    const { code } = error as { code?: string };
    const denied = code !== "ENOENT" && code !== "ESRCH";
    return denied || exists(pid) ? HIDDEN : null;
  }
}

/** /proc may hide a running process (hidepid, or a program with capabilities); signal 0 finds it. */
function exists(pid: number | "self"): boolean {
  try {
    return process.kill(pid === "self" ? process.pid : pid, 0);
  } catch (error) {
    return (error as { code?: string }).code !== "ESRCH";
  }
}
