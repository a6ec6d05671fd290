/** Children: stored under their parent's lock, found by parent, and kept while it may still need them. */
import { expect, test } from "vitest";
import type { PruneQuery } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, DAY, done, type JobParts, jobId, newJob, SECOND, T0, TWICE, waiting } from "./kit.ts";

export function parentTests(bench: Bench): void {
  const childOf = (id: string, attempt: number | null = null, parts: JobParts = {}): JobParts => ({
    parent: { id, attempt },
    depth: 1,
    ...parts,
  });
  const refused = { status: "refused", code: "parent_ended", message: expect.any(String) };

  test("a child knows its parent and its depth, wherever it is shown", async () => {
    const { job: parent } = await bench.running();
    const id = await bench.submit(childOf(parent.id, 1));
    expect(await bench.row(id)).toMatchObject({ parentId: parent.id, depth: 1, state: "queued" });
    const deep = await bench.submit(
      childOf(id, null, { depth: 2, key: "deep", annotations: '{"a":"b"}', tags: ["t"] }),
    );
    const row = await bench.row(deep);
    expect(row).toMatchObject({ parentId: id, depth: 2, key: "deep", tags: ["t"], annotations: { a: "b" } });
    const [event] = (await bench.store.events.page({ after: 0, limit: 1, jobId: deep })).events;
    expect(event).toMatchObject({ name: "job.submitted", data: { parentId: id } });
  });

  test("a claimed child is decided like any other job", async () => {
    const { job: parent, session } = await bench.running();
    await bench.submit(childOf(parent.id, 1, { retry: TWICE, deadlineAt: T0 + DAY }));
    await bench.submit(childOf(parent.id, 1, { retry: TWICE }));
    const children = await bench.claim(session, 5);
    expect(children.map((job) => job.attempt)).toEqual([1, 1]);
    const [first, second] = children as [typeof parent, typeof parent];
    expect(await bench.report(first, broke(), T0 + 1)).toMatchObject({ state: "queued" });
    expect(await bench.report(second, done(), T0 + 1)).toMatchObject({ state: "succeeded" });
    expect(await bench.row(first.id)).toMatchObject({ parentId: parent.id, depth: 1, failures: 1 });
  });

  test("is refused unless its parent exists in the same namespace and has not ended", async () => {
    const { job: over } = await bench.running();
    await bench.report(over, done());
    const queued = await bench.submit();
    const foreign = await bench.submit({ namespace: "other" });
    const answers = await bench.insert([
      childOf(queued),
      childOf(jobId()),
      childOf(foreign),
      childOf(over.id),
      {},
      childOf(queued, 1), // it is not running
    ]);
    expect(answers).toMatchObject([{ status: "inserted" }, refused, refused, refused, { status: "inserted" }, refused]);
    expect((await bench.store.find({})).jobs).toHaveLength(5);
  });

  test("is refused once a cancel of its parent was requested, or another attempt runs", async () => {
    const { job, session } = await bench.running({ retry: TWICE });
    expect((await bench.insert([childOf(job.id, 1), childOf(job.id, 2)])).map(({ status }) => status)).toEqual([
      "inserted",
      "refused",
    ]);
    await bench.report(job, broke(), T0);
    expect(await bench.insert([childOf(job.id, 1), childOf(job.id)], T0)).toMatchObject([
      refused,
      { status: "inserted" },
    ]);
    const again = (await bench.claim(session, 9, T0 + SECOND)).find(({ id }) => id === job.id);
    expect(again).toMatchObject({ attempt: 2 });
    expect(await bench.insert([childOf(job.id, 1), childOf(job.id, 2)], T0 + SECOND)).toMatchObject([
      refused,
      { status: "inserted" },
    ]);
    await bench.amend(job.id, { kind: "cancel" }, T0 + SECOND);
    expect(await bench.insert([childOf(job.id, 2), childOf(job.id)], T0 + SECOND)).toMatchObject([refused, refused]);
  });

  test("is accepted by a parent that waits for others, and by a redriven one", async () => {
    const { job } = await bench.running();
    await bench.report(job, waiting([jobId()]));
    expect(await bench.insert([childOf(job.id), childOf(job.id, 1)])).toMatchObject([{ status: "inserted" }, refused]);
    await bench.amend(job.id, { kind: "cancel" });
    expect(await bench.insert([childOf(job.id)])).toMatchObject([refused]);
    await bench.amend(job.id, { kind: "redrive" });
    expect(await bench.insert([childOf(job.id)])).toMatchObject([{ status: "inserted" }]);
  });

  test("a child whose key exists is found, whatever happened to the parent", async () => {
    const { job } = await bench.running();
    const id = await bench.submit(childOf(job.id, 1, { key: "k" }));
    const exists = { status: "exists", id, state: "queued", chapter: 1, pruned: false };
    expect(await bench.insert([childOf(job.id, 1, { key: "k" })])).toEqual([exists]);
    await bench.report(job, done());
    const answers = await bench.insert([
      childOf(job.id, 1, { key: "k" }),
      childOf(job.id, 1, { key: "k", payload: '"other"' }),
      childOf(job.id, 1, { key: "new" }),
      childOf(job.id, 1),
    ]);
    expect(answers).toEqual([exists, { status: "conflict", id }, refused, refused]);
    // A refused child did not take its key.
    expect(await bench.insert([{ key: "new" }])).toMatchObject([{ status: "inserted" }]);
  });

  test("after the window of a key the parent decides", async () => {
    const { job } = await bench.running();
    // Not a child: those leave no stub of their keys.
    const id = await bench.submit({ key: "k" });
    await bench.amend(id, { kind: "cancel" }, T0);
    await bench.report(job, done(), T0);
    await prune({ cancelled: T0 + 1, succeeded: T0 + 1 }, { keyWindowMs: SECOND, now: T0 + 1 });
    const again = () => newJob(childOf(job.id, 1, { key: "k" }));
    expect(await bench.store.insert([again()], T0 + 2)).toMatchObject([{ status: "exists", id, pruned: true }]);
    expect(await bench.store.insert([again()], T0 + 2 * SECOND)).toMatchObject([refused]);
  });

  test("find returns the children of a job, page by page", async () => {
    const [parent, other] = [await bench.submit(), await bench.submit()];
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) {
      ids.push(await bench.submit(childOf(parent)));
      await bench.submit(childOf(other));
    }
    await bench.amend(ids[1] as string, { kind: "cancel" });
    const idsOf = async (filter: Parameters<typeof bench.store.find>[0]) =>
      (await bench.store.find(filter)).jobs.map((job) => job.id);
    expect(await idsOf({ parentId: parent })).toEqual(ids.toReversed());
    expect(await idsOf({ parentId: parent, order: "oldest", state: ["cancelled"] })).toEqual([ids[1]]);
    expect(await idsOf({ parentId: parent, state: ["queued"], namespace: "default", kind: ["work"] })).toHaveLength(4);
    expect(await idsOf({ parentId: jobId() })).toEqual([]);
    expect(await idsOf({ parentId: parent, state: ["queued"], deadLetter: true })).toEqual([]);
    expect(await idsOf({ parentId: parent, tag: "t", key: "k" })).toEqual([]);
    for (const order of ["newest", "oldest"] as const) {
      const seen: string[] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await bench.store.find({ parentId: parent, order, limit: 2, ...(cursor ? { cursor } : {}) });
        seen.push(...page.jobs.map((job) => job.id));
        cursor = page.next;
      }
      expect(seen).toEqual(order === "oldest" ? ids : ids.toReversed());
    }
  });

  const prune = (endedBefore: PruneQuery["endedBefore"], parts: Partial<PruneQuery> = {}) =>
    bench.store.prune({ now: T0 + DAY, keyWindowMs: DAY, sessionsEndedBefore: 0, limit: 100, endedBefore, ...parts });

  test("a child is not pruned before its parent has ended", async () => {
    const { job, session } = await bench.running();
    await bench.submit(childOf(job.id, 1));
    const child = await bench.take(session);
    await bench.report(child, done('"kept"'), T0 + 1);
    const everything = { succeeded: T0 + DAY, failed: T0 + DAY, cancelled: T0 + DAY };
    expect(await prune(everything)).toMatchObject({ jobs: 0 });
    await bench.report(job, waiting([child.id]), T0 + 2);
    expect(await prune(everything)).toMatchObject({ jobs: 0 });
    await bench.amend(job.id, { kind: "unblock", attempt: 1, runAt: T0 + 3 }, T0 + 3);
    await bench.report(await bench.take(session, T0 + 3), done(), T0 + 3);
    const { ids } = await prune(everything);
    expect([...ids].sort()).toEqual([job.id, child.id].sort());
  });

  test("a child outlives its parent, and still has the parent's id", async () => {
    const { job } = await bench.running();
    const id = await bench.submit(childOf(job.id, 1));
    await bench.report(job, done(), T0);
    expect(await prune({ succeeded: T0 + 1 })).toMatchObject({ ids: [job.id] });
    expect(await bench.row(id)).toMatchObject({ parentId: job.id, depth: 1 });
    expect((await bench.store.find({ parentId: job.id })).jobs).toHaveLength(1);
    await bench.amend(id, { kind: "cancel" });
    expect(await prune({ cancelled: T0 + DAY })).toMatchObject({ ids: [id] });
  });
}
