/** Messages to runs: whatever ends the job of a step writes one to its run, in the same transaction, and nothing else does. An
 *  end that is missed here stops a run for ever. */
import { expect, test } from "vitest";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { Bench } from "./bench.ts";
import {
  broke,
  decideAt,
  done,
  INTERRUPTED,
  type JobParts,
  LEASE,
  MINUTE,
  overdue,
  placeOf,
  RELEASED,
  reaped,
  released as releasedBy,
  reportOf,
  SECOND,
  T0,
  TWICE,
  usageOf,
  waiting,
} from "./kit.ts";
import { newRun, RunBench } from "./run-kit.ts";

export function inboxTests(bench: Bench): void {
  const run = new RunBench(bench);

  /** A run with one step, which is claimed. */
  async function running(parts: JobParts = {}): Promise<{ id: string; job: ClaimedJob; session: string }> {
    const { id } = await run.started([{ job: parts }]);
    const session = await bench.open({ leaseMs: LEASE });
    return { id, job: await bench.take(session), session };
  }

  test.each([
    ["a success", 1, done()],
    ["a success with usage", 1, done(), { usage: usageOf(5) }],
    ["a success with a log", 1, done(), { log: "text" }],
    ["a last failure", 1, broke()],
    ["a failure that is retried", 0, broke(), {}, TWICE],
    ["an interruption", 0, INTERRUPTED],
    ["a release", 0, RELEASED],
    ["a wait for children", 0, waiting(["job_nobody"])],
  ] as const)("%s sends %i messages", async (_, count, outcome, report = {}, retry = 1) => {
    const { id, job } = await running({ retry });
    expect(await run.messages(id)).toEqual([]);
    const given = reportOf(job, outcome, report);
    await bench.settleOne(given, T0 + 1);
    expect(await run.messages(id)).toEqual(count === 1 ? [`ended ${job.id}`] : []);
    // The same report again, and a late one of somebody else.
    await bench.settleOne(given, T0 + 2);
    await bench.report(job, broke(), T0 + 3);
    expect(await run.messages(id)).toHaveLength(count);
  });

  test("the end of a retry sends one, whichever way the row was read", async () => {
    const { id, job, session } = await running({ retry: TWICE });
    await bench.report(job, broke(), T0 + 1);
    const again = await bench.take(session, T0 + 2 * SECOND);
    expect(again).toMatchObject({ id: job.id, attempt: 2 });
    await bench.report(again, done(), T0 + 2 * SECOND);
    expect(await run.messages(id)).toEqual([`ended ${job.id}`]);
  });

  test("an end that another connection reports sends one", async ({ skip }) => {
    if (!bench.hasSecond) skip();
    const { id, job } = await running();
    const second = await bench.second();
    const [answer] = await second.settle([reportOf(job)], T0, decideAt(T0));
    expect(answer).toMatchObject({ status: "accepted" });
    expect(await run.messages(id)).toEqual([`ended ${job.id}`]);
  });

  test("many ends in one call send one each, and other jobs send none", async () => {
    const { id, jobs } = await run.started(Array.from({ length: 60 }, (_, i) => ({ node: `s${i}` })));
    const other = await run.started([{}, { node: "b" }]);
    const alone = await bench.insert([{}, {}]);
    const session = await bench.open({ slots: 99 });
    const claimed = await bench.claim(session, 99);
    expect(claimed).toHaveLength(jobs.length + 2 + alone.length);
    const outcomes = [done(), broke(), done('"long"'.padEnd(20, " "))];
    await bench.settle(
      claimed.map((job, i) => reportOf(job, outcomes[i % 3])),
      T0 + 1,
    );
    expect([...(await run.messages(id))].sort()).toEqual(jobs.map((job) => `ended ${job}`).sort());
    expect(await run.messages(other.id)).toEqual(other.jobs.map((job) => `ended ${job}`));
    expect(await run.due()).toEqual([id, other.id]);
  });

  test("two reports of one job in one call send one", async () => {
    const { id, job } = await running();
    await bench.settle([reportOf(job, done()), reportOf(job, broke())], T0 + 1);
    expect(await run.messages(id)).toEqual([`ended ${job.id}`]);
  });

  test("a lost worker sends one only if the job is not tried again", async () => {
    const once = await running({ retry: { maxAttempts: 3, workerLost: { maxRetries: 0 } } });
    const twice = await running({ retry: TWICE });
    const released = await running();
    await bench.awake(T0 + LEASE + SECOND, T0 + LEASE + 4 * SECOND);
    for (const { session } of [once, twice]) await bench.endSession(session, T0 + LEASE + 5 * SECOND, "gone");
    const reports = [reaped(placeOf(once.job)), reaped(placeOf(twice.job))];
    await bench.settle([...reports, releasedBy(placeOf(released.job), released.session)], T0 + MINUTE);
    const state = async (one: typeof once) => (await bench.row(one.job.id)).state;
    expect([await state(once), await state(twice), await state(released)]).toEqual(["failed", "queued", "queued"]);
    expect(await run.messages(once.id)).toEqual([`ended ${once.job.id}`]);
    expect([await run.messages(twice.id), await run.messages(released.id)]).toEqual([[], []]);
  });

  test("a wait that is too long sends one", async () => {
    const { id, jobs } = await run.started([
      { job: { expireInMs: 1_000 } },
      { node: "b", job: { deadlineAt: T0 + 5 } },
    ]);
    const [slow, late] = jobs as [string, string];
    await bench.settleOne(overdue({ jobId: slow, attempt: 0 }), T0 + MINUTE);
    await bench.settleOne(overdue({ jobId: late, attempt: 0 }, "deadline"), T0 + MINUTE);
    expect(await run.messages(id)).toEqual([`ended ${slow}`, `ended ${late}`]);
    expect((await run.load(id)).ends).toMatchObject({
      [slow]: { state: "failed", reason: "unschedulable" },
      [late]: { state: "failed", reason: "unschedulable" },
    });
  });

  test("a step that a budget above does not let start sends one", async () => {
    const { id, jobs } = await run.started([{}, { node: "b", job: { retry: { budget: { costUsd: 5 } } } }], {
      retry: { budget: { costUsd: 1 } },
    });
    const session = await bench.open();
    const first = await bench.take(session);
    expect(first.id).toBe(jobs[0]);
    await bench.report(first, done(), T0, { usage: usageOf(0, 0, 1) });
    const answer = await bench.claimAnswer(session, 1, T0 + 1);
    expect(answer.overBudget).toMatchObject([{ jobId: jobs[1], parentId: id }]);
    expect(await run.messages(id)).toEqual([`ended ${jobs[0]}`, `ended ${jobs[1]}`]);
    expect((await run.load(id)).ends[jobs[1] as string]).toMatchObject({ state: "failed", reason: "budget" });
  });

  test("a cancel of a waiting step sends one, that of a running step only at its end", async () => {
    const { id, jobs } = await run.started([{}, { node: "b" }]);
    const job = await bench.take(await bench.open());
    expect(job.id).toBe(jobs[0]);
    for (const each of jobs) await bench.amend(each, { kind: "cancel" }, T0 + 1);
    expect(await run.messages(id)).toEqual([`ended ${jobs[1]}`]);
    await bench.report(job, INTERRUPTED, T0 + 2);
    expect((await bench.row(job.id)).state).toBe("cancelled");
    expect(await run.messages(id)).toEqual([`ended ${jobs[1]}`, `ended ${jobs[0]}`]);
  });

  test("a cancel of a run is a message, and so is its redrive; the run itself stays blocked", async () => {
    const { id } = await run.started([{}]);
    expect(await bench.amend(id, { kind: "cancel" }, T0 + 1)).toMatchObject({ job: { state: "blocked" } });
    expect(await run.messages(id)).toEqual(["cancel"]);
    // Its own advance stops its steps: no sweep does.
    expect(await bench.store.children.cascades(9)).toEqual([]);
    const [step] = await run.runs.openJobs(id, 9);
    await bench.amend(step as string, { kind: "cancel" }, T0 + 1);
    await run.advance(id, { end: [{ n: 1, state: "cancelled" }], finish: { state: "cancelled" } }, T0 + 2);
    expect((await bench.row(id)).state).toBe("cancelled");
    const redrive = { kind: "redrive", run: { from: ["a"] } } as const;
    expect(await bench.amend(id, redrive, T0 + 3)).toMatchObject({ job: { state: "blocked", chapter: 2 } });
    expect((await run.load(id)).messages).toMatchObject([{ kind: "redrive", ref: null, body: { from: ["a"] } }]);
  });

  test("the end of a run below is a message to the run above", async () => {
    const above = await run.submit();
    const below = newRun({ parent: { id: above, attempt: null }, depth: 1, runId: above });
    await run.advance(above, { start: [{ job: below }] });
    expect(await run.due()).toEqual([below.id]);
    await run.advance(below.id, { finish: { state: "failed", reason: "step" } }, T0 + 1);
    expect(await run.messages(above)).toEqual([`ended ${below.id}`]);
    expect((await run.load(above)).ends).toMatchObject({ [below.id]: { state: "failed", reason: "step" } });
    // A redrive of the run above may redrive it: nobody else may.
    await run.advance(above, { end: [{ n: 1, state: "failed" }], finish: { state: "failed", reason: "step" } }, T0 + 2);
    expect(await bench.amend(below.id, { kind: "redrive" }, T0 + 3)).toMatchObject({ status: "refused_command" });
    await bench.amend(above, { kind: "redrive" }, T0 + 3);
    expect(await bench.amend(below.id, { kind: "redrive", asRun: above }, T0 + 3)).toMatchObject({ status: "applied" });
    expect(await run.messages(below.id)).toEqual(["redrive"]);
    await run.advance(above, { end: [{ n: 1, state: "open" }] }, T0 + 3);
    await run.advance(below.id, { finish: { state: "succeeded" } }, T0 + 4);
    expect(await run.messages(above)).toEqual([`ended ${below.id}`]);
  });

  test("a message to itself is due again, and more than a page of messages is read in parts", async () => {
    const { id, jobs } = await run.started(Array.from({ length: 501 }, (_, i) => ({ node: `s${i}` })));
    const session = await bench.open({ slots: 999 });
    const claimed = await bench.claim(session, 999);
    await bench.settle(
      claimed.map((job) => reportOf(job)),
      T0 + 1,
    );
    const first = await run.load(id);
    expect(first).toMatchObject({ hasMoreMessages: true });
    expect(first.messages).toHaveLength(500);
    expect(Object.keys(first.ends)).toHaveLength(500);
    expect(first.steps).toHaveLength(500);
    await run.write(first, { end: first.steps.map(({ n }) => ({ n })), send: ["continue"] });
    expect(await run.due()).toEqual([id]);
    const rest = await run.load(id);
    expect(rest).toMatchObject({ hasMoreMessages: false });
    expect(rest.messages.map(({ kind }) => kind)).toEqual(["ended", "continue"]);
    await run.write(rest, { end: rest.steps.map(({ n }) => ({ n })), finish: { state: "succeeded" } });
    expect(await run.due()).toEqual([]);
    expect(jobs).toHaveLength(501);
  });

  test("what comes after the end of a run is read without a change", async () => {
    const { id, jobs } = await run.started([{}]);
    const job = await bench.take(await bench.open());
    const loaded = await bench.amend(id, { kind: "cancel" }).then(() => run.load(id));
    await run.write(loaded, { end: [{ n: 1, state: "cancelled" }], finish: { state: "cancelled" } });
    await bench.report(job, done(), T0 + 1);
    expect(await run.messages(id)).toEqual([`ended ${jobs[0]}`]);
    const before = await bench.row(id);
    await run.write(await run.load(id), { transitions: [] });
    expect(await run.messages(id)).toEqual([]);
    expect(await bench.row(id)).toEqual(before);
  });
}
