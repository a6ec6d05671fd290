/** A store on SQLite and one on PostgreSQL, side by side: every call is made on both and must have the same answer, and
 *  at the end everything readable must be equal. Sequence numbers and the texts of cursors may differ.
 *
 *  The PostgreSQL side is emptied between lists and reused, because a new schema costs as much as a whole list; its
 *  cache of lanes and policies stays valid. */
import { isDeepStrictEqual } from "node:util";
import { Client } from "pg";
import type { PerdureEvent } from "../../src/core/job/event.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { allJobs } from "../../src/store/conformance/audit.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { dropSchema, newSchema, type Schema } from "../postgres/kit.ts";
import { runStep, type Step } from "./commands.ts";
import { type Both, byName, World } from "./world.ts";

const newSecret = () => "one secret for both stores, so that tokens are alike";
const TABLES = [
  ...["job", "submission", "submit_key", "event", "attempt", "log_chunk", "late_report", "tag", "session", "claim"],
  ...["queue", "past_pause", "blocked", "cascade"],
];

/** Each waits for a while by itself. */
const FEED_TRIES = 10;

export class Difference extends Error {
  /** All calls so far; the last one shows the difference. */
  readonly calls: readonly string[];

  constructor(calls: readonly string[], sqlite: unknown, postgres: unknown) {
    super(`the stores differ after ${calls.length} calls\nsqlite:   ${show(sqlite)}\npostgres: ${show(postgres)}`);
    this.calls = calls;
  }
}

export class Pair {
  readonly #schema: Schema;
  readonly #postgres: Store;
  readonly #cleaner: Client;
  readonly #moveOn: () => void;

  private constructor(schema: Schema, postgres: Store, cleaner: Client, moveOn: () => void) {
    this.#schema = schema;
    this.#postgres = postgres;
    this.#cleaner = cleaner;
    this.#moveOn = moveOn;
  }

  static async open(): Promise<Pair> {
    const schema = newSchema("differential");
    const url = new URL(schema.url);
    // Power cuts are not tested here.
    url.searchParams.set("options", "-c synchronous_commit=off");
    let ahead = 0;
    // A claim scans whole lanes only once a second, and may miss a released job until then. Here a long time lies
    // between commands.
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + ahead };
    const random = Math.random;
    const postgres = await openPostgres({ url: url.href, random, clock, newSecret, connections: 4 });
    url.searchParams.delete("schema");
    const cleaner = new Client({ connectionString: url.href });
    await cleaner.connect();
    await cleaner.query(`create temp table fresh as select * from ${schema.schema}.meta`);
    return new Pair(schema, postgres, cleaner, () => {
      ahead += 3_600_000;
    });
  }

  async close(): Promise<void> {
    await this.#postgres.close();
    await this.#cleaner.end();
    await dropSchema(this.#schema.url);
  }

  /** Runs a list on empty stores; throws the first `Difference`. */
  async run(steps: readonly Step[]): Promise<number> {
    const { schema } = this.#schema;
    const empty = TABLES.map((table) => `delete from ${schema}.${table}`);
    empty.push(`delete from ${schema}.meta`, `insert into ${schema}.meta select * from fresh`);
    await this.#cleaner.query(empty.join("; "));
    const sqlite = await openSqlite({ path: ":memory:", random: Math.random, newSecret });
    const calls: string[] = [];
    const both: Both = async (what, args, call) => {
      calls.push(`${what} ${show(args)}`);
      this.#moveOn();
      const [a, b] = await Promise.all([answerOf(call(sqlite)), answerOf(call(this.#postgres))]);
      if (!isDeepStrictEqual(plain(a), plain(b))) throw new Difference(calls, a, b);
      if (isFailed(a)) throw new Error(`${what} failed alike on both: ${a.failed}`);
      return a;
    };
    try {
      const world = new World();
      for (const step of steps) await runStep(step, world, both);
      const { rows } = await this.#cleaner.query<{ n: number }>(`select count(*)::int as n from ${schema}.event`);
      await compareAll(world, both, rows[0]?.n ?? 0);
      return calls.length;
    } finally {
      await sqlite.close();
    }
  }
}

async function compareAll(world: World, both: Both, eventCount: number): Promise<void> {
  const jobs = await both("all jobs", null, allJobs);
  // Other jobs only have their first event, which is compared below.
  const ids = jobs.filter((job) => job.revision > 1).map((job) => job.id);
  await both("histories", null, (store) =>
    Promise.all(
      ids.map(async (id) => {
        const history = await store.history(id);
        return { ...history, events: history?.events.map(withoutSeq), attempts: await store.attempts(id) };
      }),
    ),
  );
  await both("blocked", null, async (store) => ({
    free: (await store.children.unblockable({ parents: null, limit: 1_000 })).jobs.sort((a, b) =>
      a.jobId < b.jobId ? -1 : 1,
    ),
    due: (await store.children.cascades(1_000)).sort(),
  }));
  await both("counts", null, (store) => store.queues.counts(null, world.now));
  await both("sessions", null, async (store) => byName(await store.sessions.list()));
  await both("events", null, async (store) => {
    let events: PerdureEvent[] = [];
    // A transaction open elsewhere on the server may delay the feed.
    for (let tries = 0; tries < FEED_TRIES && events.length < eventCount; tries++) {
      events = (await store.events.page({ after: 0, limit: 100_000 })).events;
    }
    // Events of one call may come in any order.
    return events.map((event) => show(withoutSeq(event))).sort();
  });
}

function withoutSeq({ seq: _seq, ...event }: PerdureEvent) {
  return event;
}

interface Failed {
  readonly failed: string;
}

async function answerOf<T>(call: Promise<T>): Promise<T | Failed> {
  try {
    return await call;
  } catch (error) {
    return { failed: String((error as { code?: string }).code ?? error), message: String(error) } as Failed;
  }
}

function isFailed(answer: unknown): answer is Failed {
  return typeof answer === "object" && answer !== null && "failed" in answer && "message" in answer;
}

/** As data, without missing fields and computed properties. */
function plain(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}

/** Policies are long, and identified by their hash. */
function show(value: unknown): string {
  const short = (name: string, part: unknown) => (name === "policy" || name === "transition" ? undefined : part);
  return JSON.stringify(value, short) ?? "nothing";
}
