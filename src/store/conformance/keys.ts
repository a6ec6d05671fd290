/** Submit keys: one job per key and window, whatever happens to it (failure model I5, F14, F51). */
import { expect, test } from "vitest";
import type { JobState } from "../../core/job/job.ts";
import type { Bench } from "./bench.ts";
import { broke, DAY, done, type JobParts, newJob, SECOND, T0 } from "./kit.ts";

const KEYED: JobParts = { key: "order-7", payload: '{"order":7}' };
const OTHER: JobParts = { key: "order-7", payload: '{"order":8}' };

export function keyTests(bench: Bench): void {
  const again = async (parts: JobParts, now: number) => (await bench.insert([parts], now))[0];
  const prune = (now: number, endedBefore = now) => {
    const states = { succeeded: endedBefore, failed: endedBefore, cancelled: endedBefore };
    return bench.store.prune({ now, endedBefore: states, keyWindowMs: DAY, sessionsEndedBefore: 0, limit: 100 });
  };

  const STATES: Readonly<Record<Exclude<JobState, "blocked">, (id: string) => Promise<unknown>>> = {
    queued: async () => {},
    running: async () => bench.take(await bench.open()),
    succeeded: async () => bench.report(await bench.take(await bench.open()), done()),
    failed: async () => bench.report(await bench.take(await bench.open()), broke()),
    cancelled: (id) => bench.amend(id, { kind: "cancel" }),
  };
  for (const [state, bring] of Object.entries(STATES)) {
    test(`names the same job while it is ${state}`, async () => {
      const id = await bench.submit(KEYED);
      await bring(id);
      expect(await again(KEYED, T0 + 5)).toEqual({ status: "exists", id, state, chapter: 1, pruned: false });
      expect(await again(OTHER, T0 + 5)).toEqual({ status: "conflict", id });
    });
  }

  test("returns how often the job was redriven, as its chapter", async () => {
    const id = await bench.submit(KEYED);
    await bench.amend(id, { kind: "cancel" });
    await bench.amend(id, { kind: "redrive" }, T0 + 1);
    expect(await again(KEYED, T0 + 5)).toMatchObject({ status: "exists", id, state: "queued", chapter: 2 });
  });

  test("belongs to one namespace", async () => {
    const first = await bench.submit({ ...KEYED, namespace: "a" });
    const second = await bench.submit({ ...OTHER, namespace: "b" });
    expect(await again({ ...KEYED, namespace: "a" }, T0)).toMatchObject({ status: "exists", id: first });
    expect(await again({ ...OTHER, namespace: "b" }, T0)).toMatchObject({ status: "exists", id: second });
  });

  test("names the same job where one of several hashes is equal", async () => {
    const keyed = (bodyHash: string) => ({ ...newJob(KEYED), bodyHash });
    const hashes = ["open own", "own", "open", "open other", "other", "open own2", "ow"];
    const answers = [];
    for (const hash of hashes) answers.push(...(await bench.store.insert([keyed(hash)], T0)));
    const known = answers.map(({ status }) => status);
    expect(known).toEqual(["inserted", "exists", "exists", "exists", "conflict", "exists", "conflict"]);
  });

  test("is taken by the first of two in one list", async () => {
    const jobs = [newJob(KEYED), newJob({ key: "else" }), newJob(KEYED), newJob(OTHER)];
    const [first, , second, third] = await bench.store.insert(jobs, T0);
    const id = jobs[0]?.id as string;
    expect(first).toEqual({ status: "inserted", id });
    expect(second).toEqual({ status: "exists", id, state: "queued", chapter: 1, pruned: false });
    expect(third).toEqual({ status: "conflict", id });
  });

  test("returns one job to a thousand concurrent submits", async () => {
    const calls = Array.from({ length: 1_000 }, () => bench.insert([KEYED]));
    const answers = (await Promise.all(calls)).flat();
    const ids = new Set(answers.map((answer) => (answer.status === "refused" ? answer.message : answer.id)));
    expect(ids.size).toBe(1);
    expect(answers.filter((answer) => answer.status === "inserted")).toHaveLength(1);
    expect(answers.filter((answer) => answer.status === "exists" && !answer.pruned)).toHaveLength(999);
    expect((await bench.store.find({})).jobs).toHaveLength(1);
  });

  test("is not taken by a job that the store refused", async () => {
    const [first, second] = await bench.insert([{ ...KEYED, priority: 11 }, KEYED]);
    expect(first).toMatchObject({ status: "refused" });
    expect(second).toMatchObject({ status: "inserted" });
    const [third] = await bench.insert([{ key: "order-9", priority: 11 }]);
    expect(third).toMatchObject({ status: "refused" });
    expect(await again({ key: "order-9" }, T0)).toMatchObject({ status: "inserted" });
  });

  test("is kept after its job is pruned, until its window ends", async () => {
    const { job } = await bench.running(KEYED);
    await bench.report(job, done(), T0 + SECOND);
    expect(await prune(T0 + 10 * SECOND)).toMatchObject({ jobs: 1, more: false });
    expect(await bench.store.jobs([job.id])).toEqual([null]);
    const stub = { status: "exists", id: job.id, state: "succeeded", chapter: 1, pruned: true };
    expect(await again(KEYED, T0 + SECOND + DAY - 1)).toEqual(stub);
    expect(await again(OTHER, T0 + SECOND + DAY - 1)).toEqual({ status: "conflict", id: job.id });
    expect(await again({ ...OTHER, namespace: "b" }, T0)).toMatchObject({ status: "inserted" });
  });

  test("is free again when its window is over", async () => {
    const { job } = await bench.running(KEYED);
    await bench.report(job, broke(), T0 + SECOND);
    await prune(T0 + 10 * SECOND);
    const fresh = await again(OTHER, T0 + SECOND + DAY);
    expect(fresh).toMatchObject({ status: "inserted" });
    expect(await again(OTHER, T0 + SECOND + DAY)).toMatchObject({ status: "exists", pruned: false });
  });

  test("is free at once when its job is pruned after the window", async () => {
    const id = await bench.submit(KEYED);
    await bench.amend(id, { kind: "cancel" });
    await prune(T0 + 2 * DAY);
    expect(await again(OTHER, T0 + 2 * DAY)).toMatchObject({ status: "inserted" });
  });

  test("is kept as long as its job, even long after its end", async () => {
    const id = await bench.submit(KEYED);
    await bench.amend(id, { kind: "cancel" });
    await prune(T0 + 30 * DAY, T0);
    expect(await again(KEYED, T0 + 30 * DAY)).toMatchObject({ status: "exists", id, pruned: false });
  });

  test("of a pruned job does not touch the same key in another namespace", async () => {
    const a = await bench.submit({ ...KEYED, namespace: "a" });
    const b = await bench.submit({ ...KEYED, namespace: "b" });
    await bench.amend(a, { kind: "cancel" });
    await prune(T0 + DAY + SECOND);
    expect(await again({ ...OTHER, namespace: "a" }, T0 + DAY + SECOND)).toMatchObject({ status: "inserted" });
    expect(await again({ ...OTHER, namespace: "b" }, T0 + DAY + SECOND)).toEqual({ status: "conflict", id: b });
  });
}
