/** What holds for every policy and every sequence of outcomes and commands, found by random search. A failing run
 *  prints its seed and the smallest case that still fails. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IS_FULL, rounds } from "../../../test/tier.ts";
import type { Command } from "../job/command.ts";
import { foldEvents } from "../job/fold.ts";
import { isTerminal, type Job, type Usage } from "../job/job.ts";
import {
  completed,
  failed,
  lost,
  NO_COUNTS,
  progressOf,
  T0,
  TestJobHistory,
  testJob,
  testRule,
} from "../job/testing-job.ts";
import type { Backoff, Policy, Rule, WorkerLostPolicy } from "../policy/policy.ts";
import { presets } from "../policy/presets.ts";
import { type Decision, decide, MAX_HANDBACKS, MIN_DEFER_MS, RELEASE_DELAY_MS } from "./decide.ts";
import { FAILURE_KINDS, type Failure, failure } from "./failure.ts";
import type { Outcome } from "./outcome.ts";

// Random policies: small budgets, so that they are spent; few words, so that they match.

const ms = fc.integer({ min: 0, max: 90_000 });
const jitter = fc.oneof(fc.constant(0), fc.double({ min: 0, max: 0.99, noNaN: true }));
const common = {
  jitter,
  minMs: fc.oneof(fc.constant(0), ms),
  immediate: fc.integer({ min: 0, max: 2 }),
  clampAfterJitter: fc.boolean(),
  maxMs: ms,
};
const backoff: fc.Arbitrary<Backoff> = fc.oneof(
  fc.record({
    type: fc.constant("exponential" as const),
    initialMs: ms,
    factor: fc.double({ min: 1, max: 10, noNaN: true }),
    ...common,
  }),
  fc.record({
    type: fc.constant("schedule" as const),
    delaysMs: fc.array(ms, { minLength: 1, maxLength: 4 }),
    offset: fc.integer({ min: 0, max: 5 }),
    ...common,
  }),
  fc.record({ type: fc.constant("fixed" as const), delayMs: ms, ...common }),
  fc.constant({ type: "none" as const }),
);

const kind = fc.constantFrom(...FAILURE_KINDS.filter((name) => name !== "lost"));
const exitCode = fc.integer({ min: 0, max: 3 });
const word = fc.constantFrom("reset", "denied", "broke", "econnreset");
const status = fc.constantFrom(202, 404, 429, 503);
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
const some = <T>(value: fc.Arbitrary<T>) => fc.array(value, { maxLength: 2 });

const rule: fc.Arbitrary<Rule> = fc
  .record({
    condition: fc.record({
      kind: maybe(fc.array(kind, { minLength: 1, maxLength: 3 })),
      exitCode: maybe(fc.array(exitCode, { minLength: 1, maxLength: 2 })),
      message: maybe(fc.array(word, { minLength: 1, maxLength: 2 })),
      status: maybe(status.map((code) => [[code, code + 1] as const])),
      attempt: maybe(fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 3 })),
    }),
    verdict: fc.constantFrom("retry", "fail", "defer"),
    more: fc.record({ maxRetries: maybe(fc.integer({ min: 0, max: 3 })), backoff: maybe(backoff) }),
  })
  .map(({ condition, verdict, more }) => testRule(condition, verdict, more));

const condition = maybe(
  fc.constantFrom(
    "true",
    "false",
    "{{ attempt >= 3 }}",
    "{{ status_code >= 500 or error != None }}",
    "{{ result == 'pending' }}",
    "{{ not success }}",
    "{{ attempt / 0 > 1 }}", // errs
    "{{ no such thing", // cannot be parsed, and so was never accepted; decide must not fall over it
  ),
);

const workerLost: fc.Arbitrary<WorkerLostPolicy> = fc.record({
  charge: fc.constantFrom("own", "shared"),
  maxRetries: fc.integer({ min: 0, max: 4 }),
  backoff,
  poison: maybe(fc.record({ losses: fc.integer({ min: 1, max: 3 }), withinMs: fc.constantFrom(0, 1_000, 30_000) })),
});

const verdict = fc.constantFrom("retry" as const, "fail" as const);
const randomPolicy: fc.Arbitrary<Policy> = fc.record({
  preset: fc.constant("default" as const),
  maxAttempts: fc.integer({ min: 1, max: 6 }),
  backoff,
  maxElapsedMs: maybe(fc.integer({ min: 0, max: 300_000 })),
  maxDefers: fc.integer({ min: 0, max: 3 }),
  honourRetryAfter: fc.boolean(),
  retryAfterMaxMs: ms,
  retryOnExitCodes: some(exitCode),
  noRetryOnExitCodes: some(exitCode),
  retryOn: some(word),
  noRetryOn: some(word),
  retryWhen: condition,
  stopWhen: condition,
  rules: fc.array(rule, { maxLength: 3 }),
  fallback: fc.array(rule, { maxLength: 1 }),
  onTimeout: verdict,
  onUnknown: verdict,
  workerLost,
  budget: fc.record({
    tokens: maybe(fc.integer({ min: 0, max: 500 })),
    costUsd: maybe(fc.double({ min: 0, max: 9, noNaN: true })),
  }),
});
/** Half of them forgive more, so that stories become long. */
const patient = randomPolicy.map((policy) => ({
  ...policy,
  retryWhen: null,
  stopWhen: null,
  retryOnExitCodes: [],
  onUnknown: "retry" as const,
}));
const policy = fc.oneof(randomPolicy, patient, fc.constantFrom(...Object.values(presets)));

