import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { chargedAttempts, chargedText } from "../decision/budget.ts";
import { type Failure, failure } from "../decision/failure.ts";
import type { Match } from "../decision/match.ts";
import type { Outcome } from "../decision/outcome.ts";
import { type Command, decideCommand } from "../job/command.ts";
import type { JobEvent, JobEventBody, JobEventName } from "../job/event.ts";
import { evolve, foldEvents } from "../job/fold.ts";
import type { FailReason, Job, JobProgressFields, Usage } from "../job/job.ts";
import { settleJob, startedData, submitJob, type Transition } from "../job/lifecycle.ts";
import type { Policy, Rule, RuleCondition } from "../policy/policy.ts";
import { PRESET_NAMES, presets } from "../policy/presets.ts";
import { type ExplainInput, type Explanation, explain } from "./explain.ts";

const T0 = Date.UTC(2026, 9, 1, 3, 0, 0);
const at = (afterMs: number) => new Date(T0 + afterMs).toISOString();

/** Plays a job through submit, claim, settle and commands, and keeps its events as a store reads them back. */
class Play {
  job: Job;
  now = T0;
  readonly events: JobEvent[] = [];

  constructor(policy: Partial<Policy> = {}, parts: Partial<Job> = {}) {
    const blank = { namespace: "default", priority: 5, key: null, tags: [], labels: {}, submittedAt: T0 };
    const open = { timeoutMs: null, expireInMs: null, deadlineAt: null, runAt: T0 };
    const given = { id: "job_1", queue: "mail", kind: "send-mail", ...parts };
    this.job = { ...blank, ...open, ...given, policy: { ...presets.default, ...policy } } as Job;
    this.apply(submitJob(this.job, this.now));
  }

  apply({ event, next }: { event: JobEventBody; next: JobProgressFields }): this {
    const n = this.events.length + 1;
    this.events.push(JSON.parse(JSON.stringify({ ...event, seq: 100 + n, jobId: this.job.id, n, at: this.now })));
    this.job = { ...this.job, ...next };
    return this;
  }

  wait(ms: number): this {
    this.now += ms;
    return this;
  }

  /** Claims the job when it is due. */
  start(worker = "alpha"): this {
    this.now = Math.max(this.now, this.job.runAt);
    const attempt = this.job.attempt + 1;
    const event = { name: "attempt.started", data: startedData(attempt, `s${attempt}`, worker) } as JobEventBody;
    return this.apply({ event, next: evolve(this.job, { ...event, at: this.now } as JobEvent) });
  }

  end(outcome: Outcome, afterMs = 2_000, usage: Usage | null = null, random = 0.5): this {
    this.now += afterMs;
    return this.apply(settleJob(this.job, outcome, usage, this.now, random));
  }

  run(outcome: Outcome, afterMs?: number, usage?: Usage): this {
    return this.start().end(outcome, afterMs, usage);
  }

  command(command: Command): this {
    const decision = decideCommand(this.job, command, this.now);
    if (decision.kind === "apply") this.apply(decision satisfies Transition);
    return this;
  }

  explain(more: Partial<ExplainInput> = {}): Explanation {
    return explain({ events: this.events, now: this.now, ...more });
  }

  get text(): string {
    return this.explain().text;
  }
}

const COMPLETED: Outcome = { kind: "completed", result: null };
const INTERRUPTED: Outcome = { kind: "interrupted" };
const WAITING: Outcome = { kind: "waiting", children: ["job_a", "job_b"] };
const RELEASED: Outcome = { kind: "released", session: "s1" };
const QUEUE_TIMEOUT: Outcome = { kind: "queue_timeout" };
const DEADLINE: Outcome = { kind: "deadline" };
const fails = (parts: Partial<Failure> = {}): Outcome => {
  return { kind: "failed", failure: failure({ kind: "error", message: "it broke", ...parts }) };
};
const exits = (exitCode: number, line = "boom") =>
  fails({ kind: "exit", exitCode, message: `exit code ${exitCode}: ${line}` });
const TIMEOUT: Outcome = { kind: "timeout", failure: failure({ kind: "timeout", message: "it ran longer than 2 s" }) };
const loss = (renewedAt: number | null = T0, parts: Partial<Extract<Outcome, { kind: "lost" }>> = {}): Outcome => {
  return { kind: "lost", why: "lease_expired", session: "s1", renewedAt, by: "engine-1", ...parts };
};
const ANY: RuleCondition = {
  ...{ kind: null, exitCode: null, signal: null, error: null, message: null, status: null, attempt: null },
};
const rule = (verdict: Rule["then"], more: Partial<Rule> = {}): Rule => {
  // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
  return { if: ANY, then: verdict, maxRetries: null, backoff: null, ...more };
};

