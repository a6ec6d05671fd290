/** strace injects faults at exact points, and shows what reaches the disk. */
import { spawnSync } from "node:child_process";
import { it } from "vitest";

/** Null: strace works here; otherwise the reason why not. */
export function straceProblem(): string | null {
  if (process.platform !== "linux") return "strace is for Linux";
  const { error, status, stderr } = spawnSync("strace", ["-qq", "-o", "/dev/null", "true"], { encoding: "utf8" });
  if (error !== undefined) return `strace cannot be started (${error.message})`;
  return status === 0 ? null : `strace cannot trace here (${stderr.trim()})`;
}

/** A skipped test is easily overlooked: report why. */
export function notTested(file: string, why: string): void {
  it.skip(`NOT TESTED, because ${why}`, () => {});
  console.warn(`${file} did not run: ${why}`);
}
