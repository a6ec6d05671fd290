/** Prunes of children with concurrent redrives of their parents: a parent that has not ended finds all children that it
 *  knows. The conformance suite covers the rest, as seen by a single store. */
import { expect, it, onTestFinished } from "vitest";
import { ask, until, withClient } from "../../../test/postgres/client.ts";
import { newSchema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { decideCommandAt, newJob, SECOND, T0 } from "../conformance/kit.ts";
import type { PruneQuery, Store } from "../store.ts";
import { openPostgres } from "./open.ts";

const EARLY = T0 + SECOND;
/** When the parents end: they are kept, their children are not. */
const LATE = T0 + 5 * SECOND;

const childOf = (parent: string, at = T0) =>
  newJob({ kind: "child", key: `${parent}/k`, parent: { id: parent, attempt: null }, depth: 1, at });
const prune = (store: Store, now: number, cancelled = EARLY, parts: Partial<PruneQuery> = {}) =>
  store.prune({ now, endedBefore: { cancelled }, keyWindowMs: 0, sessionsEndedBefore: 0, limit: 100, ...parts });
const order = (store: Store, jobId: string, kind: "cancel" | "redrive", now: number) =>
  store.amend([{ jobId, command: { kind } }], now, decideCommandAt(now));
const stateOf = async (store: Store, id: string) => (await store.jobs([id]))[0]?.state;

/** Two processes, and an ended child of an ended parent; the second process does not know their lanes yet. */
async function openTwo() {
  const { schema, url } = newSchema("prune_children");
  const parts = { random: Math.random, clock: systemClock, newSecret: () => "x".repeat(40), connections: 6 };
  const [store, pruner] = [await openPostgres({ url, ...parts }), await openPostgres({ url, ...parts })] as const;
  onTestFinished(async () => void (await Promise.all([store.close(), pruner.close()])));
  const { id: parent } = newJob();
  await store.insert([newJob({ id: parent })], T0);
  const child = childOf(parent);
  await store.insert([child], T0);
  await order(store, child.id, "cancel", T0);
  await order(store, parent, "cancel", LATE);
  await store.children.cascaded(parent);
  return { schema, url, store, pruner, parent, child: child.id };
}

it("a child stays if its parent is redriven, and needs it, after a prune has found it", async () => {
  const { schema, url, store, pruner, parent, child } = await openTwo();
  const pruned = await withClient(url, async (client) => {
    await client.query("begin");
    // Delays the prune at a point where it may be delayed by chance, before it takes any lock.
    await client.query(`lock table ${schema}.lane in access exclusive mode`);
    const answer = prune(pruner, LATE + 1);
    await until("the prune reads the lanes", async () => {
      const sql = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like $1";
      return (await ask(url, sql, [`%${schema}%lane%`])).length > 0;
    });
    await order(store, parent, "redrive", LATE + 1);
    const [asked] = await store.insert([childOf(parent, LATE + 1)], LATE + 1);
    expect(asked).toMatchObject({ status: "exists", id: child });
    await client.query("rollback");
    return answer;
  });
  expect(pruned).toMatchObject({ jobs: 0, ids: [] });
  expect([await stateOf(store, parent), await stateOf(store, child)]).toEqual(["queued", "cancelled"]);
  // The parent ends again: then the child is deleted.
  await order(store, parent, "cancel", LATE + 2);
  expect(await prune(pruner, LATE + 3)).toMatchObject({ ids: [child] });
});

it("a child stays while its parent is locked, and is deleted after that", async () => {
  const { schema, url, store, pruner, parent, child } = await openTwo();
  await withClient(url, async (client) => {
    await client.query("begin");
    const sql = `select 1 from ${schema}.job j join ${schema}.submission b on b.job = j.no where b.id = $1 for update of j`;
    await client.query(sql, [parent]);
    expect(await prune(pruner, LATE + 1)).toMatchObject({ jobs: 0 });
    await client.query("rollback");
  });
  expect(await stateOf(store, child)).toBe("cancelled");
  expect(await prune(pruner, LATE + 2)).toMatchObject({ ids: [child] });
});

it("a child is deleted with its parent, or after it", async () => {
  const one = await openTwo();
  expect(await prune(one.pruner, LATE + 1, LATE + 1)).toMatchObject({ ids: [one.parent, one.child] });
  const other = await openTwo();
  await order(other.store, other.child, "redrive", LATE);
  await order(other.store, other.child, "cancel", LATE + 2);
  expect(await prune(other.pruner, LATE + 1, LATE + 1)).toMatchObject({ ids: [other.parent] });
  expect(await prune(other.pruner, LATE + 3, LATE + 3)).toMatchObject({ ids: [other.child] });
});

it("a job between others stays if one above its parent is redriven after a prune has found it", async () => {
  const { schema, url, store, pruner, parent, child } = await openTwo();
  // The child of the pair ended long ago, and so did one below it that has a child of its own left.
  const below = newJob({ kind: "below", parent: { id: child, attempt: null }, depth: 2 });
  const left = newJob({ kind: "left", parent: { id: below.id, attempt: null }, depth: 3 });
  await order(store, child, "redrive", T0);
  await store.insert([below], T0);
  await store.insert([left], T0);
  await order(store, below.id, "cancel", T0);
  await order(store, child, "cancel", T0);
  for (const id of [below.id, child])
    await ask(url, `delete from ${schema}.cascade where job = (select job from ${schema}.submission where id = $1)`, [
      id,
    ]);
  const pruned = await withClient(url, async (client) => {
    await client.query("begin");
    await client.query(`lock table ${schema}.lane in access exclusive mode`);
    const answer = prune(pruner, LATE + 1);
    await until("the prune reads the lanes", async () => {
      const sql = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like $1";
      return (await ask(url, sql, [`%${schema}%lane%`])).length > 0;
    });
    await order(store, parent, "redrive", LATE + 1);
    await client.query("rollback");
    return answer;
  });
  expect(pruned).toMatchObject({ jobs: 0, ids: [] });
  await order(store, parent, "cancel", LATE + 2);
  await order(store, left.id, "cancel", LATE + 2);
  await store.children.cascaded(parent);
  expect([...(await prune(pruner, LATE + 3)).ids].sort()).toEqual([child, below.id].sort());
});
