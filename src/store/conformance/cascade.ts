/** A cancel of a job with children is recorded with it until it has been passed on to all of them. */
import { expect, test } from "vitest";
import type { DecideCommand } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, DAY, decideCommandAt, done, jobId, T0, waiting } from "./kit.ts";

export function cascadeTests(bench: Bench): void {
  const childOf = (id: string) => bench.submit({ parent: { id, attempt: null }, depth: 1 });
  const due = () => bench.store.children.cascades(100);
  const cancel = (id: string, now = T0) => bench.amend(id, { kind: "cancel" }, now);

  test("records the cancel of a queued, a running and a blocked parent", async () => {
    const queued = await bench.submit({ kind: "other" });
    const { job: running } = await bench.running();
    const { job: blocked } = await bench.running();
    await bench.report(blocked, waiting([jobId()]));
    for (const id of [queued, running.id, blocked.id]) await childOf(id);
    expect(await due()).toEqual([]);
    for (const id of [queued, running.id, blocked.id]) {
      expect(await cancel(id)).toMatchObject({ status: "applied" });
      expect(await due()).toContain(id);
    }
    expect(await bench.store.children.cascades(2)).toHaveLength(2);
  });

  test("records nothing for jobs without children, no-ops and other commands", async () => {
    const alone = await bench.submit();
    await cancel(alone);
    const { job } = await bench.running();
    await childOf(job.id);
    await bench.report(job, done());
    expect(await cancel(job.id)).toMatchObject({ status: "noop" });
    const parent = await bench.submit();
    await childOf(parent);
    await bench.amend(parent, { kind: "reschedule", runAt: T0 + 9 });
    expect(await due()).toEqual([]);
  });

  test("records all jobs of a list", async () => {
    const parents = [await bench.submit(), await bench.submit(), await bench.submit()];
    await childOf(parents[0] as string);
    await childOf(parents[2] as string);
    const commands = parents.map((id) => ({ jobId: id, command: { kind: "cancel" } as const }));
    await bench.store.amend(commands, T0, decideCommandAt(T0));
    expect((await due()).sort()).toEqual([parents[0], parents[2]].sort());
  });

  test("is done when all children have been requested to stop, not before", async () => {
    const parent = await bench.submit();
    const children = [await childOf(parent), await childOf(parent)];
    await cancel(parent);
    await bench.store.children.cascaded(parent);
    expect(await due()).toEqual([parent]);
    await cancel(children[0] as string);
    await bench.store.children.cascaded(parent);
    expect(await due()).toEqual([parent]);
    await cancel(children[1] as string);
    await bench.store.children.cascaded(parent);
    await bench.store.children.cascaded(parent);
    await bench.store.children.cascaded(jobId());
    expect(await due()).toEqual([]);
  });

  test("a running child counts as requested, and an ended one needs no request", async () => {
    const { job, session } = await bench.running();
    await childOf(job.id);
    await childOf(job.id);
    const [a, b] = await bench.claim(session, 2);
    await cancel(job.id);
    await cancel((a as NonNullable<typeof a>).id);
    await bench.report(b as NonNullable<typeof b>, done());
    await bench.store.children.cascaded(job.id);
    expect(await due()).toEqual([]);
  });

  test("returns page by page the children to reach, without those that ended or were requested", async () => {
    const { job, session } = await bench.running();
    const children: string[] = [];
    for (let i = 0; i < 7; i++) children.push(await childOf(job.id));
    await bench.submit();
    const [asked, over, runs] = await bench.claim(session, 3);
    await cancel((asked as NonNullable<typeof asked>).id);
    await bench.report(over as NonNullable<typeof over>, done());
    await cancel(children[6] as string);
    const pages: { readonly jobId: string; readonly isOver: boolean }[][] = [];
    for (let after: number | null = null, more = true; more; more = after !== null) {
      const page = await bench.store.children.reachable({ parentId: job.id, after, limit: 2 });
      pages.push(page.jobs);
      after = page.next;
    }
    const ids = [(runs as NonNullable<typeof runs>).id, ...children.slice(3, 6)];
    expect(pages.flat()).toEqual(ids.map((jobId) => ({ jobId, isOver: false })));
    expect(Math.max(...pages.map(({ length }) => length))).toBe(2);
    expect(await bench.store.children.reachable({ parentId: jobId(), after: null, limit: 2 })).toEqual({
      jobs: [],
      next: null,
    });
  });

  test("continues downwards: a child with children is recorded in turn", async () => {
    const parent = await bench.submit();
    const child = await childOf(parent);
    const grandchild = await childOf(child);
    await cancel(parent);
    expect(await due()).toEqual([parent]);
    await cancel(child);
    expect((await due()).sort()).toEqual([parent, child].sort());
    await cancel(grandchild);
    expect(await due()).toHaveLength(2);
  });

  test("a redrive cancels what was not passed on yet", async () => {
    const parent = await bench.submit();
    const child = await childOf(parent);
    await cancel(parent);
    expect(await due()).toEqual([parent]);
    await bench.amend(parent, { kind: "redrive" });
    expect(await due()).toEqual([]);
    expect((await bench.row(child)).state).toBe("queued");
  });

  test("commands issued by a parent are decided by its state under its lock", async () => {
    const parent = await bench.submit();
    const child = await childOf(parent);
    const seen: unknown[] = [];
    const ask = async (parentId: string | undefined) => {
      const commands = [{ jobId: child, command: { kind: "cancel" } as const }];
      const look: DecideCommand = (_job, _command, found) => {
        seen.push(found);
        return { kind: "noop", message: "looked" };
      };
      const [answer] = await bench.store.amend(commands, T0, look, parentId);
      expect(answer).toMatchObject({ status: "noop", message: "looked", job: { id: child } });
    };
    await ask(parent);
    await cancel(parent, T0 + 7);
    await ask(parent);
    await ask("job_of_nobody");
    await ask(undefined);
    expect(seen).toEqual([
      { state: "queued", attempt: 0, cancelRequestedAt: null, isCancelled: false },
      { state: "cancelled", attempt: 0, cancelRequestedAt: T0 + 7, isCancelled: true },
      null,
      null,
    ]);
  });

  /** A job, below it two generations that ended without a cancel, and a live one. */
  async function withEndedBetween() {
    const top = await bench.submit({ kind: "top", retry: 2 });
    const { job: upper, session } = await bench.running({ parent: { id: top, attempt: null }, depth: 1 });
    const lower = await bench.submit({ parent: { id: upper.id, attempt: 1 }, depth: 2 });
    const held = await bench.take(session);
    const child = await bench.submit({ kind: "child", parent: { id: lower, attempt: 1 }, depth: 3 });
    await bench.report(held, broke());
    await bench.report(upper, broke());
    return { top, upper: upper.id, lower, child };
  }

  test("returns ended children that have children, unless their own cancel is due", async () => {
    const { top, upper, lower, child } = await withEndedBetween();
    const { job: leaf } = await bench.running({ parent: { id: top, attempt: null }, depth: 1 });
    await bench.report(leaf, done());
    const asked = await childOf(top);
    await childOf(asked);
    const look = async (parentId: string) =>
      (await bench.store.children.reachable({ parentId, after: null, limit: 9 })).jobs;
    expect(await look(top)).toEqual([
      { jobId: upper, isOver: true },
      { jobId: asked, isOver: false },
    ]);
    await cancel(asked);
    expect(await look(top)).toEqual([{ jobId: upper, isOver: true }]);
    expect(await look(upper)).toEqual([{ jobId: lower, isOver: true }]);
    expect(await look(lower)).toEqual([{ jobId: child, isOver: false }]);
    await cancel(child);
    expect(await look(lower)).toEqual([]);
  });

  test("a cancel passes through ended jobs, until one of the line is redriven", async () => {
    const { top, upper, lower, child } = await withEndedBetween();
    const stands = async (parentId = lower) => {
      const seen: unknown[] = [];
      const look: DecideCommand = (_job, _command, parent) => {
        seen.push(parent?.isCancelled);
        return { kind: "noop", message: "looked" };
      };
      await bench.store.amend([{ jobId: child, command: { kind: "cancel" } }], T0, look, parentId);
      return seen[0];
    };
    expect(await stands()).toBe(false);
    await cancel(top);
    expect([await stands(), await stands(upper), await stands(top)]).toEqual([true, true, true]);
    await bench.amend(upper, { kind: "redrive" });
    expect([await stands(), await stands(upper), await stands(top)]).toEqual([false, false, true]);
    await cancel(upper);
    expect(await stands()).toBe(true);
    await bench.amend(top, { kind: "redrive" });
    expect([await stands(), await stands(top)]).toEqual([true, false]);
    await bench.amend(upper, { kind: "redrive" });
    expect(await stands()).toBe(false);
    await bench.amend(lower, { kind: "redrive" });
    await cancel(top);
    expect(await stands()).toBe(false);
  });

  test("no cancel applies below a job that succeeded in the end", async () => {
    const { job: top } = await bench.running();
    const { job: middle } = await bench.running({ kind: "middle", parent: { id: top.id, attempt: 1 }, depth: 1 });
    const child = await bench.submit({ kind: "child", parent: { id: middle.id, attempt: 1 }, depth: 2 });
    await bench.report(middle, done());
    await bench.report(top, done());
    let seen: unknown;
    const look: DecideCommand = (_job, _command, parent) => {
      seen = parent?.isCancelled;
      return { kind: "noop", message: "looked" };
    };
    await bench.store.amend([{ jobId: child, command: { kind: "cancel" } }], T0, look, middle.id);
    expect(seen).toBe(false);
  });

  test("a job between a live job and one that may be cancelled through it is not pruned", async () => {
    const { top, upper, lower, child } = await withEndedBetween();
    const { job: leaf } = await bench.running({ parent: { id: top, attempt: null }, depth: 1 });
    await bench.report(leaf, done());
    const prune = async () => {
      const endedBefore = { succeeded: T0 + DAY, failed: T0 + DAY, cancelled: T0 + DAY };
      const answer = await bench.store.prune({
        ...{ now: T0 + DAY, keyWindowMs: 1, sessionsEndedBefore: 0, limit: 100, endedBefore },
      });
      return [...answer.ids].sort();
    };
    expect(await prune()).toEqual([]);
    await cancel(top); // it has ended, but its cancel is not passed on yet
    expect(await prune()).toEqual([leaf.id]);
    await cancel(child);
    expect(await prune()).toEqual([child]);
    await bench.store.children.cascaded(top);
    expect(await prune()).toEqual([top, upper, lower].sort());
  });

  test("a redrive leaves the children unchanged, and a later cancel is recorded again", async () => {
    const parent = await bench.submit();
    const child = await childOf(parent);
    await cancel(parent);
    await cancel(child);
    await bench.store.children.cascaded(parent);
    await bench.amend(parent, { kind: "redrive" });
    expect((await bench.row(child)).state).toBe("cancelled");
    await childOf(parent);
    await cancel(parent, T0 + 1);
    expect(await due()).toEqual([parent]);
  });

  test("a parent whose cancel is not passed on yet is not pruned", async () => {
    const parent = await bench.submit();
    const child = await childOf(parent);
    await cancel(parent);
    const prune = () =>
      bench.store.prune({
        ...{ now: T0 + DAY, keyWindowMs: 1, sessionsEndedBefore: 0, limit: 100 },
        endedBefore: { succeeded: T0 + DAY, failed: T0 + DAY, cancelled: T0 + DAY },
      });
    expect(await prune()).toMatchObject({ jobs: 0 });
    await cancel(child);
    await bench.store.children.cascaded(parent);
    expect((await prune()).ids).toHaveLength(2);
    expect(await due()).toEqual([]);
  });
}
