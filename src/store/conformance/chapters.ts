/** Redrives start a new chapter: counters start again; attempts, events and usage continue. */
import { expect, test } from "vitest";
import type { History } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, done, MINUTE, placeOf, SECOND, T0, TWICE, usageOf } from "./kit.ts";

export function chapterTests(bench: Bench): void {
  async function failedTwice() {
    const { job, session } = await bench.running({ retry: TWICE, expireInMs: MINUTE });
    await bench.report(job, broke("one"), T0, { usage: usageOf(10) });
    const second = await bench.take(session, T0 + SECOND);
    await bench.report(second, broke("two"), T0 + SECOND, { usage: usageOf(5) });
    return { id: job.id, session, second };
  }

  test("a redrive resets the counters, and nothing else", async () => {
    const { id, session } = await failedTwice();
    await bench.amend(id, { kind: "discard" }, T0 + 2 * SECOND);
    const answer = await bench.amend(id, { kind: "redrive" }, T0 + 3 * SECOND);
    expect(answer).toMatchObject({ status: "applied" });
    expect(await bench.row(id)).toMatchObject({
      ...{ state: "queued", reason: null, chapter: 2, attempt: 2, failures: 0, losses: 0, handbacks: 0, streak: 0 },
      ...{ runAt: T0 + 3 * SECOND, expiresAt: T0 + 3 * SECOND + MINUTE, firstStartedAt: null, finishedAt: null },
      ...{ discardedAt: null, cancelRequestedAt: null, usage: usageOf(15), worker: session, revision: 7 },
    });
  });

  test("a redriven job has all its attempts again and ends once", async () => {
    const { id, session } = await failedTwice();
    await bench.amend(id, { kind: "redrive" }, T0 + 3 * SECOND);
    const third = await bench.take(session, T0 + 3 * SECOND);
    expect(third).toMatchObject({ attempt: 3, chapter: 2, failures: 0 });
    expect(JSON.parse(third.previous as string)).toMatchObject({ message: "two" });
    expect(await bench.report(third, broke("three"), T0 + 4 * SECOND)).toMatchObject({ state: "queued" });
    const fourth = await bench.take(session, T0 + 5 * SECOND);
    expect(await bench.report(fourth, done('"at last"'), T0 + 5 * SECOND)).toMatchObject({ state: "succeeded" });
    expect(await bench.row(id)).toMatchObject({ chapter: 2, attempt: 4, result: '"at last"' });
    expect((await bench.store.attempts(id)).map((attempt) => attempt.chapter)).toEqual([1, 1, 2, 2]);
    expect(await bench.amend(id, { kind: "redrive" }, T0 + MINUTE)).toMatchObject({ status: "refused_command" });
  });

  test("a redrive may change the policy, the timeout, the priority and the waits, which then apply to every attempt", async () => {
    const { id, session } = await failedTwice();
    const rival = await bench.submit({ priority: 4, at: T0 + 2 * SECOND });
    const deadlineAt = T0 + 10 * MINUTE;
    const retry = { maxAttempts: 3, budget: { costUsd: 5 } };
    const changes = { retry, timeoutMs: 7_000, priority: 1, expireInMs: 2 * MINUTE, deadlineAt };
    const answer = await bench.amend(id, { kind: "redrive", changes }, T0 + 3 * SECOND);
    const terms = { timeoutMs: 7_000, priority: 1, expireInMs: 2 * MINUTE, deadlineAt };
    const policy = { maxAttempts: 3, backoff: { type: "fixed" }, budget: { costUsd: 5, tokens: null } };
    expect(answer).toMatchObject({ status: "applied", job: { ...terms, policy } });
    expect(await bench.row(id)).toMatchObject({ ...terms, policy, expiresAt: T0 + 3 * SECOND + 2 * MINUTE });
    const { events } = (await bench.store.history(id)) as History;
    const changed = { ...terms, policy: { maxAttempts: 3, budget: { costUsd: 5, tokens: null } } };
    expect(events.at(-1)).toMatchObject({ name: "job.redriven", data: { changed } });
    // By its new priority it comes before the other.
    const third = await bench.take(session, T0 + 3 * SECOND);
    expect(third).toMatchObject({ id, attempt: 3, timeoutMs: 7_000, maxAttempts: 3 });
    expect(await bench.report(third, broke(), T0 + 4 * SECOND)).toMatchObject({ state: "queued" });
    expect(await bench.take(session, T0 + 4 * SECOND)).toMatchObject({ id: rival });
    // Options that are not passed stay as the previous redrive set them.
    await bench.amend(id, { kind: "cancel" }, T0 + 5 * SECOND);
    await bench.amend(id, { kind: "redrive", changes: { timeoutMs: 8_000 } }, T0 + 5 * SECOND);
    expect(await bench.row(id)).toMatchObject({ ...terms, policy, timeoutMs: 8_000 });
  });

  test("a cancel from before a redrive does not stop the redriven job", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    await bench.amend(job.id, { kind: "cancel" }, T0 + 1);
    await bench.report(job, broke(), T0 + 2);
    await bench.amend(job.id, { kind: "redrive" }, T0 + 3);
    const again = await bench.take(session, T0 + 3);
    expect((await bench.renew(session, [placeOf(again)], T0 + 4)).cancel).toEqual([]);
    expect(await bench.report(again, broke(), T0 + 5)).toMatchObject({ state: "queued" });
  });

  test("a report from before a redrive is late after it", async () => {
    const { id, second } = await failedTwice();
    await bench.amend(id, { kind: "redrive" }, T0 + 3 * SECOND);
    expect(await bench.report(second, done(), T0 + 4 * SECOND)).toEqual({ status: "stale", recorded: "failed" });
    expect((await bench.row(id)).state).toBe("queued");
  });

  test("a job that was cancelled before its first attempt can be redriven", async () => {
    const id = await bench.submit();
    await bench.amend(id, { kind: "cancel" });
    await bench.amend(id, { kind: "retry" }, T0 + 1);
    expect(await bench.take(await bench.open(), T0 + 1)).toMatchObject({ id, attempt: 1, chapter: 2, previous: null });
  });
}
