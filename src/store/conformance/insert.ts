/** Storing new jobs. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { jobId, MINUTE, newJob, SECOND, T0, TWICE } from "./kit.ts";

export function insertTests(bench: Bench): void {
  test("keeps every field of a job", async () => {
    const job = newJob({
      ...{ namespace: "shop", queue: "mail", kind: "send", priority: 2, retry: TWICE, payload: ' {"to" : "é"} ' },
      name: "invoice",
      ...{ labels: { gpu: "a100", zone: "eu" }, tags: ["invoice", "q3"], key: "k-1" },
      ...{ runAt: T0 + SECOND, timeoutMs: 2_000, expireInMs: MINUTE, deadlineAt: T0 + 5 * MINUTE },
    });
    expect(await bench.store.insert([job], T0)).toEqual([{ status: "inserted", id: job.id }]);
    const row = await bench.row(job.id);
    const { policyHash: _, bodyHash: __, transition, parent: ___, annotations: ____, action: _____, ...given } = job;
    expect(row).toMatchObject({ ...given, ...transition.next, submittedAt: T0, result: null, progress: null });
    expect(row.expiresAt).toBe(T0 + SECOND + MINUTE);
    expect(row.labels).toEqual({ zone: "eu", gpu: "a100" });
    expect(row.policy).toEqual(job.policy);
    expect(row).toMatchObject({ parentId: null, depth: 0, annotations: {} });
  });

  test("keeps annotations, and shows them wherever a job is shown", async () => {
    const annotations = { "agent-task/name": "größe ✓", empty: "" };
    const jobs = [
      newJob({ annotations: JSON.stringify(annotations) }),
      newJob(),
      newJob({ annotations: "{}", key: "k" }),
    ];
    const answers = await bench.store.insert(jobs, T0);
    expect(answers.map(({ status }) => status)).toEqual(["inserted", "inserted", "inserted"]);
    const [noted, plain] = jobs as [(typeof jobs)[0], (typeof jobs)[0]];
    expect((await bench.row(noted.id)).annotations).toEqual(annotations);
    expect((await bench.row(plain.id)).annotations).toEqual({});
    expect((await bench.store.history(noted.id))?.job.annotations).toEqual(annotations);
    const found = (await bench.store.find({ order: "oldest" })).jobs.map((job) => job.annotations);
    expect(found).toEqual([annotations, {}, {}]);
  });

  test("writes one event for each job, at the time of the call", async () => {
    const id = await bench.submit({ at: T0 + 7 });
    const events = (await bench.store.events.page({ after: 0, limit: 10, jobId: id })).events;
    expect(events).toMatchObject([{ jobId: id, n: 1, at: T0 + 7, name: "job.submitted" }]);
  });

  test("answers a list in its order", async () => {
    const jobs = Array.from({ length: 120 }, (_, i) => newJob({ queue: `q${i % 7}`, retry: 1 + (i % 3) }));
    const answers = await bench.store.insert(jobs, T0);
    expect(answers).toEqual(jobs.map(({ id }) => ({ status: "inserted", id })));
    const rows = await bench.store.jobs(jobs.map((job) => job.id));
    expect(rows.map((row) => row?.queue)).toEqual(jobs.map((job) => job.queue));
    expect(rows.map((row) => row?.policy.maxAttempts)).toEqual(jobs.map((job) => job.policy.maxAttempts));
  });

  test("stores nothing for an empty list", async () => {
    expect(await bench.store.insert([], T0)).toEqual([]);
    expect(await bench.store.events.lastSeq()).toBe(0);
  });

  test("refuses an existing id and leaves its job unchanged", async () => {
    const first = newJob({ payload: '"first"' });
    await bench.store.insert([first], T0);
    const [answer] = await bench.store.insert([newJob({ id: first.id, payload: '"second"' })], T0 + 1);
    expect(answer).toMatchObject({ status: "refused", code: "store_refused" });
    expect((await bench.row(first.id)).payload).toBe('"first"');
  });

  test("returns null for unknown ids, in place", async () => {
    const id = await bench.submit();
    const rows = await bench.store.jobs([jobId(), id, jobId(), id]);
    expect(rows.map((row) => row?.id ?? null)).toEqual([null, id, null, id]);
    expect(await bench.store.history(jobId())).toBeNull();
    expect(await bench.store.attempts(jobId())).toEqual([]);
    expect((await bench.store.events.page({ after: 0, limit: 10, jobId: jobId() })).events).toEqual([]);
  });
}
