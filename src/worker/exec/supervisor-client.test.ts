/** The guard and its supervisor, with real processes, and without an engine. */
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../lib/system-clock.ts";
import { family, MARK, marked, memoryOf, type Process, readProcess, snapshot } from "./processes.mjs";
import { SupervisorClient } from "./supervisor-client.ts";

function newGuard(): SupervisorClient {
  const guard = new SupervisorClient(systemClock);
  onTestFinished(() => guard.close());
  return guard;
}

/** Starts a command as the executor does, and waits for its first line. */
async function start(
  guard: SupervisorClient,
  script: string,
  limits = {},
): Promise<{ n: number; mark: string; child: ChildProcess }> {
  guard.ensureStarted();
  const { n, mark } = guard.next();
  const env = { PATH: process.env.PATH, [MARK]: mark };
  const child = spawn("/bin/sh", ["-c", script], { detached: true, env, stdio: ["ignore", "pipe", "ignore"] });
  onTestFinished(() => {
    for (const { pid } of membersOf(mark)) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // it has just ended
      }
    }
  });
  guard.watch(n, child.pid as number, limits, () => {});
  await new Promise((resolve) => child.stdout?.once("data", resolve));
  return { n, mark, child };
}

function membersOf(mark: string) {
  const list = snapshot();
  return family(list, marked(list, mark).keys());
}

/** The supervisors of this process: they name no mark of their own in their environment, but are our children. */
function supervisors(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && readProcess(name)?.parent === process.pid && !readProcess(name)?.isDead)
    .filter((name) => readFileSync(`/proc/${name}/cmdline`, "latin1").includes("supervisor.mjs"))
    .map(Number);
}

async function until(look: () => boolean): Promise<void> {
  while (!look()) await new Promise((resolve) => setTimeout(resolve, 5));
}

const isGone = (child: ChildProcess) => readProcess(child.pid as number)?.isDead !== false;

describe("a guard", () => {
  it("ends a command with all its processes, and reports that none is left", async () => {
    const guard = newGuard();
    const { n, child } = await start(guard, "setsid sleep 100 & sleep 100 & echo up; sleep 100");
    expect(await guard.end(n, 5_000)).toBe(0);
    expect(isGone(child)).toBe(true);
  });

  it("ends one that starts its successor in a new session and exits, again and again", async () => {
    const guard = newGuard();
    const hop = 'if [ "$1" = 0 ]; then exec sleep 100; fi; setsid sh -c "$HOP" sh $(($1 - 1)) &';
    for (let round = 0; round < 5; round++) {
      const { n, mark } = await start(guard, `export HOP='${hop}'; sh -c "$HOP" sh 40 & echo up`);
      expect(await guard.end(n, 0)).toBe(0);
      expect(membersOf(mark)).toEqual([]);
      await new Promise((resolve) => setTimeout(resolve, 100)); // one that was between two processes is found by now
      expect(membersOf(mark)).toEqual([]);
    }
  });

  it("ends only the one that is meant", async () => {
    const guard = newGuard();
    const all = await Promise.all(Array.from({ length: 12 }, () => start(guard, "echo up; sleep 100")));
    const [first, ...others] = all;
    expect(await guard.end(first?.n as number, 5_000)).toBe(0); // number 1, and there are 10, 11 and 12
    expect(isGone(first?.child as ChildProcess)).toBe(true);
    expect(others.filter(({ child }) => isGone(child))).toEqual([]);
    await Promise.all(others.map(({ n }) => guard.end(n, 0)));
  });

  it("answers two requests for the same command, and at once for one that has ended", async () => {
    const guard = newGuard();
    const { n } = await start(guard, "trap '' TERM; echo up; while :; do sleep 0.1; done");
    expect(await Promise.all([guard.end(n, 60_000), guard.end(n, 0)])).toEqual([0, 0]);
    expect(await guard.end(n, 60_000)).toBe(0);
    expect(await guard.end(999, 60_000)).toBe(0);
  });

  it("forced, kills at once what has a grace time, and gives none any more", async () => {
    const guard = newGuard();
    const deaf = "trap 'echo term' TERM; echo up; while :; do sleep 0.1; done";
    const [first, second] = [await start(guard, deaf), await start(guard, deaf)];
    const heard = new Promise((resolve) => first.child.stdout?.once("data", resolve));
    const ended = guard.end(first.n, 3_600_000);
    await heard;
    guard.force();
    expect(await ended).toBe(0);
    expect(await guard.end(second.n, 3_600_000)).toBe(0);
    expect([isGone(first.child), isGone(second.child)]).toEqual([true, true]);
  });

  it("restarts its supervisor when that is killed, even while it ends a command", async () => {
    const guard = newGuard();
    const { n, child } = await start(guard, "trap 'echo term' TERM; echo up; while :; do sleep 0.1; done");
    const asked = new Promise((resolve) => child.stdout?.on("data", resolve));
    const ended = guard.end(n, 3_000); // it must arrive before the kill
    await asked;
    for (const pid of supervisors()) process.kill(pid, "SIGKILL");
    expect(await ended).toBe(0);
    expect(isGone(child)).toBe(true);
  });

  it("can end a command however often its supervisor died", async () => {
    const guard = newGuard();
    const { n, child } = await start(guard, "echo up; sleep 100");
    for (let death = 0; death < 5; death++) {
      await until(() => supervisors().length > 0); // after a pause that grows
      for (const pid of supervisors()) {
        process.kill(pid, "SIGKILL");
        await until(() => readProcess(pid)?.isDead !== false);
      }
    }
    expect(await guard.end(n, 0)).toBe(0);
    await until(() => isGone(child));
  });

  it("ends what others left of a job, and nothing else", async () => {
    const guard = newGuard();
    const spawned = ["job_a", "job_b"].map((id) => {
      const env = { PATH: process.env.PATH, PERDURE_JOB_ID: id };
      return spawn("sh", ["-c", "trap '' TERM; sleep 1000; :"], { detached: true, env, stdio: "ignore" });
    });
    const [mine, other] = spawned as [ChildProcess, ChildProcess];
    onTestFinished(() => void process.kill(-(other.pid as number), "SIGKILL"));
    expect(await guard.clear("job_a")).toBe(0);
    expect([isGone(mine), isGone(other)]).toEqual([true, false]);
  });

  it("leaves no supervisor behind when it is closed", async () => {
    await until(() => supervisors().length === 0); // those of guards before
    const guard = newGuard();
    const { n } = await start(guard, "echo up; sleep 100");
    await guard.end(n, 0);
    const pids = supervisors();
    expect(pids).toHaveLength(1);
    guard.close();
    await until(() => pids.every((pid) => readProcess(pid)?.isDead !== false));
  });

  it("leaves no command behind when it is closed too early", async () => {
    const guard = newGuard();
    const { child } = await start(guard, "trap '' TERM; echo up; while :; do sleep 0.1; done");
    guard.close();
    await until(() => isGone(child));
  });
});

