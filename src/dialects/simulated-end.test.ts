import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { PresetName } from "../core/policy/policy.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import { playedOutcomes } from "../core/simulate/played-outcome.ts";
import { scripted, simulate } from "../core/simulate/simulate.ts";
import { simulatedEnd } from "./simulated-end.ts";

function endOf(preset: PresetName, outcomes: string, maxAttempts = 2) {
  const next = scripted(outcomes === "" ? [] : playedOutcomes(outcomes, "outcomes"));
  return simulatedEnd(simulate({ policy: resolvePolicy({ preset, maxAttempts }), next }));
}

describe("the end of a simulated job", () => {
  it("is in the terms of its preset's system", () => {
    expect(endOf("default", "fail")).toBe(null);
    expect(endOf("opal", "lost,lost")).toEqual({ dialect: "opal", status: "failed", error: "max_retries_exceeded_a2" });
    expect(endOf("opal", "lost,ok")).toEqual({ dialect: "opal", status: "succeeded", error: null });
    expect(endOf("opal", "lost", 3)).toMatchObject({ status: "queued", error: "lease_expired_retry_1" });
    expect(endOf("opal", "lost,lost", 3)).toMatchObject({ status: "queued", error: "lease_expired_retry_2" });
    expect(endOf("fluster", "fail,fail")).toMatchObject({ status: "FAILED", error: "exit code 1" });
    expect(endOf("fluster", "fail")).toMatchObject({ status: "PENDING" });
    expect(endOf("fluster", "queue-timeout", 4)).toEqual({
      ...{ dialect: "fluster", status: "UNSCHEDULABLE", error: "Scheduling timeout exceeded" },
    });
    expect(endOf("opal", "interrupted,lost", 3)).toMatchObject({ status: "queued", error: "lease_expired_retry_1" });
    expect(endOf("fluster", "cancel")).toMatchObject({ status: "KILLED" });
    expect(endOf("noetl", "fail,ok")).toMatchObject({ status: "step_completed", error: null });
    expect(endOf("noetl", "logical")).toMatchObject({ status: "step_failed_terminal, execution_failed" });
    const conditions = { preset: "noetl", maxAttempts: 3, retryWhen: "{{ status_code >= 500 }}" } as const;
    const next = scripted(playedOutcomes("http:503,http:404", "outcomes"));
    expect(simulatedEnd(simulate({ policy: resolvePolicy(conditions), next }))).toMatchObject({
      status: "step_failed_terminal (retry_when), execution_failed",
    });
    expect(endOf("noetl", "")).toMatchObject({ status: "queued", error: null });
    expect(endOf("attune", "error:connection refused")).toMatchObject({ status: "requested" });
    expect(endOf("attune", "timeout,timeout")).toMatchObject({ status: "timeout" });
    expect(endOf("agent", "fail")).toMatchObject({ dialect: "agent-task", status: "Retrying" });
    expect(endOf("agent", "timeout,timeout")).toMatchObject({ status: "TimedOut" });
    expect(endOf("agent", "fail,ok")).toMatchObject({ status: "Completed", error: null });
  });

  it("exists whatever happened", () => {
    const preset = fc.constantFrom<PresetName>("opal", "fluster", "noetl", "attune", "agent");
    const word = fc.constantFrom(
      ...["ok", "fail", "http:503", "timeout", "lost", "oom", "logical", "budget", "invalid", "queue-timeout"],
      ...["interrupted", "cancel"],
    );
    fc.assert(
      fc.property(preset, fc.array(word, { maxLength: 8 }), fc.integer({ min: 1, max: 5 }), (name, words, most) => {
        expect(endOf(name, words.join(","), most)?.status).toMatch(/\w/);
      }),
    );
  });
});
