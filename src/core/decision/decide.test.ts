import { describe, expect, it } from "vitest";
import type { Job } from "../job/job.ts";
import {
  answered,
  completed,
  DEADLINE,
  exited,
  failed,
  INTERRUPTED,
  lost,
  MIDDLE,
  QUEUE_TIMEOUT,
  RELEASED,
  T0,
  type TestJobFields,
  testJob,
  testRule,
  timedOut,
  usageOf,
  WAITING,
  waitingJob,
} from "../job/testing-job.ts";
import type { Backoff, Policy } from "../policy/policy.ts";
import { presets } from "../policy/presets.ts";
import { type BudgetNow, NO_AMOUNT } from "./budget.ts";
import { type Decision, decide, MAX_HANDBACKS, MIN_DEFER_MS, RELEASE_DELAY_MS } from "./decide.ts";
import type { Crash, Excuse } from "./evidence.ts";
import { matchName } from "./match.ts";
import type { Outcome } from "./outcome.ts";

const NOW = T0 + 1_000;

type Given = Outcome | ((job: Job) => Outcome);

function decided(parts: TestJobFields, outcome: Given, { now = NOW, random = MIDDLE } = {}): Decision {
  const job = testJob(parts);
  return decide(job, typeof outcome === "function" ? outcome(job) : outcome, now, random);
}

/** Step, what follows, and what decided it, in a line. */
function told(decision: Decision): string {
  const { step, kind, match } = decision;
  const end = kind === "fail" ? ` ${decision.reason}${decision.detail === null ? "" : ` (${decision.detail})`}` : "";
  return `${step}: ${kind}${end}${match === undefined ? "" : `, ${matchName(match)}`}`;
}

const PLAIN = { maxMs: 3_600_000, jitter: 0, minMs: 0, immediate: 0, clampAfterJitter: false };
const fixed = (delayMs: number): Backoff => ({ type: "fixed", delayMs, ...PLAIN });
const lossPolicy = (parts: Partial<Policy["workerLost"]>) => ({ ...presets.default.workerLost, ...parts });
const SHARED = { charge: "shared", maxRetries: 0, backoff: { type: "none" }, poison: null } as const;

// Ways for a job to be in trouble; a job can be in several at once.
const cancelled: TestJobFields = { cancelRequestedAt: NOW - 1 };
const broke: TestJobFields = { usage: usageOf(100, 5) };
const BUDGET: Partial<Policy> = { budget: { tokens: 100, costUsd: 5 } };
const poisoned: TestJobFields = { streak: 2, streakSession: "s0", losses: 2 };
const POLLING: Partial<Policy> = { retryWhen: "{{ result == 'pending' }}" };
const LATE: Partial<Policy> = { maxElapsedMs: 500 };
const ONCE: Partial<Policy> = { maxAttempts: 1, workerLost: lossPolicy({ maxRetries: 0 }) };

describe("budgets that cover a job", () => {
  const spent: BudgetNow = {
    ...{ jobId: "job_p", limit: { tokens: 100, costUsd: null }, spent: { tokens: 60, costUsd: 0 } },
    ...{ live: { tokens: 40, costUsd: 0 }, reserved: NO_AMOUNT },
  };
  const by = (outcome: Given, budget: BudgetNow = spent, parts: TestJobFields = {}) => {
    const job = testJob({ policy: { maxAttempts: 5 }, ...parts });
    return decide(job, typeof outcome === "function" ? outcome(job) : outcome, NOW, MIDDLE, [budget]);
  };

  it("end it where another attempt would spend more, with their numbers", () => {
    for (const outcome of [failed(), timedOut(), lost()]) {
      const shortage = { jobId: "job_p", part: "tokens", limit: 100, used: 100, left: 0, wanted: 0 };
      expect(by(outcome)).toMatchObject({ kind: "fail", reason: "budget", step: "budget", charge: null, shortage });
    }
    expect(by(failed(), { ...spent, live: NO_AMOUNT })).toMatchObject({ kind: "retry" });
  });

  it("leave alone what is done, waits, was handed back or was never started", () => {
    expect(by(completed())).toMatchObject({ kind: "succeed" });
    expect(by(WAITING)).toMatchObject({ kind: "block" });
    for (const outcome of [INTERRUPTED, RELEASED]) expect(by(outcome)).toMatchObject({ kind: "retry" });
    expect(by(DEADLINE)).toMatchObject({ kind: "fail", reason: "unschedulable" });
  });

  it("end it without an attempt where it cannot start, unless it was cancelled", () => {
    const shortage = { jobId: "job_p", part: "tokens", limit: 100, used: 100, left: 0, wanted: 0 } as const;
    const refused = by({ kind: "over_budget", shortage }, spent, waitingJob());
    expect(refused).toMatchObject({ kind: "fail", reason: "budget", step: "budget", class: "over_budget", shortage });
    expect(by({ kind: "over_budget", shortage }, spent, cancelled)).toMatchObject({ kind: "cancel" });
  });

  it("judge a job by the limit of its ledger, which may have been raised", () => {
    const own = { ...spent, jobId: testJob().id, limit: { tokens: 150, costUsd: 5 } };
    const parts = { usage: usageOf(100), policy: { ...BUDGET, maxAttempts: 5 } };
    expect(by(failed(), own, parts)).toMatchObject({ kind: "retry" });
    expect(by(failed(), { ...own, limit: { tokens: 100, costUsd: 5 } }, parts)).toMatchObject({ reason: "budget" });
  });
});

