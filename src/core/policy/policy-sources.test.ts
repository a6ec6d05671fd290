import { describe, expect, it } from "vitest";
import { explain } from "../explain/explain.ts";
import { submitJob } from "../job/lifecycle.ts";
import type { PolicySource, TaskValues } from "../task/submit-options.ts";
import { chosenValues, toSources } from "./policy-sources.ts";
import { resolvePolicy } from "./resolve-policy.ts";

type Said = Readonly<Record<string, PolicySource>>;

describe("where a policy comes from", () => {
  it.each<[string, TaskValues, TaskValues, Said | undefined, TaskValues, Said]>([
    ["nothing is given", {}, {}, undefined, {}, {}],
    [
      "a task alone",
      {},
      { retry: 3, timeout: "1m" },
      undefined,
      { retry: 3, timeout: "1m" },
      { maxAttempts: "task", timeout: "task" },
    ],
    [
      "the submit wins over the task",
      { timeout: 5 },
      { timeout: 7, expireIn: 9 },
      undefined,
      { timeout: 5, expireIn: 9 },
      { timeout: "submit", expireIn: "task" },
    ],
    [
      "retry is one value",
      { retry: { maxAttempts: 2 } },
      { retry: { maxAttempts: 9, backoff: { initial: 1 } } },
      undefined,
      { retry: { maxAttempts: 2 } },
      { maxAttempts: "submit" },
    ],
    [
      "queue and priority, only where the task gives them",
      { queue: "q" },
      { queue: "t", priority: 2 },
      undefined,
      { queue: "q", priority: 2 },
      { priority: "task" },
    ],
    [
      "what is undefined is not given",
      { timeout: undefined } as unknown as TaskValues,
      { timeout: 7 },
      undefined,
      { timeout: 7 },
      { timeout: "task" },
    ],
    [
      "a submit in the name of an action",
      { retry: { preset: "attune", maxAttempts: 4, backoff: { initial: 1 } }, timeout: 5 },
      {},
      { maxAttempts: "action", backoff: "pack", timeout: "settings" },
      { retry: { preset: "attune", maxAttempts: 4, backoff: { initial: 1 } }, timeout: 5 },
      { maxAttempts: "action", backoff: "pack", timeout: "settings" },
    ],
    [
      "what is said of the task's values counts for nothing",
      {},
      { timeout: 7 },
      { timeout: "pack" },
      { timeout: 7 },
      { timeout: "task" },
    ],
  ])("%s", (_, submit, task, said, values, from) => {
    expect(chosenValues(submit, task, said)).toEqual({ values, from });
  });

  it("is one object for the same places, and none where nothing is given", () => {
    expect(toSources({})).toBeNull();
    expect(toSources({ timeout: "task" })).toBe(toSources({ timeout: "task" }));
    const by = { session: "ses_1", worker: "w" };
    expect(toSources({ timeout: "task" }, by)).toEqual({ from: { timeout: "task" }, ...by });
    expect(toSources({ timeout: "submit" }, by)).toEqual({ from: { timeout: "submit" } });
  });

  it.each([
    [
      toSources({ maxAttempts: "task", backoff: "task", timeout: "submit" }, { session: "ses_1", worker: "w 1" }),
      3,
      '  Policy: timeout from the submit; maxAttempts, backoff from the task (published by worker "w 1", session ses_1); everything else from preset "default".',
    ],
    [
      toSources({ maxAttempts: "action", backoff: "pack", timeout: "settings" }),
      3,
      '  Policy: maxAttempts from the action; backoff from its pack; timeout from the settings; everything else from preset "default".',
    ],
    [null, undefined, '  Policy: preset "default" without changes.'],
    [null, 3, undefined],
  ] as const)("is shown by explain: %j", (sources, retry, line) => {
    const policy = resolvePolicy(retry);
    const job = { kind: "k", queue: "q", namespace: "n", runAt: 1, expireInMs: null, policy, sources };
    const event = { ...submitJob(job, 1).event, seq: 1, jobId: "job_1", n: 1, at: 1 };
    const { lines, sources: told } = explain({ events: [event], now: 2, policy });
    expect(lines[1]?.startsWith("  Policy") ? lines[1] : undefined).toBe(line);
    expect(told).toEqual(sources);
  });
});
