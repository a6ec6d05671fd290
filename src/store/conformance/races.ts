/** Races between connections, and between processes, on one database: an attempt has one winner, an acknowledged cancel
 *  is never lost, a key names one job (failure model F07, F08, F16, F17, F51). Each store's test file calls `raceTests`
 *  with a way to open two connections to the same, empty data. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import type { JobEvent } from "../../core/job/event.ts";
import type { ClaimedJob, Report, SettleAnswer } from "../../core/worker-protocol.ts";
import type { InsertAnswer, Store } from "../store.ts";
import { allJobs, checkHistory, jobEvents } from "./audit.ts";
import {
  broke,
  decideAt,
  decideCommandAt,
  done,
  LEASE,
  newJob,
  newSession,
  placeOf,
  reaped,
  reportOf,
  T0,
} from "./kit.ts";
import { startRival } from "./rivals.ts";

const ROUNDS = IS_FULL ? 20 : 2;
const JOBS = 500;
const RETRY = { maxAttempts: 5, backoff: { type: "none" as const } };

/** Two connections to new data, and the address by which another process opens it. */
export interface Arena {
  readonly stores: readonly [Store, Store];
  readonly url: string;
}

let stores: readonly [Store, Store];
let url = "";

/** Every row equals the fold of its events, read at once: there are thousands. */
async function checkAll(store: Store): Promise<void> {
  const rows = await allJobs(store);
  const events = rows.reduce((sum, { revision }) => sum + revision, 0);
  const perJob = new Map<string, JobEvent[]>(rows.map(({ id }) => [id, []]));
  for (const event of await jobEvents(store, events)) perJob.get(event.jobId)?.push(event);
  for (const row of rows) checkHistory(row, perJob.get(row.id) ?? []);
}

