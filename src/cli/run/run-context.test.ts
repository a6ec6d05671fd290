import { describe, expect, it } from "vitest";
import { type Failure, failure } from "../../core/decision/failure.ts";
import type { AttemptRow, JobInfo } from "../../core/job/views.ts";
import { exitCodeOfJob } from "./run-context.ts";

const exit = (exitCode: number) => failure({ kind: "exit", message: "m", exitCode });
const spawn = (code: string) => failure({ kind: "error", name: "SpawnError", code, message: "m" });

function codeOf(job: object, ...runs: readonly [outcome: string, failure: Failure | null][]): number {
  const rows = runs.map(([outcome, cause], i) => ({ attempt: i + 1, outcome, failure: cause }));
  return exitCodeOfJob({ reason: null, result: null, ...job } as JobInfo, rows as unknown as AttemptRow[]);
}
const failed = (reason: string, ...runs: readonly [string, Failure | null][]) =>
  codeOf({ state: "failed", reason }, ...runs);

describe("the exit code of a job", () => {
  it("is 0 when it succeeded, whatever the exit codes of its attempts", () => {
    expect(codeOf({ state: "succeeded" }, ["failed", exit(7)], ["completed", null])).toBe(0);
    expect(codeOf({ state: "succeeded", result: { exitCode: 9 } }, ["completed", null])).toBe(0);
  });

  it("is 130 when it was cancelled", () => {
    expect(codeOf({ state: "cancelled" }, ["failed", exit(7)])).toBe(130);
    expect(codeOf({ state: "cancelled" })).toBe(130);
  });

  it("is that of the last attempt that failed", () => {
    expect(failed("exhausted", ["failed", exit(3)], ["failed", exit(4)])).toBe(4);
    expect(failed("exhausted", ["failed", exit(3)], ["interrupted", null])).toBe(3);
    expect(failed("rejected", ["failed", exit(137)])).toBe(137);
  });

  it("is 1 for a verdict of failure beside exit code 0, and for a failure without a code", () => {
    expect(failed("rejected", ["failed", exit(0)])).toBe(1);
    expect(failed("rejected", ["failed", failure({ kind: "error", message: "m" })])).toBe(1);
  });

  it("is that of shells for timeouts and programs that cannot be started", () => {
    expect(failed("timeout", ["timeout", exit(143)])).toBe(124);
    expect(failed("exhausted", ["timeout", exit(143)])).toBe(124);
    expect(failed("exhausted", ["timeout", exit(143)], ["failed", exit(5)])).toBe(5);
    expect(failed("invalid", ["failed", spawn("ENOENT")])).toBe(127);
    for (const code of ["EACCES", "ENOTDIR", "E2BIG"]) expect(failed("invalid", ["failed", spawn(code)])).toBe(126);
  });

  it("is 125 when its attempts were lost, and without any attempt", () => {
    expect(failed("lost", ["failed", exit(7)], ["lost", failure({ kind: "lost", message: "m" })])).toBe(125);
    expect(failed("poison", ["lost", null])).toBe(125);
    expect(failed("expired")).toBe(125);
  });
});