describe("a job with a failure, a loss and a retry pending", () => {
  const play = new Play({ maxAttempts: 5 }).wait(5);
  play.start("alpha").end(exits(7), 3_200, null, 0.75);
  play.start("beta").end(loss(play.now + 12_000), 20_000);
  play.start("beta").end(fails({ message: "connect ECONNREFUSED", code: "ECONNREFUSED" }), 150);
  const told = play.wait(500).explain({ capableSessions: 2, liveSessions: 3, queuePausedAt: null });

  it("reads as one story", () => {
    expect(told.text.split("\n")).toEqual([
      `Queued for a retry: due at ${at(26_455)}, in 1.5 s; run 3, 2 of 5 charged, 1 loss.`,
      `Job job_1 was submitted at ${at(0)}: kind "send-mail", queue "mail", namespace "default", maxAttempts 5.`,
      `Attempt 1 started at ${at(5)} on worker "alpha" (session "s1") and failed after 3.2 s: "exit code 7: boom".`,
      "  Decision: retry, because onUnknown is set to retry, and no rule, list or condition matched this failure; run 1, 1 of 5 charged, 4 left.",
      `  Next run due at ${at(4_305)}, 1.1 s later (backoff 1 s, jitter +10 %).`,
      `Attempt 2 started at ${at(4_305)} on worker "beta" (session "s2") and was lost after 20 s: its session did not renew its lease in time; its last renewal was at ${at(16_305)}, 12 s into the attempt; found by "engine-1".`,
      "  Decision: retry, because a lost worker is not the job's fault; loss 1, 99 of 100 retries after lost workers left.",
      `  Next run due at ${at(24_305)}, at once (no backoff).`,
      `Attempt 3 started at ${at(24_305)} on worker "beta" (session "s3") and failed after 150 ms: "connect ECONNREFUSED" (code ECONNREFUSED).`,
      "  Decision: retry, because onUnknown is set to retry, and no rule, list or condition matched this failure; run 3, 2 of 5 charged, 3 left.",
      `  Next run due at ${at(26_455)}, 2 s later (backoff 2 s).`,
      "It waits in backoff after attempt 3. The retry command runs it now.",
    ]);
  });

  it("is told as data too", () => {
    expect(told).toMatchObject({
      ...{ jobId: "job_1", kind: "send-mail", queue: "mail", namespace: "default", submittedAt: T0 },
      ...{ state: "queued", reason: null, chapter: 1, nextRunAt: T0 + 26_455 },
      next: { kind: "run", at: T0 + 26_455, waitsFor: ["backoff"], expiresAt: null },
    });
    expect(told.attempts).toHaveLength(3);
    expect(told.attempts[0]).toEqual({
      ...{ attempt: 1, chapter: 1, worker: "alpha", session: "s1", dueAt: T0, startedAt: T0 + 5, endedAt: T0 + 3_205 },
      ...{ outcome: "failed", usage: null, verdict: "retry", step: "retry", nextRunAt: T0 + 4_305 },
      match: { by: "onUnknown" },
      because: "onUnknown is set to retry, and no rule, list or condition matched this failure",
      charge: { to: "maxAttempts", used: 1, limit: 5, left: 4 },
      delay: { baseMs: 1_000, jitter: 0.1, delayMs: 1_100 },
      failure: expect.objectContaining({ kind: "exit", exitCode: 7 }),
    });
    expect(told.attempts[1]).toMatchObject({ outcome: "lost", failure: null, charge: { to: "workerLost", left: 99 } });
    expect(told.text).toBe([told.summary, ...told.lines].join("\n"));
  });

  it("names each retry, with its place among the lines", () => {
    expect(told.retries).toEqual([
      {
        ...{ at: T0 + 3_205, attempt: 1, cause: "failure", match: { by: "onUnknown" }, line: 3 },
        failure: told.attempts[0]?.failure,
      },
      {
        ...{ at: expect.any(Number), attempt: 2, cause: "lost", match: { by: "loss", why: "lease_expired" } },
        ...{ failure: null, line: expect.any(Number) },
      },
      expect.objectContaining({ attempt: 3, cause: "failure" }),
    ]);
    for (const { line } of told.retries) expect(told.lines[line]).toMatch(/^ {2}Next run due at /);
  });
});

describe("why a queued job waits", () => {
  const waits = (play: Play, more: Partial<ExplainInput> = {}) => {
    const { summary, lines, next } = play.explain(more);
    return { summary, text: lines.join("\n"), waitsFor: next.kind === "run" ? next.waitsFor : null };
  };

  it("says that it was submitted with a delay", () => {
    const { summary, text, waitsFor } = waits(new Play({}, { runAt: T0 + 300_000 }), { capableSessions: 1 });
    expect(summary).toBe(`Queued with a delay: due at ${at(300_000)}, in 5 min; no run yet, 0 of 1 charged.`);
    expect(text).toContain(`maxAttempts 1, to run no sooner than ${at(300_000)}.`);
    expect(text).toContain(`It was asked to run no sooner than ${at(300_000)}. The retry command runs it now.`);
    expect(waitsFor).toEqual(["delayed"]);
  });

  it("says who rescheduled it", () => {
    const play = new Play().wait(10).command({ kind: "reschedule", runAt: T0 + 60_010, by: "ops" });
    const { summary, text, waitsFor } = waits(play);
    expect(summary).toContain(`Queued: rescheduled, due at ${at(60_010)}, in 1 min`);
    expect(text).toContain(`It was rescheduled at ${at(10)} by "ops": due at ${at(60_010)} instead of ${at(0)}.`);
    expect(text).toContain(`It was rescheduled at ${at(10)} by "ops". The retry command runs it now.`);
    expect(waitsFor).toEqual(["rescheduled"]);
  });

  it("says that it was handed back a moment ago", () => {
    const { summary, text, waitsFor } = waits(new Play().run(RELEASED, 500));
    expect(summary).toContain(`Queued again after it was handed back: due at ${at(1_500)}, in 1 s`);
    expect(text).toContain("Attempt 1 was handed back, so the job waits a moment before it is offered again.");
    expect(waitsFor).toEqual(["handed_back"]);
  });

  it("says that it waits in backoff after a queue timeout", () => {
    const play = new Play({ maxAttempts: 3 }, { expireInMs: 60_000 }).end(QUEUE_TIMEOUT, 61_000);
    const { text, waitsFor } = waits(play);
    expect(text).toContain("It waits in backoff after the queue timeout.");
    expect(waitsFor).toEqual(["backoff"]);
  });

  it("says since when the queue is paused, and that expiry stands still", () => {
    const play = new Play({}, { expireInMs: 60_000 }).wait(90_000);
    const { summary, text, waitsFor } = waits(play, { queuePausedAt: T0 + 30_000, capableSessions: 1 });
    expect(summary).toBe(
      `Queued and due since ${at(0)} (for 1.5 min), but queue "mail" is paused; no run yet, 0 of 1 charged.`,
    );
    expect(text).toContain(
      `Queue "mail" is paused since ${at(30_000)} (for 1 min); nothing in it starts until it is resumed.`,
    );
    expect(text).toContain("Its time in the queue (expireIn) stands still while the queue is paused.");
    expect(waitsFor).toEqual(["paused"]);
  });

  it.each([
    [3, "of 3 live workers none takes"],
    [1, "of 1 live worker none takes"],
    [undefined, "no live worker takes"],
  ])("says that no worker can run this kind, with %s live", (liveSessions, words) => {
    const more = liveSessions === undefined ? {} : { liveSessions };
    const { summary, text, waitsFor } = waits(new Play().wait(1_000), { capableSessions: 0, ...more });
    expect(summary).toContain(`Queued and due since ${at(0)} (for 1 s), but no worker can run this kind;`);
    expect(text).toContain(
      `No worker can run this kind: ${words} kind "send-mail" from queue "mail". Start one that does.`,
    );
    expect(waitsFor).toEqual(["no_worker"]);
  });

  it("says that it is too large for all of them, or that they have no room", () => {
    const labels = { "resource/cpu": "999000", gpu: "a" };
    const big = new Play({}, { labels }).wait(10);
    const none = waits(big, { capableSessions: 0, liveSessions: 2 });
    expect(none.summary).toContain("but no worker can run this kind and size;");
    expect(none.text).toContain(
      'No worker can run this kind and size: of 2 live workers none takes kind "send-mail" from queue "mail" with the label "gpu=a" and 999 cpus. Start one that does.',
    );
    expect(waits(big, { capableSessions: 1, liveSessions: 2 }).text).toContain(
      "they are busy, or their hosts have less than 999 cpus left, or just about to.",
    );
  });

  it("says that no worker is live at all", () => {
    const { text } = waits(new Play(), { capableSessions: 0, liveSessions: 0 });
    expect(text).toContain("No worker can run this kind: no worker is live at all. Start one that takes kind");
  });

  it("says that workers are busy, as far as it knows", () => {
    const play = new Play().wait(10);
    const known = waits(play, { capableSessions: 2, liveSessions: 3 });
    expect(known.summary).toContain("(for 10 ms): it waits for a free worker;");
    expect(known.text).toContain("Live workers that can run it: 2 of 3. None has taken it yet: they are busy,");
    expect(known.waitsFor).toEqual(["busy"]);
    expect(waits(play, { capableSessions: 2 }).text).toContain("Live workers that can run it: 2. None");
    expect(waits(play).text).toContain('Any worker that takes kind "send-mail" from queue "mail" may run it.');
  });

  it("names every reason that holds", () => {
    const play = new Play({}, { runAt: T0 + 1_000 });
    const { waitsFor } = waits(play, { capableSessions: 0, liveSessions: 1, queuePausedAt: T0 });
    expect(waitsFor).toEqual(["delayed", "paused", "no_worker"]);
  });

  it("says when it expires, and when that is overdue", () => {
    const play = new Play({}, { expireInMs: 60_000 }).wait(10_000);
    expect(waits(play).text).toContain(
      `It expires at ${at(60_000)}, in 50 s: not started by then, it has a queue timeout.`,
    );
    expect(waits(play.wait(50_001)).text).toContain(
      `Its time in the queue ran out at ${at(60_000)}; the engine is about to settle that.`,
    );
  });
});

