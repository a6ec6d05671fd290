/** Trees of processes of random shape that do all they can to get away. None is alive when its job has ended. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { Dice } from "../dice.ts";
import { IS_FULL, SEED } from "../tier.ts";
import { alive, allDead, exists, needle, openBench } from "./kit.ts";

const TREES = process.env.PERDURE_SOAK === "1" ? 100 : IS_FULL ? 40 : 8;
/** The promise is one second. Ten supervisors scan all processes, on a machine that may be busy; the trees would sleep for long. */
const LATE_MS = 5_000;
/** How a tree is ended, in turn. */
const WAYS = ["cancel", "timeout", "exit"] as const;

/** A shell script that starts its children in some way, and then waits, leaves, or ends in some other way. */
function tree(dice: Dice, depth: number): string {
  const children = Array.from({ length: depth === 0 ? 0 : dice.below(4) }, () => {
    const script = quoted(tree(dice, depth - 1));
    return dice.pick([
      `sh -c ${script} &`,
      `setsid sh -c ${script} &`,
      `(setsid sh -c ${script} &)`,
      `(sh -c ${script} > /dev/null 2>&1 < /dev/null &)`,
      `nohup setsid sh -c ${script} > /dev/null 2>&1 &`,
      `(setsid setsid sh -c ${script} &) &`,
    ]);
  });
  const ears = dice.pick(["", "trap '' TERM;", "trap '' TERM HUP INT;", "trap 'sh -c \"sleep 1000\" &' TERM;"]);
  const end = dice.pick(["sleep 1000", "exec sleep 1000", "sleep 1000 & wait", "exit 0", "kill -STOP $$; sleep 1000"]);
  return `${ears} ${children.join("\n")}\n${end}`;
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

it(`${TREES} hostile trees leave no process alive`, { timeout: 120_000 }, async () => {
  const dice = new Dice(SEED);
  console.log(`hostile trees: PERDURE_SEED=${SEED}`);
  const bench = await openBench({ work: { concurrency: 12 } });
  const late: string[] = [];
  let seen = 0;
  const one = async () => {
    const mark = needle();
    const script = `${tree(dice, 3)}`;
    const how = WAYS[started % WAYS.length];
    // The root reports that it is up, and then behaves like the others, or ends by itself.
    const command = `sh -c ${quoted(script)} & touch up\n${how === "exit" ? "exit 0" : "sleep 1000"}`;
    const options = how === "timeout" ? { timeout: "300ms" as const } : {};
    const job = await bench.submit(
      { command, shell: true, env: { MARK: mark }, grace: dice.pick(["0ms", "50ms", "200ms"] as const) },
      options,
    );
    if (how === "cancel") {
      await exists(join(bench.dirOf(job.id, 1), "up")).catch(() => {});
      seen += alive(mark).length;
      await job.cancel();
    }
    await bench.ended(job);
    const ms = await allDead(mark, 10_000).catch(() => Number.POSITIVE_INFINITY);
    if (ms > LATE_MS) late.push(`${ms} ms: ${script}`);
  };
  let started = 0;
  const lane = async () => {
    while (started < TREES) {
      started += 1;
      await one();
    }
  };
  await Promise.all(Array.from({ length: 10 }, lane));
  expect(late).toEqual([]);
  expect(seen).toBeGreaterThan(0);
  expect(bench.logged.filter((line) => line.includes("could not be killed"))).toEqual([]);
});