describe("decide takes the first step that matches:", () => {
  // biome-ignore format: a table, one row a line
  const ROWS: [name: string, job: TestJobFields, outcome: Given, decision: string][] = [
    // 1. The work is done.
    ["completed succeeds", {}, completed(), "completed: succeed"],
    ["completed wins over a cancel request", cancelled, completed(), "completed: succeed"],
    ["completed wins over a spent budget", { ...broke, policy: BUDGET }, completed(), "completed: succeed"],
    ["completed wins over everything at once", { ...cancelled, ...broke, ...poisoned, handbacks: 19, policy: { ...BUDGET, ...LATE } }, completed(), "completed: succeed"],
    ["completed with another result than the polled one succeeds", { policy: POLLING }, completed("ready"), "completed: succeed"],
    ["completed succeeds although rules and stopWhen would fail it", { policy: { stopWhen: "true", rules: [testRule({}, "fail")] } }, completed(), "completed: succeed"],
    ["completed succeeds when its retryWhen errs", { policy: { retryWhen: "{{ attempt / 0 > 1 }}" } }, completed(), "completed: succeed"],

    // 2. Somebody wants it cancelled.
    ["a cancel wins over a polled result", { ...cancelled, policy: POLLING }, completed("pending"), "cancel: cancel"],
    ["a cancel wins over a spent budget", { ...cancelled, ...broke, policy: BUDGET }, failed(), "cancel: cancel"],
    ["a cancel wins over a handback", cancelled, INTERRUPTED, "cancel: cancel"],
    ["a cancel wins over a release", cancelled, RELEASED, "cancel: cancel"],
    ["a cancel wins over the deadline", cancelled, DEADLINE, "cancel: cancel"],
    ["a cancel wins over a queue timeout", cancelled, QUEUE_TIMEOUT, "cancel: cancel"],
    ["a cancel wins over a loss", { ...cancelled, ...poisoned }, lost(), "cancel: cancel"],
    ["a cancel wins over a timeout", cancelled, timedOut(), "cancel: cancel"],
    ["a cancel wins over the task's own verdict", cancelled, failed({ class: "logical" }), "cancel: cancel"],

    // 3. There is nothing left to pay with.
    ["a spent budget wins over a polled result", { ...broke, policy: { ...BUDGET, ...POLLING } }, completed("pending"), "budget: fail budget (tokens)"],
    ["a spent budget wins over a handback", { ...broke, policy: BUDGET }, INTERRUPTED, "budget: fail budget (tokens)"],
    ["a spent budget wins over a release", { ...broke, policy: BUDGET }, RELEASED, "budget: fail budget (tokens)"],
    ["a spent budget wins over the deadline", { ...broke, policy: BUDGET }, DEADLINE, "budget: fail budget (tokens)"],
    ["a spent budget wins over a queue timeout", { ...broke, policy: BUDGET }, QUEUE_TIMEOUT, "budget: fail budget (tokens)"],
    ["a spent budget wins over poison", { ...broke, ...poisoned, policy: BUDGET }, lost(), "budget: fail budget (tokens)"],
    ["a spent budget wins over a timeout", { ...broke, policy: BUDGET }, timedOut(), "budget: fail budget (tokens)"],
    ["a spent budget wins over the task's own verdict", { ...broke, policy: BUDGET }, failed({ class: "logical" }), "budget: fail budget (tokens)"],
    ["money can be spent while tokens are left", { usage: usageOf(99, 5), policy: BUDGET }, failed(), "budget: fail budget (costUsd)"],
    ["a task that reports a spent budget is final, although none was counted", { policy: { maxAttempts: 5, rules: [testRule({}, "retry")] } }, failed({ class: "budget" }), "budget: fail budget (reported)"],
    ["a task that reports it and then times out is final too", { policy: { maxAttempts: 5 } }, timedOut({ class: "budget" }), "budget: fail budget (reported)"],
    ["a cancel wins over a reported budget", cancelled, failed({ class: "budget" }), "cancel: cancel"],
    ["a budget that is not spent says nothing", { usage: usageOf(99, 4.9), policy: { ...BUDGET, maxAttempts: 2 } }, failed(), "retry: retry, onUnknown"],

    // 4. Handed back.
    ["an interruption is not charged, although nothing is left", { losses: 100, policy: LATE }, INTERRUPTED, "handback: retry, interrupted"],
    ["a release is not charged, although nothing is left", { losses: 100, policy: LATE }, RELEASED, "handback: retry, released"],
    ["rules do not apply to a handback", { policy: { rules: [testRule({}, "fail")], stopWhen: "true" } }, INTERRUPTED, "handback: retry, interrupted"],
    ["an interruption is a loss to a job that may run at most once", { policy: ONCE }, INTERRUPTED, "exhausted: fail lost, interrupted"],
    ["a release is none to a job that may run at most once: it had not started", { policy: ONCE }, RELEASED, "handback: retry, released"],
    ["an interruption is free where failures may be retried, if not losses", { policy: { ...ONCE, maxAttempts: 2 } }, INTERRUPTED, "handback: retry, interrupted"],
    ["an interruption is free where losses may be retried, if not failures", { policy: { workerLost: lossPolicy({ maxRetries: 1 }) } }, INTERRUPTED, "handback: retry, interrupted"],
    ["an interruption is free where both are charged to one run", { policy: { workerLost: SHARED } }, INTERRUPTED, "handback: retry, interrupted"],
    ["waiting for children is not charged, although nothing is left", { losses: 100, failures: 5, policy: LATE }, WAITING, "children: block"],
    ["a cancel wins over waiting", cancelled, WAITING, "cancel: cancel"],
    ["a spent budget wins over waiting", { ...broke, policy: BUDGET }, WAITING, "budget: fail budget (tokens)"],
    ["the 20th handback counts as lost", { handbacks: 19 }, INTERRUPTED, "retry: retry, handed back 20 times in a row"],
    ["the 20th release counts as lost", { handbacks: 19 }, RELEASED, "retry: retry, handed back 20 times in a row"],
    ["the 20th handback fails as lost when no loss is left", { handbacks: 19, losses: 100 }, INTERRUPTED, "exhausted: fail lost, handed back 20 times in a row"],
    ["the 20th handback is bound by maxElapsed like a loss", { handbacks: 19, policy: LATE }, INTERRUPTED, "elapsed: fail budget (elapsed), handed back 20 times in a row"],

    // 5. Too late to be scheduled.
    ["the deadline is final, whatever is left", { policy: { maxAttempts: 9 } }, DEADLINE, "deadline: fail unschedulable (deadline)"],
    ["the deadline is final after a start, too", { failures: 1, policy: { maxAttempts: 9 } }, DEADLINE, "deadline: fail unschedulable (deadline)"],
    ["rules do not apply to the deadline", { policy: { rules: [testRule({}, "retry")] } }, DEADLINE, "deadline: fail unschedulable (deadline)"],

    // 6. Lost.
    ["poison wins over a spent loss budget", { ...poisoned, losses: 100 }, lost(), "poison: fail poison (3 quick losses in a row)"],
    ["poison wins over maxElapsed", { ...poisoned, policy: LATE }, lost(), "poison: fail poison (3 quick losses in a row)"],
    ["a spent loss budget wins over maxElapsed", { losses: 100, policy: LATE }, lost(), "exhausted: fail lost, lease_expired"],
    ["a loss is bound by maxElapsed", { policy: LATE }, lost(), "elapsed: fail budget (elapsed), lease_expired"],
    ["rules and conditions do not apply to a loss", { policy: { rules: [testRule({}, "fail")], stopWhen: "true", retryWhen: "false" } }, lost(), "retry: retry, lease_expired"],
    ["lists do not apply to a loss", { policy: { noRetryOn: ["lease"], retryOnExitCodes: [7], onUnknown: "fail" } }, lost(), "retry: retry, lease_expired"],
    ["a loss does not spend maxAttempts", { failures: 0, policy: { maxAttempts: 1 } }, lost(), "retry: retry, lease_expired"],
    ["a shared loss does spend maxAttempts", { policy: { maxAttempts: 1, workerLost: SHARED } }, lost(), "exhausted: fail lost, lease_expired"],
    ["a command that dies by a signal is a failure, not a loss", {}, failed({ kind: "signal", signal: "SIGKILL", exitCode: 137 }), "exhausted: fail exhausted, onUnknown"],
    ["a command out of memory is a failure, not a loss", {}, failed({ kind: "oom", exitCode: 137 }), "exhausted: fail exhausted, onUnknown"],

    // 7. Judged by its kind.
    ["the task's own verdict wins over everything below", { policy: { maxAttempts: 9, ...LATE } }, failed({ class: "logical" }), "not_retryable: fail rejected, rejected by the task"],
    ["invalid input wins over everything below", { policy: { ...LATE } }, failed({ class: "invalid" }), "not_retryable: fail invalid, invalid input"],
    ["a rule to fail wins over the spent budget of runs", { policy: { rules: [testRule({}, "fail")] } }, failed(), "not_retryable: fail rejected, rules[0]"],
    ["stopWhen", { policy: { stopWhen: "true" } }, failed(), "not_retryable: fail rejected, stopWhen"],
    ["stopWhen on a polled result", { policy: { ...POLLING, maxAttempts: 9, stopWhen: "{{ attempt >= 1 }}" } }, completed("pending"), "not_retryable: fail rejected, stopWhen"],
    ["retryWhen", { policy: { retryWhen: "false" } }, failed(), "not_retryable: fail rejected, retryWhen"],
    ["onTimeout", { policy: { onTimeout: "fail" } }, timedOut(), "not_retryable: fail timeout, onTimeout"],
    ["noRetryOnExitCodes", { policy: { noRetryOnExitCodes: [7] } }, exited(7), "not_retryable: fail rejected, noRetryOnExitCodes"],
    ["retryOnExitCodes", { policy: { retryOnExitCodes: [8] } }, exited(7), "not_retryable: fail rejected, retryOnExitCodes"],
    ["noRetryOn", { policy: { noRetryOn: ["broke"] } }, failed(), "not_retryable: fail rejected, noRetryOn"],
    ["the preset's own rules", {}, answered(404), "not_retryable: fail rejected, preset default"],
    ["onUnknown", { policy: { onUnknown: "fail" } }, failed(), "not_retryable: fail rejected, onUnknown"],
    ["a queue timeout that a rule refuses, never started", { ...waitingJob(), policy: { rules: [testRule({ kind: ["queue_timeout"] }, "fail")] } }, QUEUE_TIMEOUT, "not_retryable: fail unschedulable, rules[0]"],

    // 8. Its budget is used up, before 9 is asked.
    ["the last run failed", { policy: LATE }, failed(), "exhausted: fail exhausted, onUnknown"],
    ["the last run timed out", { policy: LATE }, timedOut(), "exhausted: fail timeout, onTimeout"],
    ["the last poll is still not what was waited for", { policy: { ...POLLING, ...LATE } }, completed("pending"), "exhausted: fail exhausted, retryWhen"],
    ["nobody ever started it", { ...waitingJob() }, QUEUE_TIMEOUT, "exhausted: fail unschedulable, queue timeout"],
    ["nobody started it in this chapter", { state: "queued", chapter: 2, firstStartedAt: null }, QUEUE_TIMEOUT, "exhausted: fail unschedulable, queue timeout"],
    ["nobody started it again", { failures: 1, policy: { maxAttempts: 2 } }, QUEUE_TIMEOUT, "exhausted: fail exhausted, queue timeout"],
    ["a rule's own budget is used up", { ruleCounts: { 0: 2 }, policy: { maxAttempts: 9, rules: [testRule({}, "retry", { maxRetries: 2 })] } }, failed(), "exhausted: fail exhausted, rules[0]"],
    ["a rule's own budget of none is used up at once", { policy: { maxAttempts: 9, rules: [testRule({}, "retry", { maxRetries: 0 })] } }, failed(), "exhausted: fail exhausted, rules[0]"],
    ["a rule's own budget is used up by a timeout", { policy: { maxAttempts: 9, rules: [testRule({}, "retry", { maxRetries: 0 })] } }, timedOut(), "exhausted: fail timeout, rules[0]"],

    // 9. It would take too long.
    ["a retry would lie beyond maxElapsed", { policy: { ...LATE, maxAttempts: 2 } }, failed(), "elapsed: fail budget (elapsed), onUnknown"],
    ["a deferral would lie beyond maxElapsed", { policy: { ...LATE, rules: [testRule({}, "defer")] } }, failed(), "elapsed: fail budget (elapsed), rules[0]"],
    ["a poll would lie beyond maxElapsed", { policy: { ...LATE, ...POLLING, maxAttempts: 2 } }, completed("pending"), "elapsed: fail budget (elapsed), retryWhen"],

    // 10. Again.
    ["a failure", { policy: { maxAttempts: 2 } }, failed(), "retry: retry, onUnknown"],
    ["a timeout", { policy: { maxAttempts: 2 } }, timedOut(), "retry: retry, onTimeout"],
    ["a queue timeout", { ...waitingJob(), policy: { maxAttempts: 2 } }, QUEUE_TIMEOUT, "retry: retry, queue timeout"],
    ["a poll", { policy: { ...POLLING, maxAttempts: 2 } }, completed("pending"), "retry: retry, retryWhen"],
    ["an allowed exit code", { policy: { maxAttempts: 2, retryOnExitCodes: [7] } }, exited(7), "retry: retry, retryOnExitCodes"],
    ["an allowed message", { policy: { maxAttempts: 2, retryOn: ["broke"] } }, failed(), "retry: retry, retryOn"],
    ["a rule", { policy: { maxAttempts: 2, rules: [testRule({}, "retry")] } }, failed(), "retry: retry, rules[0]"],
    ["a deferral", { policy: { rules: [testRule({}, "defer")] } }, failed(), "retry: retry, rules[0]"],
    ["a preset's own rule", { policy: { ...presets.opal } }, failed({ kind: "oom" }), "retry: retry, preset opal"],
    ["a loss found by its lease", {}, lost(), "retry: retry, lease_expired"],
    ["a loss found by its worker", {}, { kind: "lost", why: "worker_gone", session: "s1", renewedAt: null, by: null }, "retry: retry, worker_gone"],
    ["a run that was killed and nobody asked", {}, { kind: "lost", why: "killed", session: "s1", renewedAt: null, by: null }, "retry: retry, killed"],
  ];

  it.each(ROWS)("%s", (_, parts, outcome, decision) => {
    expect(told(decided(parts, outcome))).toBe(decision);
  });
});

