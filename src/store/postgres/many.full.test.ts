/** More jobs than a claim takes (1,000), and more in one worker than a batch has event numbers (4,096): each runs once,
 *  and the feed has each of its events once. */
import { describe, expect, it, onTestFinished } from "vitest";
import { gate } from "../../../test/kit.ts";
import { until } from "../../../test/postgres/client.ts";
import { newSchema } from "../../../test/postgres/kit.ts";
import type { PerdureEvent } from "../../core/job/event.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import { Perdure, task } from "../../index.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { jobEvents } from "../conformance/audit.ts";
import { decideAt, newJob, newSession, reportOf, T0 } from "../conformance/kit.ts";
import { openPostgres } from "./open.ts";

const AT_ONCE = 1_000;
const LIFE = ["job.submitted", "attempt.started", "attempt.succeeded"];

/** Checks that numbers only grow, and that each job has each step once. */
function expectEachOnce(feed: readonly PerdureEvent[], ids: readonly string[], life = LIFE): void {
  const steps = new Map<string, string[]>();
  let last = 0;
  for (const { seq, jobId, name } of feed) {
    if (seq <= last) throw new Error(`event ${seq} comes after ${last}`);
    last = seq;
    if (jobId === null) continue;
    const mine = steps.get(jobId);
    if (mine === undefined) steps.set(jobId, [name]);
    else mine.push(name);
  }
  expect(steps.size).toBe(ids.length);
  expect(ids.filter((id) => steps.get(id)?.join() !== life.join())).toEqual([]);
}

describe("a claim of more than a thousand", () => {
  const open = async () => {
    const { url } = newSchema("many");
    const newSecret = () => "a secret of the tests of many jobs";
    const store = await openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections: 4 });
    onTestFinished(() => store.close());
    const claim = async (session: string, claimId: string | null = null) =>
      (await store.claim([{ session, limit: 5_000, claimId }], T0))[0]?.jobs as ClaimedJob[];
    return { store, claim };
  };
  const idsOf = (jobs: readonly { readonly id: string }[]) => jobs.map(({ id }) => id);

  it("gets a thousand at a time, in their order, until there are none", async () => {
    const { store, claim } = await open();
    const session = newSession({ slots: 5_000 });
    await store.sessions.open(session, T0);
    const jobs = Array.from({ length: 2_300 }, (_, i) => newJob({ at: T0 - 5_000 + i }));
    for (const answer of await store.insert(jobs, T0)) expect(answer.status).toBe("inserted");
    const taken: ClaimedJob[] = [];
    for (const count of [AT_ONCE, AT_ONCE, 300, 0]) {
      const some = await claim(session.id);
      expect(some).toHaveLength(count);
      taken.push(...some);
    }
    expect(idsOf(taken)).toEqual(idsOf(jobs));
    const held = taken.map(({ id, attempt }) => ({ jobId: id, attempt }));
    const [renewed] = await store.renew([{ session: session.id, held, unheardAfterMs: 0 }], T0 + 1);
    expect(renewed).toMatchObject({ alive: true, lost: [], cancel: [], unheard: [] });
    const reports = taken.map((job) => reportOf(job));
    for (const answer of await store.settle(reports, T0 + 2, decideAt(T0 + 2))) expect(answer.status).toBe("accepted");
    expectEachOnce(await jobEvents(store, 3 * jobs.length), idsOf(jobs));
  });

  it("gets the same thousand when it is repeated, and concurrent claims get others", async () => {
    const { store, claim } = await open();
    const sessions = Array.from({ length: 3 }, () => newSession({ slots: 5_000 }));
    for (const session of sessions) await store.sessions.open(session, T0);
    const jobs = Array.from({ length: 3_500 }, () => newJob());
    await store.insert(jobs, T0);
    const first = await Promise.all(sessions.map(({ id }) => claim(id, "claim-1")));
    const again = await Promise.all(sessions.map(({ id }) => claim(id, "claim-1")));
    expect(again.map(idsOf)).toEqual(first.map(idsOf));
    for (const some of first) expect(some.length).toBeLessThanOrEqual(AT_ONCE);
    const taken = first.flat();
    for (let some = taken; some.length > 0; taken.push(...some)) some = await claim(sessions[0]?.id as string);
    expect(taken).toHaveLength(jobs.length);
    expect(new Set(idsOf(taken))).toEqual(new Set(idsOf(jobs)));
    const feed = await jobEvents(store, 2 * jobs.length);
    expectEachOnce(feed, idsOf(jobs), ["job.submitted", "attempt.started"]);
  });
});

