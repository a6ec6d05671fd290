/** Operators' commands: each of them in each state, and cancels against running attempts. */
import { expect, test } from "vitest";
import type { Command } from "../../core/job/command.ts";
import type { JobState } from "../../core/job/job.ts";
import type { Bench } from "./bench.ts";
import {
  broke,
  decideCommandAt,
  done,
  jobId,
  LEASE,
  MINUTE,
  placeOf,
  reaped,
  SECOND,
  T0,
  TWICE,
  usageOf,
  waiting,
} from "./kit.ts";

type Verb = Command["kind"];
type Expected = "applied" | "noop" | "refused_command";
type Situation = "due" | "waiting" | Exclude<JobState, "queued">;

const TABLE: Readonly<Record<Situation, Readonly<Record<Verb, Expected>>>> = {
  due: {
    cancel: "applied",
    retry: "noop",
    reschedule: "applied",
    redrive: "refused_command",
    discard: "refused_command",
    unblock: "noop",
  },
  waiting: {
    ...{ cancel: "applied", retry: "applied", reschedule: "applied", unblock: "noop" },
    ...{ redrive: "refused_command", discard: "refused_command" },
  },
  running: {
    ...{ cancel: "applied", retry: "refused_command", reschedule: "refused_command", unblock: "noop" },
    ...{ redrive: "refused_command", discard: "refused_command" },
  },
  blocked: {
    ...{ cancel: "applied", retry: "refused_command", reschedule: "refused_command", unblock: "applied" },
    ...{ redrive: "refused_command", discard: "refused_command" },
  },
  succeeded: {
    ...{ cancel: "noop", retry: "refused_command", reschedule: "refused_command", unblock: "noop" },
    ...{ redrive: "refused_command", discard: "refused_command" },
  },
  failed: {
    ...{ cancel: "noop", retry: "applied", reschedule: "refused_command", redrive: "applied", discard: "applied" },
    unblock: "noop",
  },
  cancelled: {
    ...{ cancel: "noop", retry: "applied", reschedule: "refused_command", unblock: "noop" },
    ...{ redrive: "applied", discard: "refused_command" },
  },
};

function commandOf(kind: Verb): Command {
  if (kind === "reschedule") return { kind, runAt: T0 + 7 };
  return kind === "unblock" ? { kind, attempt: 1, runAt: T0 + 7 } : { kind };
}

