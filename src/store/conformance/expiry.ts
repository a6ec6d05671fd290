/** Jobs that wait too long: queue timeouts and deadlines. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { broke, jobId, MINUTE, overdue, placeOf, SECOND, T0, TWICE } from "./kit.ts";

export function expiryTests(bench: Bench): void {
  const waiting = (id: string, attempt = 0) => ({ jobId: id, attempt });

  test("finds a job that has waited longer than allowed", async () => {
    const id = await bench.submit({ runAt: T0 + SECOND, expireInMs: MINUTE });
    await bench.submit();
    const end = T0 + SECOND + MINUTE + 1;
    expect(await bench.store.expired({ now: end - 1, limit: 9 })).toEqual([]);
    expect(await bench.store.expired({ now: end, limit: 9 })).toEqual([{ ...waiting(id), why: "queue_timeout" }]);
    const answer = await bench.settleOne(overdue(waiting(id)), end);
    expect(answer).toMatchObject({ status: "accepted", state: "failed", reason: "unschedulable" });
    expect(await bench.row(id)).toMatchObject({ attempt: 0, failures: 1, finishedAt: end, worker: null });
    expect(await bench.names(id)).toEqual(["job.submitted", "job.queue_timeout"]);
    expect(await bench.store.expired({ now: end, limit: 9 })).toEqual([]);
  });

  test.each([
    ["the time it may wait", { expireInMs: MINUTE }, "queue_timeout"],
    ["its deadline", { deadlineAt: T0 + MINUTE }, "deadline"],
    ["both at once", { expireInMs: MINUTE, deadlineAt: T0 + MINUTE }, "deadline"],
  ] as const)(
    "in the last millisecond of %s a job can be started, and 1 ms later it is overdue",
    async (_, terms, why) => {
      const ids = [await bench.submit(terms), await bench.submit(terms)];
      const [last, after] = [T0 + MINUTE, T0 + MINUTE + 1];
      const session = await bench.open({}, last);
      expect(await bench.sweep(last)).toMatchObject({ found: [] });
      for (const id of ids) {
        expect(await bench.settleOne(overdue(waiting(id), why), last)).toMatchObject({ status: "stale" });
      }
      const started = await bench.take(session, last);
      const rest = ids.filter((id) => id !== started.id);
      expect(await bench.claim(session, 1, after)).toEqual([]);
      const swept = { found: rest.map((jobId) => ({ jobId, why })), answers: [{ state: "failed" }] };
      expect(await bench.sweep(after)).toMatchObject(swept);
    },
  );

  test("fails no job before its time, whatever a report claims", async () => {
    const id = await bench.submit({ expireInMs: MINUTE });
    const plain = await bench.submit();
    for (const job of [id, plain]) {
      expect(await bench.settleOne(overdue(waiting(job)), T0 + MINUTE)).toMatchObject({ status: "stale" });
      expect((await bench.row(job)).state).toBe("queued");
    }
    expect(await bench.settleOne(overdue(waiting(jobId())), T0)).toEqual({ status: "unknown_job" });
  });

  test("each wait is timed separately, and counts as an attempt", async () => {
    const id = await bench.submit({ expireInMs: 10 * SECOND, retry: TWICE });
    const late = T0 + 10 * SECOND + 1;
    const first = await bench.settleOne(overdue(waiting(id)), late);
    expect(first).toMatchObject({ state: "queued", runAt: late + SECOND });
    expect(await bench.row(id)).toMatchObject({ failures: 1, expiresAt: late + 11 * SECOND });
    expect(await bench.store.expired({ now: late + 11 * SECOND, limit: 9 })).toEqual([]);
    expect(await bench.sweep(late + 11 * SECOND + 1)).toMatchObject({
      answers: [{ status: "accepted", state: "failed", reason: "unschedulable" }],
    });
  });

  test("a job with earlier attempts ends as exhausted", async () => {
    const { job } = await bench.running({ expireInMs: SECOND, retry: TWICE });
    await bench.report(job, broke());
    const answer = await bench.settleOne(overdue(placeOf(job)), T0 + 2 * SECOND + 1);
    expect(answer).toMatchObject({ state: "failed", reason: "exhausted" });
    expect((await bench.store.attempts(job.id)).map((attempt) => attempt.attempt)).toEqual([1]);
  });

  test("a running job does not wait", async () => {
    const { job } = await bench.running({ expireInMs: SECOND, deadlineAt: T0 + SECOND });
    expect(await bench.store.expired({ now: T0 + 5 * SECOND, limit: 9 })).toEqual([]);
    expect(await bench.settleOne(overdue(placeOf(job)), T0 + 5 * SECOND)).toMatchObject({ status: "stale" });
    expect(await bench.report(job, broke(), T0 + 5 * SECOND)).toMatchObject({ status: "accepted" });
  });

  test("an earlier claim is not undone", async () => {
    const id = await bench.submit({ expireInMs: SECOND });
    const session = await bench.open();
    await bench.take(session, T0 + SECOND);
    expect(await bench.settleOne(overdue(waiting(id)), T0 + SECOND + 1)).toMatchObject({ status: "stale" });
    expect(await bench.settleOne(overdue(waiting(id, 1)), T0 + SECOND + 1)).toMatchObject({ status: "stale" });
    expect((await bench.row(id)).state).toBe("running");
  });

  test("past its deadline a job fails, whatever its budget", async () => {
    const id = await bench.submit({ deadlineAt: T0 + SECOND, retry: 9, expireInMs: MINUTE });
    const { found, answers } = await bench.sweep(T0 + SECOND + 1);
    expect(found).toEqual([{ ...waiting(id), why: "deadline" }]);
    expect(answers).toMatchObject([{ state: "failed", reason: "unschedulable" }]);
    expect(await bench.row(id)).toMatchObject({ failures: 0 });
  });

  test("a retry that would come after the deadline is never started", async () => {
    const { job, session } = await bench.running({ deadlineAt: T0 + 500, retry: TWICE });
    expect(await bench.report(job, broke())).toMatchObject({ state: "queued", runAt: T0 + SECOND });
    expect(await bench.claim(session, 1, T0 + SECOND)).toEqual([]);
    expect(await bench.sweep(T0 + SECOND)).toMatchObject({ answers: [{ reason: "unschedulable" }] });
  });

  test("a redrive starts a new wait", async () => {
    const id = await bench.submit({ expireInMs: SECOND });
    await bench.sweep(T0 + SECOND + 1);
    await bench.amend(id, { kind: "redrive" }, T0 + MINUTE);
    expect(await bench.store.expired({ now: T0 + MINUTE, limit: 9 })).toEqual([]);
    expect(await bench.sweep(T0 + MINUTE + SECOND + 1)).toMatchObject({ answers: [{ status: "accepted" }] });
    expect(await bench.row(id)).toMatchObject({ chapter: 2, state: "failed", reason: "unschedulable" });
  });

  test("two concurrent sweeps count a wait once", async () => {
    const id = await bench.submit({ expireInMs: SECOND, retry: 9 });
    const answers = await Promise.all([bench.sweep(T0 + SECOND + 1), bench.sweep(T0 + SECOND + 1)]);
    const statuses = answers.flatMap(({ answers: given }) => given.map(({ status }) => status));
    // The second is too late, or finds it done.
    expect(statuses.filter((status) => status !== "stale")).toEqual(["accepted"]);
    expect((await bench.row(id)).failures).toBe(1);
  });
}
