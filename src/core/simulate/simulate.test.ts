import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Decision } from "../decision/decide.ts";
import { TestJobHistory } from "../job/testing-job.ts";
import type { PolicyFields, PolicyInput, PresetName, RuleInput } from "../policy/policy.ts";
import { resolvePolicy } from "../policy/resolve-policy.ts";
import { playedOutcome, playedOutcomes } from "./played-outcome.ts";
import { failingAt, type Scenario, type Simulation, scripted, simulate, simulateMany } from "./simulate.ts";

// biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
const DEFER_429: RuleInput = { if: { status: 429 }, then: "defer" };
const RETRY_EXITS: RuleInput = {
  if: { kind: "exit" },
  // biome-ignore lint/suspicious/noThenProperty: as above.
  then: "retry",
  maxRetries: 2,
  backoff: { type: "fixed", delay: "5s", jitter: 0.5 },
};

function played(retry: PolicyInput, outcomes: string, more: Partial<Scenario> = {}): Simulation {
  return simulate({ policy: resolvePolicy(retry), next: scripted(playedOutcomes(outcomes, "outcomes")), ...more });
}

const delays = ({ steps }: Simulation) => steps.flatMap(({ delayMs }) => (delayMs === null ? [] : [delayMs]));
const starts = ({ steps }: Simulation) => steps.map(({ startMs }) => startMs);
const times = (word: string, count: number) => Array(count).fill(word).join(",");

describe("the presets, with the numbers of their documents", () => {
  it("opal: 8 s, then it ends after two attempts", () => {
    const simulation = played({ preset: "opal" }, "lost,lost,ok");
    expect(delays(simulation)).toEqual([8_000]);
    expect(simulation.end).toMatchObject({
      state: "failed",
      reason: "lost",
      attempts: 2,
      totalMs: 8_000,
      stopped: null,
    });
    expect(simulation.end.totalRangeMs).toEqual([8_000, 8_000]);
  });

  it("opal with three attempts: 8 s, 15 s", () => {
    const simulation = played({ preset: "opal", maxAttempts: 3 }, "lost,lost,lost");
    expect(delays(simulation)).toEqual([8_000, 15_000]);
    expect(starts(simulation)).toEqual([0, 8_000, 23_000]);
  });

  it("fluster: 1, 2, 4, 8, 16 s and no more than 30 s; losses cost nothing and come back at once", () => {
    const retry: PolicyFields = { preset: "fluster", maxAttempts: 8, backoff: { max: "30s" } };
    expect(delays(played(retry, times("fail", 8)))).toEqual([1, 2, 4, 8, 16, 30, 30].map((s) => s * 1_000));
    const lost = played({ preset: "fluster" }, times("lost", 101));
    expect(lost.end).toMatchObject({ state: "failed", reason: "lost", attempts: 101, totalMs: 0, failures: 0 });
    expect(lost.steps[0]?.charge).toEqual({ to: "workerLost", used: 1, limit: 100, left: 99 });
  });

  it("noetl: 1.0 and 2.0 s, exhausted after three", () => {
    const simulation = played({ preset: "noetl" }, "fail,fail,fail");
    expect(delays(simulation)).toEqual([1_000, 2_000]);
    expect(simulation.end).toMatchObject({ reason: "exhausted", attempts: 3, totalMs: 3_000 });
    expect(played({ preset: "noetl", backoff: { jitter: true } }, "fail,ok").steps[0]?.delayRangeMs).toEqual([
      500, 1_500,
    ]);
  });

  it("attune: 0.8–1.2, 1.6–2.4, 3.2–4.8, 6.4–9.6 s", () => {
    const simulation = played({ preset: "attune", maxAttempts: 5 }, times("error:connection reset", 5));
    expect(simulation.steps.map(({ delayRangeMs }) => delayRangeMs)).toEqual([
      [800, 1_200],
      [1_600, 2_400],
      [3_200, 4_800],
      [6_400, 9_600],
      null,
    ]);
    expect(delays(simulation)).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(simulation.end.totalRangeMs).toEqual([12_000, 18_000]);
  });

  it("agent: 30, 60, 120, 240, 300 s, each up to a quarter less or more", () => {
    const simulation = played({ preset: "agent", maxAttempts: 6 }, times("fail", 6));
    expect(delays(simulation)).toEqual([30, 60, 120, 240, 300].map((s) => s * 1_000));
    expect(simulation.steps[0]?.delayRangeMs).toEqual([22_500, 37_500]);
    expect(simulation.steps[4]?.delayRangeMs).toEqual([225_000, 375_000]);
  });
});

