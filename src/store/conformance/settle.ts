/** Settling: an accepted report closes its attempt, writes one event and moves the job as decided. */
import { expect, test } from "vitest";
import { failure } from "../../core/decision/failure.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { Bench } from "./bench.ts";
import { broke, decideAt, done, INTERRUPTED, jobId, reportOf, SECOND, T0, TWICE, usageOf } from "./kit.ts";

export function settleTests(bench: Bench): void {
  test("a success ends the job and keeps its result", async () => {
    const { job, session } = await bench.running();
    const answer = await bench.report(job, done('{"width" : 640}'), T0 + 50, { log: "hello\n" });
    expect(answer).toEqual({ status: "accepted", repeated: false, state: "succeeded", reason: null, runAt: null });
    expect(await bench.row(job.id)).toMatchObject({
      ...{ state: "succeeded", finishedAt: T0 + 50, result: '{"width" : 640}', worker: session, revision: 3 },
    });
    expect(await bench.store.attempts(job.id)).toEqual([
      {
        ...{ jobId: job.id, attempt: 1, chapter: 1, session, startedAt: T0, endedAt: T0 + 50, outcome: "completed" },
        ...{ failure: null, usage: null, result: '{"width" : 640}', log: "hello\n" },
      },
    ]);
    expect(await bench.names(job.id)).toEqual(["job.submitted", "attempt.started", "attempt.succeeded"]);
  });

  test("a success without a result has none", async () => {
    const { job } = await bench.running();
    await bench.report(job, done(null));
    expect((await bench.row(job.id)).result).toBeNull();
  });

  test("a failure is retried, the last one fails the job", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    const first = await bench.report(job, broke("one"), T0 + 10);
    expect(first).toMatchObject({ status: "accepted", state: "queued", reason: null, runAt: T0 + 10 + SECOND });
    expect(await bench.row(job.id)).toMatchObject({ state: "queued", failures: 1, runAt: T0 + 10 + SECOND });
    const again = await bench.take(session, T0 + 10 + SECOND);
    const last = await bench.report(again, broke("two"), T0 + 2 * SECOND);
    expect(last).toMatchObject({ status: "accepted", state: "failed", reason: "exhausted", runAt: null });
    expect(await bench.row(job.id)).toMatchObject({ failures: 2, attempt: 2, finishedAt: T0 + 2 * SECOND });
    const attempts = await bench.store.attempts(job.id);
    expect(attempts.map((attempt) => [attempt.attempt, attempt.failure?.message])).toEqual([
      [1, "one"],
      [2, "two"],
    ]);
  });

  test("keeps every field of a failure; the stack with the attempt and not in the event", async () => {
    const { job } = await bench.running();
    const parts = { name: "HttpError", code: "E503", exitCode: 7, signal: "SIGTERM", status: 503, retryAfterMs: 9 };
    const whole = failure({ kind: "http", class: "transient", message: "503", ...parts, stack: "at line 1" });
    await bench.report(job, { kind: "failed", failure: whole });
    expect((await bench.store.attempts(job.id))[0]?.failure).toEqual(whole);
    const [, , ended] = (await bench.store.events.page({ after: 0, limit: 9, jobId: job.id })).events;
    const { stack: _, ...rest } = whole;
    expect(ended?.data).toMatchObject({ failure: rest });
    expect(ended?.data).not.toHaveProperty("failure.stack");
    expect(ended?.data).not.toHaveProperty("failure.line");
  });

  test("keeps the matched line with the attempt, the event and the job, if it differs from the message", async () => {
    const ended = (message: string, stack: string) => {
      return { kind: "failed", failure: failure({ kind: "exit", exitCode: 1, message, stack }) } as const;
    };
    const retry = { maxAttempts: 3, noRetryOn: ["token expired"], retryOn: ["busy"] } as const;
    const { job, session } = await bench.running({ retry: { ...retry, backoff: { type: "none" } } });
    await bench.report(job, ended("bye", "the disk is busy\nbye"));
    expect((await bench.row(job.id)).failure).toMatchObject({ message: "bye", line: "the disk is busy", stack: null });
    const second = await bench.take(session);
    await bench.report(second, ended("busy bye", "busy bye"));
    expect((await bench.row(job.id)).failure).not.toHaveProperty("line");
    const third = await bench.take(session);
    await bench.report(third, ended("bye", "token expired\nbye"));
    expect((await bench.row(job.id)).failure).toMatchObject({ message: "bye", line: "token expired", stack: null });
    const lines = (await bench.store.attempts(job.id)).map(({ failure }) => failure?.line ?? null);
    expect(lines).toEqual(["the disk is busy", null, "token expired"]);
    const last = (await bench.store.events.page({ after: 0, limit: 99, jobId: job.id })).events.at(-1);
    expect(last?.data).toMatchObject({ failure: { message: "bye", line: "token expired" } });
  });

  test("a timeout, an interruption and a rejection are recorded as such", async () => {
    const timeout = failure({ kind: "timeout", message: "timed out after 5 ms" });
    const { job: slow } = await bench.running({ kind: "a" });
    expect(await bench.report(slow, { kind: "timeout", failure: timeout })).toMatchObject({ reason: "timeout" });
    const { job: cut } = await bench.running({ kind: "b" });
    expect(await bench.report(cut, INTERRUPTED)).toMatchObject({ state: "queued", runAt: T0 });
    expect(await bench.row(cut.id)).toMatchObject({ failures: 0, losses: 0, handbacks: 1 });
    const { job: no } = await bench.running({ kind: "c", retry: 5 });
    const rejected = failure({ kind: "error", class: "logical", message: "no" });
    expect(await bench.report(no, { kind: "failed", failure: rejected })).toMatchObject({ reason: "rejected" });
  });

  test("adds the usage of all attempts", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    await bench.report(job, broke(), T0, { usage: usageOf(100, 20, 0.25) });
    const again = await bench.take(session, T0 + SECOND);
    await bench.report(again, done(), T0 + SECOND, { usage: usageOf(1, 2, 0.5) });
    expect((await bench.row(job.id)).usage).toEqual(usageOf(101, 22, 0.75));
  });

  test("a rule's own count is kept between attempts", async () => {
    const again = { message: "again" };
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
    const rule = { if: again, then: "retry", maxRetries: 2, backoff: { type: "none" } } as const;
    const { job, session } = await bench.running({ retry: { rules: [rule] } });
    await bench.report(job, broke("again"));
    expect(await bench.row(job.id)).toMatchObject({ state: "queued", failures: 0, ruleCounts: { 0: 1 } });
    await bench.report(await bench.take(session), broke("again"));
    expect(await bench.report(await bench.take(session), broke("again"))).toMatchObject({ reason: "exhausted" });
  });

  test("an interruption ends the streak of handbacks only when something else happens", async () => {
    const { job, session } = await bench.running();
    await bench.report(job, INTERRUPTED);
    await bench.report(await bench.take(session), INTERRUPTED);
    expect((await bench.row(job.id)).handbacks).toBe(2);
    await bench.report(await bench.take(session), done());
    expect(await bench.row(job.id)).toMatchObject({ state: "succeeded", handbacks: 0, attempt: 3 });
  });

  test("polls by its result: retryWhen reads it as written", async () => {
    const { job, session } = await bench.running({
      retry: { maxAttempts: 3, retryWhen: "{{ result.state == 'pending' }}", backoff: { type: "none" } },
    });
    expect(await bench.report(job, done('{"state":"pending"}'))).toMatchObject({ state: "queued" });
    expect(await bench.row(job.id)).toMatchObject({ failures: 1, result: null });
    expect(await bench.report(await bench.take(session), done('{"state":"ok"}'))).toMatchObject({ state: "succeeded" });
    expect((await bench.row(job.id)).result).toBe('{"state":"ok"}');
  });

  test("answers a long list in its order", async () => {
    const session = await bench.open({ slots: 200 });
    await bench.insert(Array.from({ length: 150 }, () => ({ retry: TWICE })));
    const jobs = await bench.claim(session, 150);
    const reports = jobs.map((job, i) => reportOf(job, i % 3 === 0 ? broke(`${i}`) : done(`${i}`)));
    const unknown = { ...reportOf(jobs[0] as ClaimedJob), jobId: jobId() };
    const answers = await bench.settle([...reports.slice(0, 75), unknown, ...reports.slice(75)], T0);
    expect(answers[75]).toEqual({ status: "unknown_job" });
    answers.splice(75, 1);
    expect(answers.map((answer) => "state" in answer && answer.state)).toEqual(
      jobs.map((_, i) => (i % 3 === 0 ? "queued" : "succeeded")),
    );
    const rows = await bench.store.jobs(jobs.map((job) => job.id));
    expect(rows.map((row) => row?.result)).toEqual(jobs.map((_, i) => (i % 3 === 0 ? null : `${i}`)));
  });

  test("refuses only the report whose decision throws", async () => {
    const session = await bench.open();
    await bench.insert([{}, {}, {}]);
    const jobs = await bench.claim(session, 3);
    const bad = jobs[1]?.id;
    const answers = await bench.store.settle(
      jobs.map((job) => reportOf(job)),
      T0,
      (job, report, held) => {
        if (job.id === bad) throw new Error("no decision");
        return decideAt(T0)(job, report, held);
      },
    );
    expect(answers.map((answer) => answer.status)).toEqual(["accepted", "refused", "accepted"]);
    expect((await bench.row(bad as string)).state).toBe("running");
  });

  test("returns which of some jobs have ended", async () => {
    const { job: running } = await bench.running({ kind: "a" });
    const { job: ok } = await bench.running({ kind: "b" });
    const { job: bad } = await bench.running({ kind: "c" });
    const off = await bench.submit();
    await bench.settle([reportOf(ok), reportOf(bad, broke())], T0);
    await bench.amend(off, { kind: "cancel" });
    const ended = await bench.store.ended([running.id, ok.id, jobId(), bad.id, off, await bench.submit()]);
    expect(ended.sort()).toEqual([ok.id, bad.id, off].sort());
    expect(await bench.store.ended([])).toEqual([]);
  });

  test("passes the lease to the decision: session, last renewal and usage", async () => {
    const { job, session } = await bench.running();
    await bench.renew(session, [{ jobId: job.id, attempt: 1, usage: usageOf(7) }], T0 + 40);
    const seen: unknown[] = [];
    await bench.store.settle([reportOf(job)], T0 + 50, (row, report, held) => {
      seen.push(held, row.state, row.attempt);
      return decideAt(T0 + 50)(row, report, held);
    });
    // It may have been called before with cached facts; the last call counts.
    expect(seen.slice(-3)).toEqual([
      { budgets: [], session, renewedAt: T0 + 40, ended: false, usage: usageOf(7) },
      "running",
      1,
    ]);
  });
}
