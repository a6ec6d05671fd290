// @ts-check
/** Ends commands, and outlives their worker to do so. The worker holds a pipe to this process: when that breaks, however
 *  the worker died, everything that carries its mark is killed at once.
 *
 *  Lines of JSON. In: `{"watch": n, "pid", "started", "memory", "processes"}` a command was started, with its limits;
 *  `{"end": n, "grace"}` end it and all that belongs to it; `{"clear": n, "job"}` end what earlier attempts of a job left on
 *  this machine; `{"force": true}` no grace from now on; `{"bye": true}` the worker is done. Out: `{"ended": n, "left"}` nobody is left of it (or so many);
 *  `{"limit": n, "kind", "used"}` it was killed for that. */
import { createInterface } from "node:readline";
import { family, marked, memoryOf, ofJob, send, snapshot } from "./processes.mjs";

const [mark = ""] = process.argv.slice(2);
const LOOK_MS = 100;
/** Looks between two at everything: who left his family since is known by then. */
const MEMORY_LOOKS = 10;
const GIVE_UP_MS = 5_000;
/** So long is looked again where nobody is found but a look is in doubt. Processes of others come and go too. */
const DOUBT_MS = 1_000;
/** When the worker is forced, or gone (then there are two rounds): all of it must be over within a second. */
const LAST_DOUBT_MS = 120;
/** Between the two. A command that was being started held a copy of the worker's pipe until it was a program of its own, so it was
 *  there in the first round; one that the kernel was just replacing is met in the second. */
const AGAIN_MS = 50;
const MAX_FREEZE = 50;

/** @typedef {import("./processes.mjs").Process} Process */
/** @typedef {import("./processes.mjs").Doubts} Doubts */
/** @typedef {{ pid: number, started: string | null, memory?: number, processes?: number, isEnding: boolean,
 *              seen: Map<number, Process> }} Watched */
/** @type {Map<number, Watched>} */
const watched = new Map();
let looks = 0;
let isDone = false;
let isForced = false;

const sleep = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
const tell = (/** @type {object} */ message) => process.stdout.write(`${JSON.stringify(message)}\n`);

/** @returns {Process[]} */
function membersOf(
  /** @type {number} */ n,
  /** @type {Watched | undefined} */ one,
  /** @type {Process[]} */ met = [],
  /** @type {Doubts} */ doubts = new Set(),
  list = snapshot(doubts),
) {
  // Nobody is older than who started it: most of a machine need not be asked for its environment.
  const since = Number(one?.started ?? 0);
  const young = since === 0 ? list : list.filter(({ started }) => Number(started) >= since);
  return family(young, marked(young, `${mark}.${n}.`, doubts), one === undefined ? [] : [one], [
    ...(one?.seen.values() ?? []),
    ...met,
  ]);
}

/** SIGTERM, a grace time, SIGKILL until nobody is left. Returns how many are. Who was met once is not forgotten: when its
 *  parent dies of the first signal, nothing else may be left that leads to it.
 *  @param {(met: Process[], doubts: Doubts) => Process[]} findWith
 *  @param {number} graceMs */
async function endAll(findWith, graceMs, doubtMs = DOUBT_MS) {
  /** @type {Map<string, Process>} */
  const met = new Map();
  /** Dead in an earlier look: whoever they started was listed since. @type {Doubts} */
  const settled = new Set();
  /** @type {Process[]} */
  let left = [];
  /** @type {number | null} */
  let doubtFrom = null;
  /** @returns {boolean} nobody is left, for all that can be known */
  const isOver = () => {
    /** @type {Doubts} */
    const doubts = new Set();
    left = findWith([...met.values()], doubts);
    for (const each of left) met.set(`${each.pid} ${each.started}`, each);
    const isInDoubt = [...doubts].some((doubt) => !settled.has(doubt));
    for (const doubt of doubts) if (doubt.startsWith("dead")) settled.add(doubt);
    if (left.length > 0 || doubtFrom === null) doubtFrom = performance.now();
    const patience = isForced ? Math.min(doubtMs, LAST_DOUBT_MS) : doubtMs;
    return left.length === 0 && (!isInDoubt || performance.now() > doubtFrom + patience);
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
    toAll("SIGCONT"); // one that is stopped could not end
    const until = performance.now() + graceMs;
    for (let pause = 5; performance.now() < until && !isForced && !isDone; pause = Math.min(LOOK_MS, pause * 2)) {
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
  const left = await endAll((met, doubts) => membersOf(n, one, met, doubts), graceMs);
  watched.delete(n);
  tell({ ended: n, left });
}

/** Without /proc nobody is found: then the group is all we know. */
async function endGroup(/** @type {number} */ pid, /** @type {number} */ graceMs) {
  send(-pid, "SIGTERM");
  const until = performance.now() + graceMs;
  while (performance.now() < until && !isForced && send(-pid, /** @type {any} */ (0))) await sleep(LOOK_MS);
  send(-pid, "SIGKILL");
}

async function clear(/** @type {number} */ n, /** @type {string} */ job) {
  const find = (/** @type {Process[]} */ met, /** @type {Doubts} */ doubts) => {
    const list = snapshot(doubts);
    return family(list, ofJob(list, job, doubts), [], met);
  };
  tell({ ended: n, left: await endAll(find, 0) });
}

/** Stops them all, until there is nobody new: one that runs on could fork while the others are killed.
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

/** Limits, and from time to time who belongs to whom: one that leaves later is known then. */
function look() {
  looks += 1;
  const isRound = looks % MEMORY_LOOKS === 0;
  const wanted = [...watched].filter(
    ([, one]) => !one.isEnding && (isRound || one.memory !== undefined || one.processes !== undefined),
  );
  if (wanted.length === 0) return;
  const list = snapshot();
  for (const [n, one] of wanted) {
    const found = membersOf(n, one, [], undefined, list);
    one.seen = new Map(found.map((each) => [each.pid, each]));
    const memory = one.memory === undefined ? 0 : memoryOf(found, one.memory);
    const isOver = one.memory !== undefined && memory > one.memory;
    if (!isOver && (one.processes === undefined || found.length <= one.processes)) continue;
    freeze(n, one, found);
    tell(isOver ? { limit: n, kind: "memory", used: memory } : { limit: n, kind: "processes", used: found.length });
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
      const find = (/** @type {Process[]} */ met, /** @type {Doubts} */ doubts) => {
        const list = snapshot(doubts);
        const all = [...watched.values()];
        const seen = all.flatMap((one) => [...one.seen.values()]);
        return family(list, marked(list, `${mark}.`, doubts), all, [...seen, ...met]);
      };
      // No grace: the job may be given to another worker this very moment, and the two must not overlap.
      await endAll(find, 0, LAST_DOUBT_MS);
      await sleep(AGAIN_MS);
      await endAll(find, 0, LAST_DOUBT_MS);
    }
    process.exit(0);
  });
setInterval(look, LOOK_MS).unref();
process.stdout.on("error", () => {}); // nobody listens any more: what is to be done is done all the same
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) process.on(signal, () => {});