describe("running, blocked, succeeded and cancelled", () => {
  it("says where it runs and for how long", () => {
    const told = new Play({ maxAttempts: 2 }).wait(65_000).start("alpha").wait(12_000).explain();
    expect(told.summary).toBe(
      `Running: attempt 1 on worker "alpha" since ${at(65_000)} (for 12 s); run 1, 0 of 2 charged.`,
    );
    expect(told.lines.at(-1)).toBe(
      `Attempt 1 started at ${at(65_000)}, 1.1 min after it was due, on worker "alpha" (session "s1") and is still running.`,
    );
    expect(told.next).toEqual({ kind: "report", attempt: 1, cancelling: false });
    expect(told.nextRunAt).toBeNull();
    expect(told.attempts[0]).toMatchObject({ outcome: "running", endedAt: null, verdict: null, because: null });
  });

  it("says that a running job was asked to stop", () => {
    const told = new Play().start().wait(1_000).command({ kind: "cancel", by: "ops" }).wait(3_000).explain();
    expect(told.summary).toContain(`, asked to stop at ${at(1_000)} by "ops";`);
    expect(told.text).toContain(`A cancel was requested at ${at(1_000)} by "ops", while attempt 1 was running.`);
    expect(told.text).toContain("The cancel has been waiting for 3 s: it takes effect when the attempt ends");
    expect(told.next).toEqual({ kind: "report", attempt: 1, cancelling: true });
  });

  it("says that nobody can report a running job whose session is missing, cancelled or not", () => {
    const running = new Play().start().wait(1_000);
    const last = (play: Play) => explain({ events: play.events, now: T0 + 2_000, isOrphan: true }).lines.at(-1);
    expect(last(running)).toBe(
      "Its session does not exist any more, so that no worker can report it: a server, or the next engine on this data, requeues it as lost; a cancel ends it at once.",
    );
    expect(last(running.command({ kind: "cancel" }))).toMatch(/cancels it; a repeated cancel does so at once\.$/);
  });

  it("says that it is blocked", () => {
    const play = new Play();
    const first = play.events[0] as JobEvent;
    const events = [{ ...first, data: { ...first.data, state: "blocked" } } as JobEvent];
    const told = explain({ events, now: T0 });
    expect(told.summary).toBe(
      "Blocked: it waits for something other than time (its children, earlier steps or a person).",
    );
    expect(told.text).toContain("maxAttempts 1, blocked at first.");
    expect(told).toMatchObject({ state: "blocked", next: { kind: "unblock" } });
  });

  it("says which children it waits for, and that nothing was charged", () => {
    const children = Array.from({ length: 7 }, (_, i) => `job_${i}`);
    const told = new Play().run({ kind: "waiting", children }).explain();
    expect(told.summary).toMatch(/^Blocked since .*: it waits for 7 children to end; run 1, 0 of 1 charged\.$/);
    expect(told.text).toContain("job_3, job_4 and 2 more. When all of them have ended it runs again");
    expect(told.text).toContain("Decision: block, because its children are to end first; nothing charged.");
    expect(told.next).toEqual({ kind: "unblock", waitsFor: children });
  });

  it("says when it succeeded, and what it used", () => {
    const play = new Play().run(COMPLETED, 2_000, { tokensIn: 120, tokensOut: 30, costUsd: 0.02 });
    const told = play.wait(99).explain();
    expect(told.summary).toBe(`Succeeded at ${at(2_000)}, 2 s after its submission; run 1, 0 of 1 charged.`);
    expect(told.text).toContain('on worker "alpha" (session "s1") and completed after 2 s.');
    expect(told.text).toContain("  It used 120 tokens in, 30 tokens out, 0.02 USD.");
    expect(told.next).toEqual({ kind: "nothing" });
    expect(told.attempts[0]).toMatchObject({ outcome: "completed", because: "the task completed" });
  });

  it("says that a cancel came too late for a completed task", () => {
    const play = new Play().start().command({ kind: "cancel" }).end(COMPLETED);
    expect(play.text).toContain(`  The cancel requested at ${at(0)} came too late: the work was done.`);
  });

  it("says who cancelled a waiting job", () => {
    const told = new Play().wait(7).command({ kind: "cancel", by: "ops" }).explain();
    expect(told.summary).toBe(`Cancelled at ${at(7)}, as asked at ${at(7)} by "ops"; no run yet, 0 of 1 charged.`);
    expect(told.text).toContain(`It was cancelled at ${at(7)} by "ops", while no attempt was running.`);
    expect(told.text).toContain("A redrive would run it again, in a new chapter with a fresh budget.");
    expect(told.next).toEqual({ kind: "person", may: ["redrive"] });
  });

  it("says that an attempt ended by a cancel was not charged", () => {
    const play = new Play({ maxAttempts: 3 }).start().wait(10).command({ kind: "cancel" }).end(fails());
    expect(play.text).toContain(
      `  Decision: cancel, because a cancel was requested at ${at(10)} by someone who gave no name; nothing charged.`,
    );
    expect(play.explain().summary).toContain(`Cancelled at ${at(2_010)}, as asked at ${at(10)} by someone`);
  });
});

