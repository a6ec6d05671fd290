/** Pruners and submits that use the same keys concurrently, on two stores: no submit is refused, a key never has two
 *  live jobs, and no key is left that refers to a deleted job. */
import { expect, it, onTestFinished } from "vitest";
import { ask } from "../../../test/postgres/client.ts";
import { newSchema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { decideAt, decideCommandAt, newJob, newSession, reportOf, T0 } from "../conformance/kit.ts";
import type { Store } from "../store.ts";
import { openPostgres } from "./open.ts";

const KEYS = Array.from({ length: 60 }, (_, i) => `key-${i}`);
/** Jobs submitted and deleted in total: about two seconds. */
const GOAL = 1_200;

const drawn = (below: number) => Math.floor(Math.random() * below);

/** Some of the keys, in any order, a few of them twice. */
const someKeys = () => Array.from({ length: 1 + drawn(25) }, () => KEYS[drawn(KEYS.length)] as string);

it("prunes and submits of the same keys neither refuse each other nor make a second live job", async () => {
  const { schema, url } = newSchema("prune_keys");
  const newSecret = () => "a secret of the tests of pruned keys";
  const open = () => openPostgres({ url, random: Math.random, clock: systemClock, newSecret, connections: 6 });
  const stores = [await open(), await open()] as const;
  onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));

  let now = T0;
  let isOver = false;
  const odd: unknown[] = [];
  const counts = { inserted: 0, exists: 0, stubs: 0, pruned: 0, prunes: 0 };
  /** Jobs that are about to be ended: until then a key's job is its only one. */
  const ended = new Set<string>();
  const live = new Map<string, Set<string>>(KEYS.map((key) => [key, new Set()]));
  const end = (key: string, id: string) => {
    ended.add(id);
    live.get(key)?.delete(id);
  };

  async function submit(store: Store): Promise<void> {
    const keys = someKeys();
    const at = ++now;
    const jobs = keys.map((key) => newJob({ key, at, tags: ["t"], ...(drawn(2) === 0 ? { kind: "held" } : {}) }));
    const same = jobs.map((job, i) => ({ ...job, bodyHash: `the same for ${keys[i]}` }));
    const cancelled: { key: string; id: string }[] = [];
    (await store.insert(same, at)).forEach((answer, i) => {
      const key = keys[i] as string;
      if (answer.status === "exists") counts[answer.pruned ? "stubs" : "exists"] += 1;
      else if (answer.status === "inserted") {
        counts.inserted += 1;
        if (!ended.has(answer.id)) live.get(key)?.add(answer.id);
        if (live.get(key)?.size === 2) odd.push(`${key} names ${[...(live.get(key) ?? [])].join(" and ")}`);
        // Jobs of kind "work" are run by a worker.
        if (jobs[i]?.kind === "held") cancelled.push({ key, id: answer.id });
      } else odd.push(answer);
    });
    for (const { key, id } of cancelled) end(key, id);
    const commands = cancelled.map(({ id }) => ({ jobId: id, command: { kind: "cancel" } as const }));
    const done = await store.amend(commands, ++now, decideCommandAt(now));
    odd.push(...done.filter(({ status }) => status !== "applied"));
  }

  async function prune(store: Store): Promise<void> {
    const at = ++now;
    const endedBefore = { succeeded: at, failed: at, cancelled: at };
    // Depending on timing, the key is free at once, or its stub blocks it for a while, or is replaced.
    const keyWindowMs = drawn(3) === 0 ? drawn(50) : 0;
    const limit = 1 + drawn(40);
    const { jobs } = await store.prune({ now: at, endedBefore, keyWindowMs, sessionsEndedBefore: 0, limit });
    counts.pruned += jobs;
    counts.prunes += 1;
  }

  async function worker(store: Store): Promise<() => Promise<void>> {
    const session = newSession({ slots: 100, leaseMs: 1_000_000_000 });
    await store.sessions.open(session, T0);
    return async () => {
      const [answer] = await store.claim([{ session: session.id, limit: 20, claimId: null }], ++now);
      const jobs = answer?.jobs ?? [];
      const rows = await store.jobs(jobs.map(({ id }) => id));
      for (const row of rows) end(row?.key as string, row?.id as string);
      const reports = jobs.map((job) => reportOf(job));
      const answers = await store.settle(reports, ++now, decideAt(now));
      odd.push(...answers.filter(({ status }) => status !== "accepted"));
    };
  }

  /** Queries the database directly. */
  async function look(): Promise<void> {
    const sql = `select b.key, count(*) from ${schema}.job j join ${schema}.submission b on b.job = j.no
      where j.state in (0, 1) group by b.key having count(*) > 1`;
    odd.push(...(await ask(url, sql)));
  }

  async function again(act: () => Promise<void>): Promise<void> {
    while (!isOver) {
      await act().catch((error: unknown) => odd.push(error));
      isOver ||= counts.pruned >= GOAL || odd.length > 0;
    }
  }

  const works = await Promise.all(stores.map(worker));
  const acts = stores.flatMap((store, i) => [
    ...Array.from({ length: 6 }, () => () => submit(store)),
    ...Array.from({ length: 4 }, () => () => prune(store)),
    works[i] as () => Promise<void>,
  ]);
  await Promise.all([...acts, look].map(again));
  expect(odd).toEqual([]);
  // Otherwise there was no collision.
  expect(Math.min(counts.inserted, counts.pruned)).toBeGreaterThanOrEqual(GOAL);
  expect(Math.min(counts.exists, counts.stubs, counts.prunes)).toBeGreaterThan(100);

  await look();
  const lost = `select k.key, k.id from ${schema}.submit_key k left join ${schema}.submission b on b.id = k.id
    where k.until is null and b.id is null`;
  expect(await ask(url, lost), "a key whose job is deleted has a stub").toEqual([]);
  const nameless = `select b.key, b.id from ${schema}.submission b join ${schema}.job j on j.no = b.job
    where not exists (select from ${schema}.submit_key k where k.key = b.key and k.id = b.id and k.until is null)`;
  expect(await ask(url, nameless), "an existing job has its key").toEqual([]);
  expect(odd).toEqual([]);
});
