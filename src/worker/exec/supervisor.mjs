// @ts-check
/** Ends commands, and outlives their worker to do so. The worker holds a pipe to this process: when that breaks, however the
 *  worker exited, every process with its mark is killed at once.
 *
 *  Lines of JSON. In: `{"watch": n, "pid", "started", "memory", "processes"}` a command was started, with its limits;
 *  `{"end": n, "grace"}` end it and all its processes; `{"clear": n, "job"}` kill processes of earlier attempts of a job on this
 *  machine; `{"force": true}` no grace time from now on; `{"bye": true}` the worker is done. Out: `{"ended": n, "left"}` it has
 *  ended, but for `left` processes; `{"limit": n, "kind", "used"}` it was killed for exceeding a limit. */
import { createInterface } from "node:readline";
import { family, marked, memoryOf, ofJob, send, snapshot } from "./processes.mjs";

const [mark = ""] = process.argv.slice(2);
const SCAN_MS = 100;
/** Every n-th scan covers all commands, with or without limits, to record processes that leave their session later. */
const FULL_SCAN_EVERY = 10;
const GIVE_UP_MS = 5_000;
/** If no process is found but a scan is in doubt, it is repeated for this long. Unrelated processes cause doubts too. */
const DOUBT_MS = 1_000;
/** The same when the worker is forced, or has exited (then there are two rounds): all must be done within a second. */
const LAST_DOUBT_MS = 120;
/** Pause between these two rounds. A command that was just being started held a copy of the worker's pipe until its exec, so it
 *  existed in the first round; one in the middle of its exec is found in the second. */
const SECOND_ROUND_MS = 50;
const MAX_FREEZE = 50;

/** @typedef {import("./processes.mjs").Process} Process */
/** @typedef {import("./processes.mjs").Doubts} Doubts */
/** @typedef {{ pid: number, started: string | null, memory?: number, processes?: number, isEnding: boolean,
 *              seen: Map<number, Process> }} Watched */
/** @type {Map<number, Watched>} */
const watched = new Map();
let scans = 0;
let isDone = false;
let isForced = false;

const sleep = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
const reply = (/** @type {object} */ message) => process.stdout.write(`${JSON.stringify(message)}\n`);

/** @returns {Process[]} */
function membersOf(
  /** @type {number} */ n,
  /** @type {Watched | undefined} */ one,
  /** @type {Process[]} */ found = [],
  /** @type {Doubts} */ doubts = new Set(),
  list = snapshot(doubts),
) {
  // No descendant is older than the command: the environment of older processes need not be read.
  const since = Number(one?.started ?? 0);
  const young = since === 0 ? list : list.filter(({ started }) => Number(started) >= since);
  return family(young, marked(young, `${mark}.${n}.`, doubts), one === undefined ? [] : [one], [
    ...(one?.seen.values() ?? []),
    ...found,
  ]);
}

/** SIGTERM, a grace time, SIGKILL until no process is left. Returns the number that is left. Processes found once are remembered:
 *  when the first signal ends their parent, there may be no other way to find them.
 *  @param {(found: Process[], doubts: Doubts) => Process[]} findWith
 *  @param {number} graceMs */
async function endAll(findWith, graceMs, doubtMs = DOUBT_MS) {
  /** @type {Map<string, Process>} */
  const found = new Map();
  /** Zombies of an earlier scan: their children have been listed since. @type {Doubts} */
  const settled = new Set();
  /** @type {Process[]} */
  let left = [];
  /** @type {number | null} */
  let doubtFrom = null;
  /** @returns {boolean} no process is left, as far as can be known */
  const isOver = () => {
    /** @type {Doubts} */
    const doubts = new Set();
    left = findWith([...found.values()], doubts);
    for (const each of left) found.set(`${each.pid} ${each.started}`, each);
    const isInDoubt = [...doubts].some((doubt) => !settled.has(doubt));
    for (const doubt of doubts) if (doubt.startsWith("dead")) settled.add(doubt);
    if (left.length > 0 || doubtFrom === null) doubtFrom = performance.now();
    const limitMs = isForced ? Math.min(doubtMs, LAST_DOUBT_MS) : doubtMs;
    return left.length === 0 && (!isInDoubt || performance.now() > doubtFrom + limitMs);
  };
  const toAll = (/** @type {NodeJS.Signals} */ signal) => {
    for (const { pid } of left) send(pid, signal);
  };
  let isDone = isOver();
  while (!isDone && left.length === 0) {
    await sleep(1);
    isDone = isOver();
  }
  if (graceMs > 0 && !isForced && !isDone) {
    toAll("SIGTERM");
    toAll("SIGCONT"); // a stopped process could not handle SIGTERM
    const until = performance.now() + graceMs;
    for (let pause = 5; performance.now() < until && !isForced && !isDone; pause = Math.min(SCAN_MS, pause * 2)) {
      await sleep(Math.min(pause, Math.max(0, until - performance.now())));
      isDone = isOver();
    }
  }
  for (const until = performance.now() + GIVE_UP_MS; !isDone && performance.now() < until; isDone = isOver()) {
    toAll("SIGKILL");
    await sleep(left.length > 0 ? 10 : 1);
  }
  return left.length;
}

