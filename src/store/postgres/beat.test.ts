/** Two engines that beat at the same time: the second neither waits nor reaps on facts that it cannot know yet. */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newSchema, postgresUrl } from "../../../test/postgres/kit.ts";
import { Engine } from "../../engine/engine.ts";
import { idMaker } from "../../lib/id.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { LEASE, newJob, newSession, T0 } from "../conformance/kit.ts";
import type { Store } from "../store.ts";
import { openPostgres } from "./open.ts";

const { url, schema } = newSchema("beat");
let store: Store;
let client: pg.Client;
beforeAll(async () => {
  store = await openPostgres({ url, random: Math.random, clock: systemClock, newSecret: () => "x".repeat(40) });
  client = new pg.Client({ connectionString: postgresUrl() });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await store.close();
});

const beatAt = (now: () => number, engine = "engine-1") =>
  store.beat({ time: () => ({ now: now() }), maxGapMs: 3_000, holdMs: LEASE, clockJumpMs: 0, engine });

test("an engine whose beat finds another one in progress does not wait, and reaps nothing in that round", async () => {
  const session = newSession();
  await store.sessions.open(session, T0);
  await store.insert([newJob()], T0);
  expect((await store.claim([{ session: session.id, limit: 1, claimId: null }], T0))[0]?.jobs).toHaveLength(1);
  const beat = (now: number) => beatAt(() => now);
  expect(await beat(T0)).toEqual({ heldUntil: 0, gapMs: null });

  // All engines slept for a minute. Another one is in the middle of its beat, and will record it.
  const late = T0 + 60_000;
  await client.query("begin");
  await client.query(`select 1 from ${schema}.meta where name in ('beat_at', 'held_until') for update`);
  const unread = () => expect.unreachable("the time is read under the lock");
  expect((await beatAt(unread)).heldUntil).toBe(Number.POSITIVE_INFINITY);
  const engine = new Engine({
    ...{ store, random: Math.random, name: "engine-2", log: () => {} },
    clock: { ...systemClock, now: () => late },
    newId: idMaker({ now: () => late, randomBytes: (bytes) => crypto.getRandomValues(bytes) }),
  });
  await engine.reap();
  expect((await store.find({ state: ["running"] })).jobs).toHaveLength(1);
  await client.query("rollback");

  // Now it has the lock: it finds the gap itself, and holds.
  await engine.reap();
  expect((await store.find({ state: ["running"] })).jobs).toHaveLength(1);
  await engine.stop();
});
