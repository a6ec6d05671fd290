/** An engine with a worker for steps of runs, and with `commands` for commands. Starts the run of its settings, and prints: pid <pid> ·
 *  ready · started <id> <created> · start <job> <attempt> · ended <state> <writes>. With `killAfter` it kills itself with SIGKILL when
 *  that many writes have been stored, or that many of one verb ("settle 2"), before their callers know. `work` does what its input
 *  says: { value } · { fail: "always" | "first" } · { ms } waits, as long as it is not cancelled. */
import { setTimeout as pass } from "node:timers/promises";
import { exec, Perdure, task } from "perdure";

const settings = JSON.parse(process.argv[2]);
const { url, playbook, options, input = {}, lease = "1s", concurrency = 4, commands = false, killAfter = 0 } = settings;
const [verb, count] = typeof killAfter === "string" ? killAfter.split(" ") : [null, killAfter];

console.log(`pid ${process.pid}`);
process.stdin.on("end", () => process.exit(1)).resume(); // the test has exited: exit too
process.stdin.unref?.();

const WRITES = new Set(["insert", "claim", "settle", "amend", "advance", "savePlaybooks", "open", "cascaded"]);
let writes = 0;
let counted = 0;

function mortal(port) {
  return new Proxy(port, {
    get(target, property, receiver) {
      const value = Reflect.get(target, property, receiver);
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return mortal(value);
      if (typeof value !== "function") return value;
      if (!WRITES.has(property)) return value.bind(target);
      return async (...args) => {
        const answer = await value.apply(target, args);
        if (property === "claim" && answer.every(({ jobs }) => jobs.length === 0)) return answer;
        writes += 1;
        if (verb === null || verb === property) counted += 1;
        if (counted === Number(count)) {
          process.kill(process.pid, "SIGKILL");
          for (;;); // a signal to oneself arrives soon, not at once
        }
        return answer;
      };
    },
  });
}

const work = task("work", async ({ value, fail, ms }, { attempt, jobId, signal }) => {
  console.log(`start ${jobId} ${attempt}`);
  if (ms !== undefined) await pass(ms, undefined, { signal });
  if (fail === "always" || (fail === "first" && attempt === 1)) throw new Error("as asked");
  return value ?? null;
});

const clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, call, { background = false } = {}) {
    const timer = setTimeout(call, Math.min(ms, 2 ** 31 - 1));
    if (background) timer.unref();
    return () => clearTimeout(timer);
  },
  turn: setImmediate,
  tick: process.nextTick,
};

const retention = { succeeded: false, failed: false, cancelled: false };
const perdure = await Perdure.open({ url, lease, retention }, { clock, random: Math.random, wrapStore: mortal });
await perdure.work(commands ? [work, exec] : [work], { concurrency });
console.log("ready");
if (playbook !== undefined) {
  const run = await perdure.run(playbook, input, options);
  console.log(`started ${run.id} ${run.created}`);
  await run.result().catch(() => {});
  console.log(`ended ${(await run.get()).state} ${writes}`);
  await perdure.close({ grace: 0 });
  process.exit(0);
}