describe("a step", () => {
  it("shows what decided, whether it counts and how long it waits", () => {
    const retry: PolicyFields = { maxAttempts: 3, rules: [DEFER_429] };
    const [first, second, third] = played(retry, "fail,http:429:30s,ok", { takesMs: 500 }).steps;
    expect(first).toEqual({
      ...{ attempt: 1, outcome: "fail", startMs: 0, startRangeMs: [0, 0], tookMs: 500 },
      ...{ decision: "retry", step: "retry", class: "failure", match: { by: "onUnknown" }, reason: null, detail: null },
      because: "no rule matched; unknown failures are retried (onUnknown: retry)",
      charge: { to: "maxAttempts", used: 1, limit: 3, left: 2 },
      ...{ delayMs: 1_000, baseDelayMs: 1_000, delayRangeMs: [800, 1_200], dependsOnJitter: false },
    });
    expect(second).toMatchObject({
      decision: "defer",
      match: { by: "rule", index: 0, conditions: "status 429" },
      charge: null,
      delayMs: 30_000,
    });
    expect(second).toMatchObject({ startMs: 1_500, startRangeMs: [1_300, 1_700] });
    expect(third).toMatchObject({ decision: "succeed", delayMs: null, baseDelayMs: null, delayRangeMs: null });
  });

  it("takes as long as its timeout when it times out, and never longer", () => {
    const job = { timeoutMs: 2_000 };
    const { steps, attempts } = played(2, "timeout,ok", { job, takesMs: 500 });
    expect(steps.map(({ tookMs }) => tookMs)).toEqual([2_000, 500]);
    expect(attempts[0]?.failure?.message).toBe("timed out after 2 s");
    expect(played(2, "fail", { job, takesMs: 5_000 }).steps[0]?.tookMs).toBe(2_000);
    expect(played(2, "timeout", { takesMs: 5_000 }).steps[0]).toMatchObject({
      tookMs: 5_000,
      match: { by: "onTimeout" },
    });
  });

  it("that no worker starts has no number, and lasts as long as it may wait", () => {
    const { steps, end, attempts } = played(1, "queue-timeout", { job: { expireInMs: 60_000 } });
    expect(steps[0]).toMatchObject({ attempt: null, startMs: 0, tookMs: 60_000, decision: "fail" });
    expect(end).toMatchObject({ reason: "unschedulable", attempts: 0, totalMs: 60_000 });
    expect(attempts).toEqual([]);
    expect(played(2, "queue-timeout").end).toMatchObject({ totalMs: 0, nextRunMs: 1_000, stopped: "script" });
  });

  it("that is cancelled ends there", () => {
    const { end, steps } = played(5, "fail,cancel,ok");
    expect(end).toMatchObject({ state: "cancelled", reason: null, attempts: 2 });
    expect(steps.at(-1)).toMatchObject({ decision: "cancel", step: "cancel", because: "a cancel was requested" });
  });

  it("that is interrupted costs nothing", () => {
    const { end, steps } = played(1, "interrupted,ok");
    expect(steps[0]).toMatchObject({
      decision: "retry",
      step: "handback",
      charge: null,
      delayMs: 0,
      delayRangeMs: [0, 0],
    });
    expect(end.state).toBe("succeeded");
  });

  it("that is lost soon counts for the poison guard, and one that ran long does not", () => {
    expect(played(1, "lost,lost,lost").end).toMatchObject({ reason: "poison", attempts: 3 });
    expect(played(1, "lost,lost,lost", { takesMs: 60_000 }).end).toMatchObject({ state: "queued", losses: 3 });
  });

  it("adds up the usage of attempts for a budget", () => {
    const usage = { tokensIn: 40, tokensOut: 10, costUsd: 0 };
    const { end } = played({ maxAttempts: 9, budget: { tokens: 100 } }, times("fail", 9), { usage });
    expect(end).toMatchObject({ reason: "budget", detail: "tokens", attempts: 2 });
    expect(played({ maxAttempts: 9, budget: { tokens: 1 } }, "queue-timeout", { usage }).job.usage).toBe(null);
  });
});

