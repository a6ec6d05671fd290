/** A worker process for parents and children: a `parent` submits three children, waits for them and adds up their
 *  results; a `child` returns a number after a moment; a `grandparent` has two parents. Prints: ready <session>. */
import { setTimeout as pass } from "node:timers/promises";
import { Perdure, task } from "perdure";

const { url, lease = "1s", concurrency = 4 } = JSON.parse(process.argv[2]);
const retry = { maxAttempts: 3, backoff: { type: "none" }, workerLost: { maxRetries: 1_000, poison: false } };

const child = task("child", { retry }, async (n) => {
  await pass(5);
  return n;
});
const parent = task("parent", { retry }, async (numbers, ctx) => {
  const children = [];
  for (const n of numbers) children.push(await ctx.submit(child, n));
  const ends = await ctx.waitFor(children);
  return ends.reduce((sum, { result }) => sum + result, 0);
});
const grandparent = task("grandparent", { retry }, async (lists, ctx) => {
  const parents = await Promise.all(lists.map((numbers, i) => ctx.submit(parent, numbers, { key: `list-${i}` })));
  const ends = await ctx.waitFor(parents);
  return ends.map(({ result }) => result);
});

const perdure = await Perdure.open({ url, lease, retention: { succeeded: false, failed: false, cancelled: false } });
const worker = await perdure.work([child, parent, grandparent], { concurrency });
console.log("ready", worker.session);