describe("a decision's class", () => {
  it.each<[string, TestJobFields, Given]>([
    ["completed", {}, completed()],
    ["polled", { policy: POLLING }, completed("pending")],
    ["failure", {}, failed()],
    ["timeout", {}, timedOut()],
    ["queue_timeout", {}, QUEUE_TIMEOUT],
    ["queue_timeout", {}, DEADLINE],
    ["lost", {}, lost()],
    ["lost", { handbacks: 19 }, INTERRUPTED],
    ["handback", {}, INTERRUPTED],
    ["waiting", {}, WAITING],
    ["handback", {}, RELEASED],
  ])("is %s", (cls, parts, outcome) => {
    expect(decided(parts, outcome).class).toBe(cls);
  });

  it.each<[string, Given]>([
    ["polled", completed("pending")],
    ["failure", failed()],
    ["timeout", timedOut()],
    ["queue_timeout", QUEUE_TIMEOUT],
    ["queue_timeout", DEADLINE],
    ["lost", lost()],
    ["handback", INTERRUPTED],
    ["handback", RELEASED],
  ])("is %s, too, where a cancel or a spent budget decides", (cls, outcome) => {
    expect(decided({ ...cancelled, policy: POLLING }, outcome)).toMatchObject({ step: "cancel", class: cls });
    expect(decided({ ...broke, policy: { ...POLLING, ...BUDGET } }, outcome)).toMatchObject({
      step: "budget",
      class: cls,
    });
  });
});