describe("the end", () => {
  it("is open when there are no more outcomes", () => {
    expect(played(3, "fail").end).toMatchObject({ state: "queued", stopped: "script", totalMs: 0, nextRunMs: 1_000 });
    const none = simulate({ policy: resolvePolicy(3), next: scripted([], true) });
    expect(none.end).toMatchObject({ state: "queued", stopped: "script", attempts: 0, nextRunMs: 0, detail: null });
  });

  it("is open after so many steps", () => {
    const next = scripted(playedOutcomes("fail", "outcomes"), true);
    const { end, steps } = simulate({ policy: resolvePolicy(1_000), next, maxSteps: 7 });
    expect(end).toMatchObject({ state: "queued", stopped: "limit", attempts: 7 });
    expect(steps.length).toBe(7);
  });

  it("comes when the last outcome is repeated", () => {
    const next = scripted(playedOutcomes("lost,fail", "outcomes"), true);
    expect(simulate({ policy: resolvePolicy(3), next }).end).toMatchObject({ reason: "exhausted", attempts: 4 });
  });

  it("depends on chance close to maxElapsed", () => {
    const retry: PolicyFields = { maxAttempts: 9, maxElapsed: "3s" };
    const { steps, end } = played(retry, times("fail", 9));
    expect(steps.map(({ dependsOnJitter }) => dependsOnJitter)).toEqual([false, true, false]);
    // 1 s and 2 s: just within 3 s. No third run comes later than that, whatever is drawn.
    expect(steps[2]?.startRangeMs).toEqual([2_400, 3_000]);
    expect(steps[2]).toMatchObject({ step: "elapsed", detail: "elapsed", delayRangeMs: null });
    expect(end).toMatchObject({ reason: "budget", detail: "elapsed", totalMs: 3_000 });
    const close = played({ ...retry, maxElapsed: "2900ms" }, times("fail", 9));
    expect(close.steps[1]).toMatchObject({ decision: "fail", step: "elapsed", dependsOnJitter: true });
    expect(played({ ...retry, maxElapsed: "1s" }, "queue-timeout").steps[0]?.dependsOnJitter).toBe(false);
  });
});

describe("words", () => {
  const outcome = (word: string) => playedOutcome(word, "outcomes").outcome(new TestJobHistory().start().job, 7);
  const failureOf = (word: string) => (outcome(word) as { failure?: unknown }).failure;

  it.each([
    ["fail", { kind: "exit", exitCode: 1, message: "exit code 1", class: "transient" }],
    ["fail:75", { kind: "exit", exitCode: 75, message: "exit code 75" }],
    ["exit:7", { kind: "exit", exitCode: 7 }],
    ["error:TypeError: no name", { kind: "error", message: "no name", name: "TypeError" }],
    ["error:connection reset: by peer", { kind: "error", message: "connection reset: by peer", name: "Error" }],
    ["http:503", { kind: "http", status: 503, retryAfterMs: null }],
    ["http:429:30s", { kind: "http", status: 429, retryAfterMs: 30_000 }],
    ["http:429:30", { status: 429, retryAfterMs: 30_000 }],
    ["timeout", { kind: "timeout", message: "timed out" }],
    ["oom", { kind: "oom", exitCode: 137, signal: "SIGKILL" }],
    ["signal:SIGSEGV", { kind: "signal", exitCode: 139, signal: "SIGSEGV" }],
    ["signal:term", { kind: "signal", exitCode: 143, signal: "SIGTERM" }],
    ["logical", { class: "logical", message: "rejected by the task" }],
    ["logical:no such image", { class: "logical", message: "no such image" }],
    ["budget", { class: "budget", message: "the task reports that its budget is exceeded" }],
    ["budget:no tokens left", { class: "budget", message: "no tokens left" }],
    ["invalid", { class: "invalid" }],
  ])("%s", (word, wanted) => {
    expect(failureOf(word)).toMatchObject(wanted);
  });

  it("of success, of loss and of waiting", () => {
    expect(outcome("ok")).toEqual({ kind: "completed", result: null });
    expect(outcome("exit:0")).toEqual({ kind: "completed", result: { exitCode: 0 } });
    expect(outcome("http:202")).toMatchObject({ kind: "completed", result: { status_code: 202 } });
    expect(outcome("lost")).toMatchObject({ kind: "lost", session: "s1", renewedAt: 7 });
    expect(playedOutcome("queue-timeout", "outcomes").kind).toBe("wait");
    expect(playedOutcome("cancel", "outcomes").kind).toBe("cancel");
  });

  it("poll where a condition requires it", () => {
    const retry: PolicyFields = { maxAttempts: 5, retryWhen: "{{ status_code == 202 }}" };
    expect(played(retry, "http:202,http:202,http:200").end).toMatchObject({ state: "succeeded", attempts: 3 });
  });

  it("are read from a list, with spaces and escaped commas", () => {
    expect(playedOutcomes(" fail , error:a\\, b ,ok", "outcomes").map(({ word }) => word)).toEqual([
      "fail",
      "error:a, b",
      "ok",
    ]);
  });

  it.each([
    ["fial", /Did you mean "fail"\?$/],
    ["lots", /Did you mean "lost"\?$/],
    ["queue_timeout", /Did you mean "queue-timeout"\?$/],
    ["", /must be one of ok, fail, /],
    ["constructor", /must be one of ok, fail, /],
    ["ok:1", /must be ok without an argument/],
    ["fail:x", /fail:EXITCODE/],
    ["fail:256", /fail:EXITCODE/],
    ["fail:0", /fail:EXITCODE with a code from 1 to 255/],
    ["exit", /exit:EXITCODE/],
    ["error", /error:MESSAGE/],
    ["error: ", /error:MESSAGE/],
    ["http", /http:STATUS/],
    ["http:99", /http:STATUS/],
    ["http:600", /http:STATUS/],
    ["http:429:soon", /http:STATUS:RETRY_AFTER/],
    ["http:200:1s", /http:STATUS:RETRY_AFTER/],
    ["signal", /signal:NAME/],
    ["signal:SIGNAL", /signal:NAME/],
  ])("%j is refused", (word, message) => {
    expect(() => playedOutcomes(`ok,${word}`, "outcomes")).toThrow(message);
  });

  it("are not without end", () => {
    expect(() => playedOutcomes("ok,".repeat(10_001), "outcomes")).toThrow(/at most 10000 outcomes/);
  });
});

