import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { tempDir } from "../../../test/http-worker/kit.ts";
import { namedPipe } from "../../../test/kit.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { chownDirectory } from "../exec/run-user.ts";
import { processName } from "../process-proof.ts";
import { HostDirectory, type HostDirectoryOptions } from "./host-directory.ts";

const DAY = 86_400_000;

async function open(root: string, options: Partial<HostDirectoryOptions> = {}) {
  const clock = { ...systemClock, after: () => () => {} };
  const log = (_: string, message: string) => expect.unreachable(message);
  const host = await HostDirectory.open({ root, clock, keepMs: DAY, keepBytes: 10_000, log, ...options });
  onTestFinished(() => host.close());
  return host;
}

/** An attempt that is not held, with this many bytes of this age. */
async function leave(host: HostDirectory, jobId: string, bytes = 10, ageMs = 0): Promise<string> {
  const dir = await host.begin(jobId, 1, false);
  writeFileSync(join(dir, "scratch"), "x".repeat(bytes));
  await host.release(jobId, 1);
  const at = new Date(Date.now() - ageMs);
  utimesSync(join(dir, ".."), at, at);
  return dir;
}

/** The number of a process that has ended. */
function deadPid(): number {
  return spawnSync(process.execPath, ["-e", ""]).pid;
}

describe("the directory of a host", () => {
  it("keeps attempts for the next one, for their owner alone, also after their worker has ended", async () => {
    const root = tempDir();
    const first = await open(root);
    const dir = await leave(first, "job_a");
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    await first.close();
    const second = await open(root);
    await second.begin("job_a", 3, false);
    await second.sweep();
    expect(await second.attempts("job_a")).toEqual([1, 3]);
    expect(readFileSync(join(second.dirOf("job_a", 1), "scratch"), "utf8")).toBe("x".repeat(10));
  });

  it("does not wait for a pipe in the place of a mark", async () => {
    const root = tempDir();
    const host = await open(root, { keepMs: 0, keepBytes: 0 });
    await leave(host, "job_a");
    namedPipe(join(root, "job_a", "attempt_1.held"));
    await host.sweep();
    expect(readdirSync(root)).toEqual(["job_a"]); // as long as it is young
    const old = new Date(Date.now() - DAY);
    utimesSync(join(root, "job_a", "attempt_1.held"), old, old);
    await host.sweep();
    expect(readdirSync(root)).toEqual([]);
  });

  it.skipIf(process.geteuid?.() !== 0)(
    "removes as its user what was given away and could not be put in place",
    async () => {
      const root = tempDir();
      const host = await open(root);
      await leave(host, "job_a");
      const failed = host.adopt("job_a", 2, async (dir) => {
        mkdirSync(join(dir, "kept"));
        chmodSync(root, 0o700); // that user cannot come here: whoever removes it anyway is root
        await chownDirectory(dir, { uid: 54_321, gid: 54_321 });
        throw new Error("the rest is lost");
      });
      await expect(failed).rejects.toThrow("the rest is lost");
      expect(readdirSync(join(root, "job_a")).filter((name) => name.startsWith(".coming-"))).toHaveLength(1);
    },
  );

  it("is kept within its age and its bytes, the last used first", async () => {
    const root = tempDir();
    const host = await open(root);
    await leave(host, "job_old", 10, DAY + 60_000);
    await leave(host, "job_third", 3_000, 30_000);
    await leave(host, "job_second", 5_000, 20_000);
    await leave(host, "job_first", 4_000, 10_000);
    mkdirSync(join(root, "something-else"));
    await host.sweep();
    expect(readdirSync(root).sort()).toEqual(["job_first", "job_second", "something-else"]);
  });

  it("removes nothing of a job while an attempt of it is held, here or by another process, and then all", async () => {
    const root = tempDir();
    const host = await open(root, { keepMs: 0, keepBytes: 0 });
    const marks = { mine: "job_mine", other: "job_other", dead: "job_dead", elsewhere: "job_elsewhere" };
    for (const job of Object.values(marks)) await host.begin(job, 1, false);
    const mark = (job: string, holder: object, ageMs = 0) => {
      const path = `${host.dirOf(job, 1)}.held`;
      writeFileSync(path, JSON.stringify(holder));
      const at = new Date(Date.now() - ageMs);
      utimesSync(path, at, at);
    };
    mark(marks.other, { pid: process.ppid, process: processName(process.ppid) });
    mark(marks.dead, { pid: deadPid(), process: processName()?.replace(/\d+$/, "1") });
    mark(marks.elsewhere, { pid: 1, process: "another boot 1" });
    await host.sweep();
    for (const job of Object.values(marks)) await host.removeJob(job);
    const isLinux = processName() !== null;
    const left = [marks.mine, marks.other, marks.elsewhere, ...(isLinux ? [] : [marks.dead])].sort();
    expect(readdirSync(root).sort()).toEqual(left);
    // Its mark has not been updated for long.
    mark(marks.elsewhere, { pid: 1, process: "another boot 1" }, 660_000);
    await host.release(marks.mine, 1);
    await host.removeJob(marks.mine);
    await host.sweep();
    expect(readdirSync(root)).not.toContain(marks.mine);
    expect(readdirSync(root)).not.toContain(marks.elsewhere);
  });

  it("counts the age of a job whose worker was killed from its last sign of life", async () => {
    const root = tempDir();
    const host = await open(root);
    const dir = await leave(host, "job_a", 10, 2 * DAY);
    writeFileSync(`${dir}.held`, JSON.stringify({ pid: deadPid(), process: processName()?.replace(/\d+$/, "1") }));
    utimesSync(join(dir, ".."), new Date(Date.now() - 2 * DAY), new Date(Date.now() - 2 * DAY));
    await host.sweep();
    expect(existsSync(dir)).toBe(true);
  });

  it("keeps scratch files of an ended job with `keep`, within the limits", async () => {
    const root = tempDir();
    const host = await open(root);
    await host.begin("job_a", 1, true);
    await host.release("job_a", 1);
    await host.removeJob("job_a");
    expect(readdirSync(root)).toEqual(["job_a"]);
  });

  it("adds a fetched attempt when it is complete, and nothing of an interrupted one", async () => {
    const host = await open(tempDir());
    await host.begin("job_a", 3, false);
    const broken = host.adopt("job_a", 2, async (dir) => {
      writeFileSync(join(dir, "half"), "");
      throw new Error("it broke off");
    });
    await expect(broken).rejects.toThrow("it broke off");
    expect(await host.attempts("job_a")).toEqual([3]);
    await host.adopt("job_a", 2, async (dir) => writeFileSync(join(dir, "whole"), ""));
    expect(readdirSync(host.dirOf("job_a", 2))).toEqual(["whole"]);
  });
});