describe("what an attempt counts against", () => {
  const FIVE = { policy: { maxAttempts: 5 } };
  const own = { policy: { maxAttempts: 5, rules: [testRule({}, "retry", { maxRetries: 3 })] } };
  const deferring = { policy: { maxAttempts: 5, rules: [testRule({}, "defer")] } };

  // biome-ignore format: a table, one row a line
  const ROWS: [name: string, job: TestJobFields, outcome: Given, charge: [string, number, number, number] | null, counters: object][] = [
    ["a success to nothing", { failures: 2 }, completed(), null, { failures: 2 }],
    ["a cancel to nothing", { ...cancelled, failures: 2 }, failed(), null, { failures: 2 }],
    ["a spent budget to nothing more", { ...broke, policy: BUDGET }, failed(), null, { failures: 0 }],
    ["the deadline to nothing", {}, DEADLINE, null, { failures: 0 }],
    ["a handback to nothing", { failures: 2, losses: 3, handbacks: 4 }, INTERRUPTED, null, { failures: 2, losses: 3, handbacks: 5 }],
    ["a failure to maxAttempts", { ...FIVE, failures: 2 }, failed(), ["maxAttempts", 3, 5, 2], { failures: 3, losses: 0 }],
    ["the last failure to maxAttempts", { ...FIVE, failures: 4 }, failed(), ["maxAttempts", 5, 5, 0], { failures: 5 }],
    ["a timeout to maxAttempts", FIVE, timedOut(), ["maxAttempts", 1, 5, 4], { failures: 1 }],
    ["a queue timeout to maxAttempts", FIVE, QUEUE_TIMEOUT, ["maxAttempts", 1, 5, 4], { failures: 1 }],
    ["a poll to maxAttempts", { policy: { ...POLLING, maxAttempts: 5 } }, completed("pending"), ["maxAttempts", 1, 5, 4], { failures: 1 }],
    ["a rejected failure to maxAttempts, too", FIVE, failed({ class: "logical" }), ["maxAttempts", 1, 5, 4], { failures: 1 }],
    ["a failure not to its losses", { ...FIVE, losses: 50 }, failed(), ["maxAttempts", 1, 5, 4], { failures: 1, losses: 50 }],
    ["a loss to workerLost", { losses: 2 }, lost(), ["workerLost", 3, 100, 97], { failures: 0, losses: 3 }],
    ["a loss not to its failures", { failures: 4, ...FIVE }, lost(), ["workerLost", 1, 100, 99], { failures: 4, losses: 1 }],
    ["the 20th handback to workerLost", { handbacks: 19 }, INTERRUPTED, ["workerLost", 1, 100, 99], { losses: 1, handbacks: 0 }],
    ["a shared loss to maxAttempts", { failures: 1, losses: 1, policy: { maxAttempts: 5, workerLost: SHARED } }, lost(), ["maxAttempts", 3, 5, 2], { failures: 1, losses: 2 }],
    ["a failure beside shared losses to maxAttempts", { failures: 1, losses: 2, policy: { maxAttempts: 5, workerLost: SHARED } }, failed(), ["maxAttempts", 4, 5, 1], { failures: 2, losses: 2 }],
    ["poison to workerLost", poisoned, lost(), ["workerLost", 3, 100, 97], { losses: 3, streak: 3 }],
    ["a rule without a budget to maxAttempts", { policy: { maxAttempts: 5, rules: [testRule({}, "retry")] } }, failed(), ["maxAttempts", 1, 5, 4], { failures: 1, ruleCounts: null }],
    ["a rule's match to the rule", own, failed(), ["rules[0]", 1, 3, 2], { failures: 0, defers: 0, ruleCounts: { 0: 1 } }],
    ["a rule's match not to maxAttempts, though it is spent", { ...own, failures: 4, ruleCounts: { 0: 2 } }, failed(), ["rules[0]", 3, 3, 0], { failures: 4, ruleCounts: { 0: 3 } }],
    ["a rule's match beside those of other rules", { ...own, ruleCounts: { 7: 1 } }, failed(), ["rules[0]", 1, 3, 2], { ruleCounts: { 0: 1, 7: 1 } }],
    ["a deferral to nothing", { ...deferring, defers: 7 }, failed(), null, { failures: 0, defers: 8 }],
    ["a deferral with a budget to the rule", { policy: { rules: [testRule({}, "defer", { maxRetries: 3 })] } }, failed(), ["rules[0]", 1, 3, 2], { failures: 0, defers: 1, ruleCounts: { 0: 1 } }],
    ["the last deferral to nothing", { ...deferring, defers: 999 }, failed(), null, { failures: 0, defers: 1_000 }],
    ["one deferral more to maxAttempts", { ...deferring, defers: 1_000 }, failed(), ["maxAttempts", 1, 5, 4], { failures: 1, defers: 1_000 }],
  ];

  it.each(ROWS)("%s", (_, parts, outcome, charge, counters) => {
    const decision = decided(parts, outcome);
    const [to, used, limit, left] = charge ?? [];
    expect(decision.charge).toEqual(charge && { to, used, limit, left });
    expect(decision.counters).toMatchObject(counters);
  });
});