/** Draws that are given, again from the start when they are used up. */
function draws(list: readonly number[]): () => number {
  let i = 0;
  return () => list[i++ % list.length] as number;
}

const ok = playedOutcome("ok", "outcomes");
const fail = playedOutcome("fail", "outcomes");

describe("many simulations", () => {
  it("are shown as a distribution", () => {
    const policy = resolvePolicy({ maxAttempts: 2, backoff: { jitter: 0 } });
    // Rate, way and jitter are drawn for a failure; rate and jitter for a success.
    const random = draws([0.1, 0, 0.5, 0.9, 0.5, 0.1, 0, 0.5, 0.1, 0, 0.5]);
    const next = failingAt(0.5, [fail], ok, random);
    expect(simulateMany({ policy, next, random }, 4)).toEqual({
      ...{ runs: 4, cutShort: false, succeeded: 2, succeededShare: 0.5 },
      ends: [
        { state: "succeeded", reason: null, count: 2, share: 0.5 },
        { state: "failed", reason: "exhausted", count: 2, share: 0.5 },
      ],
      attempts: { mean: 2, least: 2, p50: 2, p90: 2, p99: 2, most: 2 },
      totalMs: { mean: 1_000, least: 1_000, p50: 1_000, p90: 1_000, p99: 1_000, most: 1_000 },
    });
  });

  it("fail in any of the ways given", () => {
    const lost = playedOutcome("lost", "outcomes");
    const next = failingAt(1, [fail, lost], ok, draws([0.5, 0.2, 0.5, 0.7, 0.5, 1]));
    expect([next(0), next(1), next(2)]).toEqual([fail, lost, fail]);
  });

  it("have percentiles that occurred, and stop when they are too many", () => {
    const policy = resolvePolicy(100);
    const random = draws([0.5]);
    expect(simulateMany({ policy, next: scripted([ok]) }, 10).attempts.p99).toBe(1);
    const next = failingAt(0.9, [fail], ok, random);
    const cut = simulateMany({ policy, next, random, maxSteps: 50 }, 10, 100);
    expect(cut).toMatchObject({ runs: 2, cutShort: true, succeeded: 0, succeededShare: 0 });
    expect(cut.ends).toEqual([{ state: "queued", reason: null, count: 2, share: 1 }]);
  });
});

