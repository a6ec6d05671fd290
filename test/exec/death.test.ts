/** The commands of a worker that is killed are killed too, and never overlap the next attempt. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Duration } from "../../src/core/duration.ts";
import { exec } from "../../src/core/input/builtin.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { IS_FULL, inFull } from "../tier.ts";
import { alive, allDead, type Bench, isAlive, needle, openBench, QUICK, startChild, until } from "./kit.ts";

/** Slow machines get slack; what is promised is a second. Far less than a lease, or the grace of these commands. */
const PROMISED_MS = 1_000;
const SLACK_MS = 9_000;

async function childWorker(bench: Bench, settings: object = {}) {
  const child = startChild("worker.ts", [JSON.stringify({ url: join(bench.dir, "perdure.db"), ...settings })]);
  await child.line("ready");
  return child;
}

/** An engine whose worker takes nothing: the commands are the child's. */
async function onlyEngine(lease: Duration = "15s"): Promise<Bench> {
  const bench = await openBench({ open: { lease } });
  await bench.worker.stop();
  return bench;
}

const COMMANDS: Readonly<Record<string, string>> = {
  plain: "sleep 1000",
  setsid: "setsid sleep 1000 & (setsid sleep 1000 &) \n sleep 1000",
  "without ears": "trap '' TERM INT HUP; setsid sleep 1000 & while :; do sleep 0.1; done",
  stopped: "kill -STOP $$; sleep 1000",
  orphans: "(setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' > /dev/null 2>&1 &) \n sleep 1000",
};

describe("kill -9 of a worker", () => {
  it("ends all its commands within a second", async () => {
    const bench = await onlyEngine();
    const child = await childWorker(bench);
    const mark = needle();
    for (const command of Object.values(COMMANDS)) {
      await bench.submit({ command, shell: true, env: { MARK: mark }, grace: "60s" });
    }
    await until("all run", () => alive(mark).length >= 10);
    child.process.kill("SIGKILL");
    await child.ended;
    const ms = await allDead(mark);
    console.log(`all dead ${Math.round(ms)} ms after the worker (promised: ${PROMISED_MS})`);
    expect(ms).toBeLessThan(PROMISED_MS + SLACK_MS);
  });

  it.runIf(IS_FULL)("ends what it was just starting, and leaves no supervisor", async () => {
    const bench = await onlyEngine();
    const mark = needle();
    for (let round = 0; round < 3; round++) {
      const child = await childWorker(bench);
      const jobs = [];
      for (let i = 0; i < 10; i++) {
        jobs.push(await bench.submit({ argv: ["sh", "-c", "sleep 1000; :"], env: { MARK: mark } }));
      }
      await until("some run", () => alive(mark).length > round); // the others are on their way
      const helpers = childrenOf(child.pid);
      child.process.kill("SIGKILL");
      await child.ended;
      for (const job of jobs) await job.cancel();
      await allDead(mark);
      await until("its supervisor is gone", () => helpers.every((pid) => !isAlive(pid)));
    }
  });

  it.each(
    inFull([
      ["and", false],
      ["even where its supervisor hangs", true],
    ]),
  )("%s the next attempt starts only when they are gone", async (_name, doesHang) => {
    const bench = await onlyEngine();
    // Engines that reap at other times of the second: one of them sees at once that the worker is gone.
    for (let i = 0; i < 9; i++) {
      await new Promise((resolve) => setTimeout(resolve, 1_000 / 10));
      const other = await Perdure.open({ url: join(bench.dir, "perdure.db") });
      onTestFinished(() => other.close({ grace: 0 }));
    }
    const child = await childWorker(bench);
    const log = join(bench.dir, "log");
    writeFileSync(log, "");
    const said =
      "sub say { syswrite L, sprintf(qq(%s %s %d %.3f\\n), $_[0], $ENV{PERDURE_JOB_ID}, $ENV{PERDURE_ATTEMPT}, time * 1000) }";
    const script = `use Time::HiRes qw(time sleep); open L, '>>', $ARGV[0]; ${said} $SIG{TERM} = 'IGNORE'; say('up');
      exit 0 if $ENV{PERDURE_ATTEMPT} > 1; while (1) { say('on'); sleep 0.002 }`;
    const jobs = [];
    for (let i = 0; i < 4; i++) {
      const input = { argv: ["perl", "-e", script, log], grace: "5s" as const };
      jobs.push(await bench.submit(input, { retry: { maxAttempts: 3, ...QUICK } }));
    }
    const lines = () =>
      readFileSync(log, "utf8")
        .split("\n")
        .slice(0, -1)
        .map((line) => line.split(" "));
    await until("all run", () => lines().filter(([what]) => what === "up").length === 4);
    await bench.perdure.work([exec]);
    for (const pid of doesHang ? supervisorsOf(child.pid) : []) {
      process.kill(pid, "SIGSTOP");
      onTestFinished(() => void process.kill(pid, "SIGCONT"));
    }
    child.process.kill("SIGKILL");
    for (const job of jobs) expect((await bench.ended(job)).job).toMatchObject({ state: "succeeded", losses: 1 });
    const all = lines();
    const overlaps = jobs.map(({ id }) => {
      const of = (attempt: string) =>
        all.filter((line) => line[1] === id && line[2] === attempt).map((line) => Number(line[3]));
      return Math.max(...of("1")) - Math.min(...of("2"));
    });
    expect(overlaps.filter((ms) => ms > 0)).toEqual([]);
  });
});

