/** Whatever ends a command ends all that came of it. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Duration } from "../../src/core/duration.ts";
import { IS_FULL } from "../tier.ts";
import { alive, exists, needle, openBench, until } from "./kit.ts";

/** A tree that ignores signals: a child, one in a new session, and one forked twice. */
const TREE = `
  trap '' TERM HUP INT
  sleep 1000 & setsid sleep 1000 &
  (setsid sh -c 'sleep 1000 & sleep 1000 & wait' > /dev/null 2>&1 &)
  sh -c 'exec -a daemon true 2>/dev/null; (sleep 1000 &) ; exit 0'
  touch up; while :; do sleep 0.2; done`;
const TREE_SIZE = 7;

describe("a tree that ignores SIGTERM", () => {
  const start = async (options: { timeout?: Duration; grace?: Duration; lease?: Duration } = {}) => {
    const { grace = "200ms", lease, timeout } = options;
    const bench = await openBench({ open: lease === undefined ? {} : { lease } });
    const mark = needle();
    const input = { command: TREE, shell: true, env: { MARK: mark }, grace };
    const job = await bench.submit(input, timeout === undefined ? {} : { timeout });
    await exists(join(bench.dirOf(job.id, 1), "up"));
    await until("the tree is whole", () => alive(mark).length >= TREE_SIZE);
    return { bench, job, mark };
  };

  it("is ended by a cancel", async () => {
    const { bench, job, mark } = await start();
    await job.cancel();
    expect((await bench.ended(job)).job.state).toBe("cancelled");
    expect(alive(mark)).toEqual([]);
  });

  it("is ended by a timeout, after its grace and not before", async () => {
    const { bench, job, mark } = await start({ timeout: "4s", grace: "500ms" });
    const { last, job: info } = await bench.ended(job);
    expect(info).toMatchObject({ state: "failed", reason: "timeout" });
    expect(last.failure).toMatchObject({ kind: "timeout", message: "timed out after 4 s" });
    expect((last.endedAt as number) - last.startedAt).toBeGreaterThanOrEqual(4_500);
    expect(alive(mark)).toEqual([]);
  });

  it("is ended when the worker stops, and its job is released without counting the attempt", async () => {
    const { bench, job, mark } = await start();
    await bench.worker.stop({ grace: 0 });
    expect(alive(mark)).toEqual([]);
    expect(await job.get()).toMatchObject({ state: "queued", failures: 0, losses: 0 });
  });

  it.runIf(IS_FULL)("is ended when the engine is closed", async () => {
    const { bench, mark } = await start();
    await bench.perdure.close({ grace: 0 });
    expect(alive(mark)).toEqual([]);
  });
});

describe("a grace", () => {
  it("lets a command end well, all of it", async () => {
    const bench = await openBench();
    const script = "trap 'echo saved > artifacts/checkpoint; exit 3' TERM; touch up; while :; do sleep 0.05; done";
    const job = await bench.submit({ command: script, shell: true, grace: "20s" });
    await exists(join(bench.dirOf(job.id, 1), "up"));
    await job.cancel();
    const { job: info, dir } = await bench.ended(job);
    expect(info.state).toBe("cancelled");
    expect(readFileSync(join(dir, "artifacts/checkpoint"), "utf8")).toBe("saved\n");
  });

  it("of none means SIGKILL at once", async () => {
    const bench = await openBench();
    const script = "trap 'touch artifacts/heard' TERM; touch up; while :; do sleep 0.05; done";
    const { last, dir } = await bench.sh(script, { grace: 0 }, { timeout: "500ms" });
    expect(last.failure?.kind).toBe("timeout");
    expect(() => readFileSync(join(dir, "artifacts/heard"))).toThrow("ENOENT");
  });

  it("also wakes one that is stopped", async () => {
    const bench = await openBench();
    const command = "trap 'touch artifacts/heard; exit 1' TERM; echo $$ > pid; kill -STOP $$";
    const job = await bench.submit({ command, shell: true, grace: "20s" });
    const pid = join(bench.dirOf(job.id, 1), "pid");
    const stat = () => readFileSync(`/proc/${readFileSync(pid, "utf8").trim()}/stat`, "latin1");
    await until("it is stopped", () => existsSync(pid) && /\) T /.test(stat()));
    await job.cancel();
    const { job: info, dir } = await bench.ended(job);
    expect(info.state).toBe("cancelled");
    expect(readFileSync(join(dir, "artifacts/heard"), "utf8")).toBe("");
  });
});

describe("a pipe", () => {
  it("that a grandchild holds does not keep the command alive: its exit code decides", async () => {
    const bench = await openBench();
    const mark = needle();
    for (const how of ["sleep 1000 &", "setsid sleep 1000 &", "(setsid sleep 1000 &)"]) {
      const { job, stdout } = await bench.sh(`echo said; ${how}\nexit 0`, { env: { MARK: mark } });
      expect(job.state).toBe("succeeded");
      expect(stdout).toBe("said\n");
      expect(alive(mark)).toEqual([]);
    }
    expect((await bench.sh("sleep 1000 & exit 9")).last.failure?.exitCode).toBe(9);
  });

  it.runIf(IS_FULL)("that somebody holds whom we cannot find is given up after a while", async () => {
    const bench = await openBench();
    const mark = needle();
    const found = await bench.sh(`echo said; (env -i setsid sh -c 'sleep 8; : ${mark}' &) ; sleep 0.3; exit 0`);
    expect(found.job.state).toBe("succeeded");
    expect(found.stdout).toBe("said\n");
    for (const pid of alive(mark)) process.kill(pid, "SIGKILL");
  });

  it("that is closed is not the end of the command", async () => {
    const bench = await openBench();
    const { job, last } = await bench.sh("echo before; exec 1>&- 2>&-; sleep 0.5; echo 1 > artifacts/late; exit 5");
    expect(last.failure).toMatchObject({ exitCode: 5 });
    expect((await (await bench.perdure.outputs(job.id)).files(1)).files.map(({ name }) => name)).toEqual(["late"]);
  });
});