describe("processes", () => {
  it("are read with brackets and spaces in their names", () => {
    expect(readProcess(process.pid)).toMatchObject({ pid: process.pid, parent: process.ppid, isDead: false });
    expect(readProcess(2 ** 30)).toBe(null);
  });

  it("hold memory, and none when they are gone", () => {
    const self = readProcess(process.pid) as Process;
    expect(memoryOf([self], Number.POSITIVE_INFINITY)).toBeGreaterThan(10_000_000);
    expect(memoryOf([self], 1)).toBeGreaterThan(1_000_000); // what it shares with others counts in part
    expect(memoryOf([{ ...self, pid: 2 ** 30 }], 1)).toBe(0);
  });

  const process1 = { isDead: false, started: "5" };
  const list: Process[] = [
    { ...process1, pid: 30, parent: 20, session: 10 },
    { ...process1, pid: 20, parent: 10, session: 10 },
    { ...process1, pid: 10, parent: 1, session: 10 },
    { ...process1, pid: 40, parent: 30, session: 40 },
    { ...process1, pid: 50, parent: 1, session: 50, isDead: true },
    { ...process1, pid: 60, parent: 50, session: 60 },
    { ...process1, pid: 70, parent: 1, session: 70 },
  ];
  const pids = (found: Process[]) => found.map(({ pid }) => pid).sort((a, b) => a - b);

  it("belong together by mark, by session, by descent, and by having been seen", () => {
    expect(pids(family(list, []))).toEqual([]);
    expect(pids(family(list, [30]))).toEqual([30, 40]);
    expect(pids(family(list, [], [{ pid: 10, started: "5" }]))).toEqual([10, 20, 30, 40]);
    expect(pids(family(list, [50]))).toEqual([60]); // the dead have children too
    expect(pids(family(list, [], [], [{ pid: 70, started: "5" }]))).toEqual([70]);
    const withoutLeader = list.filter(({ pid }) => pid !== 10);
    expect(pids(family(withoutLeader, [], [{ pid: 10, started: "5" }]))).toEqual([20, 30, 40]);
  });

  it("are not taken for their own by who had their number before", () => {
    expect(family(list, [], [{ pid: 10, started: "4" }])).toEqual([]);
    expect(
      family(
        list,
        [],
        [],
        [
          { pid: 70, started: "4" },
          { pid: 99, started: "5" },
        ],
      ),
    ).toEqual([]);
  });
});