describe("at the limits", () => {
  it("maxAttempts 1 allows one attempt", () => {
    expect(decided({ policy: { maxAttempts: 1 } }, failed()).kind).toBe("fail");
  });

  it("the last counted attempt is the last", () => {
    const policy = { maxAttempts: 3 };
    expect(decided({ failures: 1, policy }, failed()).kind).toBe("retry");
    expect(decided({ failures: 2, policy }, failed()).kind).toBe("fail");
  });

  it("workerLost.maxRetries 2 grants three losses, and none grants one", () => {
    const policy = { workerLost: lossPolicy({ maxRetries: 2, poison: null }) };
    expect(decided({ losses: 1, policy }, lost()).kind).toBe("retry");
    expect(decided({ losses: 2, policy }, lost())).toMatchObject({
      kind: "fail",
      charge: { used: 3, limit: 2, left: 0 },
    });
    expect(decided({ policy: { workerLost: lossPolicy({ maxRetries: 0 }) } }, lost()).kind).toBe("fail");
  });

  it("a rule's maxRetries 2 grants two matches", () => {
    const policy = { rules: [testRule({}, "retry", { maxRetries: 2 })] };
    expect(decided({ ruleCounts: { 0: 1 }, policy }, failed())).toMatchObject({ kind: "retry", charge: { left: 0 } });
    expect(decided({ ruleCounts: { 0: 2 }, policy }, failed())).toMatchObject({ kind: "fail", reason: "exhausted" });
  });

  it("a retry exactly at maxElapsed may still run, a millisecond later not", () => {
    const policy = { maxAttempts: 2, maxElapsedMs: 10_000, backoff: fixed(2_000) };
    expect(decided({ policy }, failed(), { now: T0 + 8_000 })).toMatchObject({ kind: "retry", runAt: T0 + 10_000 });
    expect(decided({ policy }, failed(), { now: T0 + 8_001 })).toMatchObject({
      kind: "fail",
      detail: "elapsed",
      step: "elapsed",
    });
  });

  it("maxElapsed counts from the first start since the redrive, not of the attempt", () => {
    const policy = { maxAttempts: 2, maxElapsedMs: 10_000, backoff: fixed(0) };
    const parts = { policy, startedAt: T0 + 60_000, firstStartedAt: T0 };
    expect(decided(parts, failed(), { now: T0 + 61_000 })).toMatchObject({ kind: "fail", detail: "elapsed" });
  });

  it("maxElapsed does not count for a job that never started", () => {
    const parts = { ...waitingJob(), policy: { maxAttempts: 2, maxElapsedMs: 0 } };
    expect(decided(parts, QUEUE_TIMEOUT, { now: T0 + 3_600_000 }).kind).toBe("retry");
    const redriven = { ...parts, attempt: 5, startedAt: T0 };
    expect(decided(redriven, QUEUE_TIMEOUT, { now: T0 + 3_600_000 }).kind).toBe("retry");
  });

  it("the 19th handback in a row does not count, the 20th is a loss and restarts the count", () => {
    expect(decided({ handbacks: MAX_HANDBACKS - 2 }, RELEASED)).toMatchObject({
      step: "handback",
      counters: { handbacks: 19, losses: 0 },
    });
    expect(decided({ handbacks: MAX_HANDBACKS - 1 }, RELEASED)).toMatchObject({
      step: "retry",
      counters: { handbacks: 0, losses: 1 },
    });
  });

  it.each<[string, Given]>([
    ["a failure", failed()],
    ["a loss", lost()],
    ["a success", completed()],
    ["a timeout", timedOut()],
    ["a queue timeout", QUEUE_TIMEOUT],
  ])("%s ends a row of handbacks", (_, outcome) => {
    expect(decided({ handbacks: 19, policy: { maxAttempts: 2 } }, outcome).counters.handbacks).toBe(0);
  });
});