// Random outcomes, and what may happen to a job between them.

const aFailure: fc.Arbitrary<Failure> = fc
  .record({
    kind,
    message: fc.oneof(word, fc.string()),
    class: fc.oneof(
      { weight: 12, arbitrary: fc.constant("transient" as const) },
      fc.constantFrom("logical" as const, "invalid" as const, "budget" as const),
    ),
    code: maybe(fc.constantFrom("ECONNRESET", "E1")),
    exitCode: maybe(exitCode),
    status: maybe(status),
    retryAfterMs: maybe(fc.oneof(ms, fc.double({ noNaN: false }))),
    name: maybe(fc.constantFrom("Error", "TypeError")),
    stack: maybe(fc.string()),
  })
  .map(failure);

type Given = Outcome | ((job: Job) => Outcome);
const outcome: fc.Arbitrary<Given> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("completed" as const),
      result: fc.oneof(fc.constant("pending"), fc.jsonValue()),
    }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("failed" as const), failure: aFailure }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("timeout" as const), failure: aFailure }) },
  { weight: 2, arbitrary: fc.constant({ kind: "queue_timeout" as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: "deadline" as const }) },
  { weight: 4, arbitrary: fc.constantFrom(0, 1_000, 30_000, 60_000).map(lost) },
  { weight: 3, arbitrary: fc.constantFrom<Outcome>({ kind: "interrupted" }, { kind: "released", session: "s1" }) },
);
const usage: fc.Arbitrary<Usage | null> = maybe(
  fc.record({ tokensIn: fc.nat(60), tokensOut: fc.nat(60), costUsd: fc.double({ min: 0, max: 2, noNaN: true }) }),
);
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ kind: fc.constantFrom("cancel" as const, "retry" as const, "redrive" as const, "discard" as const) }),
  fc.record({ kind: fc.constant("reschedule" as const), runAt: fc.integer({ min: T0 - 1_000, max: T0 + 1_000_000 }) }),
);