describe("why a job failed, and what can be done", () => {
  const tokens = { tokensIn: 900, tokensOut: 200, costUsd: 1.5 };
  const poisoned = (play: Play) =>
    play
      .run(loss(null))
      .run(loss(null, { session: "s2" }))
      .run(loss(null, { session: "s3" }));
  const cases: readonly [FailReason, string, Play, string, string][] = [
    [
      "exhausted",
      "all runs used up",
      new Play({ maxAttempts: 2 }).run(fails()).run(fails()),
      "because all 2 runs it may be charged are used up; run 2, 2 of 2 charged.",
      "Fix the cause and redrive it: that opens a new chapter with a fresh budget. To grant later jobs more runs, raise maxAttempts.",
    ],
    [
      "exhausted",
      "the only run used up",
      new Play().run(fails()),
      'because the only run it may be charged is used up; run 1, 1 of 1 charged. The last failure was "it broke".',
      "raise maxAttempts.",
    ],
    [
      "exhausted",
      "a rule's own retries used up",
      new Play({ rules: [rule("retry", { maxRetries: 1 })] }).run(fails()).run(fails()),
      "because rules[0] matched 2 times and only 1 retry is granted by it;",
      "raise maxRetries of rules[0].",
    ],
    [
      "lost",
      "its own budget of losses",
      new Play({ workerLost: { ...presets.default.workerLost, maxRetries: 2, poison: null } })
        .run(loss())
        .run(loss())
        .run(loss()),
      "because it was lost 3 times and only 2 retries are granted after lost workers; run 3, 0 of 1 charged, 3 losses.",
      "Look on the workers named above for what ended them (memory, preemption, a deploy, the network), then redrive it. To grant later jobs more runs, raise workerLost.maxRetries.",
    ],
    [
      "lost",
      "no retry at all",
      new Play({ workerLost: { ...presets.default.workerLost, maxRetries: 0, poison: null } }).run(loss()),
      "because it was lost 1 time and no retry is granted after lost workers;",
      "raise workerLost.maxRetries.",
    ],
    [
      "lost",
      "a shared budget",
      new Play({ ...presets.opal }).run(loss()).run(loss()),
      "because all 2 runs it may be charged are used up, lost ones included; run 2, 2 of 2 charged, 2 losses.",
      "raise maxAttempts.",
    ],
    [
      "rejected",
      "the task said no",
      new Play({ maxAttempts: 9 }).run(fails({ class: "logical", message: "no url", name: "NonRetryableError" })),
      'because the task itself said that another run cannot help; run 1, 1 of 9 charged. The last failure was "no url" (NonRetryableError).',
      "Correct what the failure names, then redrive it. If such a failure ought to be retried, change the policy",
    ],
    [
      "invalid",
      "invalid input",
      new Play({ maxAttempts: 9 }).run(fails({ class: "invalid" })),
      "because its input can never work;",
      "A redrive would fail the same way: submit it again with a correct input, and discard this one.",
    ],
    [
      "timeout",
      "its last run timed out",
      new Play().run(TIMEOUT),
      'because the only run it may be charged is used up; run 1, 1 of 1 charged. The last failure was "it ran longer than 2 s".',
      "If it needs longer, redrive it with a longer timeout.",
    ],
    [
      "timeout",
      "onTimeout",
      new Play({ maxAttempts: 3, onTimeout: "fail" }).run(TIMEOUT),
      "because onTimeout is set to fail;",
      "Find out what made it slow, then redrive it.",
    ],
    [
      "budget",
      "tokens",
      new Play({ maxAttempts: 3, budget: { tokens: 1_000, costUsd: null } }).run(fails(), 10, tokens),
      "because its budget of tokens is used up (900 tokens in, 200 tokens out, 1.5 USD over all attempts);",
      "What was used counts over all redrives, and a budget covers all jobs below the one that has it.",
    ],
    [
      "budget",
      "money",
      new Play({ maxAttempts: 3, budget: { tokens: null, costUsd: 1 } }).run(fails(), 10, tokens),
      "because its budget of money is used up (",
      "redrive it with --budget, or submit it again with a larger budget.",
    ],
    [
      "budget",
      "elapsed",
      new Play({ maxAttempts: 3, maxElapsedMs: 2_500 }).run(fails(), 2_000),
      "because the next run would have come later than maxElapsed after the first start of this chapter;",
      "Fix the cause and redrive it: the time its retries may take (maxElapsed) starts anew.",
    ],
    [
      "unschedulable",
      "never started",
      new Play({}, { expireInMs: 5_000 }).end(QUEUE_TIMEOUT, 5_000),
      "because the only run it may be charged is used up; no run yet, 1 of 1 charged.",
      'Start a worker that takes kind "send-mail" from queue "mail" with the labels the job asks for (if any), or resume the queue if it is paused; then redrive it.',
    ],
    [
      "unschedulable",
      "deadline",
      new Play({}, { deadlineAt: T0 + 5_000 }).end(DEADLINE, 5_000),
      "because its deadline for starting had passed; no run yet, 0 of 1 charged.",
      "The deadline stays passed, so a plain redrive would end the same way",
    ],
    [
      "poison",
      "quick losses",
      poisoned(new Play()),
      "because the poison guard stopped it: 3 quick losses in a row in different sessions; run 3, 0 of 1 charged, 3 losses.",
      "It probably brings its workers down. Look at their logs and memory first",
    ],
  ];

  it.each(cases)("%s: %s", (reason, _, play, words, advice) => {
    const told = play.explain();
    expect(told.state).toBe("failed");
    expect(told.reason).toBe(reason);
    expect(told.summary).toContain(`Failed (${reason}) at ${new Date(play.now).toISOString()}, because `);
    expect(told.summary).toContain(words);
    expect(told.text).toContain(`fail as ${reason}, because `);
    expect(told.lines.at(-2)).toContain(advice);
    expect(told.lines.at(-1)).toBe("It stays among the dead letters until someone redrives or discards it.");
    expect(told.next).toEqual({ kind: "person", may: ["redrive", "discard"] });
  });

  it("poison: says of each loss what it says about the job, and what is left to chance", () => {
    const others = { lost: 1, watchedMs: 600_000_000 };
    const play = new Play()
      .run(loss(null, { crash: { beside: 0, excuse: "engine_away" } }))
      .run(loss(null, { session: "s2", crash: { beside: 3 } }))
      .run(loss(null, { session: "s3", crash: { beside: 1 } }))
      .run(loss(null, { session: "s4", crash: { beside: 0, others } }));
    const waiting = play.explain();
    expect(waiting.text).toContain("It is not suspected for this loss: the engine had ended at that time");
    expect(waiting.text).toContain("3 other attempts ran in the same process, so any of them may have ended it");
    expect(waiting.text).toContain("1 other attempt ran in the same process");
    expect(waiting.text).toContain(
      "It was alone in its worker. Of other workers like it 1 was lost in the ten minutes before",
    );
    expect(waiting.lines.join()).toContain("3 times in a row, so it is to run alone");
    const told = play.run(loss(null, { session: "s5", crash: { beside: 0, others } })).explain();
    expect(told.summary).toContain(
      "4 quick losses in a row in different sessions, the last of them while it was alone",
    );
    expect(told.summary).toMatch(/by themselves in such a row has a chance of less than one in a billion;/);
  });

  it("has a sentence for every reason", () => {
    const reasons: Record<FailReason, true> = {
      ...{ exhausted: true, lost: true, rejected: true, invalid: true },
      ...{ timeout: true, budget: true, unschedulable: true, poison: true },
    };
    expect(new Set(cases.map(([reason]) => reason))).toEqual(new Set(Object.keys(reasons)));
  });

  it("says what the policy would have done if a budget had not been used up", () => {
    const own = new Play({ rules: [rule("retry", { maxRetries: 0 })] }).run(fails());
    expect(own.text).toContain(
      "fail as exhausted, because rules[0] matched 1 time and no retry is granted by it (else it would be retried, as rules[0], rule 1 of its policy, matched this failure); charged to rules[0] alone: match 1, 0 of its 0 retries left.",
    );
    const late = new Play({ maxAttempts: 3, maxElapsedMs: 1 }).run(fails());
    expect(late.text).toContain("(else it would be retried, as onUnknown is set to retry, and no rule");
  });

  it("says that a job was handed back so often that it counts as lost", () => {
    const play = new Play({ maxAttempts: 2, workerLost: { ...presets.default.workerLost, maxRetries: 0 } });
    for (let i = 0; i < 20; i++) play.run(INTERRUPTED, 10);
    expect(play.explain().summary).toContain(
      "because it was handed back 20 times in a row, which counts as a lost worker, and it was lost 1 time and no retry is granted after lost workers",
    );
    expect(play.text).toContain(
      "because the worker was shutting down; nothing charged (handed back 19 times in a row; number 20 counts as a loss).",
    );
  });

  it("says who discarded it, and that a redrive is still possible", () => {
    const told = new Play().run(fails()).command({ kind: "discard", by: "ops" }).explain();
    expect(told.summary).toContain(
      `Failed (exhausted) at ${at(2_000)} and discarded at ${at(2_000)} by "ops", because the only run`,
    );
    expect(told.text).toContain(`It was discarded at ${at(2_000)} by "ops": taken out of the dead letters.`);
    expect(told.lines.at(-1)).toBe("It is no longer among the dead letters; a redrive would still bring it back.");
    expect(told.next).toEqual({ kind: "person", may: ["redrive"] });
  });
});

