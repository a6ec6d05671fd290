import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { hasEnded, processName } from "./process-proof.ts";

async function child() {
  const process = spawn("sleep", ["60"], { stdio: "ignore" });
  await once(process, "spawn");
  const pid = process.pid as number;
  return { process, session: { pid, process: processName(pid) } };
}

describe.runIf(existsSync("/proc/self/stat"))("the proof that a process has ended", () => {
  it("is not given for a process that lives, nor for one that is stopped", async () => {
    const { process: sleeper, session } = await child();
    expect(hasEnded({ pid: process.pid, process: processName() })).toBe(false);
    expect(hasEnded(session)).toBe(false);
    sleeper.kill("SIGSTOP");
    expect(hasEnded(session)).toBe(false);
    sleeper.kill("SIGKILL");
    await once(sleeper, "exit");
  });

  it("is given once it was killed", async () => {
    const { process: sleeper, session } = await child();
    sleeper.kill("SIGKILL");
    await once(sleeper, "exit");
    expect(hasEnded(session)).toBe(true);
  });

  it("is given when its pid belongs to a process that started later", () => {
    const name = processName() as string;
    expect(hasEnded({ pid: process.pid, process: name.replace(/\d+$/, "1") })).toBe(true);
  });

  it("is not given for a process of another machine, boot or container, or without a name", () => {
    const name = processName() as string;
    expect(hasEnded({ pid: 2 ** 30, process: name.replace("pid:[", "pid:[9") })).toBe(false);
    expect(hasEnded({ pid: 2 ** 30, process: name.slice(1) })).toBe(false);
    expect(hasEnded({ pid: 2 ** 30, process: null })).toBe(false);
  });
});