interface Step {
  readonly outcome: Given;
  readonly usage: Usage | null;
  readonly random: number;
  readonly afterMs: number;
  /** Few sessions, so that the same one loses a job twice. */
  readonly session: string;
  /** A command before the run, and one while it runs. */
  readonly before: Command | null;
  readonly during: Command | null;
}
const seldom = fc.option(command, { nil: null, freq: 6 });
const step: fc.Arbitrary<Step> = fc.record({
  outcome,
  usage,
  random,
  afterMs: fc.integer({ min: 0, max: 60_000 }),
  session: fc.constantFrom("s1", "s2", "s3", "s4"),
  before: seldom,
  during: seldom,
});
const steps = fc.array(step, { maxLength: 40 });
const expireInMs = maybe(fc.integer({ min: 1, max: 60_000 }));

function isInQueue(given: Given): boolean {
  return typeof given !== "function" && (given.kind === "queue_timeout" || given.kind === "deadline");
}

/** Plays a story and calls back after every event, with the job before it; a job that has ended needs a command. */
function play(
  policy: Policy,
  expireInMs: number | null,
  steps: readonly Step[],
  after: (story: TestJobHistory, before: Job) => void,
) {
  const story = new TestJobHistory({ policy, expireInMs });
  const act = (change: () => void) => {
    const before = story.job;
    const { length } = story.events;
    change();
    if (story.events.length > length) after(story, before);
  };
  for (const { outcome, during, before, session, ...ending } of steps) {
    if (before !== null) act(() => story.command(before));
    if (isTerminal(story.job.state)) continue;
    if (!isInQueue(outcome)) {
      act(() => story.start(session));
      if (during !== null) act(() => story.command(during));
    }
    act(() => story.settle(outcome, ending));
  }
  return story;
}

const holds = (property: (story: TestJobHistory, before: Job) => void, runs = 400) =>
  fc.assert(
    fc.property(policy, expireInMs, steps, (policy, expireInMs, steps) => {
      play(policy, expireInMs, steps, property);
    }),
    { numRuns: IS_FULL ? runs : runs / 4 },
  );

