import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { jobAttemptText } from "../decision/budget.ts";
import { type Failure, failure } from "../decision/failure.ts";
import type { Match } from "../decision/match.ts";
import type { Outcome } from "../decision/outcome.ts";
import { type Command, decideCommand } from "../job/command.ts";
import type { JobEvent, JobEventBody, JobEventName } from "../job/event.ts";
import { evolve, foldEvents } from "../job/fold.ts";
import type { Job, JobProgressFields, Usage } from "../job/job.ts";
import { settleJob, startedData, submitJob, type Transition } from "../job/lifecycle.ts";
import type { Policy, Rule, RuleCondition } from "../policy/policy.ts";
import { PRESET_NAMES, presets } from "../policy/presets.ts";
import type { AttemptFailReason } from "./decision-text.ts";
import { type ExplainInput, type Explanation, explain } from "./explain.ts";

const T0 = Date.UTC(2026, 9, 1, 3, 0, 0);
const at = (afterMs: number) => new Date(T0 + afterMs).toISOString();

/** Plays a job through submit, claim, settle and commands, and keeps its events as a store reads them back. */
class Play {
  job: Job;
  now = T0;
  readonly events: JobEvent[] = [];

  constructor(policy: Partial<Policy> = {}, parts: Partial<Job> = {}) {
    const blank = {
      runId: null,
      namespace: "default",
      priority: 5,
      key: null,
      tags: [],
      labels: {},
      submittedAt: T0,
    };
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

it("explains events of format 1, which a program may have kept, as those of today", () => {
  const play = new Play({ maxAttempts: 2 }).wait(5);
  play.start("alpha").end(exits(7), 3_200, null, 0.75);
  const kept = play.events.map((event) => {
    const data = { ...event.data, v: 1 };
    if (!("decision" in data)) return { ...event, data };
    const { match: _match, ...decision } = data.decision;
    return { ...event, data: { ...data, decision: { ...decision, step: 10, matched: "onUnknown" } } };
  });
  expect(play.text).toContain("onUnknown: retry");
  expect(explain({ events: kept as never, now: play.now }).text).toBe(play.text);
});

describe("a job with a failure, a loss and a retry pending", () => {
  const play = new Play({ maxAttempts: 5 }).wait(5);
  play.start("alpha").end(exits(7), 3_200, null, 0.75);
  play.start("beta").end(loss(play.now + 12_000), 20_000);
  play.start("beta").end(fails({ message: "connect ECONNREFUSED", code: "ECONNREFUSED" }), 150);
  const explained = play.wait(500).explain({ capableSessions: 2, liveSessions: 3, queuePausedAt: null });

  it("reads as one text", () => {
    expect(explained.text.split("\n")).toEqual([
      `Queued for a retry: due at ${at(26_455)}, in 1.5 s; attempt 3 (2 of 5 counted, 1 loss).`,
      `Job job_1 was submitted at ${at(0)}: kind "send-mail", queue "mail", namespace "default", maxAttempts 5.`,
      `Attempt 1 started at ${at(5)} on worker "alpha" (session "s1") and failed after 3.2 s: "exit code 7: boom".`,
      "  Decision: retry: no rule matched; unknown failures are retried (onUnknown: retry). Attempt 1 of 5; 4 left.",
      `  Next attempt at ${at(4_305)}, 1.1 s later (backoff 1 s, jitter +10 %).`,
      `Attempt 2 started at ${at(4_305)} on worker "beta" (session "s2") and was lost after 20 s: its session did not renew its lease in time; last heartbeat at ${at(16_305)}, 12 s into the attempt; detected by server process engine-1.`,
      "  Decision: retry: lost attempts are retried. Not counted towards maxAttempts (retry 1 of 100 after losses).",
      `  Next attempt at ${at(24_305)}, immediately (no backoff).`,
      `Attempt 3 started at ${at(24_305)} on worker "beta" (session "s3") and failed after 150 ms: "connect ECONNREFUSED" (code ECONNREFUSED).`,
      "  Decision: retry: no rule matched; unknown failures are retried (onUnknown: retry). Attempt 3, counted as 2 of 5; 3 left.",
      `  Next attempt at ${at(26_455)}, 2 s later (backoff 2 s).`,
      "It waits in backoff after attempt 3. `perdure retry` runs it now.",
    ]);
  });

  it("is available as data", () => {
    expect(explained).toMatchObject({
      ...{ jobId: "job_1", kind: "send-mail", queue: "mail", namespace: "default", submittedAt: T0 },
      ...{ state: "queued", reason: null, chapter: 1, nextRunAt: T0 + 26_455 },
      next: { kind: "run", at: T0 + 26_455, waitsFor: ["backoff"], expiresAt: null },
    });
    expect(explained.attempts).toHaveLength(3);
    expect(explained.attempts[0]).toEqual({
      ...{ attempt: 1, chapter: 1, worker: "alpha", session: "s1", dueAt: T0, startedAt: T0 + 5, endedAt: T0 + 3_205 },
      ...{ outcome: "failed", usage: null, verdict: "retry", step: "retry", nextRunAt: T0 + 4_305 },
      match: { by: "onUnknown" },
      because: "no rule matched; unknown failures are retried (onUnknown: retry)",
      charge: { to: "maxAttempts", used: 1, limit: 5, left: 4 },
      delay: { baseMs: 1_000, jitter: 0.1, delayMs: 1_100 },
      failure: expect.objectContaining({ kind: "exit", exitCode: 7 }),
    });
    expect(explained.attempts[1]).toMatchObject({
      outcome: "lost",
      failure: null,
      charge: { to: "workerLost", left: 99 },
    });
    expect(explained.text).toBe([explained.summary, ...explained.lines].join("\n"));
  });

  it("names each retry, with its place among the lines", () => {
    expect(explained.retries).toEqual([
      {
        ...{ at: T0 + 3_205, attempt: 1, cause: "failure", match: { by: "onUnknown" }, line: 3 },
        failure: explained.attempts[0]?.failure,
      },
      {
        ...{ at: expect.any(Number), attempt: 2, cause: "lost", match: { by: "loss", why: "lease_expired" } },
        ...{ failure: null, line: expect.any(Number) },
      },
      expect.objectContaining({ attempt: 3, cause: "failure" }),
    ]);
    for (const { line } of explained.retries) expect(explained.lines[line]).toMatch(/^ {2}Next attempt at /);
  });
});

describe("why a queued job waits", () => {
  const waits = (play: Play, more: Partial<ExplainInput> = {}) => {
    const { summary, lines, next } = play.explain(more);
    return { summary, text: lines.join("\n"), waitsFor: next.kind === "run" ? next.waitsFor : null };
  };

  it("shows that it was submitted with a delay", () => {
    const { summary, text, waitsFor } = waits(new Play({}, { runAt: T0 + 300_000 }), { capableSessions: 1 });
    expect(summary).toBe(`Queued with a delay: due at ${at(300_000)}, in 5 min; no attempt yet, 1 allowed.`);
    expect(text).toContain(`maxAttempts 1, not before ${at(300_000)}.`);
    expect(text).toContain(`It was submitted to run no earlier than ${at(300_000)}. \`perdure retry\` runs it now.`);
    expect(waitsFor).toEqual(["delayed"]);
  });

  it("shows who rescheduled it", () => {
    const play = new Play().wait(10).command({ kind: "reschedule", runAt: T0 + 60_010, by: "ops" });
    const { summary, text, waitsFor } = waits(play);
    expect(summary).toContain(`Queued, rescheduled: due at ${at(60_010)}, in 1 min`);
    expect(text).toContain(`It was rescheduled at ${at(10)} by "ops": due at ${at(60_010)} instead of ${at(0)}.`);
    expect(text).toContain(`It was rescheduled at ${at(10)} by "ops". \`perdure retry\` runs it now.`);
    expect(waitsFor).toEqual(["rescheduled"]);
  });

  it("shows that it was handed back a moment ago", () => {
    const { summary, text, waitsFor } = waits(new Play().run(RELEASED, 500));
    expect(summary).toContain(`Queued again after it was handed back: due at ${at(1_500)}, in 1 s`);
    expect(text).toContain(
      "Attempt 1 was handed back before it started; the job is offered again after a short delay.",
    );
    expect(waitsFor).toEqual(["handed_back"]);
  });

  it("shows that it waits in backoff after a queue timeout", () => {
    const play = new Play({ maxAttempts: 3 }, { expireInMs: 60_000 }).end(QUEUE_TIMEOUT, 61_000);
    const { text, waitsFor } = waits(play);
    expect(text).toContain("It waits in backoff after the queue timeout.");
    expect(waitsFor).toEqual(["backoff"]);
  });

  it("shows since when the queue is paused, and that its expiry is suspended", () => {
    const play = new Play({}, { expireInMs: 60_000 }).wait(90_000);
    const { summary, text, waitsFor } = waits(play, { queuePausedAt: T0 + 30_000, capableSessions: 1 });
    expect(summary).toBe(
      `Queued and due since ${at(0)} (for 1.5 min), but queue "mail" is paused; no attempt yet, 1 allowed.`,
    );
    expect(text).toContain(
      `Queue "mail" has been paused since ${at(30_000)} (for 1 min). No job in it starts until it is resumed.`,
    );
    expect(text).toContain("Its time in the queue (expireIn) does not pass while the queue is paused.");
    expect(waitsFor).toEqual(["paused"]);
  });

  it.each([
    [
      {},
      '(kind "send-mail", queue "mail"). Start one: perdure worker --tasks FILE --queue mail (without a server: perdure up).',
    ],
    [
      { kind: "exec" },
      '(kind "exec", queue "mail"). Start one: perdure worker --queue mail (without a server: perdure up).',
    ],
    [
      { kind: "exec", queue: "default" },
      '(kind "exec", queue "default"). Start one: perdure worker (without a server: perdure up).',
    ],
    [
      { kind: "exec", labels: { zone: "b c", "runtime/python": "yes" } },
      '(kind "exec", queue "mail", label "zone=b c", label "runtime/python=yes"). Start one: perdure worker --queue mail --label \'zone=b c\' --runtime python (without a server: perdure up).',
    ],
    [
      { kind: "http", labels: { "resource/cpu": "999000", gpu: "a" } },
      '(kind "http", queue "mail", label "gpu=a", 999 cpus). Start one that is large enough: perdure worker --queue mail --label gpu=a (without a server: perdure up).',
    ],
    [
      { kind: "exec", queue: "run-0123456789abcdef" },
      '(kind "exec", queue "run-0123456789abcdef"). Start one: perdure worker (without a server: perdure up).',
    ],
  ])("shows that no live worker takes it, and which one to start: %j", (parts, words) => {
    const { summary, text, waitsFor } = waits(new Play({}, parts).wait(1_000), { capableSessions: 0, liveSessions: 2 });
    expect(summary).toContain(`Queued and due since ${at(0)} (for 1 s), but no live worker takes it;`);
    expect(text.split("\n")).toContain(`No live worker takes this job ${words}`);
    expect(waitsFor).toEqual(["no_worker"]);
  });

  it("shows that the workers that could run it may have no capacity left", () => {
    const big = new Play({}, { labels: { "resource/cpu": "999000" } }).wait(10);
    expect(waits(big, { capableSessions: 1, liveSessions: 2 }).text).toContain(
      "They are busy, or their hosts have less than 999 cpus free, or about to take it.",
    );
  });

  it("shows that workers are busy, as far as known", () => {
    const play = new Play().wait(10);
    const known = waits(play, { capableSessions: 2, liveSessions: 3 });
    expect(known.summary).toContain("(for 10 ms), waiting for a free worker;");
    expect(known.text).toContain("Live workers that can run it: 2 of 3. They are busy,");
    expect(known.waitsFor).toEqual(["busy"]);
    expect(waits(play, { capableSessions: 2 }).text).toContain("Live workers that can run it: 2. They");
    expect(waits(play).text).toContain('Any worker that takes kind "send-mail" from queue "mail" can run it.');
  });

  it("names every reason that applies", () => {
    const play = new Play({}, { runAt: T0 + 1_000 });
    const { waitsFor } = waits(play, { capableSessions: 0, liveSessions: 1, queuePausedAt: T0 });
    expect(waitsFor).toEqual(["delayed", "paused", "no_worker"]);
  });

  it("shows when it expires, and that this is overdue", () => {
    const play = new Play({}, { expireInMs: 60_000 }).wait(10_000);
    expect(waits(play).text).toContain(
      `If no worker starts it by ${at(60_000)}, in 50 s, it has a queue timeout (expireIn).`,
    );
    expect(waits(play.wait(50_001)).text).toContain(
      `Its time in the queue (expireIn) ended at ${at(60_000)}; the engine is about to record that.`,
    );
  });
});

describe("running, blocked, succeeded and cancelled", () => {
  it("shows where it runs and for how long", () => {
    const explained = new Play({ maxAttempts: 2 }).wait(65_000).start("alpha").wait(12_000).explain();
    expect(explained.summary).toBe(`Running: attempt 1 of 2 on worker "alpha" since ${at(65_000)} (for 12 s).`);
    expect(explained.lines.at(-1)).toBe(
      `Attempt 1 started at ${at(65_000)}, 1.1 min after it was due, on worker "alpha" (session "s1") and is still running.`,
    );
    expect(explained.next).toEqual({ kind: "report", attempt: 1, cancelling: false });
    expect(explained.nextRunAt).toBeNull();
    expect(explained.attempts[0]).toMatchObject({ outcome: "running", endedAt: null, verdict: null, because: null });
  });

  it("shows that a cancel of a running job was requested", () => {
    const explained = new Play().start().wait(1_000).command({ kind: "cancel", by: "ops" }).wait(3_000).explain();
    expect(explained.summary).toContain(`; cancel requested at ${at(1_000)} by "ops".`);
    expect(explained.text).toContain(`A cancel was requested at ${at(1_000)} by "ops", while attempt 1 was running.`);
    expect(explained.text).toContain(
      "The cancel has been pending for 3 s. It takes effect when the attempt or its lease ends",
    );
    expect(explained.next).toEqual({ kind: "report", attempt: 1, cancelling: true });
  });

  it("shows that no worker can report a running job without a session, cancelled or not", () => {
    const running = new Play().start().wait(1_000);
    const last = (play: Play) => explain({ events: play.events, now: T0 + 2_000, isOrphan: true }).lines.at(-1);
    expect(last(running)).toBe(
      "Its session no longer exists, so no worker can report it. A server, or the next engine on this data, requeues it as lost; a cancel ends it immediately.",
    );
    expect(last(running.command({ kind: "cancel" }))).toMatch(/cancels it; a second cancel does so immediately\.$/);
  });

  it("shows that it is blocked", () => {
    const play = new Play();
    const first = play.events[0] as JobEvent;
    const events = [{ ...first, data: { ...first.data, state: "blocked" } } as JobEvent];
    const explained = explain({ events, now: T0 });
    expect(explained.summary).toBe("Blocked: it waits for its children, earlier steps or a person.");
    expect(explained.text).toContain("maxAttempts 1, initially blocked.");
    expect(explained).toMatchObject({ state: "blocked", next: { kind: "unblock" } });
  });

  it("shows which children it waits for, and that the attempt does not count", () => {
    const children = Array.from({ length: 7 }, (_, i) => `job_${i}`);
    const explained = new Play().run({ kind: "waiting", children }).explain();
    expect(explained.summary).toMatch(
      /^Blocked since .*: it waits for 7 children to end; attempt 1 \(0 of 1 counted\)\.$/,
    );
    expect(explained.text).toContain("job_3, job_4 and 2 more. When all of them have ended, it runs again");
    expect(explained.text).toContain("Decision: block: it waits for its children. Not counted as an attempt.");
    expect(explained.next).toEqual({ kind: "unblock", waitsFor: children });
  });

  it("shows when it succeeded, and what it used", () => {
    const play = new Play().run(COMPLETED, 2_000, { tokensIn: 120, tokensOut: 1, costUsd: 0.02 });
    const explained = play.wait(99).explain();
    expect(explained.summary).toBe(`Succeeded at ${at(2_000)}, 2 s after submission, with attempt 1 of 1.`);
    expect(explained.text).toContain('on worker "alpha" (session "s1") and completed after 2 s.');
    expect(explained.text).toContain("  It used 120 tokens in, 1 token out, 0.02 USD.");
    expect(explained.next).toEqual({ kind: "nothing" });
    expect(explained.attempts[0]).toMatchObject({ outcome: "completed", because: "the task completed" });
  });

  it("shows that a cancel came too late for a completed task", () => {
    const play = new Play().start().command({ kind: "cancel" }).end(COMPLETED);
    expect(play.text).toContain(`  The cancel requested at ${at(0)} came too late: the task had completed.`);
  });

  it("shows who cancelled a waiting job", () => {
    const explained = new Play().wait(7).command({ kind: "cancel", by: "ops" }).explain();
    expect(explained.summary).toBe(`Cancelled at ${at(7)}, requested at ${at(7)} by "ops", before the first attempt.`);
    expect(explained.text).toContain(`It was cancelled at ${at(7)} by "ops", while no attempt was running.`);
    expect(explained.text).toContain("To run it again: perdure redrive job_1");
    expect(explained.next).toEqual({ kind: "person", may: ["redrive"] });
  });

  it("shows that an attempt ended by a cancel does not count", () => {
    const play = new Play({ maxAttempts: 3 }).start().wait(10).command({ kind: "cancel" }).end(fails());
    expect(play.text).toContain(`  Decision: cancel: a cancel was requested at ${at(10)}. Not counted as an attempt.`);
    expect(play.explain().summary).toContain(
      `Cancelled at ${at(2_010)}, requested at ${at(10)}, after attempt 1 (0 of 3 counted).`,
    );
  });
});

describe("why a job failed, and what can be done", () => {
  const tokens = { tokensIn: 900, tokensOut: 200, costUsd: 1.5 };
  const NO_LOSS = { ...presets.default.workerLost, maxRetries: 0, poison: null };
  const poisoned = (play: Play) =>
    play
      .run(loss(null))
      .run(loss(null, { session: "s2" }))
      .run(loss(null, { session: "s3" }));
  const cases: readonly [AttemptFailReason, string, Play, string, string][] = [
    [
      "exhausted",
      "all attempts used up",
      new Play({ maxAttempts: 2 }).run(fails()).run(fails()),
      "after attempt 2 of 2: all 2 attempts are used up.",
      "Fix the cause, then redrive it; a redrive resets the attempt count. To allow later jobs more attempts, raise maxAttempts.",
    ],
    [
      "exhausted",
      "the only attempt used up",
      new Play().run(fails()),
      'after attempt 1 of 1: its only attempt is used up. Last failure: "it broke".',
      "raise maxAttempts.",
    ],
    [
      "exhausted",
      "a rule's own retries used up",
      new Play({ rules: [rule("retry", { maxRetries: 1 })] }).run(fails()).run(fails()),
      ": rules[0] matched 2 times and allows 1 retry.",
      "raise maxRetries of rules[0].",
    ],
    [
      "lost",
      "its own budget of losses",
      new Play({ workerLost: { ...presets.default.workerLost, maxRetries: 2, poison: null } })
        .run(loss())
        .run(loss())
        .run(loss()),
      "after attempt 3 (0 of 1 counted, 3 losses): lost 3 times; workerLost allows 2 retries.",
      "Find out why the workers named above exited (memory, preemption, a deploy, the network), then redrive it. To allow later jobs more attempts, raise workerLost.maxRetries.",
    ],
    [
      "lost",
      "no retry at all",
      new Play({ maxAttempts: 3, workerLost: NO_LOSS }).run(loss()),
      ": lost 1 time; workerLost allows no retries.",
      "raise workerLost.maxRetries.",
    ],
    [
      "lost",
      "at most once",
      new Play({ workerLost: NO_LOSS }).run(loss()),
      ": it was lost and is set to run at most once.",
      "Check whether the work was done, then redrive or discard the job.",
    ],
    [
      "lost",
      "at most once, interrupted",
      new Play({ workerLost: NO_LOSS }).run(INTERRUPTED),
      ": it was interrupted and is set to run at most once.",
      "Check whether the work was done, then redrive or discard the job.",
    ],
    [
      "lost",
      "a shared budget",
      new Play({ ...presets.opal }).run(loss()).run(loss()),
      "after attempt 2 of 2 (2 losses): all 2 attempts are used up, including lost ones.",
      "raise maxAttempts.",
    ],
    [
      "rejected",
      "the task said no",
      new Play({ maxAttempts: 9 }).run(fails({ class: "logical", message: "no url", name: "NonRetryableError" })),
      'after attempt 1 of 9: the task reported that a retry cannot help. Last failure: "no url" (NonRetryableError).',
      "Fix what the failure reports, then redrive it. If such failures should be retried, change the policy",
    ],
    [
      "invalid",
      "invalid input",
      new Play({ maxAttempts: 9 }).run(fails({ class: "invalid" })),
      ": its input is invalid, and a retry would not change that.",
      "A redrive would fail the same way. Submit the job again with a valid input, and discard this one.",
    ],
    [
      "invalid",
      "a program that does not exist",
      new Play({ maxAttempts: 9 }).run(fails({ class: "invalid", name: "SpawnError", code: "ENOENT" })),
      ": the command could not be started on this worker; not retried.",
      "Install the program, make it executable or create the directory, then redrive the job.",
    ],
    [
      "timeout",
      "its last attempt timed out",
      new Play().run(TIMEOUT),
      'after attempt 1 of 1: its only attempt is used up. Last failure: "it ran longer than 2 s".',
      "If it needs longer, redrive it with a longer timeout.",
    ],
    [
      "timeout",
      "onTimeout",
      new Play({ maxAttempts: 3, onTimeout: "fail" }).run(TIMEOUT),
      ": timeouts are not retried (onTimeout: fail).",
      "Find out what made it slow, then redrive it.",
    ],
    [
      "budget",
      "tokens",
      new Play({ maxAttempts: 3, budget: { tokens: 1_000, costUsd: null } }).run(fails(), 10, tokens),
      ": its token budget is used up (900 tokens in, 200 tokens out, 1.5 USD in all attempts).",
      "Usage is counted across redrives, and a budget covers all descendants of its job.",
    ],
    [
      "budget",
      "money",
      new Play({ maxAttempts: 3, budget: { tokens: null, costUsd: 1 } }).run(fails(), 10, tokens),
      ": its cost budget is used up (",
      "redrive it with --budget, or submit it again with a larger budget.",
    ],
    [
      "budget",
      "elapsed",
      new Play({ maxAttempts: 3, maxElapsedMs: 2_500 }).run(fails(), 2_000),
      ": the next attempt would start later than maxElapsed allows.",
      "Fix the cause, then redrive it; the time limit for its retries (maxElapsed) starts again.",
    ],
    [
      "unschedulable",
      "never started",
      new Play({}, { expireInMs: 5_000 }).end(QUEUE_TIMEOUT, 5_000),
      "before the first attempt: no worker started it in time, and its only attempt is used up.",
      'Start a worker that takes kind "send-mail" from queue "mail" and has the labels of the job (if any), or resume the queue if it is paused; then redrive it.',
    ],
    [
      "unschedulable",
      "deadline",
      new Play({}, { deadlineAt: T0 + 5_000 }).end(DEADLINE, 5_000),
      "before the first attempt: its deadline for starting has passed.",
      "Redrive it with a later deadline, or discard it.",
    ],
    [
      "poison",
      "quick losses",
      poisoned(new Play()),
      "after attempt 3 (0 of 1 counted, 3 losses): stopped by the poison guard: 3 quick losses in a row in different sessions.",
      "It probably crashes its workers. Check their logs and memory before you redrive it",
    ],
  ];

  it.each(cases)("%s: %s", (reason, _, play, words, advice) => {
    const explained = play.explain();
    expect(explained.state).toBe("failed");
    expect(explained.reason).toBe(reason);
    expect(explained.summary).toContain(`Failed (${reason}) at ${new Date(play.now).toISOString()}, `);
    expect(explained.summary).toContain(words);
    expect(explained.text).toContain(`Decision: fail (${reason}): `);
    expect(explained.lines.at(-2)).toContain(advice);
    expect(explained.lines.at(-1)).toBe("It stays a dead letter until someone redrives or discards it.");
    expect(explained.next).toEqual({ kind: "person", may: ["redrive", "discard"] });
  });

  it("poison: shows for each loss whether the job is suspected, and the chance of error", () => {
    const others = { lost: 1, watchedMs: 600_000_000 };
    const play = new Play()
      .run(loss(null, { crash: { beside: 0, excuse: "engine_away" } }))
      .run(loss(null, { session: "s2", crash: { beside: 3 } }))
      .run(loss(null, { session: "s3", crash: { beside: 1 } }))
      .run(loss(null, { session: "s4", crash: { beside: 0, others } }));
    const waiting = play.explain();
    expect(waiting.text).toContain("The job is not suspected of causing it: the engine had exited at that time too");
    expect(waiting.text).toContain("3 other attempts ran in the same process; any of them may have caused the loss.");
    expect(waiting.text).toContain("1 other attempt ran in the same process");
    expect(waiting.text).toContain(
      "No other attempt ran in its worker. In the ten minutes before, 1 similar worker was lost in ",
    );
    expect(waiting.lines.join()).toContain("3 times in a row, so only a worker without other jobs takes it");
    const explained = play.run(loss(null, { session: "s5", crash: { beside: 0, others } })).explain();
    expect(explained.summary).toContain(
      "4 quick losses in a row in different sessions, the last one alone in its worker",
    );
    expect(explained.summary).toMatch(/exited for another reason is less than one in a billion\./);
  });

  it("has a sentence for every reason", () => {
    const reasons: Record<AttemptFailReason, true> = {
      ...{ exhausted: true, lost: true, rejected: true, invalid: true },
      ...{ timeout: true, budget: true, unschedulable: true, poison: true },
    };
    expect(new Set(cases.map(([reason]) => reason))).toEqual(new Set(Object.keys(reasons)));
  });

  it("shows what the policy would have decided with attempts left", () => {
    const own = new Play({ rules: [rule("retry", { maxRetries: 0 })] }).run(fails());
    expect(own.text).toContain(
      "fail (exhausted): rules[0] matched 1 time and allows no retries (otherwise it would be retried: rules[0] (rule 1 of the policy) matched this failure). Counted only by rules[0]: match 1, 0 of 0 retries left.",
    );
    const late = new Play({ maxAttempts: 3, maxElapsedMs: 1, retryOn: ["broke"] }).run(fails());
    expect(late.text).toContain('(otherwise it would be retried: retryOn "broke" matched "it broke")');
    expect(new Play({ maxAttempts: 3, maxElapsedMs: 1 }).run(fails()).text).not.toContain("otherwise");
  });

  it("shows that a job was handed back so often that it counts as lost", () => {
    const play = new Play({ maxAttempts: 2, workerLost: { ...presets.default.workerLost, maxRetries: 0 } });
    for (let i = 0; i < 20; i++) play.run(INTERRUPTED, 10);
    expect(play.explain().summary).toContain(
      "handed back 20 times in a row, which counts as a lost worker; lost 1 time; workerLost allows no retries",
    );
    expect(play.text).toContain(
      "its worker was shutting down. Not counted as an attempt (handed back 19 times in a row; 20 count as a loss).",
    );
  });

  it("shows who discarded it, and that a redrive is still possible", () => {
    const explained = new Play().run(fails()).command({ kind: "discard", by: "ops" }).explain();
    expect(explained.summary).toContain(
      `Failed (exhausted) at ${at(2_000)}, after attempt 1 of 1: its only attempt is used up. Last failure: "it broke". Discarded at ${at(2_000)} by "ops".`,
    );
    expect(explained.text).toContain(`It was discarded at ${at(2_000)} by "ops": removed from the dead letters.`);
    expect(explained.lines.at(-1)).toBe("It is no longer a dead letter; it can still be redriven.");
    expect(explained.next).toEqual({ kind: "person", may: ["redrive"] });
  });
});

describe("the rule or step that decided", () => {
  const five: Partial<Policy> = { maxAttempts: 5 };
  it.each<[string, Partial<Policy>, Outcome, string]>([
    [
      "a rule that retries",
      { ...five, rules: [rule("fail", { if: { ...ANY, exitCode: [3] } }), rule("retry")] },
      fails(),
      "retry: rules[1] (rule 2 of the policy) matched this failure. Attempt 1 of 5; 4 left.",
    ],
    [
      "a rule that fails",
      { ...five, rules: [rule("fail")] },
      fails(),
      "Decision: fail (rejected): rules[0] (rule 1 of the policy) matched this failure.",
    ],
    [
      "a rule that names what it matches",
      { ...five, rules: [rule("retry", { if: { ...ANY, exitCode: [3, 4], message: ["lock", "boom"] } })] },
      exits(4, "BOOM goes the lock"),
      'rules[0] (rule 1 of the policy) matched this failure: exitCode 4, message "lock" matched "exit code 4: BOOM goes the lock".',
    ],
    [
      "a rule that defers",
      { ...five, rules: [rule("defer")] },
      fails(),
      "defer: rules[0] (rule 1 of the policy) matched this failure. Not counted as an attempt (deferral 1).",
    ],
    [
      "a rule with its own retries",
      { ...five, rules: [rule("retry", { maxRetries: 2 })] },
      fails(),
      "matched this failure. Counted only by rules[0]: match 1, 1 of 2 retries left.",
    ],
    ["stopWhen", { ...five, stopWhen: "{{ attempt >= 1 }}" }, fails(), ": stopWhen is true."],
    ["retryWhen, true", { ...five, retryWhen: "{{ error != None }}" }, fails(), "retry: retryWhen is true."],
    ["retryWhen, not true", { ...five, retryWhen: "{{ status_code == 503 }}" }, fails(), ": retryWhen is not true."],
    [
      "retryWhen on a result",
      { ...five, retryWhen: "{{ result == None }}" },
      COMPLETED,
      "retry: its result matches retryWhen.",
    ],
    ["onTimeout", five, TIMEOUT, "retry: timeouts are retried (onTimeout: retry)."],
    [
      "onUnknown",
      { ...five, onUnknown: "fail" },
      fails(),
      ": no rule matched; unknown failures are not retried (onUnknown: fail).",
    ],
    ["noRetryOnExitCodes", { ...five, noRetryOnExitCodes: [2] }, exits(2), ": exit code 2 is in noRetryOnExitCodes."],
    ["retryOnExitCodes", { ...five, retryOnExitCodes: [75] }, exits(75), "retry: exit code 75 is in retryOnExitCodes."],
    [
      "retryOnExitCodes, another code",
      { ...five, retryOnExitCodes: [75] },
      exits(3),
      ": exit code 3 is not in retryOnExitCodes.",
    ],
    [
      "retryOnExitCodes, no code",
      { ...five, retryOnExitCodes: [75] },
      fails(),
      ": the failure has no exit code, and retryOnExitCodes is set.",
    ],
    ["noRetryOn", { ...five, noRetryOn: ["broke"] }, fails(), ': noRetryOn "broke" matched "it broke".'],
    ["retryOn", { ...five, retryOn: ["no", "it ... ke"] }, fails(), 'retry: retryOn "it ... ke" matched "it broke".'],
    [
      "retryOn, in the lines around",
      { ...five, retryOn: ["refused"] },
      fails({ kind: "exit", exitCode: 1, message: "exit code 1: bye", stack: "one\n  Connection Refused (db)\nbye" }),
      'retry: retryOn "refused" matched "Connection Refused (db)".',
    ],
    [
      "the preset",
      five,
      fails({ kind: "http", status: 404, message: "404 Not Found" }),
      ': a rule of preset "default" matched this failure (kind http, status 400-407).',
    ],
    [
      "a released attempt",
      five,
      RELEASED,
      "Decision: retry: the attempt had not started. Not counted as an attempt (handed back 1 time in a row; 20 count as a loss).",
    ],
    [
      "an interrupted attempt",
      five,
      INTERRUPTED,
      "Decision: retry: its worker was shutting down. Not counted as an attempt",
    ],
    [
      "a loss on a shared budget",
      { ...presets.opal, maxAttempts: 5 },
      loss(),
      ": lost attempts are retried. Attempt 1 of 5; 4 left.",
    ],
  ])("%s", (_, policy, outcome, words) => {
    expect(new Play(policy).run(outcome).text).toContain(words);
  });

  it("shows that a condition could not be evaluated", () => {
    const play = new Play({ maxAttempts: 5, stopWhen: "{{ error - 1 == 0 }}" }).run(fails());
    expect(play.text).toMatch(/: stopWhen could not be evaluated \(.+\), so it is not retried\. Attempt 1 of 5/);
  });

  it.each<[Match, string]>([
    [{ by: "list", list: "retryOn" }, "retry: retryOn matched its message."],
    [{ by: "rule", index: 0 }, "retry: rules[0] (rule 1 of the policy) matched this failure."],
    [{ by: "preset", preset: "agent" }, 'retry: a rule of preset "agent" matched this failure.'],
  ])("explains a decision of an early version, which does not name the part: %j", (match, words) => {
    const play = new Play().start();
    const decision = { kind: "retry", step: "retry", class: "failure", match, runAt: T0 } as const;
    const cause = failure({ kind: "error", message: "it broke" });
    const event: JobEventBody = { name: "attempt.failed", data: { v: 2, attempt: 1, decision, failure: cause } };
    play.apply({ event, next: evolve(play.job, { ...event, at: play.now } as JobEvent) });
    expect(play.text).toContain(words);
    expect(play.explain().retries).toMatchObject([{ match }]);
  });

  it("counts a queue timeout, which has no attempt", () => {
    const play = new Play({ maxAttempts: 3 }, { expireInMs: 60_000 }).end(QUEUE_TIMEOUT, 60_000);
    expect(play.text).toContain(
      `It expired in the queue at ${at(60_000)}: no worker started it within 1 min of its due time (expireIn).`,
    );
    expect(play.text).toContain(
      "retry: no worker started it in time, and attempts are left. Counted as attempt 1 of 3; 2 left.",
    );
    expect(play.explain().attempts).toEqual([]);
  });
});

describe("the delay", () => {
  const asked = (retryAfterMs: number) => fails({ retryAfterMs });
  const text = (policy: Partial<Policy>, outcome: Outcome, random = 0.5) =>
    new Play({ maxAttempts: 5, ...policy }).start().end(outcome, 0, null, random).text;

  it("shows base, jitter and end", () => {
    expect(text({}, fails(), 0)).toContain(`Next attempt at ${at(800)}, 800 ms later (backoff 1 s, jitter -20 %).`);
    for (const hardlyAny of [0.4999, 0.5001])
      expect(text({}, fails(), hardlyAny)).toContain("(backoff 1 s, jitter 0 %).");
    expect(text({ backoff: { type: "none" } }, fails())).toContain(`attempt at ${at(0)}, immediately (no backoff).`);
  });

  it("shows what Retry-After did to it", () => {
    expect(text({}, asked(30_000))).toContain("30 s later (backoff 1 s, Retry-After 30 s).");
    expect(text({}, asked(7_200_000))).toContain("1 h later (backoff 1 s, Retry-After 2 h, limited to 1 h).");
    expect(text({ honourRetryAfter: false }, asked(30_000))).toContain(
      "1 s later (backoff 1 s, Retry-After 30 s, ignored by this policy).",
    );
  });

  it("has no backoff after a hand-back", () => {
    expect(text({}, INTERRUPTED)).toContain(`Next attempt at ${at(0)}, immediately.`);
    expect(text({}, RELEASED)).toContain(`Next attempt at ${at(1_000)}, 1 s later and not in the same session.`);
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

  it("distinguishes a polled result from a failure", () => {
    const explained = new Play({ maxAttempts: 5, retryWhen: "{{ success }}" }).run(COMPLETED).explain();
    expect(explained.lines[1]).toContain("and completed after 2 s with a result that matches retryWhen.");
    expect(explained.attempts[0]?.outcome).toBe("polled");
  });

  it("shows timeouts and hand-backs", () => {
    expect(ended(TIMEOUT)).toContain('and timed out after 2 s: "it ran longer than 2 s".');
    expect(ended(INTERRUPTED)).toContain("and was interrupted after 2 s by the shutdown of its worker.");
    expect(ended(RELEASED)).toContain("and was handed back after 2 s, before it started.");
  });

  it("shows who found a loss, why, and when it was last seen alive", () => {
    expect(ended(loss(T0 - 3_000, { why: "worker_gone", by: null }))).toContain(
      `was lost after 2 s: its worker had exited; last heartbeat at ${at(-3_000)}, 3 s before the attempt started; detected by an unnamed server process.`,
    );
    expect(ended(loss(null, { why: "killed" }))).toContain(
      "it was killed without a request to stop it; no heartbeat was recorded; detected by server process engine-1.",
    );
    expect(ended(loss(T0, { why: "eaten\u0007" as "killed" }))).toContain("was lost after 2 s: eaten\\x07;");
  });
});

describe("redrives, late reports and names from outside", () => {
  it("shows what a redrive changed, and counts by it", () => {
    const play = new Play({ maxAttempts: 1 }).run(fails());
    const retry = { maxAttempts: 3, onUnknown: "fail" } as const;
    const explained = play.command({ kind: "redrive", changes: { retry, timeoutMs: 1_000, priority: 2 } }).explain();
    expect(explained.text).toContain('; changed: maxAttempts 3, onUnknown "fail", timeout 1 s, priority 2.\n');
    expect(explained.summary).toContain("0 of 3 since the redrive");
    play.run(fails()).command({ kind: "redrive", changes: { timeoutMs: 1_000 } });
    expect(play.explain().summary).toContain("0 of 3 since the redrive");
    expect(play.text.match(/changed:/g)).toHaveLength(1);
  });

  it("shows a redrive, after which all attempts are left", () => {
    const play = new Play({ maxAttempts: 2 }).run(fails()).run(fails()).wait(60_000);
    const explained = play.command({ kind: "redrive", by: "ops" }).start("gamma").explain();
    const when = new Date(play.now).toISOString();
    expect(explained.text).toContain(
      `It was redriven at ${when} by "ops" (redrive 1): counters reset, due at ${when}.`,
    );
    expect(explained.summary).toContain("attempt 3 (1 of 2 since the redrive) on worker");
    expect(explained.chapter).toBe(2);
    expect(play.end(fails()).text).toContain("Attempt 3, 1 of 2 since the redrive; 1 left.");
    expect(explained.attempts.map(({ attempt, chapter }) => [attempt, chapter])).toEqual([
      [1, 1],
      [2, 1],
      [3, 2],
    ]);
  });

  it("names the deadline that passed, also after a redrive that changed it", () => {
    const play = new Play({}, { deadlineAt: T0 + 5_000 }).end(DEADLINE, 9_000);
    expect(play.text).toContain(`Its deadline, ${at(5_000)}, passed before a worker started it.`);
    play.command({ kind: "redrive", changes: { deadlineAt: T0 + 20_000 } }).end(DEADLINE, 30_000);
    expect(play.text).toContain(`Its deadline, ${at(20_000)}, passed before a worker started it.`);
  });

  it("ignores a cancel before the last redrive", () => {
    const play = new Play().command({ kind: "cancel", by: "ops" }).command({ kind: "retry", by: "ops" }).start();
    expect(play.explain().next).toEqual({ kind: "report", attempt: 1, cancelling: false });
  });

  it("shows that a late report was ignored", () => {
    const play = new Play({ maxAttempts: 5 }).run(loss());
    const lateReports = [
      { attempt: 1, at: T0 + 9_000, session: "s1", outcome: "completed" },
      { attempt: 1, at: T0 + 9_500, session: null, outcome: "failed" },
    ];
    const { text } = play.explain({ lateReports });
    expect(text).toContain(
      `A late report of attempt 1 (completed) from session "s1" arrived at ${at(9_000)} and was ignored.`,
    );
    expect(text).toContain(`A late report of attempt 1 (failed) arrived at ${at(9_500)} and was ignored.`);
  });

  it("keeps every name on its line", () => {
    const evil = "a\n\u001b[2Jb";
    const play = new Play({}, { kind: evil, queue: evil, namespace: evil })
      .start(evil)
      .command({ kind: "cancel", by: evil });
    const explained = play.end(loss(null, { by: evil })).explain();
    expect(explained.lines.every((line) => !line.includes("\n") && !line.includes("\u001b"))).toBe(true);
    expect(explained.text).toContain('kind "a\\n\\x1b[2Jb"');
  });

  it("refuses a history with a gap, as fold does", () => {
    const { events } = new Play().run(fails());
    expect(() => explain({ events: events.slice(1), now: T0 })).toThrow("event 2 follows event 0");
    expect(() => explain({ events: [], now: T0 })).toThrow("at least one event");
  });
});

it("has a sentence for every event", () => {
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
  // Those of runs have their own test.
  const sentences: Record<Exclude<JobEventName, "run.advanced" | "run.ended">, string> = {
    "job.submitted": "Job job_1 was submitted at ",
    "job.queue_timeout": "It expired in the queue at ",
    "job.over_budget": ": the budget of job_0 (1 USD, 1.2 spent) has nothing left. Not counted as an attempt.",
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
    "job.unblocked": "All jobs it waited for had ended at ",
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

  it("is explained without an exception, on single lines, with every attempt in it", () => {
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
            const explained = play.explain({
              capableSessions: step.ms % 2,
              liveSessions: 2,
              queuePausedAt: step.ms % 3 ? null : T0,
            });
            const now = foldEvents(play.events);
            expect([explained.state, explained.reason, explained.chapter]).toEqual([
              now.state,
              now.reason,
              now.chapter,
            ]);
            expect(explained.attempts.map(({ attempt }) => attempt)).toEqual(
              Array.from({ length: now.attempt }, (_, i) => i + 1),
            );
            if (now.attempt > 0) expect(explained.summary).toContain(`attempt ${jobAttemptText(play.job)}`); // as `get`
            for (const { attempt } of explained.attempts)
              expect(explained.text).toContain(`Attempt ${attempt} started at `);
            expect(explained.text.split("\n")).toHaveLength(explained.lines.length + 1);
            expect(explained.text).not.toMatch(/undefined|NaN|\bnull\b|\[object|unknown time/);
            expect(play.explain().text).toBe(play.explain().text);
          }
        },
      ),
      { numRuns: rounds(150) },
    );
  });

  it("shows what is unusual about a submission, and the labels that no worker has", () => {
    const { event } = submitJob(
      {
        ...{ kind: "train", queue: "gpu", namespace: "default", runAt: T0, expireInMs: null, policy: presets.default },
        ...{ labels: { gpu: "a100", zone: "b" }, priority: 0, timeoutMs: 120_000, deadlineAt: T0 + 60_000 },
      },
      T0,
    );
    const events = [{ ...event, seq: 1, jobId: "job_1", n: 1, at: T0 }] as JobEvent[];
    const explained = explain({ events, now: T0 + 5, capableSessions: 0, liveSessions: 2 });
    expect(explained.text).toContain("priority 0, timeout 2 min, deadline ");
    expect(explained.text).toContain(
      'No live worker takes this job (kind "train", queue "gpu", label "gpu=a100", label "zone=b"). Start one: perdure worker --tasks FILE --queue gpu --label gpu=a100 --label zone=b',
    );
    const one = { ...event, data: { ...event.data, labels: { gpu: "a100" } } };
    const single = explain({
      events: [{ ...one, seq: 1, jobId: "job_1", n: 1, at: T0 }] as JobEvent[],
      now: T0 + 5,
      capableSessions: 0,
    });
    expect(single.text).toContain('queue "gpu", label "gpu=a100").');
  });
});

describe("the history of a job with very many attempts", () => {
  it("is bounded: it has the first and the last attempts, and the total count", () => {
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
    expect(text).toContain("(1101 steps are omitted here; the event list has all of them.)");
    expect(text).toContain("no 1500");
    expect(text).not.toContain("no 500;");
    expect(summary).toContain("attempt 1500 of 2000");
  });
});