async function end(/** @type {number} */ n, /** @type {number} */ graceMs) {
  const one = watched.get(n);
  if (one !== undefined) one.isEnding = true;
  if (one !== undefined && one.started === null) await endGroup(one.pid, graceMs);
  const left = await endAll((found, doubts) => membersOf(n, one, found, doubts), graceMs);
  watched.delete(n);
  reply({ ended: n, left });
}

/** Without /proc only the process group is known. */
async function endGroup(/** @type {number} */ pid, /** @type {number} */ graceMs) {
  send(-pid, "SIGTERM");
  const until = performance.now() + graceMs;
  while (performance.now() < until && !isForced && send(-pid, /** @type {any} */ (0))) await sleep(SCAN_MS);
  send(-pid, "SIGKILL");
}

async function clear(/** @type {number} */ n, /** @type {string} */ job) {
  const find = (/** @type {Process[]} */ found, /** @type {Doubts} */ doubts) => {
    const list = snapshot(doubts);
    return family(list, ofJob(list, job, doubts), [], found);
  };
  reply({ ended: n, left: await endAll(find, 0) });
}

/** Suspends all processes until no new one appears: one that keeps running could fork while the others are killed.
 *  @param {number} n
 *  @param {Watched} one
 *  @param {Process[]} found */
function freeze(n, one, found) {
  /** @type {Set<number>} */
  const stopped = new Set();
  for (let rounds = 0, left = found; rounds < MAX_FREEZE && left.length > 0; rounds++) {
    for (const { pid } of left) {
      send(pid, "SIGSTOP");
      stopped.add(pid);
    }
    left = membersOf(n, one).filter(({ pid }) => !stopped.has(pid));
  }
}

/** Checks limits, and in full scans records all processes of the commands, to find those that leave their session later. */
function scan() {
  scans += 1;
  const isFull = scans % FULL_SCAN_EVERY === 0;
  const checked = [...watched].filter(
    ([, one]) => !one.isEnding && (isFull || one.memory !== undefined || one.processes !== undefined),
  );
  if (checked.length === 0) return;
  const list = snapshot();
  for (const [n, one] of checked) {
    const found = membersOf(n, one, [], undefined, list);
    one.seen = new Map(found.map((each) => [each.pid, each]));
    const memory = one.memory === undefined ? 0 : memoryOf(found, one.memory);
    const isOver = one.memory !== undefined && memory > one.memory;
    if (!isOver && (one.processes === undefined || found.length <= one.processes)) continue;
    freeze(n, one, found);
    reply(isOver ? { limit: n, kind: "memory", used: memory } : { limit: n, kind: "processes", used: found.length });
    void end(n, 0);
  }
}

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const message = JSON.parse(line);
    if ("watch" in message) {
      const { watch, pid, started, memory, processes } = message;
      watched.set(watch, { pid, started, memory, processes, isEnding: false, seen: new Map() });
    } else if ("end" in message) void end(message.end, message.grace);
    else if ("clear" in message) void clear(message.clear, message.job);
    else if ("force" in message) isForced = true;
    else if ("bye" in message) isDone = true;
  })
  .on("close", async () => {
    if (!isDone) {
      const find = (/** @type {Process[]} */ found, /** @type {Doubts} */ doubts) => {
        const list = snapshot(doubts);
        const all = [...watched.values()];
        const seen = all.flatMap((one) => [...one.seen.values()]);
        return family(list, marked(list, `${mark}.`, doubts), all, [...seen, ...found]);
      };
      // No grace time: another worker may start the job at any moment, and the two attempts must not overlap.
      await endAll(find, 0, LAST_DOUBT_MS);
      await sleep(SECOND_ROUND_MS);
      await endAll(find, 0, LAST_DOUBT_MS);
    }
    process.exit(0);
  });
setInterval(scan, SCAN_MS).unref();
process.stdout.on("error", () => {}); // the worker has exited: continue all the same
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) process.on(signal, () => {});
