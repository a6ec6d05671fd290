/** A budget covers the job that has it and all jobs below: starts reserve, usage of running attempts counts, and usage
 *  of ended ones stays spent. After every test audit.ts checks that a ledger is the sum of the events below it. */
import { expect, test } from "vitest";
import { inFull } from "../../../test/tier.ts";
import { leftOf } from "../../core/decision/budget.ts";
import type { PolicyFields } from "../../core/policy/policy.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { Store } from "../store.ts";
import type { Bench } from "./bench.ts";
import {
  broke,
  DAY,
  decideAt,
  decideCommandAt,
  done,
  INTERRUPTED,
  LEASE,
  newJob,
  newSession,
  placeOf,
  reaped,
  released,
  reportOf,
  T0,
  usageOf,
  waiting,
} from "./kit.ts";

const ONE_USD: PolicyFields = { maxAttempts: 3, backoff: { type: "none" }, budget: { costUsd: 1 } };
const PLAIN: PolicyFields = { maxAttempts: 3, backoff: { type: "none" } };
const estimated = (costUsd: number): PolicyFields => ({ ...PLAIN, budget: { estimate: { costUsd } } });
const usd = (costUsd: number) => usageOf(0, 0, costUsd);

export function ledgerTests(bench: Bench): void {
  const parentOf = (id: string, depth = 1) => ({ parent: { id, attempt: null }, depth });
  const budgetOf = async (id: string) => (await bench.row(id)).budgets.find(({ jobId }) => jobId === id);
  const leftIn = async (id: string) => {
    const budget = await budgetOf(id);
    return budget === undefined ? null : leftOf(budget).costUsd;
  };
  /** A running parent with a number of waiting children. */
  async function family(children: number, retry: PolicyFields = PLAIN, own: PolicyFields = ONE_USD) {
    const { job, session } = await bench.running({ retry: own });
    const ids: string[] = [];
    for (let i = 0; i < children; i++) ids.push(await bench.submit({ retry, ...parentOf(job.id) }));
    return { parent: job, session, ids };
  }
  const renewed = (session: string, job: ClaimedJob, costUsd: number, now = T0 + 1) =>
    bench.renew(session, [{ ...placeOf(job), usage: usd(costUsd) }], now);

  test("usage of running children is summed, and each that keeps spending must stop", async () => {
    const { parent, session } = await family(3);
    const [a, b, c] = (await bench.claim(session, 3, T0)) as [ClaimedJob, ClaimedJob, ClaimedJob];
    expect((await renewed(session, a, 0.4)).overspent).toEqual([]);
    expect((await renewed(session, b, 0.5)).overspent).toEqual([]);
    expect((await renewed(session, c, 0.1)).overspent).toEqual([placeOf(c)]);
    expect((await renewed(session, a, 0.4)).overspent).toEqual([placeOf(a)]);
    expect(await budgetOf(parent.id)).toMatchObject({ live: { costUsd: 1 }, spent: { costUsd: 0 } });
    // The parent itself spends nothing: it may end.
    expect((await bench.renew(session, [placeOf(parent)], T0 + 1)).overspent).toEqual([]);
    const exceeded = { shortage: { jobId: parent.id, part: "costUsd", limit: 1, used: 1 } };
    expect(await bench.report(c, broke(), T0 + 2)).toMatchObject({ state: "failed", reason: "budget" });
    const [, , last] = (await bench.store.events.page({ after: 0, limit: 9, jobId: c.id })).events;
    expect(last).toMatchObject({ name: "attempt.failed", data: { decision: { step: "budget", ...exceeded } } });
    // Finished work stays finished.
    expect(await bench.report(a, done(), T0 + 2, { usage: usd(0.6) })).toMatchObject({ state: "succeeded" });
    expect(await budgetOf(parent.id)).toMatchObject({ live: { costUsd: 0.5 }, spent: { costUsd: 0.7 } });
    expect(await leftIn(parent.id)).toBe(-0.2);
  });

  for (const claimId of [null, "claim-1"]) {
    test(`a start with nothing left fails without an attempt, ${claimId === null ? "" : "also of a claim with an id, "}and others start`, async () => {
      const { parent, session, ids } = await family(2);
      const first = await bench.take(session);
      await bench.report(first, done(), T0 + 1, { usage: usd(1) });
      const other = await bench.submit({ at: T0 + 1 });
      const answer = await bench.claimAnswer(session, 5, T0 + 2, claimId);
      expect(answer.jobs.map(({ id }) => id)).toEqual([other]);
      expect(answer.overBudget).toEqual([{ jobId: ids[1], parentId: parent.id }]);
      expect(await bench.row(ids[1] as string)).toMatchObject({ state: "failed", reason: "budget", attempt: 0 });
      expect(await bench.names(ids[1] as string)).toEqual(["job.submitted", "job.over_budget"]);
      expect(await bench.store.attempts(ids[1] as string)).toEqual([]);
      if (claimId === null) return;
      const again = await bench.claimAnswer(session, 5, T0 + 2, claimId);
      expect(again.jobs.map(({ id }) => id)).toEqual([other]);
    });
  }

  test("a start reserves its estimate, and fails if less is left; what was not spent is freed", async () => {
    const { parent, session, ids } = await family(3, estimated(0.4));
    const answer = await bench.claimAnswer(session, 3, T0);
    const [a, b] = answer.jobs as [ClaimedJob, ClaimedJob];
    expect([a.id, b.id]).toEqual(ids.slice(0, 2));
    expect(answer.overBudget).toEqual([{ jobId: ids[2], parentId: parent.id }]);
    expect(await leftIn(parent.id)).toBe(0.2);
    // Its usage first comes from its reservation, and beyond that from what is left.
    await renewed(session, a, 0.3);
    expect(await bench.row(a.id)).toMatchObject({ usage: null, liveUsage: usd(0.3) });
    expect(await budgetOf(parent.id)).toMatchObject({ live: { costUsd: 0.3 }, reserved: { costUsd: 0.5 } });
    await bench.store.setUsage(a.id, 1, usd(0.5));
    expect(await leftIn(parent.id)).toBe(0.1);
    await bench.report(a, done(), T0 + 2, { usage: usd(0.1) });
    await bench.report(b, done(), T0 + 2, { usage: usd(0.1) });
    expect(await bench.row(a.id)).toMatchObject({ usage: usd(0.5), liveUsage: null });
    expect(await leftIn(parent.id)).toBe(0.4);
    expect(await bench.amend(ids[2] as string, { kind: "redrive" }, T0 + 3)).toMatchObject({ status: "applied" });
    expect(await bench.take(session, T0 + 3)).toMatchObject({ id: ids[2], attempt: 1 });
  });

  test("every end of an attempt frees what it held", async () => {
    const { parent, session, ids } = await family(1, estimated(0.25));
    const held = async (now: number, by = session) => {
      const job = await bench.take(by, now);
      expect(await leftIn(parent.id)).toBe(0.75);
      return job;
    };
    await bench.report(await held(T0), INTERRUPTED, T0 + 1);
    expect(await leftIn(parent.id)).toBe(1);
    await bench.report(await held(T0 + 1), broke(), T0 + 2);
    expect(await leftIn(parent.id)).toBe(1);
    const handed = await held(T0 + 2);
    await bench.settleOne(released(placeOf(handed), session), T0 + 3);
    expect(await leftIn(parent.id)).toBe(1);
    const second = await bench.open();
    const lost = await held(T0 + 2_000, second);
    const late = T0 + 2 * LEASE;
    await bench.settleOne(reaped(placeOf(lost)), late);
    expect(await leftIn(parent.id)).toBe(1);
    const third = await bench.open({}, late);
    const last = await held(late, third);
    await bench.amend(ids[0] as string, { kind: "cancel" }, late);
    await bench.report(last, broke(), late);
    expect(await leftIn(parent.id)).toBe(1);
  });

  test("attempts, redrives and descendants count in each budget above", async () => {
    const { parent, session } = await family(0);
    const middle = await bench.submit({
      retry: { ...PLAIN, budget: { costUsd: 0.5, tokens: 10 } },
      ...parentOf(parent.id),
    });
    const leaf = await bench.submit({ retry: PLAIN, ...parentOf(middle, 2) });
    const [above, below] = (await bench.claim(session, 2)) as [ClaimedJob, ClaimedJob];
    expect([above.id, below.id]).toEqual([middle, leaf]);
    await bench.report(below, broke(), T0 + 1, { usage: usd(0.1) });
    const again = await bench.take(session, T0 + 1);
    await bench.report(again, waiting([]), T0 + 2, { usage: usd(0.1) });
    expect((await budgetOf(middle))?.spent.costUsd).toBe(0.2);
    expect((await budgetOf(parent.id))?.spent.costUsd).toBe(0.2);
    await bench.amend(leaf, { kind: "unblock", attempt: 2, runAt: T0 + 2 }, T0 + 2);
    await bench.report(await bench.take(session, T0 + 2), broke(), T0 + 3, { usage: usageOf(6, 4) });
    // The nearer of two is used up first.
    expect(await bench.row(leaf)).toMatchObject({ state: "failed", reason: "budget" });
    expect(await bench.amend(leaf, { kind: "redrive" }, T0 + 3)).toMatchObject({
      ...{ status: "refused_command", isBudget: true, message: expect.stringContaining(middle) },
    });
    const more = { tokens: 5, costUsd: 0.25 };
    const redrive = { kind: "redrive", changes: { budget: more } } as const;
    expect(await bench.amend(leaf, redrive, T0 + 3)).toMatchObject({ status: "applied" });
    expect((await budgetOf(middle))?.limit).toEqual({ tokens: 15, costUsd: 0.75 });
    expect((await budgetOf(parent.id))?.limit).toEqual({ tokens: null, costUsd: 1.25 });
    const last = await bench.take(session, T0 + 3);
    await bench.report(last, done(), T0 + 4, { usage: usageOf(1) });
    expect((await budgetOf(middle))?.spent).toEqual({ tokens: 11, costUsd: 0.2 });
  });

  test("a redrive with a used-up budget is refused, unless it grants more, which the policy then has", async () => {
    const { job, session } = await bench.running({ retry: ONE_USD });
    await bench.report(job, broke(), T0 + 1, { usage: usd(1.5) });
    expect(await bench.row(job.id)).toMatchObject({ state: "failed", reason: "budget" });
    for (const kind of ["redrive", "retry"] as const) {
      expect(await bench.amend(job.id, { kind }, T0 + 2)).toMatchObject({ status: "refused_command", isBudget: true });
    }
    const redrive = (budget: object) => bench.amend(job.id, { kind: "redrive", changes: { budget } }, T0 + 2);
    expect(await redrive({ costUsd: 0.5 })).toMatchObject({ status: "refused_command", isBudget: true });
    expect(await redrive({ costUsd: 0.75 })).toMatchObject({ status: "applied" });
    expect(await bench.row(job.id)).toMatchObject({ policy: { budget: { costUsd: 1.75 } } });
    expect(await leftIn(job.id)).toBe(0.25);
    const again = await bench.take(session, T0 + 3);
    expect((await renewed(session, again, 0.2, T0 + 3)).overspent).toEqual([]);
    expect((await renewed(session, again, 0.25, T0 + 3)).overspent).toEqual([placeOf(again)]);
    const plain = await bench.running();
    await bench.report(plain.job, broke(), T0 + 4);
    const refused = await bench.amend(plain.job.id, { kind: "redrive", changes: { budget: { tokens: 1 } } }, T0 + 4);
    expect(refused).toMatchObject({ status: "refused_command", isBudget: false });
  });

  test("a job that gets a budget by a redrive has a ledger from then on", async () => {
    const { job, session } = await bench.running();
    await bench.report(job, broke(), T0 + 1, { usage: usd(0.5) });
    const changes = { retry: { budget: { costUsd: 1 } } };
    expect(await bench.amend(job.id, { kind: "redrive", changes }, T0 + 1)).toMatchObject({ status: "applied" });
    expect(await leftIn(job.id)).toBe(0.5);
    const again = await bench.take(session, T0 + 2);
    const child = await bench.submit({ ...parentOf(job.id), at: T0 + 2 });
    await bench.report(await bench.take(session, T0 + 2), done(), T0 + 3, { usage: usd(0.25) });
    expect((await bench.row(child)).budgets).toHaveLength(1);
    await bench.report(again, done(), T0 + 3, { usage: usd(0.125) });
    expect(await leftIn(job.id)).toBe(0.125);
  });

  test("a parent whose children have used up its budget may wait for them, and end", async () => {
    const { parent, session, ids } = await family(1);
    const child = await bench.take(session);
    await bench.report(child, broke(), T0 + 1, { usage: usd(1.25) });
    expect(await bench.report(parent, waiting(ids), T0 + 2)).toMatchObject({ state: "blocked" });
    await bench.amend(parent.id, { kind: "unblock", attempt: 1, runAt: T0 + 2 }, T0 + 2);
    const again = await bench.take(session, T0 + 2);
    expect(again.id).toBe(parent.id);
    expect(await bench.report(again, done(), T0 + 3)).toMatchObject({ state: "succeeded" });
  });

  test("a budget between another and a live job is not pruned, so that reservations above it are freed", async () => {
    const { parent, session } = await family(0, PLAIN, { ...ONE_USD, maxAttempts: 1 });
    const nested = await bench.submit({ retry: ONE_USD, ...parentOf(parent.id) });
    const [upper] = (await bench.claim(session, 1)) as [ClaimedJob];
    const plain = await bench.submit({ retry: PLAIN, ...parentOf(nested, 2) });
    const [lower] = (await bench.claim(session, 1)) as [ClaimedJob];
    const leaf = await bench.submit({ retry: estimated(0.25), ...parentOf(plain, 3) });
    const running = await bench.take(session);
    for (const job of [lower, upper]) await bench.report(job, done(), T0 + 1);
    await bench.report(parent, broke(), T0 + 1);
    expect(await leftIn(parent.id)).toBe(0.75);
    const prune = async () => {
      const endedBefore = { succeeded: T0 + DAY };
      const query = { now: T0 + DAY, keyWindowMs: 1, sessionsEndedBefore: 0, limit: 100, endedBefore };
      return (await bench.store.prune(query)).ids;
    };
    expect(await prune()).toEqual([]);
    await bench.report(running, done(), T0 + 2);
    expect(await leftIn(parent.id)).toBe(1);
    expect(await prune()).toEqual([leaf]);
    expect(await prune()).toEqual([plain]);
    expect(await prune()).toEqual([nested]);
  });

  test("random trees, processed concurrently, agree with their events", async () => {
    const stores: Store[] = bench.hasSecond ? [bench.store, await bench.second()] : [bench.store];
    for (const seed of inFull([1, 2, 3])) await grow(stores, seed);
  });
}

