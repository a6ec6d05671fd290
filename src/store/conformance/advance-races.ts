/** Races of runs on two connections to one database: of two advances one is written, and the end of a step that comes while its
 *  run advances is read by a later one. Each store's test file calls `advanceRaceTests` with a way to open two connections. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import { isOpen } from "../../core/run/run.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { AdvanceAnswer, Store } from "../store.ts";
import { audit } from "./audit.ts";
import { decideAt, decideCommandAt, newSession, reportOf, T0 } from "./kit.ts";
import type { Arena } from "./races.ts";
import { advanceOn, newRun, runsOf, saveDefinition } from "./run-kit.ts";

const ROUNDS = IS_FULL ? 200 : 30;
const STEPS = 6;

export function advanceRaceTests(name: string, makeArena: () => Promise<Arena>): void {
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

    const store = (i: number) => stores[i % 2] as Store;

    /** Starts both sides some turns of the event loop apart. */
    async function atOnce<A, B>(i: number, one: () => Promise<A>, other: () => Promise<B>): Promise<[A, B]> {
      const late = async <T>(turns: number, call: () => Promise<T>) => {
        for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
        return call();
      };
      const apart = (i % 9) - 4;
      return Promise.all([late(Math.max(0, apart), one), late(Math.max(0, -apart), other)]);
    }

    /** A run whose steps are claimed. */
    async function running(steps: number): Promise<{ id: string; jobs: ClaimedJob[] }> {
      await saveDefinition(stores[0]);
      const run = newRun();
      await stores[0].insert([run], T0);
      const start = Array.from({ length: steps }, (_, i) => ({ node: `s${i}` }));
      await advance(stores[0], run.id, (loaded) => ({ ...loaded, start }));
      const session = newSession({ slots: steps });
      await stores[0].sessions.open(session, T0);
      const [claimed] = await stores[0].claim([{ session: session.id, limit: steps, claimId: null }], T0);
      return { id: run.id, jobs: claimed?.jobs ?? [] };
    }

    type Parts = NonNullable<Parameters<typeof advanceOn>[2]>;

    /** Ends what has ended, as an engine does; null if nothing is due. */
    async function advance(
      on: Store,
      id: string,
      parts: (parts: Parts) => Parts = (own) => own,
    ): Promise<AdvanceAnswer | null> {
      const [loaded] = await runsOf(on).load([id], T0);
      if (loaded == null) return null;
      const end = loaded.steps.filter(({ state }) => isOpen(state)).map(({ n }) => ({ n }));
      return advanceOn(on, loaded, parts({ end }));
    }

    /** Until nothing is due. */
    async function drain(on: Store, id: string): Promise<void> {
      while ((await advance(on, id)) !== null);
    }

    /** Ends a run of which nothing is due. */
    async function finish(id: string): Promise<void> {
      const [[job], run] = await Promise.all([stores[0].facts([id]), runsOf(stores[0]).row(id)]);
      if (job == null || run === null) throw new Error(`no run ${id}`);
      const idle = { job, run, messages: [], hasMoreMessages: false, timers: [], steps: [], ends: {} };
      expect(await advanceOn(stores[0], idle, { finish: { state: "cancelled" } })).toEqual({ status: "written" });
    }

    test("of two advances of one message one is written, and its steps exist once", async () => {
      await saveDefinition(stores[0]);
      for (let i = 0; i < ROUNDS; i++) {
        const run = newRun();
        await store(i).insert([run], T0);
        const start = (on: Store) => () => advance(on, run.id, (parts) => ({ ...parts, start: [{}] }));
        const answers = await atOnce(i, start(stores[0]), start(stores[1]));
        // One of them may have loaded nothing any more.
        expect(answers.filter((answer) => answer?.status === "written")).toHaveLength(1);
        expect((await stores[0].find({ parentId: run.id })).jobs).toHaveLength(1);
        expect(await runsOf(stores[1]).steps({ run: run.id, after: 0, limit: 9 })).toHaveLength(1);
      }
    });

    test("an end that comes during an advance is read by the next one", async () => {
      for (let i = 0; i < ROUNDS; i++) {
        const { id, jobs } = await running(2);
        const [first, second] = jobs as [ClaimedJob, ClaimedJob];
        await stores[0].settle([reportOf(first)], T0, decideAt(T0));
        const [loaded] = await runsOf(stores[0]).load([id], T0);
        if (loaded == null) throw new Error("the end of the first step is not due");
        const ended = loaded.steps.map(({ n }) => ({ n }));
        const [answer] = await atOnce(
          i,
          () => advanceOn(stores[0], loaded, { end: ended }),
          () => stores[1].settle([reportOf(second)], T0, decideAt(T0)),
        );
        expect(answer).toEqual({ status: "written" });
        const [after] = await runsOf(stores[i % 2] as Store).load([id], T0);
        expect(after?.messages).toMatchObject([{ kind: "ended", ref: second.id }]);
        await drain(store(i), id);
        expect((await runsOf(stores[0]).row(id))?.open).toBe(0);
        await finish(id);
      }
    });

    test("many ends and many advances on both connections read each end once", async () => {
      for (let i = 0; i < ROUNDS / 5; i++) {
        const { id, jobs } = await running(STEPS);
        const settle = (on: Store, some: readonly ClaimedJob[]) =>
          some.map((job) => on.settle([reportOf(job)], T0, decideAt(T0)));
        const half = STEPS / 2;
        const advances = Array.from({ length: STEPS }, (_, k) =>
          atOnce(
            i + k,
            () => advance(stores[0], id),
            () => advance(stores[1], id),
          ),
        );
        await Promise.all([
          ...settle(stores[0], jobs.slice(0, half)),
          ...advances,
          ...settle(stores[1], jobs.slice(half)),
        ]);
        await drain(store(i), id);
        const rows = await runsOf(stores[0]).steps({ run: id, after: 0, limit: 99 });
        expect(rows.map(({ state }) => state)).toEqual(Array.from({ length: STEPS }, () => "succeeded"));
        await finish(id);
      }
    });

    test("a cancel and an advance: the cancel is read by this one or by the next", async () => {
      for (let i = 0; i < ROUNDS; i++) {
        const { id, jobs } = await running(1);
        await stores[0].settle([reportOf(jobs[0] as ClaimedJob)], T0, decideAt(T0));
        const cancel = () => stores[1].amend([{ jobId: id, command: { kind: "cancel" } }], T0, decideCommandAt(T0));
        const [answer, [cancelled]] = await atOnce(i, () => advance(stores[0], id), cancel);
        expect(cancelled?.status).toBe("applied");
        const [loaded] = await runsOf(stores[0]).load([id], T0);
        const kinds = loaded?.messages.map(({ kind }) => kind) ?? [];
        // If the cancel was first, the advance had loaded it, or was not written.
        if (answer?.status === "moved") expect(kinds).toEqual(["ended", "cancel"]);
        else expect([[], ["cancel"]]).toContainEqual(kinds);
        await drain(stores[0], id);
        await finish(id);
      }
    });
  });
}
