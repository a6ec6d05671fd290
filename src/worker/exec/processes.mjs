// @ts-check
/** Finds the processes of a command, wherever they went: those that carry its mark in their environment, those of its
 *  session, those that were seen to belong to it before, and all that descend from them. Linux: it reads /proc. Elsewhere
 *  only the process group is known.
 *
 *  Not promised: a process that cleared its environment, left the session AND was orphaned before anybody looked.
 *
 *  A look is no instant: a process can start another and exit between the listing and the reading, and one in the middle of
 *  an exec has no environment. Such doubts are collected, so that who finds nobody knows whether to look again.
 *
 *  Plain JavaScript, because the supervisor runs it as it is, from the sources too. */
import { existsSync, readdirSync, readFileSync } from "node:fs";

export const MARK = "PERDURE_MARK";
const JOB = "PERDURE_JOB_ID";

/**
 * @typedef {{ pid: number, parent: number, session: number, started: string, isDead: boolean }} Process
 * @typedef {{ pid: number, started: string | null }} Named a process: its number alone may have been given to another
 * @typedef {Set<string>} Doubts why a look may have missed one: "gone 12", "dead 12 3400" or "bare 12"
 */

/** @returns {Process | null} */
export function readProcess(/** @type {number | string} */ pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name, in brackets, may hold anything, brackets too.
    const rest = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return {
      pid: Number(pid),
      parent: Number(rest[1]),
      session: Number(rest[3]),
      started: /** @type {string} */ (rest[19]),
      isDead: rest[0] === "Z" || rest[0] === "X",
    };
  } catch {
    return null; // gone meanwhile, or no /proc here
  }
}

/** Why a process showed no environment: it has ended since, or is executing a program this instant. A kernel thread never has
 *  one, and others may have chosen to have none.
 *  @returns {boolean} */
function isInChange(/** @type {number} */ pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const rest = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const isKernelThread = (Number(rest[6]) & 0x200000) !== 0;
    return !isKernelThread && rest[48] === "0";
  } catch {
    return true; // gone since
  }
}

/** All processes there are now. Those that were gone before they could be read are doubts, and so are the dead: they may have
 *  started another after the listing. @returns {Process[]} */
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
    // One that is still listed may not be read by us, as where /proc hides those of others: it is none of ours.
    if (found === null && !existsSync(`/proc/${name}`)) doubts.add(`gone ${name}`);
    if (found?.isDead) doubts.add(`dead ${name} ${found.started}`);
  }
  return list;
}

/** Those whose environment has a variable that fits.
 *  @param {readonly Process[]} processes
 *  @param {string} name
 *  @param {(value: string) => boolean} fits
 *  @param {Doubts} doubts
 *  @returns {Set<number>} */
function carriers(processes, name, fits, doubts = new Set()) {
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
      if (fits(text.slice(from, end < 0 ? undefined : end))) found.add(pid);
    } catch (error) {
      const isOfAnotherUser = /** @type {NodeJS.ErrnoException} */ (error).code === "EACCES";
      if (!isOfAnotherUser && isInChange(pid)) doubts.add(`gone ${pid}`);
    }
  }
  return found;
}

/** Those with a mark that begins like this. A worker within a command adds its marks to the one it carries itself. */
export function marked(
  /** @type {readonly Process[]} */ processes,
  /** @type {string} */ mark,
  /** @type {Doubts | undefined} */ doubts = undefined,
) {
  return carriers(processes, MARK, (value) => value.split(",").some((each) => each.startsWith(mark)), doubts);
}

/** Those of a job, whoever started them. */
export function ofJob(
  /** @type {readonly Process[]} */ processes,
  /** @type {string} */ jobId,
  /** @type {Doubts | undefined} */ doubts = undefined,
) {
  return carriers(processes, JOB, (value) => value === jobId, doubts);
}

/** The living among these, the sessions of the leaders, and all their descendants.
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
  // Parents may come after their children in the list: until nobody is added.
  for (let before = -1; before !== ours.size; ) {
    before = ours.size;
    for (const { pid, parent } of processes) if (ours.has(parent)) ours.add(pid);
  }
  return processes.filter((each) => ours.has(each.pid) && !each.isDead);
}

/** Bytes of memory that processes hold together: what they share is counted once, if that matters for the answer.
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

/** @returns {boolean} false: there is nobody */
export function send(/** @type {number} */ pid, /** @type {NodeJS.Signals} */ signal) {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