describe("which rule or step decided", () => {
  const five: Partial<Policy> = { maxAttempts: 5 };
  it.each<[string, Partial<Policy>, Outcome, string]>([
    [
      "a rule that retries",
      { ...five, rules: [rule("fail", { if: { ...ANY, exitCode: [3] } }), rule("retry")] },
      fails(),
      "retry, because rules[1], rule 2 of its policy, matched this failure; run 1, 1 of 5 charged, 4 left.",
    ],
    [
      "a rule that fails",
      { ...five, rules: [rule("fail")] },
      fails(),
      "Decision: fail as rejected, because rules[0], rule 1 of its policy, matched this failure;",
    ],
    [
      "a rule that names what it matches",
      { ...five, rules: [rule("retry", { if: { ...ANY, exitCode: [3, 4], message: ["lock", "boom"] } })] },
      exits(4, "BOOM goes the lock"),
      'rules[0], rule 1 of its policy, matched this failure: exitCode 4, message "lock" matched "exit code 4: BOOM goes the lock";',
    ],
    [
      "a rule that defers",
      { ...five, rules: [rule("defer")] },
      fails(),
      "defer, because rules[0], rule 1 of its policy, matched this failure; nothing charged (deferral 1 of this chapter).",
    ],
    [
      "a rule with its own retries",
      { ...five, rules: [rule("retry", { maxRetries: 2 })] },
      fails(),
      "matched this failure; charged to rules[0] alone: match 1, 1 of its 2 retries left.",
    ],
    ["stopWhen", { ...five, stopWhen: "{{ attempt >= 1 }}" }, fails(), "because stopWhen is true;"],
    ["retryWhen, true", { ...five, retryWhen: "{{ error != None }}" }, fails(), "retry, because retryWhen is true;"],
    [
      "retryWhen, not true",
      { ...five, retryWhen: "{{ status_code == 503 }}" },
      fails(),
      "because retryWhen is not true;",
    ],
    [
      "retryWhen on a result",
      { ...five, retryWhen: "{{ result == None }}" },
      COMPLETED,
      "retry, because its result matches retryWhen;",
    ],
    ["onTimeout", five, TIMEOUT, "retry, because onTimeout is set to retry;"],
    [
      "onUnknown",
      { ...five, onUnknown: "fail" },
      fails(),
      "because onUnknown is set to fail, and no rule, list or condition matched this failure;",
    ],
    [
      "noRetryOnExitCodes",
      { ...five, noRetryOnExitCodes: [2] },
      exits(2),
      "because exit code 2 is in noRetryOnExitCodes;",
    ],
    [
      "retryOnExitCodes",
      { ...five, retryOnExitCodes: [75] },
      exits(75),
      "retry, because exit code 75 is in retryOnExitCodes;",
    ],
    [
      "retryOnExitCodes, another code",
      { ...five, retryOnExitCodes: [75] },
      exits(3),
      "because exit code 3 is not in retryOnExitCodes;",
    ],
    [
      "retryOnExitCodes, no code",
      { ...five, retryOnExitCodes: [75] },
      fails(),
      "because a failure without an exit code is not in retryOnExitCodes;",
    ],
    ["noRetryOn", { ...five, noRetryOn: ["broke"] }, fails(), 'because noRetryOn "broke" matched "it broke";'],
    [
      "retryOn",
      { ...five, retryOn: ["no", "it ... ke"] },
      fails(),
      'retry, because retryOn "it ... ke" matched "it broke";',
    ],
    [
      "retryOn, in the lines around",
      { ...five, retryOn: ["refused"] },
      fails({ kind: "exit", exitCode: 1, message: "exit code 1: bye", stack: "one\n  Connection Refused (db)\nbye" }),
      'retry, because retryOn "refused" matched "Connection Refused (db)";',
    ],
    [
      "the preset",
      five,
      fails({ kind: "http", status: 404, message: "404 Not Found" }),
      'because a rule of the preset "default" matched this failure (kind http, status 400-407);',
    ],
    [
      "a released attempt",
      five,
      RELEASED,
      "Decision: retry, because it had not been started; nothing charged (handed back 1 time in a row; number 20 counts as a loss).",
    ],
    [
      "an interrupted attempt",
      five,
      INTERRUPTED,
      "Decision: retry, because the worker was shutting down; nothing charged",
    ],
    [
      "a loss on a shared budget",
      { ...presets.opal, maxAttempts: 5 },
      loss(),
      "because a lost worker is not the job's fault; run 1, 1 of 5 charged, 4 left.",
    ],
  ])("%s", (_, policy, outcome, words) => {
    expect(new Play(policy).run(outcome).text).toContain(words);
  });

  it("says so when a condition could not be evaluated", () => {
    const play = new Play({ maxAttempts: 5, stopWhen: "{{ error - 1 == 0 }}" }).run(fails());
    expect(play.text).toMatch(/because stopWhen could not be evaluated \(.+\), which means no retry; run 1, 1 of 5/);
  });

  it.each<[Match, string]>([
    [{ by: "list", list: "retryOn" }, "retry, because its message has a part that retryOn lists;"],
    [{ by: "rule", index: 0 }, "retry, because rules[0], rule 1 of its policy, matched this failure;"],
    [{ by: "preset", preset: "agent" }, 'retry, because a rule of the preset "agent" matched this failure;'],
  ])("explains a decision of an early version, which does not name the part: %j", (match, words) => {
    const play = new Play().start();
    const decision = { kind: "retry", step: "retry", class: "failure", match, runAt: T0 } as const;
    const cause = failure({ kind: "error", message: "it broke" });
    const event: JobEventBody = { name: "attempt.failed", data: { v: 2, attempt: 1, decision, failure: cause } };
    play.apply({ event, next: evolve(play.job, { ...event, at: play.now } as JobEvent) });
    expect(play.text).toContain(words);
    expect(play.explain().retries).toMatchObject([{ match }]);
  });

  it("charges a queue timeout without naming a run", () => {
    const play = new Play({ maxAttempts: 3 }, { expireInMs: 60_000 }).end(QUEUE_TIMEOUT, 60_000);
    expect(play.text).toContain(
      `At ${at(60_000)}, 1 min after it was due, no worker had started it: its time in the queue (expireIn) was over.`,
    );
    expect(play.text).toContain(
      "retry, because a job that nobody started in time is queued again while its budget lasts; 1 of 3 charged, 2 left.",
    );
    expect(play.explain().attempts).toEqual([]);
  });
});