/** From 0 to below 1, the same for a seed (mulberry32). */
function dice(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b9);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Hand {
  readonly job: ClaimedJob;
  readonly session: string;
}

/** Children are submitted, start, spend, fail or succeed, are lost and redriven, on any of these connections, several
 *  at a time. */
async function grow(stores: readonly Store[], seed: number): Promise<void> {
  const random = dice(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const pick = <T>(list: readonly T[]) => list[below(list.length)] as T;
  const kind = `tree-${seed}`;
  const amount = () => usageOf(below(50), below(50), below(300) / 1_000);
  const retries: PolicyFields[] = [
    PLAIN,
    { ...PLAIN, budget: { costUsd: 2, tokens: 900 } },
    { ...PLAIN, budget: { costUsd: 1, estimate: { tokens: 20, costUsd: 0.1 } } },
    estimated(0.2),
  ];
  const root = newJob({ kind, retry: { ...PLAIN, budget: { costUsd: 6, tokens: 3_000 } } });
  const ids = [root.id];
  const depths = new Map([[root.id, 0]]);
  await pick(stores).insert([root], T0);
  const sessions = [newSession({ kinds: [kind] }), newSession({ kinds: [kind] })];
  for (const session of sessions) await pick(stores).sessions.open(session, T0);
  const held: Hand[] = [];
  let now = T0;

  const step = async (): Promise<void> => {
    const store = pick(stores);
    const at = now;
    const roll = random();
    if (roll < 0.25) {
      const parent = pick(ids);
      const depth = (depths.get(parent) as number) + 1;
      if (depth > 5) return;
      const child = newJob({ kind, at, retry: pick(retries), parent: { id: parent, attempt: null }, depth });
      const [answer] = await store.insert([child], at);
      if (answer?.status !== "inserted") return;
      ids.push(child.id);
      depths.set(child.id, depth);
      return;
    }
    if (roll < 0.5) {
      const session = pick(sessions).id;
      const claimId = random() < 0.5 ? null : `${seed}.${at}.${random()}`;
      const [answer] = await store.claim([{ session, limit: 1 + below(4), claimId }], at);
      for (const job of answer?.jobs ?? []) held.push({ job, session });
      return;
    }
    if (roll < 0.6) {
      const command = {
        kind: "redrive",
        changes: random() < 0.3 ? { budget: { costUsd: 0.5, tokens: 100 } } : {},
      } as const;
      await store.amend([{ jobId: pick(ids), command }], at, decideCommandAt(at));
      return;
    }
    if (held.length === 0) return;
    if (roll < 0.75) {
      const { job, session } = pick(held);
      await store.renew([{ session, held: [{ ...placeOf(job), usage: amount() }] }], at);
      return;
    }
    const [{ job, session }] = held.splice(below(held.length), 1) as [Hand];
    const usage = random() < 0.7 ? amount() : null;
    const outcomes = [done(), broke(), broke(), INTERRUPTED, null];
    const outcome = pick(outcomes);
    const report = outcome === null ? released(placeOf(job), session) : reportOf(job, outcome, { usage });
    await store.settle([report], at, decideAt(at));
  };
  for (let round = 0; round < 60; round++) {
    await Promise.all(Array.from({ length: 6 }, step));
    now += 1_100; // longer than the delay of released jobs
    const [first, second] = sessions as [(typeof sessions)[0], (typeof sessions)[0]];
    await pick(stores).renew(
      [first, second].map(({ id }) => ({ session: id, held: [], unheardAfterMs: Number.MAX_SAFE_INTEGER })),
      now,
    );
  }
}