describe("the poison guard", () => {
  const quick = { streak: 2, streakSession: "s0", losses: 2 };

  it("lets two quick losses pass and fails the third", () => {
    expect(decided({}, lost()).counters).toMatchObject({ streak: 1, streakSession: "s1" });
    expect(decided({ streak: 1, streakSession: "s0" }, lost())).toMatchObject({
      kind: "retry",
      counters: { streak: 2 },
    });
    expect(decided(quick, lost())).toMatchObject({
      kind: "fail",
      reason: "poison",
      counters: { streak: 3, losses: 3 },
    });
  });

  it("counts a last renewal exactly 30 s after the start, and not a millisecond later", () => {
    expect(decided(quick, lost(30_000))).toMatchObject({ reason: "poison" });
    expect(decided(quick, lost(30_001))).toMatchObject({ kind: "retry", counters: { streak: 0, streakSession: null } });
  });

  describe("needs evidence", () => {
    const calm = { lost: 0, watchedMs: 600_000 };
    const crashed = (crash: Crash, startedAt = NOW - 1_000, parts: TestJobFields = {}) =>
      decided({ ...quick, startedAt, ...parts }, (job) => ({ ...lost()(job), crash }));

    it("which a loss in company is not, however often it comes", () => {
      const crash = { beside: 3 };
      expect(crashed(crash)).toMatchObject({ kind: "retry", counters: { streak: 3, evidence: 0 } });
      const convinced = { streak: 50, evidence: 500 };
      expect(crashed(crash, NOW - 1_000, convinced)).toMatchObject({ kind: "retry", counters: { streak: 51 } });
    });

    it("which a loss alone is, more so where no other worker dies, and soon after the start", () => {
      expect(crashed({ beside: 0, others: calm })).toMatchObject({ reason: "poison", counters: { evidence: 67 } });
      const slow = crashed({ beside: 0, others: calm }, NOW - 16_000);
      expect(slow).toMatchObject({ kind: "retry", counters: { streak: 3, evidence: 55 } });
      const dying = { beside: 0, others: { lost: 20, watchedMs: 60_000 } };
      expect(crashed(dying)).toMatchObject({ kind: "retry", counters: { streak: 3, evidence: 5 } });
      // It adds up.
      expect(crashed(dying, NOW - 1_000, { evidence: 55 })).toMatchObject({
        reason: "poison",
        counters: { evidence: 60 },
      });
    });

    it.each<Excuse>(["engine_away", "stopped", "alive", "unknown"])(
      "and leaves the streak as it was for: %s",
      (excuse) => {
        const known = { evidence: 90 };
        expect(crashed({ beside: 0, excuse }, NOW - 1_000, known)).toMatchObject({
          kind: "retry",
          counters: { ...known, streak: 2, streakSession: "s0", losses: 3 },
        });
      },
    );
  });

  it("does not count the same session twice", () => {
    const again = decided({ ...quick, streakSession: "s1" }, lost());
    expect(again).toMatchObject({ kind: "retry", counters: { streak: 2, streakSession: "s1", losses: 3 } });
  });

  it("counts an attempt without a renewal, and one of an unknown session", () => {
    const unseen: Outcome = { kind: "lost", why: "worker_gone", session: null, renewedAt: null, by: null };
    expect(decided(quick, unseen)).toMatchObject({ reason: "poison" });
    expect(decided({ streak: 0 }, unseen).counters).toMatchObject({ streak: 1, streakSession: null });
    expect(decided({ streak: 1, streakSession: null }, unseen).counters.streak).toBe(1);
  });

  it("reads a renewal before the start, or an unknown start, as 0 ms", () => {
    expect(decided(quick, lost(-5_000))).toMatchObject({ reason: "poison" });
    const outcome: Outcome = { kind: "lost", why: "killed", session: "s1", renewedAt: NOW, by: null };
    expect(decided({ ...quick, startedAt: null }, outcome)).toMatchObject({ reason: "poison" });
  });

  it.each<[string, Given]>([
    ["a failure", failed()],
    ["a timeout", timedOut()],
    ["a queue timeout", QUEUE_TIMEOUT],
    ["an interruption", INTERRUPTED],
    ["a release", RELEASED],
    ["a poll", completed("pending")],
    ["a loss after a long run", lost(60_000)],
  ])("is reset by %s", (_, outcome) => {
    const { kind, counters } = decided(
      { ...quick, policy: { ...POLLING, retryWhen: "true", maxAttempts: 9 } },
      outcome,
    );
    expect({ kind, ...counters }).toMatchObject({ kind: "retry", streak: 0, streakSession: null });
  });

  it("is reset by the 20th handback, which is a loss of another kind", () => {
    expect(decided({ ...quick, handbacks: 19 }, RELEASED)).toMatchObject({
      kind: "retry",
      counters: { streak: 0, losses: 3 },
    });
  });

  it("can be set to other numbers", () => {
    const policy = { workerLost: lossPolicy({ poison: { losses: 1, withinMs: 0 } }) };
    expect(decided({ policy }, lost(0))).toMatchObject({ reason: "poison" });
    expect(decided({ policy }, lost(1))).toMatchObject({ kind: "retry" });
    const unseen: Outcome = { kind: "lost", why: "worker_gone", session: "s1", renewedAt: null, by: null };
    expect(decided({ policy }, unseen)).toMatchObject({ reason: "poison" });
  });

  it("can be off, and counts nothing then", () => {
    const policy = { workerLost: lossPolicy({ poison: null }) };
    expect(decided({ ...quick, policy }, lost())).toMatchObject({
      kind: "retry",
      counters: { streak: 0, streakSession: null },
    });
  });
});