describe("whatever the policy and whatever happens", () => {
  it("the events of a job give the state of its row", () => {
    holds((story) => {
      expect(foldEvents(story.events)).toEqual(progressOf(story.job));
      expect(story.fold()).toEqual(progressOf(story.job));
    });
  });

  it("every change writes one event, and the revision is their number", () => {
    holds((story, before) => {
      expect(story.job.revision).toBe(before.revision + 1);
      expect(story.job.revision).toBe(story.events.length);
    });
  });

  it("attempts and chapters only grow, by one", () => {
    holds(({ job, events }, before) => {
      const name = events.at(-1)?.name;
      expect(job.attempt - before.attempt).toBe(name === "attempt.started" ? 1 : 0);
      expect(job.chapter - before.chapter).toBe(name === "job.redriven" ? 1 : 0);
    });
  });

  it("no limit is exceeded between two redrives", () => {
    holds(({ job }) => {
      const { maxAttempts, workerLost, maxDefers, rules } = job.policy;
      if (workerLost.charge === "shared") expect(job.failures + job.losses).toBeLessThanOrEqual(maxAttempts);
      expect(job.failures).toBeLessThanOrEqual(maxAttempts);
      if (workerLost.charge === "own") expect(job.losses).toBeLessThanOrEqual(workerLost.maxRetries + 1);
      expect(job.handbacks).toBeLessThan(MAX_HANDBACKS);
      if (workerLost.poison === null) expect(job.streak).toBe(0);
      else expect(job.streak).toBeLessThanOrEqual(workerLost.poison.losses);
      for (const [index, matches] of Object.entries(job.ruleCounts ?? {})) {
        expect(matches).toBeLessThanOrEqual((rules[Number(index)]?.maxRetries as number) + 1);
      }
      // A deferral with a budget of its own is bound by that.
      const limited = rules.reduce((sum, { maxRetries }) => sum + (maxRetries === null ? 0 : maxRetries + 1), 0);
      expect(job.defers).toBeLessThanOrEqual(maxDefers + limited);
    });
  });

  it("a job that has not ended has an attempt left", () => {
    holds(({ job }) => {
      const { maxAttempts, workerLost } = job.policy;
      if (isTerminal(job.state)) return;
      if (workerLost.charge === "shared") expect(job.failures + job.losses).toBeLessThan(maxAttempts);
      expect(job.failures).toBeLessThan(maxAttempts);
      if (workerLost.charge === "own") expect(job.losses).toBeLessThanOrEqual(workerLost.maxRetries);
    });
  });

  it("one attempt raises at most one counter, by one", () => {
    holds(({ job, events }, before) => {
      if (events.at(-1)?.name === "job.redriven") return;
      const rules = (of: Job) => Object.values(of.ruleCounts ?? {}).reduce((sum, n) => sum + n, 0);
      const raised = [job.failures - before.failures, job.losses - before.losses, rules(job) - rules(before)];
      expect(raised.every((by) => by === 0 || by === 1)).toBe(true);
      expect(raised.reduce((sum, by) => sum + by)).toBeLessThanOrEqual(1);
    });
  });

  it("an end is final until a redrive", () => {
    holds(({ job, events }, before) => {
      if (!isTerminal(before.state)) return;
      const name = events.at(-1)?.name;
      expect(["job.redriven", "job.discarded"]).toContain(name);
      if (name === "job.discarded") expect(job.state).toBe("failed");
    });
  });

  it("a state has what belongs to it and nothing else", () => {
    holds(({ job }) => {
      expect(job.reason !== null).toBe(job.state === "failed");
      expect(job.finishedAt !== null).toBe(isTerminal(job.state));
      if (job.state !== "queued") expect(job.expiresAt).toBeNull();
      else expect(job.expiresAt).toBe(job.expireInMs === null ? null : job.runAt + job.expireInMs);
      if (job.state === "running") expect(job.firstStartedAt).not.toBeNull();
    });
  });

  it("a retry lies in the future by a delay within its bounds", () => {
    holds((story) => {
      const { event, decision } = story.settlements.at(-1) ?? {};
      if (decision?.kind !== "retry" || story.events.at(-1)?.name !== event?.name) return;
      expectBounded(decision, story.job.policy);
      expect(decision.runAt).toBe(story.job.runAt);
    });
  });

  it("a redrive resets the counters; attempt, revision and usage continue", () => {
    holds(({ job, events, now }, before) => {
      if (events.at(-1)?.name !== "job.redriven") return;
      expect(["failed", "cancelled"]).toContain(before.state);
      expect(progressOf(job)).toEqual({
        ...progressOf(before),
        ...NO_COUNTS,
        ...{ state: "queued", reason: null, chapter: before.chapter + 1, revision: before.revision + 1 },
        ...{ runAt: now, expiresAt: job.expireInMs === null ? null : now + job.expireInMs },
        ...{ cancelRequestedAt: null, firstStartedAt: null, finishedAt: null, discardedAt: null },
      });
    });
  });

  it("nothing is retried after a no of the task, and only what was completed succeeds", () => {
    holds((story) => {
      const data = story.events.at(-1)?.data;
      if (data === undefined || !("decision" in data)) return;
      const said = data.failure?.class ?? "transient";
      if (said !== "transient") expect(data.decision.kind).not.toBe("retry");
      if (data.decision.kind === "succeed") expect(data.decision.class).toBe("completed");
    });
  });

  it("the same inputs give the same decision, and none of them is changed", () => {
    fc.assert(
      fc.property(policy, step, (policy, { outcome, random, afterMs, usage }) => {
        const job = deepFrozen(testJob({ policy, usage }));
        const given = deepFrozen(typeof outcome === "function" ? outcome(job) : outcome);
        const made = decide(job, given, T0 + afterMs, random);
        expect(decide(structuredClone(job), structuredClone(given), T0 + afterMs, random)).toEqual(made);
      }),
      { numRuns: rounds(1_000) },
    );
  });

  it("decides with any draw, any instant and any counters, and never throws", () => {
    const count = fc.oneof(fc.nat(5), fc.constantFrom(18, 19, 20, 1_000_000));
    const counters = fc.record({ failures: count, losses: count, defers: count, handbacks: count, streak: count });
    fc.assert(
      fc.property(policy, step, counters, fc.double(), (policy, { outcome, afterMs }, counters, anyRandom) => {
        const job = testJob({ policy, ...counters });
        const decision = decide(job, typeof outcome === "function" ? outcome(job) : outcome, T0 + afterMs, anyRandom);
        if (decision.kind === "retry") expectBounded(decision, policy);
      }),
      { numRuns: rounds(1_000) },
    );
  });
});