const either = () => stores[Math.random() < 0.5 ? 0 : 1];

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((item) => ({ item, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}

/** Lists of one to twenty. */
function chunks<T>(list: readonly T[]): T[][] {
  const made: T[][] = [];
  for (let at = 0; at < list.length; ) {
    const size = 1 + Math.floor(Math.random() * 20);
    made.push(list.slice(at, at + size));
    at += size;
  }
  return made;
}

/** Makes all calls at about the same time, in random order, over several turns of the event loop. */
async function atOnce(calls: readonly (() => Promise<unknown>)[]): Promise<void> {
  const made = shuffled(calls).map(async (call, i) => {
    for (let turns = i % 4; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
    await call();
  });
  await Promise.all(made);
}

/** Running jobs of one session, claimed through both connections. */
async function running(count: number, retry: typeof RETRY | number = RETRY): Promise<ClaimedJob[]> {
  const kind = `kind-${Math.random()}`;
  const session = newSession({ kinds: [kind], slots: count });
  await stores[0].sessions.open(session, T0);
  await either().insert(
    Array.from({ length: count }, () => newJob({ kind, retry })),
    T0,
  );
  const claim = async (store: Store) =>
    (await store.claim([{ session: session.id, limit: count / 2, claimId: null }], T0))[0]?.jobs ?? [];
  return [...(await claim(stores[0])), ...(await claim(stores[1]))];
}

export function raceTests(name: string, makeArena: () => Promise<Arena>): void {
  describe(name, () => {
    beforeEach(async () => {
      ({ stores, url } = await makeArena());
    });
    afterEach(async () => {
      try {
        await checkAll(stores[0]);
      } finally {
        for (const store of stores) await store.close();
      }
    });

    test("exactly one of two reapers and a completing worker wins", async () => {
      const wins = { worker: 0, reaper: 0 };
      for (let round = 0; round < ROUNDS; round++) {
        const jobs = await running(JOBS);
        const late = T0 + LEASE + 1;
        const winners = new Map<string, string[]>();
        const odd: unknown[] = [];
        const send = (store: Store, reports: readonly Report[]) => async () => {
          const answers = await store.settle(reports, late, decideAt(late));
          answers.forEach((answer: SettleAnswer, i) => {
            const { jobId, from } = reports[i] as Report;
            if (answer.status === "accepted" ? answer.repeated : answer.status !== "stale") odd.push(answer);
            if (answer.status === "accepted") winners.set(jobId, [...(winners.get(jobId) ?? []), from.kind]);
          });
        };
        const lost = () => chunks(shuffled(jobs).map((job) => reaped(placeOf(job))));
        await atOnce([
          ...lost().map((reports) => send(stores[0], reports)),
          ...lost().map((reports) => send(stores[1], reports)),
          ...chunks(shuffled(jobs).map((job) => reportOf(job, done()))).map((reports) => send(either(), reports)),
        ]);
        const rows = await stores[round % 2 === 0 ? 0 : 1].jobs(jobs.map((job) => job.id));
        for (const row of rows) {
          const [winner, ...more] = winners.get(row?.id as string) ?? [];
          const [state, losses] = winner === "worker" ? ["succeeded", 0] : ["queued", 1];
          if (more.length > 0 || row?.state !== state || row.losses !== losses || row.failures !== 0) odd.push(row);
          wins[winner as keyof typeof wins] += 1;
        }
        expect(odd).toEqual([]);
      }
      expect(wins.worker + wins.reaper).toBe(ROUNDS * JOBS);
      // If one of them always won, there was no race.
      expect(Math.min(wins.worker, wins.reaper)).toBeGreaterThan(IS_FULL ? 500 : 0);
    });

    test("a cancel that was acknowledged while a failure is settled is never lost", async () => {
      const seen = { asked: 0, waiting: 0 };
      for (let round = 0; round < ROUNDS; round++) {
        // In every second round the failure is the last, and a later cancel is answered accordingly.
        const jobs = await running(JOBS, round % 2 === 0 ? RETRY : 1);
        const acknowledged = new Set<string>();
        const odd: unknown[] = [];
        const fail = (reports: readonly Report[]) => async () => {
          const store = either();
          const answers = await store.settle(reports, T0 + 1, decideAt(T0 + 1));
          odd.push(...answers.filter(({ status }) => status !== "accepted"));
        };
        const cancel = (ids: readonly string[]) => async () => {
          const commands = ids.map((jobId) => ({ jobId, command: { kind: "cancel" } as const }));
          const answers = await either().amend(commands, T0 + 1, decideCommandAt(T0 + 1));
          answers.forEach((answer, i) => {
            if (answer.status !== "applied") return;
            acknowledged.add(ids[i] as string);
            seen[answer.job.state === "running" ? "asked" : "waiting"] += 1;
          });
        };
        await atOnce([
          ...chunks(shuffled(jobs).map((job) => reportOf(job, broke()))).map(fail),
          ...chunks(shuffled(jobs).map((job) => job.id)).map(cancel),
        ]);
        for (const row of await stores[0].jobs(jobs.map((job) => job.id))) {
          if (row?.state !== (acknowledged.has(row?.id as string) ? "cancelled" : "failed")) odd.push(row);
        }
        expect(odd).toEqual([]);
        if (round % 2 === 0) expect(acknowledged.size).toBe(jobs.length);
      }
      expect(Math.min(seen.asked, seen.waiting)).toBeGreaterThan(IS_FULL ? 200 : 0);
    });

    test("a key that two connections submit at once names one job", async () => {
      const keys = Array.from({ length: IS_FULL ? 3_000 : 600 }, (_, i) => `key-${i}`);
      const ids = new Map<string, Set<string>>(keys.map((key) => [key, new Set()]));
      let inserted = 0;
      const submit = (store: Store) => (some: string[]) => async () => {
        const answers = await store.insert(
          some.map((key) => newJob({ key })),
          T0,
        );
        answers.forEach((answer: InsertAnswer, i) => {
          expect(["inserted", "exists"]).toContain(answer.status);
          if (answer.status === "exists") expect(answer.pruned).toBe(false);
          if (answer.status === "inserted") inserted += 1;
          ids.get(some[i] as string)?.add((answer as { id: string }).id);
        });
      };
      await atOnce(stores.flatMap((store) => chunks(shuffled(keys)).map(submit(store))));
      expect(inserted).toBe(keys.length);
      for (const found of ids.values()) expect(found.size).toBe(1);
      expect(await allJobs(stores[0])).toHaveLength(keys.length);
    });

    // Separate processes cannot be synchronized; many tries make a collision likely.
    test.runIf(IS_FULL)("exactly one of two reapers in separate processes and a worker here wins", async () => {
      const rivals = [startRival(url), startRival(url)];
      try {
        const jobs = await running(800);
        await Promise.all(rivals.map((rival) => rival.opened));
        const late = T0 + LEASE + 1;
        const places = jobs.map(placeOf);
        const reaping = rivals.map((rival, i) =>
          rival.ask<boolean[]>({ do: "reap", places: i === 0 ? places : places.toReversed(), now: late }),
        );
        const mine: boolean[] = [];
        for (const [i, job] of jobs.entries()) {
          // From the middle outwards, so that it collides with both.
          const at = (jobs.length >> 1) + (i % 2 === 0 ? i >> 1 : -((i + 1) >> 1));
          const [answer] = await stores[i % 2 === 0 ? 0 : 1].settle(
            [reportOf(jobs[at] ?? job, done())],
            late,
            decideAt(late),
          );
          mine[at] = answer?.status === "accepted";
        }
        const [first, second] = (await Promise.all(reaping)) as [boolean[], boolean[]];
        for (const i of jobs.keys()) expect([first[i], second.at(-1 - i), mine[i]].filter(Boolean)).toHaveLength(1);
        const rows = await stores[0].jobs(jobs.map((job) => job.id));
        for (const [i, row] of rows.entries()) expect(row?.state).toBe(mine[i] ? "succeeded" : "queued");
        expect(mine.filter(Boolean).length).toBeGreaterThan(0);
        expect(mine.filter(Boolean).length).toBeLessThan(jobs.length);
      } finally {
        await Promise.all(rivals.map((rival) => rival.close()));
      }
    });

    test.runIf(IS_FULL)("a key that two processes submit at once names one job", async () => {
      const rival = startRival(url);
      try {
        await rival.opened;
        const keys = Array.from({ length: 500 }, (_, i) => `key-${i}`);
        const theirs = rival.ask<InsertAnswer[]>({ do: "submit", keys: keys.toReversed(), now: T0 });
        const ours: InsertAnswer[] = [];
        for (const key of keys) ours.push(...(await stores[0].insert([newJob({ key })], T0)));
        const others = (await theirs).toReversed();
        for (const [i, answer] of ours.entries()) {
          const other = others[i] as InsertAnswer;
          expect([answer.status, other.status].sort()).toEqual(["exists", "inserted"]);
          expect((answer as { id: string }).id).toBe((other as { id: string }).id);
        }
        expect(await allJobs(stores[1])).toHaveLength(keys.length);
      } finally {
        await rival.close();
      }
    });
  });
}