describe("the delay", () => {
  const r = (parts: TestJobFields, outcome: Given, random = MIDDLE) => {
    const decision = decided(parts, outcome, { random });
    return decision.kind === "retry" ? decision.delay : decision;
  };

  it("is added to now, and has base, jitter and delay", () => {
    expect(decided({ policy: { maxAttempts: 9 } }, failed(), { random: 0.75 })).toMatchObject({
      runAt: NOW + 1_100,
      delay: { baseMs: 1_000, jitter: 0.1, delayMs: 1_100 },
    });
  });

  it("grows with the number of the retry within its class", () => {
    const policy = { maxAttempts: 9 };
    expect([0, 1, 2, 6].map((failures) => r({ failures, losses: 5, policy }, failed()))).toMatchObject([
      { delayMs: 1_000 },
      { delayMs: 2_000 },
      { delayMs: 4_000 },
      { delayMs: 60_000 },
    ]);
  });

  it("of a loss grows with the losses: none, then 1 s, 2 s, up to 30 s", () => {
    const delays = [0, 1, 2, 6].map((losses) =>
      r({ failures: 5, losses, policy: { workerLost: lossPolicy({ poison: null }) } }, lost()),
    );
    expect(delays).toMatchObject([{ delayMs: 0 }, { delayMs: 1_000 }, { delayMs: 2_000 }, { delayMs: 30_000 }]);
  });

  it("of a shared loss or failure grows with both together, by the main backoff", () => {
    const policy = { maxAttempts: 9, workerLost: SHARED };
    expect(r({ failures: 1, losses: 1, policy }, lost())).toMatchObject({ delayMs: 4_000 });
    expect(r({ failures: 1, losses: 1, policy }, failed())).toMatchObject({ delayMs: 4_000 });
  });

  it("of a rule is its own backoff, and grows with its own matches where they are a budget", () => {
    const backoff: Backoff = { type: "schedule", delaysMs: [10, 20, 30], offset: 0, ...PLAIN };
    const counted = { maxAttempts: 9, rules: [testRule({}, "retry", { backoff, maxRetries: 5 })] };
    const charged = { maxAttempts: 9, rules: [testRule({}, "retry", { backoff })] };
    expect(r({ failures: 2, ruleCounts: { 0: 1 }, policy: counted }, failed())).toMatchObject({ delayMs: 20 });
    expect(r({ failures: 2, policy: charged }, failed())).toMatchObject({ delayMs: 30 });
  });

  it("is none where there is no backoff", () => {
    expect(r({ policy: { maxAttempts: 2, backoff: { type: "none" } } }, failed())).toMatchObject({ delayMs: 0 });
  });

  it("of an interruption is none, of a release a second", () => {
    expect(r({}, INTERRUPTED)).toEqual({ baseMs: 0, jitter: 0, delayMs: 0 });
    expect(r({}, RELEASED)).toEqual({ baseMs: 1_000, jitter: 0, delayMs: RELEASE_DELAY_MS });
  });

  describe("that a failure requests", () => {
    const asks = (retryAfterMs: number) => failed({ retryAfterMs });
    const two = (policy: Partial<Policy> = {}) => ({ policy: { maxAttempts: 2, ...policy } });
    const deferring = (policy: Partial<Policy> = {}) => ({ policy: { rules: [testRule({}, "defer")], ...policy } });

    // biome-ignore format: a table, one row a line
    const ROWS: [name: string, job: TestJobFields, outcome: Given, delayMs: number, retryAfterMs: number | undefined][] = [
      ["lengthens the backoff", two(), asks(5_000), 5_000, 5_000],
      ["does not shorten the backoff", two(), asks(200), 1_000, 200],
      ["is bound by retryAfterMax", two(), asks(7_200_000), 3_600_000, 3_600_000],
      ["may be the whole of retryAfterMax", two(), asks(3_600_000), 3_600_000, 3_600_000],
      ["never cuts the backoff, even beyond retryAfterMax", two({ retryAfterMaxMs: 100 }), asks(5_000), 1_000, 100],
      ["is not heard where the policy is deaf to it", two({ honourRetryAfter: false }), asks(5_000), 1_000, undefined],
      ["counts for a timeout, too", two(), timedOut({ retryAfterMs: 5_000 }), 5_000, 5_000],
      ["becomes whole milliseconds", two(), asks(5_000.4), 5_000, 5_000],
      ["is nothing when it is less than nothing", two(), asks(-5_000), 1_000, undefined],
      ["is nothing when it is no number", two(), asks(Number.NaN), 1_000, undefined],
      ["is bound when it is forever", two(), asks(Number.POSITIVE_INFINITY), 3_600_000, 3_600_000],
      ["takes the place of a deferral's backoff", deferring({ backoff: fixed(60_000) }), asks(5_000), 5_000, 5_000],
      ["is at least a second for a deferral", deferring(), asks(200), MIN_DEFER_MS, 200],
      ["is at least a second for a deferral that asks for none", deferring(), asks(0), MIN_DEFER_MS, 0],
      ["is bound by retryAfterMax for a deferral", deferring(), asks(7_200_000), 3_600_000, 3_600_000],
      ["is the backoff for a deferral that asks for nothing", deferring({ backoff: fixed(60_000) }), failed(), 60_000, undefined],
      ["is the backoff for a deferral where the policy is deaf", deferring({ backoff: fixed(60_000), honourRetryAfter: false }), asks(5_000), 60_000, undefined],
      ["is at least a second for a deferral without backoff", deferring({ backoff: { type: "none" } }), failed(), MIN_DEFER_MS, undefined],
      ["is at least a second for a deferral with a short backoff", deferring({ backoff: fixed(999) }), failed(), MIN_DEFER_MS, undefined],
      ["lengthens the backoff once the deferrals are used up", { defers: 5, policy: { maxAttempts: 2, maxDefers: 5, rules: [testRule({}, "defer")] } }, asks(200), 1_000, 200],
      ["has no floor once the deferrals are used up", { defers: 5, policy: { maxAttempts: 2, maxDefers: 5, backoff: fixed(10), rules: [testRule({}, "defer")] } }, failed(), 10, undefined],
      ["takes the place of the backoff of a deferral with a budget", { policy: { rules: [testRule({}, "defer", { maxRetries: 2, backoff: fixed(60_000) })] } }, asks(5_000), 5_000, 5_000],
    ];

    it.each(ROWS)("%s", (_, parts, outcome, delayMs, retryAfterMs) => {
      const delay = r(parts, outcome);
      expect(delay).toMatchObject({ delayMs });
      expect("retryAfterMs" in delay ? delay.retryAfterMs : undefined).toBe(retryAfterMs);
    });
  });

  it("of deferrals grows with their number", () => {
    const policy = { rules: [testRule({}, "defer")] };
    expect([0, 1, 2].map((defers) => r({ defers, policy }, failed()))).toMatchObject([
      { delayMs: 1_000 },
      { delayMs: 2_000 },
      { delayMs: 4_000 },
    ]);
  });
});

describe("a condition that errs", () => {
  it("is part of the decision", () => {
    const decision = decided({ policy: { maxAttempts: 2, stopWhen: "{{ attempt / 0 > 1 }}" } }, failed());
    expect(decision).toMatchObject({
      kind: "fail",
      match: { condition: "stopWhen" },
      conditionError: expect.any(String),
    });
  });

  it("is absent when there was none", () => {
    expect(decided({ policy: { stopWhen: "true" } }, failed())).not.toHaveProperty("conditionError");
  });

  it("charges a deferral beyond maxDefers also when its rule has a limit of its own", () => {
    const rules = [testRule({ status: [[429, 429]] }, "defer", { maxRetries: 5_000 })];
    const policy = { rules, maxDefers: 2, maxAttempts: 5 };
    expect(decided({ policy, defers: 1 }, answered(429)).counters).toMatchObject({ defers: 2, failures: 0 });
    expect(decided({ policy, defers: 2 }, answered(429)).counters).toMatchObject({ defers: 2, failures: 1 });
  });
});
