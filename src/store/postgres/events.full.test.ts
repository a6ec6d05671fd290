/** The event feed with many concurrent writers. Events get their numbers before their transactions commit, so a reader
 *  that asks for what comes after the last number it saw skips those that commit later. Ours must not; a naive reader
 *  beside it shows that the danger is real in these runs. The server is this file's own: transactions held open here
 *  would delay all other feeds on it. */
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Dice } from "../../../test/dice.ts";
import { type PostgresServer, startServer } from "../../../test/postgres/server.ts";
import type { PerdureEvent } from "../../core/job/event.ts";
import type { Clock } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { broke, decideAt, decideCommandAt, done, newJob, newSession, reportOf, T0 } from "../conformance/kit.ts";
import type { Store } from "../store.ts";
import { openPostgres } from "./open.ts";

const ROUNDS = 100;
const SCHEMA = "feed";
const newSecret = () => "a secret of the feed tests, long enough for all";

let server: PostgresServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop("immediate"));

const stores: Store[] = [];
const clients: Client[] = [];
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  for (const client of clients.splice(0)) await client.end();
});

async function open(clock: Clock = systemClock): Promise<Store> {
  const options = { url: server.url, schema: SCHEMA, random: Math.random, clock, newSecret };
  const store = await openPostgres({ ...options, connections: 4 });
  stores.push(store);
  return store;
}

async function connect(): Promise<Client> {
  const client = new Client({ connectionString: server.url });
  await client.connect();
  clients.push(client);
  return client;
}

const jobsOf = (count: number, kind: string) =>
  Array.from({ length: count }, () => newJob({ kind, retry: { maxAttempts: 3, backoff: { type: "none" } } }));

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Submits, runs and cancels jobs of a separate kind. */
async function write(store: Store, dice: Dice, kind: string): Promise<void> {
  const session = newSession({ kinds: [kind] });
  await store.sessions.open(session, T0);
  for (let round = 0; round < ROUNDS; round++) {
    await store.insert(jobsOf(1 + dice.below(8), kind), T0);
    const [claim] = await store.claim([{ session: session.id, limit: 6, claimId: null }], T0);
    const jobs = claim?.jobs ?? [];
    const cancelled = jobs.filter(() => dice.chance(0.2)).map((job) => job.id);
    const commands = cancelled.map((jobId) => ({ jobId, command: { kind: "cancel" } as const }));
    const reports = jobs.map((job) => reportOf(job, dice.chance(0.6) ? done() : broke()));
    await Promise.all([
      store.amend(commands, T0, decideCommandAt(T0)),
      store.settle(reports, T0, decideAt(T0)),
      store.insert(jobsOf(1, kind), T0),
    ]);
  }
}

/** Submits in transactions that stay open for a while after their events have numbers. */
async function writeSlowly(store: Store, client: Client, dice: Dice, kind: string): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    await client.query("begin");
    for (let part = dice.below(3); part >= 0; part--) {
      await store.insertWithin?.(client, jobsOf(1 + dice.below(4), kind), T0);
    }
    await pause(dice.below(50));
    await client.query(dice.chance(0.1) ? "rollback" : "commit");
  }
}

interface Seen {
  readonly seq: number;
  readonly jobId: string | null;
  readonly n: number;
}

type ReadPage = (after: number, limit: number) => Promise<readonly Seen[]>;

/** Pages through the feed until a page requested after the end of all writing is empty. */
async function follow(read: ReadPage, dice: Dice, isOver: () => boolean): Promise<Seen[]> {
  const seen: Seen[] = [];
  for (;;) {
    const over = isOver();
    const page = await read(seen.at(-1)?.seq ?? 0, 1 + dice.below(100));
    for (const event of page) {
      if (event.seq <= (seen.at(-1)?.seq ?? 0)) throw new Error(`${event.seq} came after ${seen.at(-1)?.seq}`);
      seen.push(event);
    }
    if (page.length === 0 && over) return seen;
    if (page.length === 0) await pause(2);
  }
}

/** A job's events must arrive in the order of `n`; it is 0 for events that are not about a job. */
function outOfOrder(seen: readonly Seen[]): Seen[] {
  const last = new Map<string, number>();
  return seen.filter(({ jobId, n }) => {
    if (jobId === null) return false;
    const before = last.get(jobId) ?? 0;
    last.set(jobId, n);
    return n !== before + 1;
  });
}

