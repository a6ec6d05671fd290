// @ts-check
/** Finds all processes of a command: those with its mark in their environment, those of its session, those found in earlier
 *  scans, and all their descendants. Linux only, from /proc. Elsewhere only the process group is known.
 *
 *  Not found: a process that cleared its environment, left the session AND was orphaned before the first scan.
 *
 *  A scan is not atomic: a process can start another and exit between the listing and the reading, and during an exec a process
 *  shows no environment. Such doubts are collected, so that a caller that finds no process knows whether to scan again.
 *
 *  Plain JavaScript, because the supervisor runs it unbuilt, from the sources too. */
import { existsSync, readdirSync, readFileSync } from "node:fs";

export const MARK = "PERDURE_MARK";
const JOB = "PERDURE_JOB_ID";

/**
 * @typedef {{ pid: number, parent: number, session: number, started: string, isDead: boolean }} Process
 * @typedef {{ pid: number, started: string | null }} Named identifies a process: pids are reused
 * @typedef {Set<string>} Doubts why a scan may have missed one: "gone 12", "dead 12 3400" or "bare 12"
 */

/** @returns {Process | null} */
export function readProcess(/** @type {number | string} */ pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name, in brackets, can contain anything, even brackets.
    const rest = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return {
      pid: Number(pid),
      parent: Number(rest[1]),
      session: Number(rest[3]),
      started: /** @type {string} */ (rest[19]),
      isDead: rest[0] === "Z" || rest[0] === "X",
    };
  } catch {
    return null; // exited meanwhile, or no /proc
  }
}

/** Whether a process shows no environment because it has exited, or is in the middle of an exec. Kernel threads never have an
 *  environment, and other processes may have an empty one.
 *  @returns {boolean} */
function isInChange(/** @type {number} */ pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const rest = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const isKernelThread = (Number(rest[6]) & 0x200000) !== 0;
    return !isKernelThread && rest[48] === "0";
  } catch {
    return true; // exited
  }
}

/** All processes. Those that exited before they could be read are doubts, and so are zombies: they may have started another
 *  process after the listing. @returns {Process[]} */
export function snapshot(/** @type {Doubts} */ doubts = new Set()) {
  /** @type {string[]} */
  let names;
  try {
    names = readdirSync("/proc");
  } catch {
    return [];
  }
  const list = [];
  for (const name of names) {
    if (!/^\d+$/.test(name) || name === String(process.pid)) continue;
    const found = readProcess(name);
    if (found !== null) list.push(found);
    // One that still exists but cannot be read belongs to another user (hidepid): it is not ours.
    if (found === null && !existsSync(`/proc/${name}`)) doubts.add(`gone ${name}`);
    if (found?.isDead) doubts.add(`dead ${name} ${found.started}`);
  }
  return list;
}

/** The processes whose environment has a variable with a matching value.
 *  @param {readonly Process[]} processes
 *  @param {string} name
 *  @param {(value: string) => boolean} matches
 *  @param {Doubts} doubts
 *  @returns {Set<number>} */
function withVariable(processes, name, matches, doubts = new Set()) {
  const found = new Set();
  for (const { pid, isDead } of processes) {
    if (isDead) continue;
    try {
      const text = `\0${readFileSync(`/proc/${pid}/environ`, "latin1")}`;
      if (text === "\0" && isInChange(pid)) doubts.add(`bare ${pid}`);
      const at = text.indexOf(`\0${name}=`);
      if (at < 0) continue;
      const from = at + name.length + 2;
      const end = text.indexOf("\0", from);
      if (matches(text.slice(from, end < 0 ? undefined : end))) found.add(pid);
    } catch (error) {
      const isOfAnotherUser = /** @type {NodeJS.ErrnoException} */ (error).code === "EACCES";
      if (!isOfAnotherUser && isInChange(pid)) doubts.add(`gone ${pid}`);
    }
  }
  return found;
}

/** The processes with a mark that begins with `mark`. A worker that runs inside a command appends its marks to the outer one. */
export function marked(
  /** @type {readonly Process[]} */ processes,
  /** @type {string} */ mark,
  /** @type {Doubts | undefined} */ doubts = undefined,
) {
  return withVariable(processes, MARK, (value) => value.split(",").some((each) => each.startsWith(mark)), doubts);
}

/** The processes of a job, whichever worker started them. */
export function ofJob(
  /** @type {readonly Process[]} */ processes,
  /** @type {string} */ jobId,
  /** @type {Doubts | undefined} */ doubts = undefined,
) {
  return withVariable(processes, JOB, (value) => value === jobId, doubts);
}

/** The running processes among `sure` and `seen`, the sessions of `leaders`, and all their descendants.
 *  @param {readonly Process[]} processes
 *  @param {Iterable<number>} sure
 *  @param {Iterable<Named>} leaders
 *  @param {Iterable<Named>} seen
 *  @returns {Process[]} */
export function family(processes, sure, leaders = [], seen = []) {
  const byNumber = new Map(processes.map((each) => [each.pid, each]));
  const isAnother = (/** @type {Named} */ { pid, started }) => {
    const now = byNumber.get(pid);
    return now !== undefined && started !== null && now.started !== started;
  };
  const ours = new Set(sure);
  const sessions = new Set();
  for (const one of leaders) if (!isAnother(one)) sessions.add(one.pid);
  for (const one of seen) if (byNumber.has(one.pid) && !isAnother(one)) ours.add(one.pid);
  for (const { pid, session } of processes) if (sessions.has(session)) ours.add(pid);
  // A parent can follow its children in the list: repeat until none is added.
  for (let before = -1; before !== ours.size; ) {
    before = ours.size;
    for (const { pid, parent } of processes) if (ours.has(parent)) ours.add(pid);
  }
  return processes.filter((each) => ours.has(each.pid) && !each.isDead);
}

/** Bytes of memory used by the processes together. Shared memory is counted once if that could bring the sum below the limit.
 *  @param {readonly Process[]} processes
 *  @param {number} limit
 *  @returns {number} */
export function memoryOf(processes, limit) {
  const sum = (/** @type {string} */ file, /** @type {RegExp} */ line) =>
    processes.reduce((total, { pid }) => total + kilobytes(`/proc/${pid}/${file}`, line) * 1024, 0);
  const resident = sum("status", /^VmRSS:\s*(\d+) kB/m);
  return resident <= limit ? resident : sum("smaps_rollup", /^Pss:\s*(\d+) kB/m) || resident;
}

/** @returns {number} */
function kilobytes(/** @type {string} */ path, /** @type {RegExp} */ line) {
  try {
    return Number(line.exec(readFileSync(path, "latin1"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** @returns {boolean} false if the process does not exist */
export function send(/** @type {number} */ pid, /** @type {NodeJS.Signals} */ signal) {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