describe("a worker with thousands of slots", () => {
  it("fills them all, keeps them, and runs each job once", async () => {
    const SLOTS = 9_000; // two claims share them (worker.ts): each asks for more than a batch has numbers
    const JOBS = 10_000;
    const { url } = newSchema("many");
    const logged: string[] = [];
    const perdure = await Perdure.open({ url, lease: "9s", logger: (_level, message) => void logged.push(message) });
    onTestFinished(() => perdure.close({ grace: 0 }));
    const released = gate();
    onTestFinished(() => released.open());
    const runs: string[] = [];
    const job = task("job", async (_input: undefined, { jobId }) => {
      runs.push(jobId);
      await released.passed;
    });
    const feed: PerdureEvent[] = [];
    const leave = new AbortController();
    const following = (async () => {
      for await (const event of perdure.events({ follow: true, signal: leave.signal })) feed.push(event);
    })();
    const answers = await perdure.submitMany(Array.from({ length: JOBS }, () => ({ task: job })));
    const ids = answers.flatMap((answer) => (answer.ok ? [answer.job.id] : []));
    expect(ids).toHaveLength(JOBS);
    const worker = await perdure.work([job], { concurrency: SLOTS });
    await until("all slots are taken", async () => worker.running === SLOTS);
    const renewedAt = async () => (await perdure.workers())[0]?.renewedAt ?? 0;
    const before = await renewedAt();
    await until("they were renewed", async () => (await renewedAt()) > before);
    expect(worker.running).toBe(SLOTS);
    expect(runs).toHaveLength(SLOTS);
    released.open();
    await until("all have succeeded", async () => (await perdure.queues())[0]?.counts.succeeded === JOBS);
    expect(runs).toHaveLength(JOBS);
    expect(new Set(runs)).toEqual(new Set(ids));
    await until("the feed has reached the end", async () => feed.filter((event) => event.jobId).length >= 3 * JOBS);
    leave.abort();
    await following;
    expectEachOnce(feed, ids);
    expect(logged, "no claim failed on duplicate numbers").toEqual([]);
  });

  it("releases them all when it stops, and another worker runs them", async () => {
    const SLOTS = 5_000;
    const { url } = newSchema("many");
    const perdure = await Perdure.open({ url });
    onTestFinished(() => perdure.close({ grace: 0 }));
    const held = task("job", (_input: undefined, { signal }) => {
      return new Promise<void>((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const worker = await perdure.work([held], { concurrency: SLOTS });
    const answers = await perdure.submitMany(Array.from({ length: SLOTS }, () => ({ task: held })));
    const ids = answers.flatMap((answer) => (answer.ok ? [answer.job.id] : []));
    await until("all run", async () => worker.running === SLOTS);
    await worker.stop({ grace: 0 });
    const runs: string[] = [];
    const quick = task("job", (_input: undefined, { jobId }) => void runs.push(jobId));
    await perdure.work([quick], { concurrency: SLOTS });
    await until("all have succeeded", async () => (await perdure.queues())[0]?.counts.succeeded === SLOTS);
    expect(runs.toSorted()).toEqual(ids.toSorted());
    const feed: PerdureEvent[] = [];
    for await (const event of perdure.events()) feed.push(event);
    const [submitted, started, succeeded] = LIFE as [string, string, string];
    expectEachOnce(feed, ids, [submitted, started, "attempt.interrupted", started, succeeded]);
  });
});