describe("the delay", () => {
  const asked = (retryAfterMs: number) => fails({ retryAfterMs });
  const text = (policy: Partial<Policy>, outcome: Outcome, random = 0.5) =>
    new Play({ maxAttempts: 5, ...policy }).start().end(outcome, 0, null, random).text;

  it("shows base, jitter and end", () => {
    expect(text({}, fails(), 0)).toContain(`Next run due at ${at(800)}, 800 ms later (backoff 1 s, jitter -20 %).`);
    for (const hardlyAny of [0.4999, 0.5001])
      expect(text({}, fails(), hardlyAny)).toContain("(backoff 1 s, jitter 0 %).");
    expect(text({ backoff: { type: "none" } }, fails())).toContain(`due at ${at(0)}, at once (no backoff).`);
  });

  it("shows what Retry-After did to it", () => {
    expect(text({}, asked(30_000))).toContain("30 s later (backoff 1 s, Retry-After 30 s).");
    expect(text({}, asked(7_200_000))).toContain("1 h later (backoff 1 s, Retry-After 2 h, cut to 1 h).");
    expect(text({ honourRetryAfter: false }, asked(30_000))).toContain(
      "1 s later (backoff 1 s, Retry-After 30 s, not honoured by this policy).",
    );
  });

  it("has no backoff after a hand-back", () => {
    expect(text({}, INTERRUPTED)).toContain(`Next run due at ${at(0)}, at once.`);
    expect(text({}, RELEASED)).toContain(`Next run due at ${at(1_000)}, 1 s later and not in the same session.`);
  });
});

describe("what an attempt did", () => {
  const ended = (outcome: Outcome) => new Play({ maxAttempts: 5 }).run(outcome).explain().lines[1];

  it.each<[Partial<Failure>, string]>([
    [{ kind: "exit", exitCode: 7, message: "exit code 7: boom" }, '"exit code 7: boom".'],
    [{ kind: "exit", exitCode: 7, message: "boom" }, '"boom" (exit code 7).'],
    [
      { kind: "signal", exitCode: 139, signal: "SIGSEGV", message: "it crashed" },
      '"it crashed" (exit code 139, signal SIGSEGV).',
    ],
    [
      { kind: "oom", exitCode: 137, signal: "SIGKILL", message: "gone" },
      '"gone" (out of memory, exit code 137, signal SIGKILL).',
    ],
    [{ kind: "http", status: 503, message: "503 Service Unavailable" }, '"503 Service Unavailable".'],
    [{ kind: "http", status: 503, message: "upstream sulks" }, '"upstream sulks" (status 503).'],
    [{ name: "TypeError", message: "x is not a function" }, '"x is not a function" (TypeError).'],
    [{ name: "Error", code: "ECONNRESET", message: "reset" }, '"reset" (code ECONNRESET).'],
    [{ message: "\u001b[31mred\nalert" }, '"\\x1b[31mred\\nalert".'],
    [{ message: "x".repeat(2_000) }, `"${"x".repeat(300)}…".`],
  ])("shows how it failed: %j", (parts, words) => {
    expect(ended(fails(parts))).toContain(`and failed after 2 s: ${words}`);
  });

  it("tells a result that asks for another run from a failure", () => {
    const told = new Play({ maxAttempts: 5, retryWhen: "{{ success }}" }).run(COMPLETED).explain();
    expect(told.lines[1]).toContain("and completed after 2 s with a result that asks for another run.");
    expect(told.attempts[0]?.outcome).toBe("polled");
  });

  it("shows timeouts and hand-backs", () => {
    expect(ended(TIMEOUT)).toContain('and timed out after 2 s: "it ran longer than 2 s".');
    expect(ended(INTERRUPTED)).toContain("and was interrupted after 2 s by its worker's shutdown.");
    expect(ended(RELEASED)).toContain("and was handed back after 2 s, before its work began.");
  });

  it("shows who found a loss, why, and when it was last seen alive", () => {
    expect(ended(loss(T0 - 3_000, { why: "worker_gone", by: null }))).toContain(
      `was lost after 2 s: its worker was gone; its last renewal was at ${at(-3_000)}, 3 s before the attempt started; found by an engine that gave no name.`,
    );
    expect(ended(loss(null, { why: "killed" }))).toContain(
      'it was killed and nobody had asked for that; no renewal is on record; found by "engine-1".',
    );
    expect(ended(loss(T0, { why: "eaten\u0007" as "killed" }))).toContain("was lost after 2 s: eaten\\x07;");
  });
});

