import { describe, expect, it } from "vitest";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { readArguments } from "../command.ts";
import { run } from "../commands/run.ts";
import { policyOf } from "./shared-options.ts";

function policy(...argv: string[]) {
  const given = readArguments(run, [...argv, "--", "true"]);
  if (given === null) throw new Error("that was a call for help");
  return policyOf(given);
}

describe("the policy of the options", () => {
  it("has five attempts without options, and is valid", () => {
    expect(policy()).toEqual({ maxAttempts: 5 });
    expect(resolvePolicy(policy(), "retry").maxAttempts).toBe(5);
  });

  it("takes the number of attempts from a preset, unless it is set", () => {
    expect(policy("--preset", "noetl")).toEqual({ preset: "noetl" });
    expect(policy("--preset", "noetl", "--max-attempts", "9")).toEqual({ preset: "noetl", maxAttempts: 9 });
  });

  it("has only the delays that were set", () => {
    expect(policy("--jitter", "0").backoff).toEqual({ jitter: 0 });
    expect(
      policy("--backoff", "2s", "--backoff-max", "1m", "--backoff-factor", "1.5", "--jitter", "0.25").backoff,
    ).toEqual({ initial: "2s", max: "1m", factor: 1.5, jitter: 0.25 });
    expect(policy("--backoff", "none").backoff).toEqual({ type: "none" });
  });

  it.each([
    ["1", [1]],
    ["255", [255]],
    ["1,75", [1, 75]],
    [" 1 , 75 ", [1, 75]],
    ["5-5", [5]],
    ["1,100-103", [1, 100, 101, 102, 103]],
  ])("reads the exit codes %j", (text, codes) => {
    expect(policy("--no-retry-on", text).noRetryOnExitCodes).toEqual(codes);
    expect(policy("--retry-on", text).retryOnExitCodes).toEqual(codes);
  });

  it("passes conditions on unchanged", () => {
    const [retryWhen, stopWhen] = ["{{ exit_code == 75 }}", "{{ attempt > 2 }}"];
    expect(policy("--retry-when", retryWhen, "--stop-when", stopWhen)).toMatchObject({ retryWhen, stopWhen });
  });
});