export function amendTests(bench: Bench): void {
  async function bring(situation: Situation): Promise<string> {
    if (situation === "due") return bench.submit();
    if (situation === "waiting") return bench.submit({ runAt: T0 + MINUTE, expireInMs: MINUTE });
    if (situation === "cancelled") {
      const id = await bench.submit();
      await bench.amend(id, { kind: "cancel" });
      return id;
    }
    const { job } = await bench.running();
    if (situation === "succeeded") await bench.report(job, done());
    if (situation === "failed") await bench.report(job, broke());
    if (situation === "blocked") await bench.report(job, waiting([jobId()]));
    return job.id;
  }

  for (const [situation, verbs] of Object.entries(TABLE)) {
    test(`a job that is ${situation} accepts the right commands`, async () => {
      for (const [kind, expected] of Object.entries(verbs)) {
        const id = await bring(situation as Situation);
        const before = await bench.row(id);
        const answer = await bench.amend(id, { ...commandOf(kind as Verb), by: "ann" }, T0 + 1);
        expect([kind, answer.status]).toEqual([kind, expected]);
        const after = await bench.row(id);
        const [job] = await bench.store.facts([id]);
        if (expected === "applied") {
          expect(answer).toEqual({ status: "applied", job, message: null });
          expect(after.revision).toBe(before.revision + 1);
          const last = (await bench.store.events.page({ after: 0, limit: 99, jobId: id })).events.at(-1);
          expect(last).toMatchObject({ at: T0 + 1, data: { by: "ann" } });
        } else expect(after).toEqual(before);
        if (expected === "noop") expect(answer).toEqual({ status: "noop", job, message: expect.any(String) });
      }
    });
  }

  test("answers a list in its order, including unknown jobs", async () => {
    const [a, b] = [await bench.submit(), await bench.submit()];
    const commands = [a, jobId(), b, a].map((id) => ({ jobId: id, command: { kind: "cancel" } as const }));
    const answers = await bench.store.amend(commands, T0, decideCommandAt(T0));
    expect(answers.map((answer) => answer.status)).toEqual(["applied", "unknown_job", "applied", "noop"]);
  });

  test("refuses only the command whose decision throws", async () => {
    const [a, b] = [await bench.submit(), await bench.submit()];
    const commands = [a, b].map((id) => ({ jobId: id, command: { kind: "cancel" } as const }));
    const answers = await bench.store.amend(commands, T0, (job, command) => {
      if (job.id === a) throw new Error("no decision");
      return decideCommandAt(T0)(job, command, null, []);
    });
    expect(answers.map((answer) => answer.status)).toEqual(["refused", "applied"]);
  });

  test("a cancel ends a waiting job at once", async () => {
    const id = await bench.submit();
    await bench.amend(id, { kind: "cancel" }, T0 + 3);
    expect(await bench.row(id)).toMatchObject({ state: "cancelled", finishedAt: T0 + 3, cancelRequestedAt: T0 + 3 });
    expect(await bench.claim(await bench.open(), 1, T0 + 4)).toEqual([]);
  });

  test("a running job with a cancel request stays running until its session reports", async () => {
    const { job, session } = await bench.running();
    await bench.renew(session, [{ ...placeOf(job), progress: '"half"', usage: usageOf(5) }], T0 + 1);
    await bench.amend(job.id, { kind: "cancel" }, T0 + 2);
    expect(await bench.row(job.id)).toMatchObject({ state: "running", cancelRequestedAt: T0 + 2, progress: '"half"' });
    expect(await bench.amend(job.id, { kind: "cancel" }, T0 + 3)).toMatchObject({ status: "noop" });
    await bench.settleOne(reaped(placeOf(job)), T0 + LEASE + 2);
    expect(await bench.row(job.id)).toMatchObject({ state: "cancelled", usage: usageOf(5) });
  });

  test("a cancel followed by a failure, an interruption or a loss: cancelled", async () => {
    for (const outcome of [broke(), { kind: "interrupted" } as const]) {
      const { job } = await bench.running({ retry: TWICE });
      await bench.amend(job.id, { kind: "cancel" }, T0 + 1);
      expect(await bench.report(job, outcome, T0 + 2)).toMatchObject({ status: "accepted", state: "cancelled" });
      expect(await bench.row(job.id)).toMatchObject({ finishedAt: T0 + 2, failures: 0, cancelRequestedAt: T0 + 1 });
    }
    const { job } = await bench.running();
    await bench.amend(job.id, { kind: "cancel" }, T0 + 1);
    expect(await bench.settleOne(reaped(placeOf(job)), T0 + LEASE + 1)).toMatchObject({ state: "cancelled" });
    expect((await bench.row(job.id)).losses).toBe(0);
  });

  test("a cancel followed by a success: succeeded, because the work is done", async () => {
    const { job } = await bench.running();
    await bench.amend(job.id, { kind: "cancel" }, T0 + 1);
    expect(await bench.report(job, done('"kept"'), T0 + 2)).toMatchObject({ state: "succeeded" });
    expect(await bench.row(job.id)).toMatchObject({ result: '"kept"', cancelRequestedAt: T0 + 1 });
  });

  test("a cancel concurrent with a failing report is not lost", async () => {
    const { job } = await bench.running({ retry: 5 });
    const [report, cancel] = await Promise.all([
      bench.report(job, broke(), T0 + 1),
      bench.amend(job.id, { kind: "cancel" }, T0 + 1),
    ]);
    expect([report.status, cancel.status]).toEqual(["accepted", "applied"]);
    expect((await bench.row(job.id)).state).toBe("cancelled");
  });

  test("a reschedule moves the due time and the end of the wait", async () => {
    const id = await bench.submit({ expireInMs: SECOND });
    await bench.amend(id, { kind: "reschedule", runAt: T0 + MINUTE }, T0 + 1);
    expect(await bench.row(id)).toMatchObject({ runAt: T0 + MINUTE, expiresAt: T0 + MINUTE + SECOND });
    const session = await bench.open();
    expect(await bench.claimAnswer(session, 1, T0 + 2)).toMatchObject({ jobs: [], nextAt: T0 + MINUTE });
    expect(await bench.store.expired({ now: T0 + MINUTE, limit: 9 })).toEqual([]);
    await bench.renew(session, [], T0 + MINUTE);
    expect(await bench.claim(session, 1, T0 + MINUTE)).toHaveLength(1);
  });

  test("a retry makes a job in backoff due now", async () => {
    const { job, session } = await bench.running({
      retry: { maxAttempts: 2, backoff: { type: "fixed", delay: "1h" } },
    });
    await bench.report(job, broke());
    await bench.amend(job.id, { kind: "retry" }, T0 + 5);
    expect(await bench.take(session, T0 + 5)).toMatchObject({ id: job.id, attempt: 2, failures: 1 });
  });

  test("a discard removes a failed job from the dead letters; it stays failed", async () => {
    const id = await bring("failed");
    expect((await bench.store.find({ deadLetter: true })).jobs.map((job) => job.id)).toEqual([id]);
    await bench.amend(id, { kind: "discard" }, T0 + 5);
    expect(await bench.row(id)).toMatchObject({ state: "failed", discardedAt: T0 + 5 });
    expect((await bench.store.find({ deadLetter: true })).jobs).toEqual([]);
    expect(await bench.amend(id, { kind: "discard" }, T0 + 6)).toMatchObject({ status: "noop" });
  });
}
