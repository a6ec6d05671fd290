/** Proof that a process has ended, where there is one: on Linux, within one boot of one machine and one pid namespace,
 *  the kernel knows. Its word saves waiting for the lease of a worker that was killed. Without proof (another system,
 *  another container, a stopped process) the answer is no, and the lease decides. */
import { readFileSync, readlinkSync } from "node:fs";

/** Names a process: machine and boot, pid namespace, and its start time, since pids are used again. Null if unknowable. */
export function processName(pid: number | "self" = "self"): string | null {
  const place = placeName();
  const start = startTime(pid);
  return place === null || start === null || start === HIDDEN ? null : `${place} ${start}`;
}

export function hasEnded(session: { readonly pid: number; readonly process?: string | null }): boolean {
  const place = placeName();
  if (place === null || !session.process?.startsWith(`${place} `)) return false;
  const start = startTime(session.pid);
  if (start === HIDDEN) return false;
  return start === null || `${place} ${start}` !== session.process;
}

/** Whether `hasEnded` can tell: it is a process of this boot of this machine, and of this pid namespace. */
export function isOfThisBoot({ process }: { readonly process?: string | null }): boolean {
  const place = placeName();
  return place !== null && process?.startsWith(`${place} `) === true;
}

const HIDDEN = "hidden";

let place: string | null | undefined;

function placeName(): string | null {
  if (place === undefined) {
    try {
      const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
      place = `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
    } catch {
      place = null;
    }
  }
  return place;
}

/** The start time of a process, in ticks since boot; null when it is gone, or dead and not yet collected. */
function startTime(pid: number | "self"): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in brackets may hold anything; the fields after it do not.
    const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" || state === "X" ? null : (fields[18] ?? null);
  } catch (error) {
    const { code } = error as { code?: string };
    const denied = code !== "ENOENT" && code !== "ESRCH";
    return denied || isThere(pid) ? HIDDEN : null;
  }
}

/** /proc may keep a living process from us (hidepid, and a program with capabilities); a signal of nothing finds it. */
function isThere(pid: number | "self"): boolean {
  try {
    return process.kill(pid === "self" ? process.pid : pid, 0);
  } catch (error) {
    return (error as { code?: string }).code !== "ESRCH";
  }
}