describe("chapters, late reports and names from outside", () => {
  it("tells what a redrive changed, and counts by it", () => {
    const play = new Play({ maxAttempts: 1 }).run(fails());
    const retry = { maxAttempts: 3, onUnknown: "fail" } as const;
    const told = play.command({ kind: "redrive", changes: { retry, timeoutMs: 1_000, priority: 2 } }).explain();
    expect(told.text).toContain('; changed: maxAttempts 3, onUnknown "fail", timeout 1 s, priority 2.\n');
    expect(told.summary).toContain("0 of 3 charged");
    play.run(fails()).command({ kind: "redrive", changes: { timeoutMs: 1_000 } });
    expect(play.explain().summary).toContain("0 of 3 charged");
    expect(play.text.match(/changed:/g)).toHaveLength(1);
  });

  it("tells a redrive as a new chapter with a fresh budget", () => {
    const play = new Play({ maxAttempts: 2 }).run(fails()).run(fails()).wait(60_000);
    const told = play.command({ kind: "redrive", by: "ops" }).start("gamma").explain();
    const when = new Date(play.now).toISOString();
    expect(told.text).toContain(
      `It was redriven at ${when} by "ops": chapter 2 began with all counters at zero, due at ${when}.`,
    );
    expect(told.summary).toContain("run 3, 0 of 2 charged.");
    expect(told.chapter).toBe(2);
    expect(told.attempts.map(({ attempt, chapter }) => [attempt, chapter])).toEqual([
      [1, 1],
      [2, 1],
      [3, 2],
    ]);
  });

  it("forgets the cancel of an earlier chapter", () => {
    const play = new Play().command({ kind: "cancel", by: "ops" }).command({ kind: "retry", by: "ops" }).start();
    expect(play.explain().next).toEqual({ kind: "report", attempt: 1, cancelling: false });
  });

  it("says that a late report changed nothing", () => {
    const play = new Play({ maxAttempts: 5 }).run(loss());
    const lateReports = [
      { attempt: 1, at: T0 + 9_000, session: "s1", outcome: "completed" },
      { attempt: 1, at: T0 + 9_500, session: null, outcome: "failed" },
    ];
    const { text } = play.explain({ lateReports });
    expect(text).toContain(
      `A late report of attempt 1 (completed) from session "s1" arrived at ${at(9_000)} and changed nothing.`,
    );
    expect(text).toContain(`A late report of attempt 1 (failed) arrived at ${at(9_500)} and changed nothing.`);
  });

  it("keeps every name on its line", () => {
    const evil = "a\n\u001b[2Jb";
    const play = new Play({}, { kind: evil, queue: evil, namespace: evil })
      .start(evil)
      .command({ kind: "cancel", by: evil });
    const told = play.end(loss(null, { by: evil })).explain();
    expect(told.lines.every((line) => !line.includes("\n") && !line.includes("\u001b"))).toBe(true);
    expect(told.text).toContain('kind "a\\n\\x1b[2Jb"');
  });

  it("refuses a history with a gap, as fold does", () => {
    const { events } = new Play().run(fails());
    expect(() => explain({ events: events.slice(1), now: T0 })).toThrow("event 2 follows event 0");
    expect(() => explain({ events: [], now: T0 })).toThrow("at least one event");
  });
});

it("tells every event there is", () => {
  const play = new Play({ maxAttempts: 9 }, { expireInMs: 60_000 });
  play.end(QUEUE_TIMEOUT, 60_000).command({ kind: "retry", by: "ops" });
  play.run(fails()).run(TIMEOUT).run(loss(null)).run(INTERRUPTED);
  play.run(WAITING).command({ kind: "unblock", attempt: 5, runAt: 0 });
  play.start().command({ kind: "cancel" }).end(fails()).command({ kind: "redrive" });
  play
    .run(fails({ class: "invalid" }))
    .command({ kind: "discard" })
    .command({ kind: "redrive" });
  play.command({ kind: "cancel" }).command({ kind: "redrive" });
  const shortage = { jobId: "job_0", part: "costUsd", limit: 1, used: 1.2, left: 0, wanted: 0 } as const;
  play.end({ kind: "over_budget", shortage }).command({ kind: "redrive" }).run(COMPLETED);
  const sentences: Record<JobEventName, string> = {
    "job.submitted": "Job job_1 was submitted at ",
    "job.queue_timeout": "no worker had started it: its time in the queue (expireIn) was over.",
    "job.over_budget": "because the budget of job_0 (1 USD, 1.2 spent) has nothing left; nothing charged.",
    "job.rescheduled": "It was rescheduled at ",
    "job.cancel_requested": "A cancel was requested at ",
    "job.cancelled": "It was cancelled at ",
    "job.discarded": "It was discarded at ",
    "job.redriven": "It was redriven at ",
    "attempt.started": "Attempt 1 started at ",
    "attempt.succeeded": "and completed after 2 s.",
    "attempt.failed": "and failed after 2 s: ",
    "attempt.timed_out": "and timed out after 2 s: ",
    "attempt.lost": "and was lost after 2 s: ",
    "attempt.interrupted": "and was interrupted after 2 s ",
    "attempt.waiting": "and ended after 2 s to wait for 2 children.",
    "job.unblocked": "All that it waited for had ended at ",
  };
  expect(new Set(play.events.map(({ name }) => name))).toEqual(new Set(Object.keys(sentences)));
  for (const sentence of Object.values(sentences)) expect(play.text).toContain(sentence);
});

