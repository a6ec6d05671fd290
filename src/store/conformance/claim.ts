/** Claims: which session gets which job. */
import { expect, test } from "vitest";
import type { Bench } from "./bench.ts";
import { broke, jobId, LEASE, MINUTE, SECOND, T0, TWICE } from "./kit.ts";

export function claimTests(bench: Bench): void {
  test("starts a due job and returns all that a worker needs", async () => {
    const id = await bench.submit({ kind: "send", queue: "mail", timeoutMs: 500, tags: ["a", "b"], retry: 3 });
    const session = await bench.open({ kinds: ["send"] });
    const [job] = await bench.claim(session, 5, T0 + SECOND);
    expect(job).toEqual({
      ...{ id, namespace: "default", queue: "mail", kind: "send", attempt: 1, chapter: 1, token: job?.token },
      ...{ payload: '{"n":1}', timeoutMs: 500, failures: 0, maxAttempts: 3, tags: ["a", "b"], previous: null },
    });
    expect(await bench.row(id)).toMatchObject({
      ...{ state: "running", attempt: 1, worker: session, startedAt: T0 + SECOND, firstStartedAt: T0 + SECOND },
      ...{ revision: 2, expiresAt: null },
    });
    const [, started] = (await bench.store.events.page({ after: 0, limit: 9, jobId: id })).events;
    const data = { attempt: 1, session, worker: "worker-1" };
    expect(started).toMatchObject({ name: "attempt.started", n: 2, at: T0 + SECOND, data });
  });

  test("assigns a job to one session only", async () => {
    for (let i = 0; i < 10; i++) await bench.submit();
    const sessions = [await bench.open(), await bench.open(), await bench.open()];
    const requests = sessions.map((session) => ({ session, limit: 4, claimId: null }));
    const answers = await bench.store.claim(requests, T0);
    // Which of them gets the others is not specified: they may be answered concurrently.
    expect(answers.map((answer) => answer.jobs.length).sort()).toEqual([2, 4, 4]);
    expect(new Set(answers.flatMap((answer) => answer.jobs.map((job) => job.id))).size).toBe(10);
  });

  test("answers sessions in order, whether they get jobs or not", async () => {
    await bench.submit();
    const idle = await bench.open({ kinds: ["other"] });
    const busy = await bench.open();
    const sessions = [idle, jobId(), busy, idle];
    const answers = await bench.store.claim(
      sessions.map((session) => ({ session, limit: 1, claimId: null })),
      T0,
    );
    expect(answers.map((answer) => [answer.alive, answer.jobs.length])).toEqual([
      [true, 0],
      [false, 0],
      [true, 1],
      [true, 0],
    ]);
  });

  test("never returns more than its limit", async () => {
    for (let i = 0; i < 5; i++) await bench.submit({ queue: `q${i}`, priority: i });
    const session = await bench.open();
    expect(await bench.claim(session, 3)).toHaveLength(3);
    expect(await bench.claim(session, 0)).toHaveLength(0);
    expect(await bench.claim(session, 3)).toHaveLength(2);
  });

  test("starts nothing before its time, and returns when the next is due", async () => {
    await bench.submit({ runAt: T0 + 9_000 });
    const soonest = await bench.submit({ runAt: T0 + 5_000, queue: "b", priority: 9 });
    await bench.submit({ runAt: T0 + 1_000, kind: "other" });
    const session = await bench.open();
    expect(await bench.claimAnswer(session, 5, T0)).toEqual({
      alive: true,
      drain: false,
      jobs: [],
      nextAt: T0 + 5_000,
      delivery: null,
    });
    expect(await bench.claimAnswer(session, 5, T0 + 4_999)).toMatchObject({
      jobs: [],
      nextAt: T0 + 5_000,
      delivery: null,
    });
    const { jobs } = await bench.claimAnswer(session, 5, T0 + 5_000);
    expect(jobs.map((job) => job.id)).toEqual([soonest]);
    expect(await bench.claimAnswer(session, 5, T0 + 5_000)).toMatchObject({
      jobs: [],
      nextAt: T0 + 9_000,
      delivery: null,
    });
  });

  test("returns null when nothing waits for this session", async () => {
    await bench.submit({ runAt: T0 + SECOND, namespace: "elsewhere" });
    expect(await bench.claimAnswer(await bench.open(), 1, T0)).toEqual({
      alive: true,
      drain: false,
      jobs: [],
      nextAt: null,
      delivery: null,
    });
  });

  test("keeps namespaces and kinds apart", async () => {
    await bench.submit({ namespace: "a" });
    await bench.submit({ namespace: "b", kind: "other" });
    expect(await bench.claim(await bench.open({ namespace: "b" }), 9)).toEqual([]);
    expect(await bench.claim(await bench.open({ namespace: "a", kinds: ["other"] }), 9)).toEqual([]);
    expect(await bench.claim(await bench.open({ namespace: "b", kinds: ["work", "other"] }), 9)).toHaveLength(1);
  });

  test("claims from the queues that a session names, or from all", async () => {
    for (const queue of ["x", "y", "z"]) await bench.submit({ queue });
    const some = await bench.open({ queues: ["x", "z", "never-seen"] });
    expect((await bench.claim(some, 9)).map((job) => job.queue)).toEqual(["x", "z"]);
    expect(await bench.claim(await bench.open({ queues: [] }), 9)).toEqual([]);
    expect((await bench.claim(await bench.open(), 9)).map((job) => job.queue)).toEqual(["y"]);
  });

  test("requires all labels of a job in the session", async () => {
    const free = await bench.submit();
    const both = await bench.submit({ labels: { gpu: "a100", zone: "eu" } });
    const ids = async (labels: Record<string, string>) =>
      (await bench.claim(await bench.open({ labels }), 9)).map((job) => job.id);
    expect(await ids({ gpu: "a100" })).toEqual([free]);
    expect(await ids({ gpu: "a100", zone: "us" })).toEqual([]);
    expect(await ids({ constructor: "x", zone: "eu", gpu: "a100" })).toEqual([both]);
  });

  test("sees lanes that were added after the session", async () => {
    const session = await bench.open();
    expect(await bench.claim(session, 9)).toEqual([]);
    await bench.submit({ queue: "new" });
    expect(await bench.claim(session, 9)).toHaveLength(1);
  });

  test("does not start from a paused queue until it is resumed", async () => {
    await bench.submit({ queue: "mail" });
    await bench.submit({ queue: "mail", runAt: T0 + SECOND });
    const other = await bench.submit({ queue: "mail", namespace: "b" });
    const session = await bench.open();
    await bench.store.queues.setPaused("default", "mail", true, T0);
    expect(await bench.claimAnswer(session, 9, T0)).toEqual({
      alive: true,
      drain: false,
      jobs: [],
      nextAt: null,
      delivery: null,
    });
    const elsewhere = await bench.claim(await bench.open({ namespace: "b" }), 9);
    expect(elsewhere.map((job) => job.id)).toEqual([other]);
    await bench.store.queues.setPaused("default", "mail", false, T0 + 10);
    expect(await bench.claim(session, 9, T0 + 10)).toHaveLength(1);
  });

  test("returns how the previous attempt failed", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    await bench.report(job, broke("no route to host"), T0);
    const again = await bench.take(session, T0 + SECOND);
    expect(again).toMatchObject({ attempt: 2, failures: 1 });
    expect(JSON.parse(again.previous as string)).toMatchObject({ kind: "error", message: "no route to host" });
    expect(again.token).not.toBe(job.token);
  });

  test("starts nothing that has waited too long, or is past its deadline", async () => {
    await bench.submit({ expireInMs: SECOND });
    await bench.submit({ deadlineAt: T0 + SECOND });
    const session = await bench.open();
    expect(await bench.claim(session, 9, T0 + SECOND + 1)).toEqual([]);
    expect(await bench.claim(session, 9, T0 + SECOND)).toHaveLength(2);
  });

  test("reports an unknown, closed or buried session as not alive", async () => {
    await bench.submit();
    const dead = { alive: false, drain: false, jobs: [], nextAt: null, delivery: null };
    expect(await bench.claimAnswer(jobId(), 1, T0)).toEqual(dead);
    const closed = await bench.open();
    await bench.endSession(closed, T0 + 1);
    expect(await bench.claimAnswer(closed, 1, T0 + 2)).toEqual(dead);
    const silent = await bench.open();
    await bench.awake(T0, T0 + LEASE + SECOND);
    expect(await bench.claimAnswer(silent, 1, T0 + LEASE + SECOND)).toEqual(dead);
  });

  test("gives nothing new to a session whose lease expired until it renews", async () => {
    // The reaper would take it back within a second and count the loss.
    const id = await bench.submit();
    const session = await bench.open();
    const late = T0 + LEASE + 1;
    expect(await bench.claimAnswer(session, 1, late)).toEqual({
      alive: true,
      drain: false,
      jobs: [],
      nextAt: null,
      delivery: null,
    });
    await bench.renew(session, [], late);
    expect(await bench.take(session, late)).toMatchObject({ id });
  });

  test("withholds a released job from its session for one lease, and from no other session", async () => {
    const { job, session } = await bench.running();
    const other = await bench.open();
    await bench.report(job, { kind: "released" }, T0);
    expect((await bench.row(job.id)).runAt).toBe(T0 + SECOND);
    expect(await bench.claim(other, 1, T0 + 999)).toEqual([]);
    expect(await bench.claim(session, 1, T0 + SECOND)).toEqual([]);
    expect(await bench.take(other, T0 + SECOND)).toMatchObject({ id: job.id, attempt: 2 });
  });

  test("returns a released job to its session if no other claimed it for a lease", async () => {
    const { job, session } = await bench.running();
    await bench.report(job, { kind: "released" }, T0);
    await bench.renew(session, [], T0 + LEASE);
    expect(await bench.claim(session, 1, T0 + SECOND + LEASE - 1)).toEqual([]);
    expect(await bench.take(session, T0 + SECOND + LEASE)).toMatchObject({ id: job.id, attempt: 2 });
  });

  test("clears progress and usage of the previous attempt", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    await bench.renew(session, [{ jobId: job.id, attempt: 1, progress: '"half"' }], T0 + SECOND);
    await bench.report(job, broke(), T0 + SECOND);
    expect((await bench.row(job.id)).progress).toBe('"half"');
    await bench.take(session, T0 + 2 * SECOND);
    expect((await bench.row(job.id)).progress).toBeNull();
  });

  test("is not delayed by jobs of other kinds and in backoff", async () => {
    const far = Array.from({ length: 500 }, () => ({ runAt: T0 + MINUTE, priority: 0 }));
    const foreign = Array.from({ length: 500 }, () => ({ kind: "other", priority: 0 }));
    await bench.insert([...far, ...foreign]);
    const id = await bench.submit({ priority: 9 });
    expect(await bench.take(await bench.open())).toMatchObject({ id });
  });
}