test("a follower sees every event once and in order while eight write", async () => {
  const seed = Math.floor(Math.random() * 1e9);
  const dice = (i: number) => new Dice(seed + i);
  const reading = await open();
  const writing = [await open(), await open(), await open()] as const;
  const [first, second, hastyClient, counting] = [await connect(), await connect(), await connect(), await connect()];
  let over = false;
  const fromStore: ReadPage = async (after, limit) =>
    (await reading.events.page({ after, limit })).events as PerdureEvent[];
  const hastily: ReadPage = async (after, limit) => {
    const text = `select seq::int8, job, n from ${SCHEMA}.event where seq > $1 order by seq limit $2`;
    const { rows } = await hastyClient.query<{ seq: string; job: string | null; n: number }>(text, [after, limit]);
    return rows.map(({ seq, job, n }) => ({ seq: Number(seq), jobId: job, n }));
  };
  const followers = [
    follow(fromStore, dice(100), () => over),
    follow(fromStore, dice(101), () => over),
    follow(hastily, dice(102), () => over),
  ];
  await Promise.all([
    ...writing.flatMap((store, i) => [write(store, dice(i), `fast-${i}`), write(store, dice(i + 10), `faster-${i}`)]),
    writeSlowly(writing[0], first, dice(20), "slow-1"),
    writeSlowly(writing[1], second, dice(21), "slow-2"),
  ]);
  over = true;
  const [seen, seenToo, hasty] = (await Promise.all(followers)) as [Seen[], Seen[], Seen[]];
  const { rows } = await counting.query<{ seq: string }>(`select seq from ${SCHEMA}.event order by seq`);
  const all = rows.map(({ seq }) => Number(seq));
  const skipped = (list: readonly Seen[]) => {
    const known = new Set(list.map(({ seq }) => seq));
    return all.filter((seq) => !known.has(seq)).length;
  };
  for (const list of [seen, seenToo]) {
    expect(skipped(list), `skipped, seed ${seed}`).toBe(0);
    expect(list).toHaveLength(all.length);
    expect(outOfOrder(list)).toEqual([]);
  }
  expect(all.length).toBeGreaterThan(5_000);
  expect(skipped(hasty), "the naive reader skipped events").toBeGreaterThan(0);
});

test("a transaction left open delays the feed, and nothing else", async () => {
  // A reader that waits for other transactions checks every two milliseconds.
  let looks = 0;
  const after: Clock["after"] = (ms, ...rest) => {
    if (ms === 2) looks += 1;
    return systemClock.after(ms, ...rest);
  };
  const store = await open({ ...systemClock, after });
  const client = await connect();
  const before = await store.events.lastSeq();
  await client.query("begin");
  await client.query("select pg_current_xact_id()");

  looks = 0;
  const session = newSession({ kinds: ["beside"] });
  await store.sessions.open(session, T0);
  const jobs = jobsOf(5, "beside");
  await store.insert(jobs, T0);
  const [claim] = await store.claim([{ session: session.id, limit: 5, claimId: null }], T0);
  const reports = (claim?.jobs ?? []).map((job) => reportOf(job));
  const answers = await store.settle(reports, T0, decideAt(T0));
  expect(answers.map(({ status }) => status)).toEqual(new Array(5).fill("accepted"));
  // Reading one job does not wait either.
  expect((await store.events.page({ after: 0, limit: 10, jobId: jobs[0]?.id ?? "" })).events).toHaveLength(3);
  expect(looks, "nobody has waited").toBe(0);

  for (let tries = 0; tries < 2; tries++) {
    const asked = performance.now();
    expect((await store.events.page({ after: before, limit: 100 })).events).toEqual([]);
    expect(await store.events.lastSeq()).toBe(before);
    expect(performance.now() - asked).toBeLessThan(20_000); // a second each, on a machine that may be busy
  }
  expect(looks).toBeGreaterThan(0);
  await client.query("commit");
  const names = (await store.events.page({ after: before, limit: 100 })).events.map((event) => event.name);
  expect(names.toSorted()).toEqual([
    ...new Array(5).fill("attempt.started"),
    ...new Array(5).fill("attempt.succeeded"),
    ...new Array(5).fill("job.submitted"),
    "worker.started",
  ]);
});