/** The direct children of a process: its commands, and its supervisor. */
function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
}

function supervisorsOf(pid: number): number[] {
  return childrenOf(pid).filter((each) => readFileSync(`/proc/${each}/cmdline`, "latin1").includes("supervisor.mjs"));
}

describe("a lost lease", () => {
  it("ends the tree of the attempt that was lost", async () => {
    // Long enough that only its stop makes it lose what it holds.
    const bench = await onlyEngine("3s");
    const child = await childWorker(bench, { lease: "3s", concurrency: 1 });
    const mark = needle();
    const command = COMMANDS["without ears"] as string;
    const input = {
      command: `echo $PERDURE_ATTEMPT; ${command}`,
      shell: true,
      env: { MARK: mark },
      grace: "100ms" as const,
    };
    const job = await bench.submit(input, { retry: { maxAttempts: 5, backoff: { initial: "1h", jitter: 0 } } });
    await until("it runs", () => alive(mark).length >= 3);
    const first = alive(mark);
    await until("it is stopped, and not while it holds the database", async () => {
      process.kill(child.pid, "SIGSTOP");
      const written = bench.perdure.resume("probe").then(() => true); // changes nothing, but needs the lock
      if (await Promise.race([written, new Promise((resolve) => setTimeout(resolve, 500, false))])) return true;
      process.kill(child.pid, "SIGCONT");
      return written.then(() => false);
    });
    await until("the attempt is lost", async () => (await job.get()).losses === 1);
    expect(first.filter(isAlive).length).toBeGreaterThan(0); // not detectable: its worker is suspended
    process.kill(child.pid, "SIGCONT");
    await until("the tree is dead", () => !first.some(isAlive));
    await job.cancel();
  });
});

describe("the supervisor", () => {
  it("may be killed with kill -9: it comes back, and ends what was started before", async () => {
    const bench = await openBench();
    const mark = needle();
    const command = COMMANDS["without ears"] as string;
    const job = await bench.submit({ command, shell: true, env: { MARK: mark }, grace: "100ms" });
    await until("it runs", () => alive(mark).length >= 3);
    const helpers = supervisorsOf(process.pid);
    expect(helpers.length).toBeGreaterThan(0);
    for (const pid of helpers) process.kill(pid, "SIGKILL");
    await job.cancel();
    expect((await bench.ended(job)).job.state).toBe("cancelled");
    expect(alive(mark)).toEqual([]);
    expect((await bench.sh("exit 0")).job.state).toBe("succeeded");
  });
});