describe("for any policy and any outcomes", () => {
  const word = fc.constantFrom(
    ...["ok", "fail", "exit:7", "error:connection reset", "http:503", "http:429:5s", "http:404", "timeout", "lost"],
    ...["oom", "signal:SIGSEGV", "logical", "budget", "invalid", "queue-timeout", "interrupted"],
  );
  const words = fc.array(fc.oneof({ weight: 3, arbitrary: fc.constantFrom("fail", "lost") }, word), { maxLength: 30 });
  const preset = fc.constantFrom<PresetName>("default", "opal", "fluster", "noetl", "attune", "agent");
  const policy = fc
    .record({
      preset,
      maxAttempts: fc.integer({ min: 1, max: 8 }),
      maxElapsed: fc.option(fc.integer({ min: 1, max: 60_000 }), { nil: undefined }),
      onTimeout: fc.constantFrom<"retry" | "fail">("retry", "fail"),
      rules: fc.constantFrom<NonNullable<PolicyFields["rules"]>>([], [DEFER_429], [RETRY_EXITS]),
      workerLost: fc.constantFrom<NonNullable<PolicyFields["workerLost"]>>(
        { charge: "shared" },
        { charge: "own", maxRetries: 3, backoff: { initial: "2s", jitter: 0.3 } },
      ),
    })
    .map(({ maxElapsed, ...rest }) => resolvePolicy(maxElapsed === undefined ? rest : { ...rest, maxElapsed }));
  const chance = fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
    minLength: 1,
    maxLength: 9,
  });
  const takes = fc.integer({ min: 0, max: 40_000 });
  const scenario = fc.record({ policy, words, chance, takes }).map(({ policy, words, chance, takes }) => {
    const list = words.map((each) => playedOutcome(each, "outcomes"));
    const job = { timeoutMs: 30_000, expireInMs: 5_000 };
    return { policy, list, job, takes, chance, next: scripted(list) };
  });
  type Given = typeof scenario extends fc.Arbitrary<infer T> ? T : never;
  const run = ({ policy, next, job, takes, chance }: Given) =>
    simulate({ policy, next, job, takesMs: takes, random: draws(chance) });

  it("the schedule is what decide says, step by step", () => {
    fc.assert(
      fc.property(scenario, (given) => {
        const { steps, job } = run(given);
        const story = new TestJobHistory({ policy: given.policy, ...given.job, kind: "exec" });
        const begin = story.now;
        const random = draws(given.chance);
        for (const [n, step] of steps.entries()) {
          const { kind, outcome } = given.list[n] as (typeof given.list)[number];
          if (kind === "run") story.start();
          expect(step.startMs).toBe(Math.max(story.now, story.job.runAt) - begin);
          expect(step.attempt).toBe(kind === "run" ? story.job.attempt : null);
          const now = Math.max(story.now, story.job.runAt) + step.tookMs;
          story.settle(outcome(story.job, now), { afterMs: step.tookMs, random: random() });
          const { kind: verdict, ...decided } = story.last as Decision & Partial<Extract<Decision, { kind: "retry" }>>;
          expect(step.decision === "defer" ? "retry" : step.decision).toBe(verdict);
          expect(step).toMatchObject({ step: decided.step, match: decided.match ?? null, charge: decided.charge });
          expect(step.delayMs).toBe(decided.delay?.delayMs ?? null);
        }
        const { state, reason, failures, losses, attempt } = story.job;
        expect(job).toMatchObject({ state, reason, failures, losses, attempt });
      }),
    );
  });

  it("no more attempts count than the limits allow, and an end is final", () => {
    fc.assert(
      fc.property(scenario, (given) => {
        const { job, steps, end } = run(given);
        const { maxAttempts, workerLost } = given.policy;
        const isShared = workerLost.charge === "shared";
        expect(job.failures + (isShared ? job.losses : 0)).toBeLessThanOrEqual(maxAttempts);
        if (!isShared) expect(job.losses).toBeLessThanOrEqual(workerLost.maxRetries + 1);
        expect(steps.slice(0, -1).every(({ decision }) => decision === "retry" || decision === "defer")).toBe(true);
        expect(end.stopped === null).toBe(["succeeded", "failed", "cancelled"].includes(end.state));
        expect(steps.length).toBeLessThanOrEqual(given.list.length);
      }),
    );
  });

  it("what is drawn lies within the ranges, and so does what follows from it", () => {
    fc.assert(
      fc.property(scenario, (given) => {
        const { steps, end } = run(given);
        const within = (ms: number, [least, most]: readonly [number, number]) => {
          expect(ms).toBeGreaterThanOrEqual(least);
          expect(ms).toBeLessThanOrEqual(most);
        };
        for (const step of steps) {
          within(step.startMs, step.startRangeMs);
          if (step.delayMs !== null) within(step.delayMs, step.delayRangeMs as readonly [number, number]);
        }
        within(end.totalMs, end.totalRangeMs);
      }),
    );
  });

  it("where no step depends on jitter, other draws make the same steps, within the same ranges", () => {
    fc.assert(
      fc.property(scenario, chance, (given, other) => {
        const [one, two] = [run(given), run({ ...given, chance: other })];
        if (one.steps.some(({ dependsOnJitter }) => dependsOnJitter)) return;
        const shape = ({ steps }: Simulation) => steps.map(({ decision, match, charge }) => [decision, match, charge]);
        expect(shape(two)).toEqual(shape(one));
        for (const [n, step] of two.steps.entries()) expect(step.startRangeMs).toEqual(one.steps[n]?.startRangeMs);
        expect(two.end.totalRangeMs).toEqual(one.end.totalRangeMs);
      }),
    );
  });
});
