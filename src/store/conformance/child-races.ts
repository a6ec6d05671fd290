/** Races between storing a child and the end or cancel of its parent, on two connections to one database. Whichever is
 *  first, no child is left alone: it is refused, or the cancel of the parent has been recorded to be passed on to it.
 *  Each store's test file calls `childRaceTests` with a way to open two connections. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import type { Command } from "../../core/job/command.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { AmendAnswer, InsertAnswer, JobRow, Store } from "../store.ts";
import { audit } from "./audit.ts";
import { decideAt, decideCommandAt, done, newJob, newSession, reportOf, T0, waiting } from "./kit.ts";
import type { Arena } from "./races.ts";

const TRIES = IS_FULL ? 200 : 40;

export function childRaceTests(name: string, makeArena: () => Promise<Arena>): void {
  describe(name, () => {
    let stores: readonly [Store, Store];
    beforeEach(async () => {
      ({ stores } = await makeArena());
    });
    afterEach(async () => {
      try {
        await audit(stores[0]);
      } finally {
        for (const store of stores) await store.close();
      }
    });

    const childOf = (id: string, attempt: number | null) =>
      newJob({ kind: "child", parent: { id, attempt }, depth: 1 });
    const cancel = async (store: Store, id: string): Promise<AmendAnswer> => {
      const command: Command = { kind: "cancel" };
      return (await store.amend([{ jobId: id, command }], T0, decideCommandAt(T0)))[0] as AmendAnswer;
    };
    const row = async (id: string) => (await stores[0].jobs([id]))[0] as JobRow;

    async function running(count: number): Promise<ClaimedJob[]> {
      const session = newSession({ slots: count });
      await stores[0].sessions.open(session, T0);
      const jobs = Array.from({ length: count }, () => newJob());
      await stores[0].insert(jobs, T0);
      return (await stores[0].claim([{ session: session.id, limit: count, claimId: null }], T0))[0]?.jobs ?? [];
    }

    /** Starts one side or the other first, some turns of the event loop apart. */
    async function atOnce<A, B>(i: number, one: () => Promise<A>, other: () => Promise<B>): Promise<[A, B]> {
      const late = async <T>(turns: number, call: () => Promise<T>) => {
        for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
        return call();
      };
      const apart = (i % 9) - 4;
      return Promise.all([late(Math.max(0, apart), one), late(Math.max(0, -apart), other)]);
    }

    test("a cancelled parent has no child that the cancel would miss", async () => {
      const outcomes = { stored: 0, refused: 0 };
      for (let round = 0; round < TRIES; round += 20) {
        const parents = await running(20);
        for (const [i, parent] of parents.entries()) {
          // Every other one is not running, and cancelled at once.
          if (i % 2 === 0) await stores[0].settle([reportOf(parent, waiting([parent.id]))], T0, decideAt(T0));
          const attempt = i % 2 === 0 ? null : 1;
          const [[stored], cancelled] = await atOnce(
            i + round,
            () => stores[0].insert([childOf(parent.id, attempt)], T0),
            () => cancel(stores[1], parent.id),
          );
          const answer = stored as InsertAnswer;
          expect(cancelled.status).toBe("applied");
          const due = await stores[0].children.cascades(1_000);
          if (answer.status === "inserted") {
            outcomes.stored += 1;
            expect(due).toContain(parent.id);
            expect(await row(answer.id)).toMatchObject({ state: "queued", parentId: parent.id });
          } else {
            outcomes.refused += 1;
            expect(answer).toMatchObject({ status: "refused", code: "parent_ended" });
            expect(due).not.toContain(parent.id);
            expect((await stores[0].find({ parentId: parent.id })).jobs).toEqual([]);
          }
        }
      }
      expect(outcomes.stored + outcomes.refused).toBe(TRIES);
    });

    test("a parent that ended accepts no child of the attempt that ended it", async () => {
      for (let round = 0; round < TRIES; round += 20) {
        for (const [i, parent] of (await running(20)).entries()) {
          const [[stored], [settled]] = await atOnce(
            i + round,
            () => stores[0].insert([childOf(parent.id, 1)], T0 + 1),
            () => stores[1].settle([reportOf(parent, done())], T0 + 1, decideAt(T0 + 1)),
          );
          expect(settled).toMatchObject({ status: "accepted", state: "succeeded" });
          // Either it existed before the end, or it was never stored.
          const children = (await stores[0].find({ parentId: parent.id })).jobs;
          expect(children).toHaveLength((stored as InsertAnswer).status === "inserted" ? 1 : 0);
        }
      }
    });

    test("neither a cascade nor a second cancel is lost", async () => {
      for (let i = 0; i < TRIES / 4; i++) {
        const parent = newJob();
        await stores[0].insert([parent], T0);
        const [first] = await stores[0].insert([childOf(parent.id, null)], T0);
        await cancel(stores[0], parent.id);
        await cancel(stores[0], (first as { id: string }).id);
        await stores[0].amend([{ jobId: parent.id, command: { kind: "redrive" } }], T0, decideCommandAt(T0));
        const [second] = await stores[0].insert([childOf(parent.id, null)], T0);
        expect(second).toMatchObject({ status: "inserted" });
        await atOnce(
          i,
          () => stores[0].children.cascaded(parent.id),
          () => cancel(stores[1], parent.id),
        );
        expect(await stores[0].children.cascades(1_000)).toContain(parent.id);
        await cancel(stores[0], (second as { id: string }).id);
        await stores[0].children.cascaded(parent.id);
        expect(await stores[0].children.cascades(1_000)).not.toContain(parent.id);
      }
    });

    test("two concurrent unblocks run a job once", async () => {
      const jobs = await running(40);
      await stores[0].settle(
        jobs.map((job) => reportOf(job, waiting(["job_nobody"]))),
        T0,
        decideAt(T0),
      );
      for (const [i, job] of jobs.entries()) {
        const command: Command = { kind: "unblock", attempt: 1, runAt: T0 };
        const unblock = (store: Store) => () => store.amend([{ jobId: job.id, command }], T0, decideCommandAt(T0));
        const [[a], [b]] = await atOnce(i, unblock(stores[0]), unblock(stores[1]));
        expect([a?.status, b?.status].sort()).toEqual(["applied", "noop"]);
      }
      expect((await stores[1].children.unblockable({ parents: null, limit: 100 })).jobs).toEqual([]);
    });

    test("usage reported on two connections at once keeps the larger of each number", async () => {
      for (const [i, job] of (await running(50)).entries()) {
        await atOnce(
          i,
          () => stores[0].setUsage(job.id, 1, { tokensIn: 9, tokensOut: 1, costUsd: 0.5 }),
          () => stores[1].setUsage(job.id, 1, { tokensIn: 1, tokensOut: 9, costUsd: 0.25 }),
        );
        await stores[i % 2 === 0 ? 0 : 1].settle([reportOf(job, done())], T0, decideAt(T0));
        expect((await row(job.id)).usage).toEqual({ tokensIn: 9, tokensOut: 9, costUsd: 0.5 });
      }
    });
  });
}