describe("any history", () => {
  const anyFailure = fc.record({
    kind: fc.constantFrom("exit", "signal", "oom", "error", "http", "result" as const),
    class: fc.constantFrom("transient", "transient", "transient", "logical", "invalid", "budget" as const),
    message: fc.string({ unit: "binary" }),
    name: fc.option(fc.string({ unit: "binary" })),
    code: fc.option(fc.string({ unit: "binary" })),
    exitCode: fc.option(fc.integer({ min: 0, max: 255 })),
    signal: fc.option(fc.constantFrom("SIGKILL", "SIGSEGV")),
    status: fc.option(fc.integer({ min: 100, max: 599 })),
    retryAfterMs: fc.option(fc.nat(10_000_000)),
    stack: fc.constant(null),
  }) as fc.Arbitrary<Failure>;
  const anyOutcome: fc.Arbitrary<Outcome> = fc.oneof(
    { weight: 4, arbitrary: anyFailure.map((failure): Outcome => ({ kind: "failed", failure })) },
    anyFailure.map((failure): Outcome => ({ kind: "timeout", failure: { ...failure, kind: "timeout" } })),
    fc.constant(COMPLETED),
    fc.constant(INTERRUPTED),
    fc.constant(WAITING),
    fc.constant(RELEASED),
    fc
      .tuple(fc.constantFrom("lease_expired", "worker_gone", "killed" as const), fc.option(fc.nat(100_000)))
      .map(([why, seen]) => loss(seen === null ? null : T0 + seen, { why: why as "killed", session: `s${seen}` })),
  );
  const anyCommand = fc
    .tuple(
      fc.constantFrom("cancel", "retry", "redrive", "discard", "reschedule" as const),
      fc.option(fc.string({ unit: "binary" })),
    )
    .map(([kind, by]) => ({ kind, by }) as Command);
  const anyStep = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        outcome: anyOutcome,
        ms: fc.nat(60_000),
        random: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ command: anyCommand, ms: fc.nat(60_000) }) },
    { weight: 1, arbitrary: fc.record({ expiry: fc.constantFrom(QUEUE_TIMEOUT, DEADLINE), ms: fc.nat(60_000) }) },
    { weight: 1, arbitrary: fc.record({ start: fc.constant(true), ms: fc.nat(60_000) }) },
  );
  const anyPolicy = fc.record({
    preset: fc.constantFrom(...PRESET_NAMES),
    maxAttempts: fc.integer({ min: 1, max: 6 }),
    maxElapsedMs: fc.option(fc.nat(200_000)),
    retryWhen: fc.constantFrom(null, null, "{{ success }}", "{{ status_code >= 500 }}"),
    rules: fc.constantFrom([], [], [rule("defer")], [rule("retry", { maxRetries: 1, if: { ...ANY, exitCode: [1] } })]),
  });

  it("is told without an exception, on single lines, with every attempt in it", () => {
    fc.assert(
      fc.property(
        anyPolicy,
        fc.option(fc.nat(100_000)),
        fc.array(anyStep, { maxLength: 40 }),
        (policy, expireInMs, steps) => {
          const play = new Play({ ...presets[policy.preset], ...policy } as Policy, { expireInMs });
          for (const step of steps) {
            play.wait(step.ms);
            const { state } = play.job;
            if ("command" in step) {
              const { command } = step;
              play.command(command.kind === "reschedule" ? { ...command, runAt: play.now + step.ms } : command);
            } else if ("start" in step) {
              if (state === "queued") play.start();
            } else if ("expiry" in step) {
              if (state === "queued") play.end(step.expiry, 0);
            } else if (state === "running") {
              play.end(step.outcome, 0, null, step.random);
            } else if (state === "queued") {
              play.start().end(step.outcome, step.ms, null, step.random);
            }
            const told = play.explain({
              capableSessions: step.ms % 2,
              liveSessions: 2,
              queuePausedAt: step.ms % 3 ? null : T0,
            });
            const now = foldEvents(play.events);
            expect([told.state, told.reason, told.chapter]).toEqual([now.state, now.reason, now.chapter]);
            expect(told.attempts.map(({ attempt }) => attempt)).toEqual(
              Array.from({ length: now.attempt }, (_, i) => i + 1),
            );
            expect(told.summary).toContain(`, ${chargedText(chargedAttempts(play.job), now.losses)}`); // as `get` has it
            for (const { attempt } of told.attempts) expect(told.text).toContain(`Attempt ${attempt} started at `);
            expect(told.text.split("\n")).toHaveLength(told.lines.length + 1);
            expect(told.text).not.toMatch(/undefined|NaN|\bnull\b|\[object|unknown time/);
            expect(play.explain().text).toBe(play.explain().text);
          }
        },
      ),
      { numRuns: rounds(150) },
    );
  });

  it("tells what is unusual about a submission, and the labels a worker lacks", () => {
    const { event } = submitJob(
      {
        ...{ kind: "train", queue: "gpu", namespace: "default", runAt: T0, expireInMs: null, policy: presets.default },
        ...{ labels: { gpu: "a100", zone: "b" }, priority: 0, timeoutMs: 120_000, deadlineAt: T0 + 60_000 },
      },
      T0,
    );
    const events = [{ ...event, seq: 1, jobId: "job_1", n: 1, at: T0 }] as JobEvent[];
    const told = explain({ events, now: T0 + 5, capableSessions: 0, liveSessions: 2 });
    expect(told.text).toContain("priority 0, timeout 2 min, to start by ");
    expect(told.text).toContain('takes kind "train" from queue "gpu" with the labels "gpu=a100", "zone=b".');
    const one = { ...event, data: { ...event.data, labels: { gpu: "a100" } } };
    const single = explain({
      events: [{ ...one, seq: 1, jobId: "job_1", n: 1, at: T0 }] as JobEvent[],
      now: T0 + 5,
      capableSessions: 0,
    });
    expect(single.text).toContain('with the label "gpu=a100"');
  });
});

describe("the story of a job with very many attempts", () => {
  it("is bounded: the first and the last are told, with what was spent in all", () => {
    const play = new Play({ maxAttempts: 2_000, backoff: { type: "none" }, onUnknown: "retry" });
    for (let i = 1; i <= 1_500; i++) {
      play.run({ kind: "failed", failure: failure({ kind: "error", message: `no ${i}` }) }, 1);
    }
    const { attempts, lines, text, summary } = explain({ events: play.events, now: play.now });
    expect(attempts.map(({ attempt }) => attempt)).toEqual([
      ...Array.from({ length: 100 }, (_, i) => i + 1),
      ...Array.from({ length: 300 }, (_, i) => 1_201 + i),
    ]);
    expect(lines.length).toBeLessThan(3_000);
    expect(text).toContain("(1101 steps between are left out here; the events show all of them.)");
    expect(text).toContain("no 1500");
    expect(text).not.toContain("no 500;");
    expect(summary).toContain("run 1500, 1500 of 2000 charged");
  });
});
