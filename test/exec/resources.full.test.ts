/** Commands leave nothing behind in their worker: no open files, no processes, no zombies. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { type Bench, isAlive, openBench, until } from "./kit.ts";

/** What each round does: ends well, badly, never begins, is cancelled at once, is cut short. */
async function round(bench: Bench): Promise<void> {
  const cancelled = bench.submit({ argv: ["sleep", "1000"], grace: 0 }).then(async (job) => {
    await job.cancel();
    return bench.ended(job);
  });
  await Promise.all([
    cancelled,
    bench.sh("echo out; echo err >&2", { stdin: "x".repeat(100_000) }),
    bench.sh("exit 3", { limits: { openFiles: 50 } }),
    bench.sh("(setsid sleep 1000 &) \n exit 0"),
    bench.run({ argv: ["no-such-program"] }),
    bench.run({ argv: ["true", "x".repeat(131_072)] }),
    bench.run({ argv: ["true"], cwd: "/nowhere" }),
    bench.sh("sleep 1000", { grace: 0 }, { timeout: "100ms" }),
  ]);
}

const openFiles = () => readdirSync("/proc/self/fd").length;

function children(): number[] {
  const path = `/proc/${process.pid}/task/${process.pid}/children`;
  return readFileSync(path, "utf8").trim().split(" ").filter(Boolean).map(Number);
}

it("a hundred commands leave no open file and no process", async () => {
  const others = children(); // of files before, in the same process
  const bench = await openBench({ work: { concurrency: 10 } });
  await round(bench);
  const before = openFiles();
  for (let n = 0; n < 12; n++) await round(bench);
  await until("all files are closed", () => openFiles() <= before, 5_000).catch(() => {});
  expect(openFiles()).toBeLessThanOrEqual(before);
  const helpers = children().filter((pid) => !others.includes(pid));
  await bench.perdure.close();
  await until("the supervisor is gone", () => !helpers.some(isAlive));
  expect(bench.logged.filter((line) => line.startsWith("error"))).toEqual([]);
});