function expectBounded({ delay, runAt }: Extract<Decision, { kind: "retry" }>, policy: Policy): void {
  const backoffs = [policy.backoff, policy.workerLost.backoff, ...policy.rules.map((each) => each.backoff)];
  const most = backoffs.map((each) => {
    return each === null || each.type === "none" ? 0 : Math.max(each.minMs, each.maxMs * (1 + each.jitter));
  });
  const { baseMs, delayMs } = delay;
  expect(Number.isSafeInteger(runAt) && Number.isSafeInteger(delayMs) && Number.isSafeInteger(baseMs)).toBe(true);
  expect(delayMs).toBeGreaterThanOrEqual(0);
  expect(runAt - delayMs).toBeGreaterThanOrEqual(T0);
  const asked = policy.honourRetryAfter ? policy.retryAfterMaxMs : 0;
  expect(delayMs).toBeLessThanOrEqual(Math.ceil(Math.max(...most, asked, MIN_DEFER_MS, RELEASE_DELAY_MS)));
  expect(Math.abs(delay.jitter)).toBeLessThan(1);
}

function deepFrozen<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const part of Object.values(value)) deepFrozen(part);
    Object.freeze(value);
  }
  return value;
}

describe("two budgets", () => {
  const outcomes = (failures: number, losses: number) => {
    const all = [...Array<Given>(failures).fill(failed()), ...Array<Given>(losses).fill(lost())];
    return fc.shuffledSubarray(all, { minLength: all.length });
  };
  const fluster = { ...presets.fluster, maxAttempts: 4 };

  it("count in any order: 3 failures and 100 losses leave one more attempt, which may succeed", () => {
    fc.assert(
      fc.property(outcomes(3, 100), (order) => {
        const story = new TestJobHistory({ policy: fluster }).run(...order);
        expect(story.job).toMatchObject({ state: "queued", attempt: 103, failures: 3, losses: 100 });
        expect(story.run(completed()).job).toMatchObject({ state: "succeeded", attempt: 104 });
      }),
      { numRuns: rounds(30) },
    );
  });

  it("end the job with whichever is overdrawn first, in any order", () => {
    fc.assert(
      fc.property(outcomes(4, 101), (order) => {
        const story = new TestJobHistory({ policy: fluster });
        for (const outcome of order) if (!isTerminal(story.job.state)) story.run(outcome);
        const { state, reason, failures, losses, attempt } = story.job;
        expect(state).toBe("failed");
        expect(reason).toBe(failures === 4 ? "exhausted" : "lost");
        expect(failures === 4 || losses === 101).toBe(true);
        expect(attempt).toBe(failures + losses);
      }),
      { numRuns: rounds(30) },
    );
  });

  it("that are shared allow maxAttempts attempts, whatever their outcome", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.infiniteStream(fc.constantFrom<Given>(failed(), lost())),
        (max, stream) => {
          const story = new TestJobHistory({ policy: { ...presets.noetl, maxAttempts: max } });
          while (!isTerminal(story.job.state)) story.run(stream.next().value as Given);
          expect(story.job.attempt).toBe(max);
          expect(story.job.failures + story.job.losses).toBe(max);
        },
      ),
    );
  });
});
